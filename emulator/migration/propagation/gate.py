"""Decides which changes may be propagated to ZooKeeper-mode brokers.

A change is propagated once ZooKeeper holds it, because brokers read other parts of it from there:

* the config of a topic, when LeaderAndIsr gives a broker a replica it did not have;
* changes of configs, quotas, users, access control entries and tokens, when a notification appears,
  which is written together with the change.

While ZooKeeper refuses a znode permanently, nothing after it is written. After
:data:`PROPAGATE_AHEAD_MS`, brokers get the changes that they need not read from ZooKeeper:
registrations and fencings, leaders, ISRs, removed replicas and topics; also replicas that are new
to a broker, if ZooKeeper holds the committed config of their topic. Other changes wait: topics that
ZooKeeper may not hold yet, and partitions with a replica new to a broker while changes of the
topic's config are not written. Notifications are znodes, so they keep their order.

Of many brokers each gets a request with each change, and one that names all live brokers. So
changes that are confirmed within a pause after the last propagation are gathered, and propagated
as one difference of images, as changes are that one multi has written.

Source: KIP-866 "Controller RPCs"; ZkConfigRepository and ZkConfigManager, Kafka 3.9. Kafka's
controller has no such case: it drops the change that ZooKeeper refuses. Nor does it gather.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from typing import Final

from msgspec.structs import replace

from emulator.metadata.configs import TOPIC
from emulator.metadata.delta import Delta, Touched
from emulator.metadata.image import EMPTY, Image
from emulator.metadata.topics import Partition, Topic
from emulator.migration.dual_write.backlog import Written
from emulator.migration.propagation.propagator import Propagator
from emulator.seam import Effect

PROPAGATE_AHEAD_MS: Final = 10_000
"""How long brokers wait for a refused znode: above a broker's session timeout, so a short failure
changes nothing, and below the time in which clients give up."""

PAUSE_US: Final = 250
"""Of a pause, for each broker: nine times what it costs to send it a change. 0.25 s for 1,000."""


class PropagationGate:
    """Passes the propagator pairs of images: what brokers know, and what they may know.

    Invariant: the image that was propagated never goes back, whatever is confirmed later.
    """

    def __init__(self, propagator: Propagator) -> None:
        self.pause_us = PAUSE_US
        self._propagator = propagator
        self._propagated = EMPTY
        self._unwritten: deque[tuple[int, Touched]] = deque()
        """Last offset and touched entities of each committed, unconfirmed change."""
        self._gathered: list[Written] = []
        """Confirmed, and not propagated yet."""
        self._next_ms = 0
        """Before that nothing is propagated."""
        self.due_ms: int | None = None
        """When what is gathered is propagated; None: there is nothing."""
        self.handed: list[Written] = []
        """What :meth:`take_handed` will return."""
        self._first = False

    def clear(self) -> list[Effect]:
        """Drop all state and close all channels: leadership or the claim is lost."""
        self._propagated = EMPTY
        self._first = False
        self._unwritten.clear()
        self._gathered.clear()
        self._next_ms, self.due_ms = 0, None
        self.handed.clear()
        return self._propagator.clear()

    def copied(self) -> None:
        """The metadata was copied in this term: brokers know what the ZooKeeper controller sent."""
        self._first = True

    def committed(self, deltas: Iterable[Delta]) -> None:
        """Deltas became stable; ZooKeeper does not hold them yet."""
        for delta in deltas:
            if delta.touched:
                self._unwritten.append((delta.last_offset, delta.touched))

    def take_handed(self) -> list[Written]:
        """Changes confirmed and passed to the propagator since the last call."""
        handed, self.handed = self.handed, []
        return handed

    def full(self, written: Written, zk_epoch: int, now_ms: int) -> list[Effect]:
        """ZooKeeper holds everything for the first time in this term: send full requests."""
        self._confirm([written])
        self._propagated = written.after
        effects = self._propagator.full(written.after, zk_epoch, first=self._first)
        self._pause(now_ms)
        return effects

    def written(
        self, written: Sequence[Written], newest: Image, zk_epoch: int, now_ms: int
    ) -> list[Effect]:
        """ZooKeeper confirmed changes: propagate them, unless brokers know newer ones.

        Args:
            written: the units confirmed now.
            newest: the newest stable image.
            zk_epoch: see ``Sender``.
            now_ms: the time; during a pause they are gathered.
        """
        self._gathered += written
        if not self._gathered:
            return []
        if now_ms < self._next_ms:
            self.due_ms = self._next_ms
            return []
        gathered, self._gathered, self.due_ms = self._gathered, [], None
        self._confirm(gathered)
        after, touched = gathered[-1].after, [one.touched for one in gathered]
        if after.offset < self._propagated.offset:
            after, touched = self._ahead(newest), [*touched, *self._new()]
        return self._propagate(after, _union(touched), zk_epoch, now_ms)

    def propagate_ahead(self, newest: Image, zk_epoch: int, now_ms: int) -> list[Effect]:
        """Propagate the changes that brokers need not read from ZooKeeper."""
        new = self._new()
        return self._propagate(self._ahead(newest), _union(new), zk_epoch, now_ms) if new else []

    def ahead_ms(self, refused_since_ms: int | None) -> int | None:
        """When changes may be propagated ahead of ZooKeeper.

        None if there are none, if ZooKeeper refuses nothing, and before the full requests of this
        term: what brokers know from an earlier term is unknown.

        Args:
            refused_since_ms: since when a znode has been refused for good.
        """
        if refused_since_ms is None or self._propagated is EMPTY or not self._new():
            return None
        return max(refused_since_ms + PROPAGATE_AHEAD_MS, self._next_ms)

    def _propagate(
        self, after: Image, touched: Touched, zk_epoch: int, now_ms: int
    ) -> list[Effect]:
        before, self._propagated = self._propagated, after
        assert after.offset >= before.offset, "what brokers know goes back"
        effects = self._propagator.delta(before, after, touched, zk_epoch)
        self._pause(now_ms)
        return effects

    def _pause(self, now_ms: int) -> None:
        self._next_ms = now_ms + self._propagator.brokers * self.pause_us // 1_000

    def _confirm(self, written: Sequence[Written]) -> None:
        while self._unwritten and self._unwritten[0][0] <= written[-1].after.offset:
            self._unwritten.popleft()
        self.handed += written

    def _new(self) -> Sequence[Touched]:
        """The committed changes that were neither propagated nor held back yet."""
        if not self._unwritten or self._unwritten[-1][0] <= self._propagated.offset:
            return ()
        return [touched for offset, touched in self._unwritten if offset > self._propagated.offset]

    def _ahead(self, newest: Image) -> Image:
        """``newest`` without the changes that brokers would have to read from ZooKeeper."""
        unwritten = _union([touched for _offset, touched in self._unwritten])
        topics, topic_ids = newest.topics, newest.topic_ids
        for topic_id, name in unwritten.topics.items():
            now, known = newest.topics.get(topic_id), self._propagated.topics.get(topic_id)
            if now is None:
                continue
            if known is None:
                topics, topic_ids = topics.delete(topic_id), topic_ids.delete(name)
            elif (TOPIC, name) in unwritten.configs:
                topics = topics.set(topic_id, _without_new_replicas(now, known))
        return replace(newest, topics=topics, topic_ids=topic_ids)


def _without_new_replicas(now: Topic, known: Topic) -> Topic:
    """Undo the changes of a topic that give a broker a replica it did not have.

    Args:
        now: the topic as committed.
        known: the topic as brokers know it.

    Returns:
        ``now``; but a partition with a new replica is as in ``known``, and a partition that is not
        in ``known`` is missing.
    """
    partitions = now.partitions
    for number, partition in now.partitions.items():
        before: Partition | None = known.partitions.get(number)
        if before is None:
            partitions = partitions.delete(number)
        elif not set(partition.replicas) <= set(before.replicas):
            partitions = partitions.set(number, before)
    return replace(now, partitions=partitions)


def _union(parts: Iterable[Touched]) -> Touched:
    union = Touched()
    for touched in parts:
        union.merge(touched)
    return union
