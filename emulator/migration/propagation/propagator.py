"""Propagates changes to ZooKeeper-mode brokers, in order; a few requests per step.

Order within one change, per broker: UpdateMetadata with the live brokers first (a broker starts a
follower only if the leader is in its live set, and nothing retries it), then LeaderAndIsr,
UpdateMetadata, StopReplica. A topic that was deleted and created again under its name is deleted on
the brokers before the new one is announced.

Brokers that keep what a FULL request leaves out are asked what they show, and get the deletion
of what is deleted (``propagator.py``).

A broker whose queue was dropped (``channels.py``) is left out of changes. Once it has answered, it
gets everything, like a broker that joins.

Source: KIP-866 "Controller RPCs"; MigrationPropagator.sendRPCsToBrokersFromMetadataDelta and
...FromMetadataImage, Kafka 3.9.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Final, NamedTuple

import msgspec

from emulator.metadata.brokers import Broker, Brokers
from emulator.metadata.delta import Touched
from emulator.metadata.image import Image
from emulator.metadata.metadata_version import FEATURE_NAME, Feature
from emulator.metadata.topics import Topic
from emulator.migration.propagation import requests as build
from emulator.migration.propagation.channels import Channels, Peer
from emulator.migration.propagation.merging import MERGED_MAX, mergeable
from emulator.migration.propagation.requests import PartitionAt, Sender
from emulator.net.control import (
    TYPE_FULL,
    TYPE_INCREMENTAL,
    TYPE_UNKNOWN,
    VERSIONS,
    ControlRequest,
    Question,
    Told,
)
from emulator.seam import Effect, Pace, Slices
from wire import codec
from wire import messages as m
from wire.constant import Constant

# Topics that a broker goes on showing after it got everything.
#
# Brokers up to 3.6.0 merge an UpdateMetadata of type FULL into what they know: what it leaves out
# stays. So if a topic was deleted while a former controller could not propagate the deletion to
# a broker, that broker shows the topic until it starts again. Such a broker is asked what it shows,
# after everything else, and then gets the deletion.
#
# Source: ZkMetadataCache.updateMetadata, Kafka 3.4.1, 3.6.0 and 3.6.1 (KAFKA-15799). Kafka's
# controllers ask nothing.

DROPS_WHAT_IS_LEFT_OUT: Final = 15
"""metadata.version of 3.7-IV0. Brokers of 3.6.1 and later drop what a FULL request leaves out, but
register with the level of 3.6.0, which does not."""


def keeps_what_is_left_out(broker: Broker) -> bool:
    """Whether it is to be asked. In ZooKeeper mode it registers its inter-broker version alone."""
    level = broker.features.get(FEATURE_NAME)
    return level is not None and level[1] < DROPS_WHAT_IS_LEFT_OUT


def question() -> m.MetadataRequest:
    """What a broker is asked: all topics, and to create none."""
    return m.MetadataRequest(topics=None, allow_auto_topic_creation=False)


def leftover(
    sender: build.Sender, image: Image, shown: m.MetadataResponse
) -> list[build.UpdateTopic]:
    """Topic states that make a broker remove what it shows and ``image`` lacks.

    Args:
        sender: the values of this controller.
        image: everything, newer than what the broker knew when it answered.
        shown: its answer. Without the right to describe a topic it does not name it.
    """
    request = m.UpdateMetadataRequest
    found = []
    for topic in shown.topics:
        if topic.name is None:
            continue  # only of a topic that was asked for by an id
        known = image.topic(topic.name)
        lacking = list(_lacking(topic.partitions, known))
        if not lacking:
            continue
        states = [
            request.UpdateMetadataPartitionState(
                partition_index=one.partition_index,
                controller_epoch=sender.zk_epoch,
                leader=build.LEADER_DURING_DELETE,
                leader_epoch=0,
                isr=one.isr_nodes,
                zk_version=0,
                replicas=one.replica_nodes,
                offline_replicas=one.offline_replicas,
            )
            for one in lacking
        ]
        # A state without an id makes the broker forget the id.
        topic_id = build.ZERO_UUID if known is None else known.id
        found.append(
            request.UpdateMetadataTopicState(
                topic_name=topic.name, topic_id=topic_id, partition_states=states
            )
        )
    return found


def _lacking(
    partitions: Iterable[m.MetadataResponse.MetadataResponsePartition], known: Topic | None
) -> Iterable[m.MetadataResponse.MetadataResponsePartition]:
    if known is None:
        return partitions
    return (one for one in partitions if one.partition_index not in known.partitions)


WORK_PER_STEP: Final = 500
"""Limit of a step in partitions visited or named, about 3 ms; the last piece may exceed it."""
LOOKED_PER_SLICE: Final = 1_000
"""Touched partitions and topics looked at in a piece: seven take as long as one that is named."""
BYTES_PER_WORK: Final = 10_000
"""Bytes that are copied in the time that a partition takes."""
WORK_PER_REQUEST: Final = 25
"""Cost of a request besides its partitions, in partitions."""
Work = Iterator[Told | None]
"""A request being built: yields None until it is done, then the request, if one is needed."""


class _Job(msgspec.Struct, frozen=True):
    broker_id: int | None
    """None: work for several, which has no request."""
    work: Work


class _Brokers(NamedTuple):
    """What requests say of the brokers of an image, and who gets them."""

    of: Brokers
    peers: Mapping[int, Peer]
    live: Constant[m.UpdateMetadataRequest.UpdateMetadataBroker]


class _KnownBrokers:
    """The same of the newest image; made again when a broker has changed, not with each change."""

    def __init__(self, listener: str) -> None:
        self._listener = listener
        self._last: _Brokers | None = None

    def of(self, image: Image) -> _Brokers:
        """Of an image."""
        last = self._last
        if last is None or last.of is not image.brokers:
            peers = build.peers(image, self._listener)
            last = self._last = _Brokers(image.brokers, peers, build.live_brokers(image))
        return last


class Propagator:
    """Turns images and deltas into queued requests.

    Invariants: only brokers that have a channel get anything (U05); a request of type FULL names
    every partition of its image; requests of one broker leave in the order of the changes.
    """

    def __init__(self, channels: Channels, node_id: int, listener: str) -> None:
        self._channels = channels
        self._node_id = node_id
        self._listener = listener
        self._jobs: deque[_Job] = deque()
        self._propagated: tuple[Image, int] | None = None
        """The newest image passed in, and the ZooKeeper epoch."""
        self.full_count = 0
        self.brokers = 0
        """How many get changes."""
        self._brokers = _KnownBrokers(listener)

    @property
    def busy(self) -> bool:
        """Whether :meth:`step` has work."""
        return bool(self._jobs or self._channels.caught_up or self._channels.shown)

    def clear(self) -> list[Effect]:
        """Leadership is lost: drop all work, close all channels."""
        self._propagated = None
        self._jobs.clear()
        return self._channels.close()

    def step(self, now_ms: int) -> list[Effect]:
        """Continue to build requests, for :data:`WORK_PER_STEP`; queue those that are done."""
        effects: list[Effect] = []
        work = 0
        self._propagate_everything(self._channels.caught_up)
        self._propagate_leftover()
        while self._jobs and work < WORK_PER_STEP:
            job = self._jobs[0]
            try:
                request = next(job.work)
            except StopIteration:
                self._jobs.popleft()
                continue
            if request is None:
                work += build.PARTITIONS_PER_STEP
            else:
                assert job.broker_id is not None, "only a request of a broker is built"
                work += WORK_PER_REQUEST + _weight(request)
                effects += self._channels.put(job.broker_id, request, now_ms)
        return effects

    def _propagate_everything(self, caught_up: AbstractSet[int]) -> None:
        """Propagate everything to brokers that were left out."""
        if not caught_up or self._propagated is None:
            return
        image, zk_epoch = self._propagated
        sender = Sender(self._node_id, zk_epoch, self._listener)
        everything = _Shared(image, self._brokers.of(image).live)
        for broker_id in [*caught_up]:
            self._join(sender, self._channels.peers[broker_id], everything)

    def _propagate_leftover(self) -> None:
        """Propagate the deletion of the topics that brokers show and that do not exist any more."""
        shown = self._channels.shown
        while shown:
            broker_id, answer = shown.popitem()
            peer = self._channels.peers.get(broker_id)
            if peer is None or self._propagated is None:
                continue
            image, zk_epoch = self._propagated
            sender = Sender(self._node_id, zk_epoch, self._listener)
            states = leftover(sender, image, answer)
            if states:
                live = self._brokers.of(image).live
                update = build.update_metadata(sender, peer, states, live, TYPE_INCREMENTAL)
                self._put(peer, [update])

    def full(self, image: Image, zk_epoch: int, *, first: bool = False) -> list[Effect]:
        """Propagate everything to all: UpdateMetadata, LeaderAndIsr, UpdateMetadata, all FULL.

        Kafka's first one has type 0. A topic may have been created anew unseen by the broker: named
        with its new id in such a request it keeps the partitions of the old one, and FULL, which
        removes topics whose id it leaves out, does not help any more.

        Args:
            image: everything.
            zk_epoch: see ``Sender``.
            first: no KRaft controller has sent anything to these brokers, so they missed
                nothing: the first request has type 0, as Kafka's.

        Returns:
            The effects of opening channels; the requests follow from :meth:`step`.
        """
        sender = Sender(self._node_id, zk_epoch, self._listener)
        peers = self._brokers.of(image).peers
        effects = self._channels.set_peers(peers)
        self._propagated = image, zk_epoch
        self._channels.may_be_older = _may_be_older(image)
        self.full_count += 1
        self.brokers = len(peers)
        everything = _Shared(image, self._brokers.of(image).live)
        for peer in peers.values():
            self._channels.resume(peer.broker_id)
            self._put_update(sender, peer, everything, TYPE_UNKNOWN if first else TYPE_FULL)
        for peer in peers.values():
            self._put_leaders(sender, peer, everything, TYPE_FULL)
            self._put_update(sender, peer, everything, TYPE_FULL)
            self._ask(peer, image)
        return effects

    def delta(self, before: Image, after: Image, touched: Touched, zk_epoch: int) -> list[Effect]:
        """Propagate the changes between two images, limited to ``touched``.

        Returns:
            The effects of opening and closing channels; the requests follow from :meth:`step`.
        """
        last, self._propagated = self._propagated, (after, zk_epoch)
        if last is not None and last[0].brokers is after.brokers and not self._channels.open:
            return []  # still no broker in ZooKeeper mode
        self._channels.may_be_older = _may_be_older(after)
        peers = self._brokers.of(after).peers
        self.brokers = len(peers)
        sender = Sender(self._node_id, zk_epoch, self._listener)
        known = self._channels.peers
        joined = [peer for peer in peers.values() if known.get(peer.broker_id) != peer]
        effects = self._channels.set_peers(peers)
        receivers = [p for p in peers.values() if not self._channels.cut(p.broker_id)]
        stayed = [peer for peer in receivers if known.get(peer.broker_id) == peer]
        if touched.brokers:
            for peer in joined:
                self._channels.resume(peer.broker_id)  # it gets each later change

        def put(changes: _Changes) -> None:
            self._remade(sender, receivers, changes)
            if touched.brokers:
                everything = _Shared(after, self._brokers.of(after).live)
                for peer in joined:
                    self._join(sender, peer, everything)
                live = self._brokers.of(after).live
                for peer in stayed:
                    request = build.update_metadata(sender, peer, [], live, TYPE_UNKNOWN)
                    self._put(peer, [request])
            self._changes(sender, receivers, changes)

        self._put_changes(_Changes.between(before, after, touched), put)
        return effects

    def _put_changes(self, found: Slices[_Changes], put: Callable[[_Changes], None]) -> None:
        """Queue the requests of changes as soon as these are found: few are found at once.

        Many, such as those of a broker's death, are found in pieces; what is propagated after them
        is queued behind.
        """

        def work() -> Work:
            changes = yield from found
            [job, *later] = self._jobs
            self._jobs = deque([job])
            put(changes)
            self._jobs += later

        try:
            next(found)
        except StopIteration as done:
            put(done.value)
        else:
            self._jobs.append(_Job(None, work()))

    def _join(self, sender: Sender, peer: Peer, everything: _Shared) -> None:
        """Propagate everything to one broker."""
        self._channels.resume(peer.broker_id)
        self._put_update(sender, peer, everything, TYPE_FULL)
        # FULL where Kafka sends INCREMENTAL: topics may have been deleted while the broker was
        # offline, and only a request that names everything makes it remove their replicas.
        self._put_leaders(sender, peer, everything, TYPE_FULL)
        # A process that was only fenced would also keep their metadata.
        self._put_update(sender, peer, everything, TYPE_FULL)
        self._ask(peer, everything.image)

    def _ask(self, peer: Peer, image: Image) -> None:
        """Ask a broker what it shows, if it may keep what a FULL request leaves out."""
        if keeps_what_is_left_out(image.brokers[peer.broker_id]):
            self._put(peer, [question()])

    def _changes(self, sender: Sender, peers: Sequence[Peer], changes: _Changes) -> None:
        gone = [t for t in changes.deleted if changes.after.topic(t.name) is None]
        if not changes.changed and not gone:
            return
        image = changes.after
        deleted = build.deleted_topics(sender, image, gone)
        shared = _Shared(image, self._brokers.of(image).live, changes.changed, deleted)
        for peer in peers:
            if peer.broker_id in changes.hosts:
                self._put_leaders(sender, peer, shared, TYPE_INCREMENTAL)
            self._put_update(sender, peer, shared, TYPE_INCREMENTAL)
            self._put_stops(sender, peer, [*_deleted_on(peer, gone), *changes.dropped_on(peer)])

    def _remade(self, sender: Sender, peers: Sequence[Peer], changes: _Changes) -> None:
        """Delete topics that were created again by name, before the new ones are sent."""
        topics = [t for t in changes.deleted if changes.after.topic(t.name) is not None]
        if not topics:
            return
        states = Constant(build.deleted_topics(sender, changes.after, topics))
        live = self._brokers.of(changes.after).live
        for peer in peers:
            update = build.update_metadata(sender, peer, states, live, TYPE_INCREMENTAL)
            self._put(peer, [update])
            self._put_stops(sender, peer, _deleted_on(peer, topics))

    def _put_stops(
        self, sender: Sender, peer: Peer, stopped: Iterable[tuple[str, int, int]]
    ) -> None:
        listed = list(stopped)
        if listed:
            self._put(peer, [build.stop_replica(sender, peer, listed)])

    def _put_update(self, sender: Sender, peer: Peer, shared: _Shared, request_type: int) -> None:
        def work() -> Work:
            while shared.topics is None:
                shared.advance()
                yield None
            yield from _encoded(
                build.update_metadata(sender, peer, shared.topics, shared.live, request_type)
            )

        self._put(peer, work())

    def _put_leaders(self, sender: Sender, peer: Peer, shared: _Shared, request_type: int) -> None:
        def work() -> Work:
            while shared.leaders is None:
                shared.advance_leaders(sender)
                if shared.leaders is None:
                    yield None
            if peer.broker_id in shared.leaders.hosts:
                leaders = shared.leaders.leaders
                yield from _encoded(build.leader_request(sender, peer, leaders, request_type))
                return
            image, partitions = shared.image, (yield from shared.partitions_of(peer))
            for request in build.leader_and_isr(sender, peer, image, partitions, request_type):
                if request is None:
                    yield None
                else:
                    yield from _encoded(request)

        self._put(peer, work())

    def _put(self, peer: Peer, work: Iterable[Told | None]) -> None:
        self._jobs.append(_Job(peer.broker_id, iter(work)))


def _may_be_older(image: Image) -> bool:
    """Whether brokers may be of releases before 3.7."""
    return not image.metadata_version.supports(Feature.CONTROLLER_REGISTRATION)


class _Shared:
    """The parts that requests to several brokers share, built once, in pieces, when needed."""

    def __init__(
        self,
        image: Image,
        live: Constant[m.UpdateMetadataRequest.UpdateMetadataBroker],
        partitions: Sequence[PartitionAt] | None = None,
        deleted: Sequence[build.UpdateTopic] = (),
    ) -> None:
        self.image = image
        self.everything = partitions is None
        """Whether the requests name every partition."""
        self.live = live
        self.topics: Constant[build.UpdateTopic] | None = None
        self._partitions = partitions
        self._deleted = deleted
        self._work = build.update_metadata_topics(image, self.partitions())
        self.leaders: build.LeadersForAll | None = None
        """The LeaderAndIsr content for brokers that host all the partitions."""
        self._leaders_work: Iterator[build.LeadersForAll | None] | None = None
        self._hosted: dict[int, list[PartitionAt]] | None = None
        self._hosts_work: Slices[dict[int, list[PartitionAt]]] | None = None
        self._asked = False

    def partitions_of(self, peer: Peer) -> Generator[None, None, Iterable[PartitionAt]]:
        """At least the partitions on a broker; yields None between pieces of the search.

        The first broker gets all partitions. If there are more brokers, not each of them looks at
        all: from the second on there is an index, made once.
        """
        asked, self._asked = self._asked, True
        if not asked:
            return self.partitions()
        if self._hosts_work is None:
            self._hosts_work = build.by_host(self.partitions())
        while self._hosted is None:
            try:
                next(self._hosts_work)
            except StopIteration as end:
                self._hosted = end.value
            else:
                yield
        return self._hosted.get(peer.broker_id, ())

    def partitions(self) -> Iterable[PartitionAt]:
        """The partitions to propagate: all, unless a selection was given."""
        return build.all_partitions(self.image) if self.everything else self._partitions or ()

    def advance(self) -> None:
        """Build the next piece of ``topics``."""
        states = next(self._work)
        if states is not None:
            self.topics = Constant([*self._deleted, *states])

    def advance_leaders(self, sender: Sender) -> None:
        """Build the next piece of ``leaders``."""
        if self._leaders_work is None:
            self._leaders_work = build.leaders_for_all(sender, self.image, self.partitions())
        self.leaders = next(self._leaders_work)


class _Changes(msgspec.Struct, frozen=True):
    """The changes to touched entities between two images, for a broker that knows ``before``."""

    after: Image
    changed: list[PartitionAt]
    hosts: set[int]
    """Brokers with a replica of what changed."""
    deleted: list[Topic]
    dropped: list[tuple[int, str, int, int]]
    """Broker id, topic name, partition, leader epoch: replicas a reassignment has removed."""

    @classmethod
    def between(cls, before: Image, after: Image, touched: Touched) -> Slices[_Changes]:
        """Find them, in the order in which topics were touched, in slices."""
        found = cls(after, [], set(), [], [])
        pace = Pace(LOOKED_PER_SLICE)
        indexes: dict[bytes, list[int]] = {}
        for topic_id, index in touched.partitions:
            indexes.setdefault(topic_id, []).append(index)
            if pace.over():
                yield
        for topic_id in touched.topics:
            if pace.over():
                yield
            topic, old = after.topics.get(topic_id), before.topics.get(topic_id)
            if topic is None:
                found.deleted.extend(() if old is None else (old,))
                continue
            for index in sorted(indexes.get(topic_id, ())):
                found.look(topic, old, index)
                if pace.over():
                    yield
        return found

    def look(self, topic: Topic, old_topic: Topic | None, index: int) -> None:
        """Note whether one partition has changed."""
        now = topic.partitions.get(index)
        old = None if old_topic is None else old_topic.partitions.get(index)
        if now is None or old == now:
            return
        self.changed.append(PartitionAt(topic, index, now))
        self.hosts.update(now.replicas)
        if old is not None and old.replicas != now.replicas:
            self.dropped.extend(
                (one, topic.name, index, now.leader_epoch)
                for one in old.replicas
                if one not in now.replicas
            )

    def dropped_on(self, peer: Peer) -> list[tuple[str, int, int]]:
        """Replicas that ``peer`` no longer holds."""
        return [(name, p, epoch) for r, name, p, epoch in self.dropped if r == peer.broker_id]


def _deleted_on(peer: Peer, topics: Iterable[Topic]) -> list[tuple[str, int, int]]:
    return [
        (topic.name, partition_id, build.EPOCH_DURING_DELETE)
        for topic in topics
        for partition_id, partition in topic.partitions.items()
        if peer.broker_id in partition.replicas
    ]


def _encoded(request: ControlRequest) -> Work:
    """A request whose topics are encoded, in slices: what is sent then copies their bytes.

    They are shared by all brokers that get the same, in requests of whatever type, and kept as long
    as one of these waits. The bytes of a short one are made when it is sent.
    """
    if _partition_count(request) > build.PARTITIONS_PER_STEP:
        version = VERSIONS[type(request)]
        states = request.topic_states
        if not (isinstance(states, Constant) and version in states.encoded):
            for _ in codec.encoding(request, version):
                yield None
    yield request


def _weight(request: Told) -> int:
    """What it costs to put a request, in partitions; of one that is encoded, to copy its bytes."""
    if isinstance(request, Question):
        return 0
    states = request.topic_states
    made = states.encoded.get(VERSIONS[type(request)]) if isinstance(states, Constant) else None
    if made is None:
        return _partition_count(request)
    if mergeable(request) and _partition_count(request, MERGED_MAX) <= MERGED_MAX:
        return _partition_count(request)
    return len(made) // BYTES_PER_WORK


def _partition_count(request: Told, most: int = WORK_PER_STEP) -> int:
    """Of a long one only some: more than a step may visit, or than ``most``."""
    count = 0
    if not isinstance(request, Question):
        for topic in request.topic_states:
            count += len(topic.partition_states)
            if count > most:
                break
    return count
