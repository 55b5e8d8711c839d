"""The partitions that a broker hosts, and how it judges the followers of those it leads.

It stores no records: every log ends at offset 0, and a follower has everything. So a follower is
out of sync for one of two reasons: by the metadata its broker is not active (fenced, in
controlled shutdown, or not there), or a script holds it back. A leader takes an active follower
into the ISR at once, one at a time, and again ``FETCH_MS`` after a refusal; it drops one that has
been inactive for ``lag_ms``. Usually the controller has dropped it before.

Source: ReplicaManager, Partition.maybeExpandIsr and maybeShrinkIsr, TopicDelta.localChanges,
Kafka 3.9.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Final, TypeAlias

from emulator.broker.isr import HostedPartition, IsrProposal, IsrState, Key
from emulator.metadata.delta import Delta
from emulator.metadata.image import Image
from emulator.metadata.topics import Partition

LAG_MS: Final = 30_000
"""replica.lag.time.max.ms"""
FETCH_MS: Final = 500
"""replica.fetch.wait.max.ms: when an idle follower would have fetched again."""

EpochOf: TypeAlias = Callable[[int], int | None]
"""Broker id -> broker epoch of an active broker (-1: unknown), or None if it is not active."""

Placed: TypeAlias = Mapping[int, Sequence[tuple[Key, bytes, Partition]]]


def no_epoch(_broker_id: int) -> int | None:
    """Before any metadata no broker is active."""
    return None


def active_in(image: Image) -> EpochOf:
    """The active brokers of an image."""

    def epoch_of(broker_id: int) -> int | None:
        broker = image.brokers.get(broker_id)
        return broker.epoch if broker is not None and broker.active else None

    return epoch_of


_PLACED: list[tuple[Image, Placed]] = []
"""The newest image that was asked for: hundreds of brokers of one process read the same one."""


def placed(image: Image) -> Placed:
    """Broker id -> the partitions with a replica on it, of an image."""
    if not _PLACED or _PLACED[0][0] is not image:
        found: dict[int, list[tuple[Key, bytes, Partition]]] = {}
        for topic in image.topics.values():
            for index, partition in topic.partitions.items():
                one = (topic.name, index), topic.id, partition
                for broker_id in dict.fromkeys(partition.replicas):
                    found.setdefault(broker_id, []).append(one)
        _PLACED[:] = [(image, found)]
    return _PLACED[0][1]


class HostedReplicas:
    """See the module's docstring.

    Args:
        broker_id: this broker.
        lag_ms: how long a follower may be out of sync before it is dropped.
    """

    def __init__(self, broker_id: int, lag_ms: int = LAG_MS) -> None:
        self.broker_id = broker_id
        self.epoch_of: EpochOf = no_epoch
        self.manual = False
        """Whether no change is proposed: somebody else changes ISRs in the name of this broker."""
        self._lag_ms = lag_ms
        self._hosted: dict[Key, HostedPartition] = {}
        self._led_with: dict[int, dict[Key, None]] = {}
        """Follower -> the partitions that this broker leads with it as a replica."""
        self._inactive_since: dict[int, int] = {}
        """Followers of led partitions that are not active, and when that was learnt."""
        self._held_back: dict[Key, set[int]] = {}
        self._unjudged: dict[Key, int] = {}
        """Led partitions to look at, and from when on."""

    # ---------------------------------------------------------------- what is hosted
    def __len__(self) -> int:
        """Number of hosted replicas."""
        return len(self._hosted)

    def __iter__(self) -> Iterator[HostedPartition]:
        """Hosted partitions, in the order in which they came."""
        return iter(self._hosted.values())

    def get(self, key: Key) -> HostedPartition | None:
        """The hosted partition with that topic name and number, or None."""
        return self._hosted.get(key)

    @property
    def led(self) -> Iterator[HostedPartition]:
        """The partitions that this broker leads."""
        return (one for one in self._hosted.values() if self._leads(one))

    def assign(self, key: Key, topic_id: bytes, partition: Partition, now_ms: int) -> bool:
        """Host a partition, or learn its new state; False if the state is older than ours.

        A topic of the same name with another id is another topic: what was known is dropped.
        """
        known = self._hosted.get(key)
        if known is not None and known.topic_id != topic_id:
            self.drop(key)
            known = None
        if known is None:
            known = self._hosted[key] = HostedPartition(key, topic_id, partition, now_ms)
        else:
            self._unlist(known)
            if not known.take_partition(partition, now_ms):
                self._list(known, now_ms)
                return False
        self._list(known, now_ms)
        return True

    def drop(self, key: Key) -> None:
        """Stop hosting a partition; nothing happens if it is not hosted."""
        known = self._hosted.pop(key, None)
        if known is not None:
            self._unlist(known)
        self._held_back.pop(key, None)

    def take_image(self, image: Image, now_ms: int) -> None:
        """Host exactly the replicas in an image: after a snapshot, and at the start."""
        self.take_members(active_in(image), list(self._led_with), now_ms)
        for key, known in list(self._hosted.items()):
            partition = image.partition(known.topic_id, key[1])
            if partition is None or self.broker_id not in partition.replicas:
                self.drop(key)
        for key, topic_id, partition in placed(image).get(self.broker_id, ()):
            self.assign(key, topic_id, partition, now_ms)

    def take_delta(self, delta: Delta, now_ms: int) -> None:
        """Take what committed records changed (KRaft mode)."""
        self.take_members(active_in(delta.after), delta.touched.brokers, now_ms)
        for topic_id, index in sorted(delta.touched.partitions):
            key = delta.touched.topics[topic_id], index
            partition = delta.after.partition(topic_id, index)
            if partition is not None and self.broker_id in partition.replicas:
                self.assign(key, topic_id, partition, now_ms)
                continue
            known = self._hosted.get(key)
            if known is not None and known.topic_id == topic_id:
                self.drop(key)

    def take_members(self, epoch_of: EpochOf, changed: Iterable[int], now_ms: int) -> None:
        """Learn which brokers are active; ``changed``: those of which it may have changed."""
        self.epoch_of = epoch_of
        for follower in changed:
            keys = self._led_with.get(follower)
            if keys is None:
                continue
            self._learn(follower, now_ms)
            for key in keys:
                self.look_at(key, now_ms)

    # ---------------------------------------------------------------- scripts
    def hold_back(self, key: Key, follower: int, now_ms: int) -> bool:
        """Treat a follower as lagging until :meth:`let_go`; False if we do not lead it there."""
        if key not in self._led_with.get(follower, {}):
            return False
        self._held_back.setdefault(key, set()).add(follower)
        self.look_at(key, now_ms)
        return True

    def let_go(self, key: Key, follower: int, now_ms: int) -> None:
        """The follower has caught up again."""
        held = self._held_back.get(key, set())
        held.discard(follower)
        if not held:
            self._held_back.pop(key, None)
        self.look_at(key, now_ms)

    def held_back(self, key: Key) -> frozenset[int]:
        """Followers that a script treats as lagging."""
        return frozenset(self._held_back.get(key, ()))

    # ---------------------------------------------------------------- followers
    @property
    def deadline_ms(self) -> int | None:
        """When :meth:`judge` has something to look at."""
        return min(self._unjudged.values(), default=None)

    def look_at(self, key: Key, from_ms: int) -> None:
        """Look at a partition at a time, or earlier if that was asked for before."""
        if key in self._hosted and not self.manual:
            self._unjudged[key] = min(from_ms, self._unjudged.get(key, from_ms))

    def look_again(self, key: Key, now_ms: int) -> None:
        """Look at a partition when its followers would have fetched again."""
        self.look_at(key, now_ms + FETCH_MS)

    def judge(self, now_ms: int) -> list[IsrProposal]:
        """The changes of ISRs to propose now."""
        due = [key for key, from_ms in self._unjudged.items() if from_ms <= now_ms]
        proposals = []
        for key in due:
            del self._unjudged[key]
            proposal = self._judged(self._hosted[key], now_ms)
            if proposal is not None:
                proposals.append(proposal)
        return proposals

    def _judged(self, hosted: HostedPartition, now_ms: int) -> IsrProposal | None:
        if hosted.state is not IsrState.COMMITTED or not self._leads(hosted):
            return None
        partition, held = hosted.partition, self._held_back.get(hosted.key, set())
        gone, next_ms = set(held), None
        for follower in self._followers(partition):
            since_ms = self._inactive_since.get(follower)
            if since_ms is None or follower not in partition.isr:
                continue
            late_ms = max(since_ms, hosted.led_since_ms) + self._lag_ms
            if late_ms <= now_ms:
                gone.add(follower)
            else:
                next_ms = late_ms if next_ms is None else min(next_ms, late_ms)
        if gone.intersection(partition.isr):
            return hosted.propose_shrink(gone)
        for follower in self._followers(partition):
            if follower in partition.isr or follower in held:
                continue
            if follower not in self._inactive_since:
                return hosted.propose_expansion(follower)
        if next_ms is not None:
            self.look_at(hosted.key, next_ms)
        return None

    # ---------------------------------------------------------------- indexes
    def _leads(self, hosted: HostedPartition) -> bool:
        return hosted.partition.leader == self.broker_id

    def _followers(self, partition: Partition) -> Iterator[int]:
        return (one for one in partition.replicas if one != self.broker_id)

    def _list(self, hosted: HostedPartition, now_ms: int) -> None:
        if not self._leads(hosted):
            self._held_back.pop(hosted.key, None)
            return
        for follower in self._followers(hosted.partition):
            self._led_with.setdefault(follower, {})[hosted.key] = None
            self._learn(follower, now_ms)
        self.look_at(hosted.key, now_ms)

    def _unlist(self, hosted: HostedPartition) -> None:
        self._unjudged.pop(hosted.key, None)
        for follower in self._followers(hosted.partition):
            keys = self._led_with.get(follower, {})
            keys.pop(hosted.key, None)
            if not keys:
                self._led_with.pop(follower, None)

    def _learn(self, follower: int, now_ms: int) -> None:
        if self.epoch_of(follower) is None:
            self._inactive_since.setdefault(follower, now_ms)
        else:
            self._inactive_since.pop(follower, None)
