"""The replicas of a broker in KRaft mode, with all that it sends to the controller about them.

Source: BrokerMetadataPublisher, ReplicaManager.applyDelta, BrokerServer, Kafka 3.9.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import islice
from typing import Any, Final

from emulator.broker.alter_partition import AlterPartitionSender
from emulator.broker.controller_channel import ControllerChannel, Outcome
from emulator.broker.isr import Key
from emulator.broker.kraft.replicas import HostedReplicas
from emulator.broker.lifecycle import BrokerPart
from emulator.metadata.delta import Delta
from emulator.metadata.image import EMPTY, Image
from emulator.metadata.metadata_version import Feature
from emulator.net.channel import Answered
from emulator.seam import Effect, Event, earliest
from wire import messages as m
from wire.errors import ErrorCode

ASSIGNMENTS_MAX: Final = 2_250
"""Partitions of one request."""
FIRST_RETRY_MS: Final = 100
LAST_RETRY_MS: Final = 10_000

Placed = tuple[bytes, int]
"""Topic id and partition number."""


class DirectoryAssigner:
    """Reports the directories of this broker's replicas to the controller (AssignReplicasToDirs).

    A ``BrokerPart`` of the broker. For brokers in KRaft mode from 3.7 on, from metadata.version
    3.7-IV2 on. Controllers place replicas of a broker with one directory there themselves; what is
    left are replicas from before that level. Errors for the whole request are tried again, 100 ms
    to 10 s later; a partition that this broker does not have any more is left out, every other
    error is tried again. Source: AssignmentsManager, Kafka 3.9; KIP-858.

    Args:
        replicas: what is hosted.
        directory: id of this broker's only directory.
        channel: to the controller, for this purpose only.
        broker_epoch: the epoch of the registration now.
        supported: whether the metadata.version has directories now.
    """

    def __init__(
        self,
        replicas: HostedReplicas,
        directory: bytes,
        channel: ControllerChannel[None],
        broker_epoch: Callable[[], int],
        supported: Callable[[], bool],
    ) -> None:
        self.channel = channel
        self._replicas = replicas
        self._directory = directory
        self._broker_epoch = broker_epoch
        self._supported = supported
        self._elsewhere: dict[Placed, None] = {}
        """Replicas that the metadata last placed in no or another directory, not reported since."""
        self._in_flight = False
        self._due_ms: int | None = None
        self._failures = 0

    @property
    def deadline_ms(self) -> int | None:
        """When :meth:`tick` has something to do."""
        deadlines = [None if self._in_flight else self._due_ms, self.channel.deadline_ms]
        return earliest(deadlines)

    def all_changed(self, now_ms: int) -> None:
        """All that is hosted, or the metadata.version, has changed: look at everything again."""
        self._elsewhere.clear()
        for hosted in self._replicas:
            self._look_at(hosted.key, hosted.topic_id)
        self._hurry(now_ms)

    def changed(self, key: Key, topic_id: bytes, now_ms: int) -> None:
        """One partition, hosted or not, has changed."""
        self._look_at(key, topic_id)
        self._hurry(now_ms)

    def _look_at(self, key: Key, topic_id: bytes) -> None:
        hosted, placed = self._replicas.get(key), (topic_id, key[1])
        if (
            hosted is not None
            and hosted.topic_id == topic_id
            and hosted.partition.directory(self._replicas.broker_id) != self._directory
        ):
            self._elsewhere[placed] = None
        else:
            self._elsewhere.pop(placed, None)

    def _hurry(self, now_ms: int) -> None:
        if self._due_ms is None and self._elsewhere:
            self._due_ms = now_ms

    def start(self, now_ms: int) -> None:
        """Nothing is hosted before the first metadata."""

    def handle(self, event: Event, now_ms: int) -> None:
        """Take an event of the channel's connection."""
        self._take(self.channel.handle(event, now_ms), now_ms)

    def tick(self, now_ms: int) -> None:
        """Report what is not known to be in this directory."""
        if self._due_ms is not None and self._due_ms <= now_ms and not self._in_flight:
            self._due_ms = None
            self._send(now_ms)
        self._take(self.channel.tick(now_ms), now_ms)

    def effects(self, now_ms: int) -> list[Effect]:
        """All effects since the last call."""
        return self.channel.effects(now_ms)

    def close(self) -> None:
        """Send nothing more."""
        self._due_ms = None
        self.channel.close()

    # ---------------------------------------------------------------- the request
    def _send(self, now_ms: int) -> None:
        if not self._elsewhere or not self._supported():
            return
        kind = m.AssignReplicasToDirsRequest
        topics: dict[bytes, m.AssignReplicasToDirsRequest.TopicData] = {}
        for topic_id, index in islice(self._elsewhere, ASSIGNMENTS_MAX):
            topic = topics.setdefault(topic_id, kind.TopicData(topic_id=topic_id))
            topic.partitions.append(kind.PartitionData(partition_index=index))
        request = kind(
            broker_id=self._replicas.broker_id,
            broker_epoch=self._broker_epoch(),
            directories=[kind.DirectoryData(id=self._directory, topics=list(topics.values()))],
        )
        self._in_flight = True
        self.channel.put(request, None, now_ms)

    # ---------------------------------------------------------------- the answer
    def _take(self, outcomes: list[Outcome[None]], now_ms: int) -> None:
        for outcome in outcomes:
            self._in_flight = False
            failed = True
            match outcome:
                case Answered(message=m.AssignReplicasToDirsResponse(error_code=0) as answer):
                    failed = self._settle(answer)
                case _:
                    """No answer, or an error for everything."""
            self._failures = self._failures + 1 if failed else 0
            self._due_ms = now_ms + (self._pause_ms() if failed else 0)

    def _settle(self, answer: m.AssignReplicasToDirsResponse) -> bool:
        """Note what was taken; True if something was refused, or the answer holds nothing."""
        codes = [
            ((topic.topic_id, partition.partition_index), partition.error_code)
            for directory in answer.directories
            for topic in directory.topics
            for partition in topic.partitions
        ]
        done = {ErrorCode.NONE, ErrorCode.NOT_LEADER_OR_FOLLOWER}
        for placed, code in codes:
            if code in done:
                self._elsewhere.pop(placed, None)
        return not codes or any(code not in done for _, code in codes)

    def _pause_ms(self) -> int:
        doubled = FIRST_RETRY_MS << min(self._failures - 1, 10)
        return min(doubled, LAST_RETRY_MS)


class Hosting:
    """The replicas of a broker in KRaft mode, and all that it sends to the controller about them.

    Args:
        broker_id: this broker.
        lag_ms: replica.lag.time.max.ms.
        directory: id of its directory; None: the release has none.
        channel: makes a channel to the controller for one purpose.
        broker_epoch: the epoch of the registration now.
    """

    def __init__(
        self,
        broker_id: int,
        lag_ms: int,
        directory: bytes | None,
        channel: Callable[[], ControllerChannel[Any]],
        broker_epoch: Callable[[], int],
    ) -> None:
        self.replicas = HostedReplicas(broker_id, lag_ms)
        self.isrs = AlterPartitionSender(self.replicas, channel(), broker_epoch, with_epochs=True)
        self.directories: DirectoryAssigner | None = None
        self._image = EMPTY
        if directory is not None:
            self.directories = DirectoryAssigner(
                self.replicas, directory, channel(), broker_epoch, self._has_directories
            )

    @property
    def parts(self) -> tuple[BrokerPart, ...]:
        """What has connections of its own."""
        return (self.isrs,) if self.directories is None else (self.isrs, self.directories)

    def take_image(self, image: Image, now_ms: int) -> None:
        """The metadata, after it was read from a snapshot or for the first time."""
        self._image = image
        self.replicas.take_image(image, now_ms)
        if self.directories is not None:
            self.directories.all_changed(now_ms)

    def take_delta(self, delta: Delta, now_ms: int) -> None:
        """One change, in order."""
        self._image = delta.after
        self.replicas.take_delta(delta, now_ms)
        if self.directories is None:
            return
        touched = delta.touched
        if touched.features:
            self.directories.all_changed(now_ms)
            return
        for topic_id, index in sorted(touched.partitions):
            self.directories.changed((touched.topics[topic_id], index), topic_id, now_ms)

    def _has_directories(self) -> bool:
        return self._image.metadata_version.supports(Feature.DIRECTORIES)
