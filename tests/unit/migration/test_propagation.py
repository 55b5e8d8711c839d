"""What ZooKeeper-mode brokers are told: field by field what a real controller told real brokers."""

from __future__ import annotations

import base64
from functools import cache
from itertools import count
from typing import Any

import msgspec
import pytest

from emulator.broker.zookeeper.metadata_cache import ZkMetadataCache
from emulator.metadata.brokers import Broker, Endpoint
from emulator.metadata.delta import Touched
from emulator.metadata.image import Image
from emulator.metadata.pmap import PMap
from emulator.metadata.topics import Partition, Topic
from emulator.migration.propagation.channels import Channels
from emulator.migration.propagation.propagator import Propagator
from emulator.net import control
from emulator.seam import Connect, Connected
from tests import data
from wire import messages as m
from wire.frame import decode_request

RECORDED = "3.9.2-full"
CONTROLLER = 3000


@cache
def recorded() -> list[tuple[int, Any]]:
    """Broker id and request of every frame the KRaft controller sent to brokers, in order."""
    lines = data.lines(f"{RECORDED}/wire.jsonl")
    found = []
    for line in sorted(lines, key=lambda one: one["t_req"]):
        if line["client_id"] == "3000" and line["api_key"] in (4, 5, 6):
            broker_id = int(line["chan"][2])
            found.append((broker_id, decode_request(base64.b64decode(line["request"]))[1]))
    return found


def of(kind: type, broker_id: int, request_type: int | None = None) -> list[Any]:
    return [
        message
        for to, message in recorded()
        if to == broker_id
        and isinstance(message, kind)
        and (request_type is None or message.type == request_type)
    ]


def plain(message: Any, *, without: tuple[str, ...] = ()) -> Any:
    """A message as values, lists of topics, partitions, brokers and endpoints in one order."""
    value = msgspec.to_builtins(message)

    def tidy(item: Any) -> Any:
        if isinstance(item, dict):
            return {k: tidy(v) for k, v in item.items() if k not in without}
        if isinstance(item, list | tuple):
            items = [tidy(one) for one in item]
            return sorted(items, key=repr) if items and isinstance(items[0], dict) else items
        return item

    return tidy(value)


def brokers_of(live: list[Any], epochs: dict[int, int]) -> PMap[int, Broker]:
    return PMap(
        (
            one.id,
            Broker(
                id=one.id,
                epoch=epochs[one.id],
                incarnation_id=bytes(16),
                endpoints=tuple(
                    Endpoint(e.listener, e.host, e.port, e.security_protocol) for e in one.endpoints
                ),
                rack=one.rack,
                fenced=False,
                is_migrating_zk_broker=True,
            ),
        )
        for one in live
    )


def recorded_image() -> tuple[Image, int]:
    """The image behind the first full requests, and the ZooKeeper epoch of that time."""
    leaders = {b: of(m.LeaderAndIsrRequest, b, 2)[0] for b in (0, 1, 2)}
    topics: dict[bytes, Topic] = {}
    for request in leaders.values():
        for topic in request.topic_states:
            known = topics.get(topic.topic_id, Topic(topic.topic_name, topic.topic_id))
            partitions = known.partitions
            for p in topic.partition_states:
                partitions = partitions.set(
                    p.partition_index,
                    Partition(
                        replicas=tuple(p.replicas),
                        isr=tuple(p.isr),
                        leader=p.leader,
                        leader_epoch=p.leader_epoch,
                        partition_epoch=p.partition_epoch,
                        adding_replicas=tuple(p.adding_replicas),
                        removing_replicas=tuple(p.removing_replicas),
                        leader_recovery_state=p.leader_recovery_state,
                    ),
                )
            topics[topic.topic_id] = msgspec.structs.replace(known, partitions=partitions)
    first = of(m.UpdateMetadataRequest, 0, 2)[0]
    epochs = {b: request.broker_epoch for b, request in leaders.items()}
    image = Image(
        offset=172,
        epoch=first.topic_states[0].partition_states[0].controller_epoch,
        topics=PMap(topics),
        topic_ids=PMap((topic.name, topic.id) for topic in topics.values()),
        brokers=brokers_of(first.live_brokers, epochs),
    )
    return image, first.controller_epoch


class Told:
    """A propagator and what it has sent."""

    def __init__(self) -> None:
        self.channels = Channels(CONTROLLER, count(1).__next__)
        self.propagator = Propagator(self.channels, CONTROLLER, "INTERNAL")
        self.sent: list[tuple[int, Any]] = []
        self.channels.put = self.put  # type: ignore[method-assign]

    def put(self, broker_id: int, request: Any, _now_ms: int) -> list[Any]:
        self.sent.append((broker_id, request))
        return []

    def run(self, effects: list[Any]) -> list[tuple[int, Any]]:
        for effect in effects:
            if isinstance(effect, Connect):
                self.channels.handle(Connected(effect.conn), 0)
        while self.propagator.busy:
            self.propagator.step(0)
        sent, self.sent = self.sent, []
        return sent


@pytest.mark.requirement("L04", "R01", "L05")
@pytest.mark.parametrize("broker_id", [0, 1, 2])
def test_the_first_requests_of_the_controller_are_those_recorded(broker_id: int) -> None:
    image, zk_epoch = recorded_image()
    told = Told()
    effects = told.propagator.full(image, zk_epoch, first=True)
    sent = [q for to, q in told.run(effects) if to == broker_id]
    theirs = [
        of(m.UpdateMetadataRequest, broker_id, 0)[0],
        of(m.LeaderAndIsrRequest, broker_id, 2)[0],
        of(m.UpdateMetadataRequest, broker_id, 2)[0],
    ]
    assert [type(q) for q in sent] == [type(q) for q in theirs]
    for ours, recorded_request in zip(sent, theirs, strict=True):
        assert plain(ours) == plain(recorded_request)


def test_a_topic_made_again_unseen_has_no_partition_of_the_old_one_on_brokers() -> None:
    """Both happened under a controller that could not tell; the next one tells everything."""
    image, zk_epoch = recorded_image()
    old = max(image.topics.values(), key=lambda topic: len(topic.partitions))
    new = Topic(old.name, b"y" * 16, PMap({0: old.partitions[0]}.items()))
    after = msgspec.structs.replace(image, topics=image.topics.delete(old.id).set(new.id, new))
    cache = ZkMetadataCache(full_replaces=True)
    for one in (image, after):
        told = Told()
        for to, request in told.run(told.propagator.full(one, zk_epoch)):
            if to == 0 and isinstance(request, m.UpdateMetadataRequest):
                cache.update(request, full=request.type == control.TYPE_FULL)
    known = cache.topic(old.name)
    assert (known.id, [*known.partitions]) == (new.id, [0])


def test_a_full_request_lists_everything() -> None:
    image, zk_epoch = recorded_image()
    told = Told()
    sent = told.run(told.propagator.full(image, zk_epoch))
    everything = {(t.id, index) for t in image.topics.values() for index in t.partitions}
    for broker_id, request in sent:
        if isinstance(request, m.UpdateMetadataRequest):
            wanted = everything
        else:
            wanted = {
                (t.id, index)
                for t in image.topics.values()
                for index, p in t.partitions.items()
                if broker_id in p.replicas
            }
        listed = {
            (topic.topic_id, p.partition_index)
            for topic in request.topic_states
            for p in topic.partition_states
        }
        assert listed == wanted


@pytest.mark.requirement("L03")
def test_a_deleted_topic_is_told_as_recorded() -> None:
    update = next(
        q
        for q in of(m.UpdateMetadataRequest, 0, 1)
        if q.topic_states and q.topic_states[0].topic_id == bytes(16)
    )
    stop = next(
        q
        for q in of(m.StopReplicaRequest, 0)
        if q.topic_states[0].partition_states[0].leader_epoch == -2
    )
    image, _ = recorded_image()
    gone = update.topic_states[0]
    topic = Topic(
        gone.topic_name,
        b"x" * 16,
        PMap(
            (p.partition_index, Partition(tuple(p.replicas), tuple(p.isr), p.isr[0], 3, 4))
            for p in gone.partition_states
        ),
    )
    before = msgspec.structs.replace(
        image,
        topics=image.topics.set(topic.id, topic),
        topic_ids=image.topic_ids.set(topic.name, topic.id),
    )
    told = Told()
    told.run(told.propagator.full(before, update.controller_epoch))
    touched = Touched(topics={topic.id: topic.name}, deleted_topics={topic.id})
    touched.partitions |= {(topic.id, index) for index in topic.partitions}
    sent = told.run(told.propagator.delta(before, image, touched, update.controller_epoch))
    ours = [q for to, q in sent if to == 0]
    assert [type(q) for q in ours] == [m.UpdateMetadataRequest, m.StopReplicaRequest]
    # Kafka lists the registered replicas as offline here, the wrong way round.
    without = ("offline_replicas",)
    assert plain(ours[0], without=without) == plain(update, without=without)
    assert plain(ours[1]) == plain(stop)


@pytest.mark.requirement("L03")
def test_a_replica_that_a_reassignment_drops_is_stopped_as_recorded() -> None:
    broker_id, stop = next(
        (to, q)
        for to, q in recorded()
        if isinstance(q, m.StopReplicaRequest)
        and q.topic_states[0].partition_states[0].leader_epoch >= 0
    )
    (partition,) = stop.topic_states[0].partition_states
    image, _ = recorded_image()
    name = stop.topic_states[0].topic_name
    others = tuple(b for b in (0, 1, 2) if b != broker_id)
    old = Partition((*others, broker_id), others, others[0], partition.leader_epoch - 1, 7)
    new = Partition(others, others, others[0], partition.leader_epoch, 8)
    images = [
        msgspec.structs.replace(
            image,
            topics=image.topics.set(b"x" * 16, Topic(name, b"x" * 16, PMap({0: one}))),
            topic_ids=image.topic_ids.set(name, b"x" * 16),
        )
        for one in (old, new)
    ]
    told = Told()
    told.run(told.propagator.full(images[0], stop.controller_epoch))
    touched = Touched(topics={b"x" * 16: name}, partitions={(b"x" * 16, 0)})
    sent = told.run(told.propagator.delta(images[0], images[1], touched, stop.controller_epoch))
    kinds = {b: [type(q) for to, q in sent if to == b] for b in (0, 1, 2)}
    assert kinds[broker_id] == [m.UpdateMetadataRequest, m.StopReplicaRequest]
    assert kinds[others[0]] == [m.LeaderAndIsrRequest, m.UpdateMetadataRequest]
    assert plain(next(q for to, q in sent if isinstance(q, m.StopReplicaRequest))) == plain(stop)


@pytest.mark.requirement("L01", "L02")
def test_a_grown_isr_is_told_as_recorded() -> None:
    for broker_id in (0, 1, 2):
        request = of(m.LeaderAndIsrRequest, broker_id, 1)[0]
        image, _ = recorded_image()
        after, touched = image, Touched()
        for topic in request.topic_states:
            known = image.topics[topic.topic_id]
            for p in topic.partition_states:
                touched.partitions.add((topic.topic_id, p.partition_index))
                grown = msgspec.structs.replace(
                    known.partitions[p.partition_index],
                    isr=tuple(p.isr),
                    leader=p.leader,
                    leader_epoch=p.leader_epoch,
                    partition_epoch=p.partition_epoch,
                )
                known = msgspec.structs.replace(
                    known, partitions=known.partitions.set(p.partition_index, grown)
                )
            touched.topics[topic.topic_id] = topic.topic_name
            after = msgspec.structs.replace(after, topics=after.topics.set(topic.topic_id, known))
        told = Told()
        told.run(told.propagator.full(image, request.controller_epoch))
        sent = told.run(told.propagator.delta(image, after, touched, request.controller_epoch))
        ours = [q for to, q in sent if to == broker_id]
        assert [type(q) for q in ours] == [m.LeaderAndIsrRequest, m.UpdateMetadataRequest]
        assert plain(ours[0]) == plain(request)


@pytest.mark.requirement("U05")
def test_only_registered_migrating_unfenced_brokers_get_anything() -> None:
    image, zk_epoch = recorded_image()
    brokers = image.brokers
    brokers = brokers.set(0, msgspec.structs.replace(brokers[0], fenced=True))
    brokers = brokers.set(1, msgspec.structs.replace(brokers[1], is_migrating_zk_broker=False))
    image = msgspec.structs.replace(image, brokers=brokers)
    told = Told()
    sent = told.run(told.propagator.full(image, zk_epoch))
    assert {to for to, _ in sent} == {2}
    for _, request in sent:
        if isinstance(request, m.UpdateMetadataRequest):
            assert [one.id for one in request.live_brokers] == [0, 1, 2]


@pytest.mark.requirement("N06")
def test_a_broker_that_comes_back_gets_everything_the_others_the_broker_list() -> None:
    after, zk_epoch = recorded_image()
    fenced = msgspec.structs.replace(after.brokers[2], fenced=True)
    before = msgspec.structs.replace(after, brokers=after.brokers.set(2, fenced))
    told = Told()
    told.run(told.propagator.full(before, zk_epoch))
    sent = told.run(told.propagator.delta(before, after, Touched(brokers={2}), zk_epoch))
    kinds = {b: [(type(q), q.type) for to, q in sent if to == b] for b in (0, 1, 2)}
    assert kinds[2] == [
        (m.UpdateMetadataRequest, control.TYPE_FULL),
        (m.LeaderAndIsrRequest, control.TYPE_FULL),
        # What was deleted while it was fenced is gone from its metadata too.
        (m.UpdateMetadataRequest, control.TYPE_FULL),
    ]
    [leaders] = [q for to, q in sent if isinstance(q, m.LeaderAndIsrRequest)]
    named = {
        (t.topic_id, p.partition_index) for t in leaders.topic_states for p in t.partition_states
    }
    assert named == {
        (topic.id, index)
        for topic in after.topics.values()
        for index, partition in topic.partitions.items()
        if 2 in partition.replicas
    }
    assert kinds[0] == kinds[1] == [(m.UpdateMetadataRequest, control.TYPE_UNKNOWN)]
    for to, request in sent:
        partitions = sum(len(t.partition_states) for t in request.topic_states)
        assert (partitions > 0) == (to == 2)
        if isinstance(request, m.UpdateMetadataRequest):
            assert {one.id: len(one.endpoints) for one in request.live_brokers} == {
                0: 3,
                1: 3,
                2: 3,
            }


def test_a_topic_made_again_under_its_name_is_deleted_on_the_brokers_first() -> None:
    image, zk_epoch = recorded_image()
    old = next(iter(image.topics.values()))
    new = Topic(old.name, b"y" * 16, old.partitions)
    after = msgspec.structs.replace(
        image,
        topics=image.topics.delete(old.id).set(new.id, new),
        topic_ids=image.topic_ids.set(new.name, new.id),
    )
    touched = Touched(topics={old.id: old.name, new.id: new.name}, deleted_topics={old.id})
    touched.partitions |= {(t.id, index) for t in (old, new) for index in t.partitions}
    told = Told()
    told.run(told.propagator.full(image, zk_epoch))
    sent = told.run(told.propagator.delta(image, after, touched, zk_epoch))
    host = old.partitions[0].replicas[0]
    ours = [q for to, q in sent if to == host]
    assert [type(q) for q in ours] == [
        m.UpdateMetadataRequest,
        m.StopReplicaRequest,
        m.LeaderAndIsrRequest,
        m.UpdateMetadataRequest,
    ]
    assert ours[0].topic_states[0].topic_id == bytes(16)
    assert ours[2].topic_states[0].topic_id == new.id


def test_a_broker_that_comes_back_deletes_the_old_topic_before_it_hears_of_the_new() -> None:
    """All in one delta: else what clients wrote to the new one's replica would be deleted again."""
    image, zk_epoch = recorded_image()
    old = next(iter(image.topics.values()))
    host = old.partitions[0].replicas[0]
    new = Topic(old.name, b"y" * 16, old.partitions)
    fenced = msgspec.structs.replace(image.brokers[host], fenced=True)
    before = msgspec.structs.replace(image, brokers=image.brokers.set(host, fenced))
    after = msgspec.structs.replace(
        image,
        topics=image.topics.delete(old.id).set(new.id, new),
        topic_ids=image.topic_ids.set(new.name, new.id),
    )
    touched = Touched(
        topics={old.id: old.name, new.id: new.name}, deleted_topics={old.id}, brokers={host}
    )
    touched.partitions |= {(t.id, index) for t in (old, new) for index in t.partitions}
    told = Told()
    told.run(told.propagator.full(before, zk_epoch))
    sent = told.run(told.propagator.delta(before, after, touched, zk_epoch))
    ours = [q for to, q in sent if to == host]
    stopped = [i for i, q in enumerate(ours) if isinstance(q, m.StopReplicaRequest)]
    made = [
        i
        for i, q in enumerate(ours)
        if isinstance(q, m.LeaderAndIsrRequest)
        and new.id in {state.topic_id for state in q.topic_states}
    ]
    assert len(stopped) == 1
    assert stopped[0] < min(made)
    assert isinstance(ours[0], m.UpdateMetadataRequest)
    assert host in {one.id for one in ours[0].live_brokers}


def test_an_unassigned_or_unregistered_replica_is_offline() -> None:
    image, zk_epoch = recorded_image()
    image = msgspec.structs.replace(image, brokers=image.brokers.delete(2))
    told = Told()
    update = next(
        q
        for _, q in told.run(told.propagator.full(image, zk_epoch))
        if isinstance(q, m.UpdateMetadataRequest)
    )
    for topic in update.topic_states:
        for p in topic.partition_states:
            assert list(p.offline_replicas) == [r for r in p.replicas if r == 2]


def test_what_changes_nothing_for_brokers_is_not_told() -> None:
    image, zk_epoch = recorded_image()
    told = Told()
    told.run(told.propagator.full(image, zk_epoch))
    touched = Touched(configs={(2, "orders")}, producer_ids=True, features={"metadata.version"})
    assert told.run(told.propagator.delta(image, image, touched, zk_epoch)) == []
