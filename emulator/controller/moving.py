"""Topics with partitions whose replicas are being moved, in any image.

The index over the newest image (``index.py``) has them too, but what is listed is what is
committed. Two versions of the topics share most of their parts, so what has come and gone is found
without a look at each topic.
"""

from __future__ import annotations

from emulator.metadata.pmap import PMap
from emulator.metadata.topics import Topic
from emulator.seam import RECORDS_PER_SLICE, Pace, Slices


class MovingTopics:
    """See the module's docstring."""

    def __init__(self) -> None:
        self._ids: set[bytes] = set()
        self._seen: PMap[bytes, Topic] = PMap()

    def find(self, topics: PMap[bytes, Topic]) -> Slices[list[Topic]]:
        """Those of an image, by id; the first look at an image that is far off takes slices."""
        while self._seen is not topics:
            seen = self._seen
            gone, come = seen.apart(topics)
            moving: list[bytes] = []
            pace = Pace(RECORDS_PER_SLICE)
            for topic_id, topic in come.items():
                if pace.over(1 + len(topic.partitions)):
                    yield
                partitions = topic.partitions.values()
                if any(one.adding_replicas or one.removing_replicas for one in partitions):
                    moving.append(topic_id)
            if self._seen is seen:  # else somebody else's look has ended meanwhile
                self._seen = topics
                self._ids = self._ids.difference(gone).union(moving)
        return [topics[topic_id] for topic_id in sorted(self._ids)]
