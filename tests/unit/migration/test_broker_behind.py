"""A broker that never answers control requests, and one that answers late."""

from __future__ import annotations

from typing import Any

import pytest

from emulator.migration.propagation import merging
from emulator.migration.propagation.merging import ENTRIES_MAX, MERGED_MAX, Later, Merged
from emulator.net.control import TYPE_FULL, TYPE_INCREMENTAL
from emulator.seam import Closed, Effect
from tests.unit.migration.test_channels import PEER, Broker
from tests.unit.migration.view import View
from tests.unit.migration.world import World
from wire import messages as m
from wire import records as r
from wire.frame import RequestHeader, encode_request

T, U = b"T" * 16, b"U" * 16
HEARD = m.UpdateMetadataResponse()


class HalfDeaf(World):
    """Brokers in ``silent`` take requests and answer them when :meth:`speak` is called."""

    def __init__(self, **settings: Any) -> None:
        self.silent: set[int] = set()
        self.unheard: dict[int, list[tuple[int, bytes]]] = {}
        self.views: dict[int, View] = {}
        super().__init__(**settings)

    def _broker(self, conn: int, data: bytes) -> list[Effect]:
        broker_id, _ = self._broker_conns[conn]
        if broker_id in self.silent:
            self.unheard.setdefault(broker_id, []).append((conn, data))
            return []
        before = len(self.requests.get(broker_id, ()))
        effects = super()._broker(conn, data)
        view = self.views.setdefault(broker_id, View(broker_id))
        for request in self.requests[broker_id][before:]:
            assert isinstance(
                request, m.LeaderAndIsrRequest | m.UpdateMetadataRequest | m.StopReplicaRequest
            )
            view.take(request, request.broker_epoch)
        return effects

    def speak(self, broker_id: int) -> None:
        """Answer everything that came on a connection that is still open, and all that follows."""
        self.silent.discard(broker_id)
        for conn, data in self.unheard.pop(broker_id, ()):
            if conn in self._broker_conns:
                self.perform(self._broker(conn, data))
        self.settle()


def change(partition_id: int, leader: int) -> r.PartitionChangeRecord:
    return r.PartitionChangeRecord(topic_id=T, partition_id=partition_id, leader=leader)


def deaf() -> HalfDeaf:
    world = HalfDeaf().dual_write(1, 2)
    assert isinstance(world, HalfDeaf)
    world.append(*world.topic("t", T, *((1, 2),) * 5))
    world.silent.add(2)
    return world


def same_view(world: HalfDeaf) -> bool:
    """Whether broker 2 knows of the cluster, and hosts, what broker 1 does."""
    one, two = world.views[1], world.views[2]
    return (one.partitions, one.replicas, one.live) == (two.partitions, two.replicas, two.live)


def test_what_waits_for_a_broker_is_merged() -> None:
    world = deaf()
    heard = len(world.requests[2])
    for number in range(1_000):
        world.append(change(number % 5, 1 + number % 2))
    assert world.driver.channels.waiting == {1: 0, 2: 2_000}
    world.speak(2)
    told = [type(q).__name__.removesuffix("Request") for q in world.requests[2][heard:]]
    assert told == [
        *("LeaderAndIsr", "UpdateMetadata", "LeaderAndIsr"),  # queued before more of the kind came
        # A partition that it leads again: first another leads it, then it does.
        *("LeaderAndIsr", "LeaderAndIsr", "UpdateMetadata"),
    ]
    assert same_view(world)
    assert world.driver.channels.queued == 0


def test_a_broker_that_is_not_behind_gets_each_request_as_it_is() -> None:
    world = HalfDeaf().dual_write(1, 2)
    world.append(*world.topic("t", T, (1, 2)))
    world.append(change(0, 2))
    one, two = world.requests[1][-2:], world.requests[2][-2:]
    assert [type(q) for q in one] == [m.LeaderAndIsrRequest, m.UpdateMetadataRequest]
    assert [q.topic_states for q in one] == [q.topic_states for q in two]  # type: ignore[attr-defined]


def churn(world: HalfDeaf, topics: int) -> None:
    """Topics that come and go: no state of theirs is left, but their deletion has to be told."""
    for number in range(topics):
        topic_id = (1_000 + number).to_bytes(16, "big")
        world.append(*world.topic(f"gone{number}", topic_id, (1, 2)))
        world.append(r.RemoveTopicRecord(topic_id=topic_id))


def test_a_broker_that_never_answers_holds_a_bounded_queue(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(merging, "ENTRIES_MAX", 40)
    world = deaf()
    for number in range(1_000):
        world.append(change(number % 5, 1 + number % 2))
    assert world.driver.channels.cut_count == 0, "the partitions of the cluster are bounded"
    churn(world, 20)
    assert world.driver.channels.cut_count == 1
    assert world.driver.channels.waiting == {1: 0, 2: 3}
    (line,) = [line for line in world.logs if "does not answer" in line.event]
    assert line.fields["broker"] == 2
    assert line.fields["entries"] == 41
    churn(world, 5)
    assert world.driver.channels.waiting == {1: 0, 2: 3}, "nothing more is put"


def test_it_is_told_everything_once_it_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(merging, "ENTRIES_MAX", 40)
    world = deaf()
    world.append(*world.topic("gone", U, (1, 2)))
    churn(world, 25)
    assert world.driver.channels.cut(2)
    world.append(r.RemoveTopicRecord(topic_id=U))
    world.append(*world.topic("new", b"N" * 16, (2, 1)))
    world.append(*world.topic("gone", b"G" * 16, (2, 1)))
    world.advance(120_000)
    world.speak(2)
    world.advance(1_000)
    told = world.requests[2][-3:]
    assert [(type(q), getattr(q, "type", None)) for q in told] == [
        (m.UpdateMetadataRequest, TYPE_FULL),
        (m.LeaderAndIsrRequest, TYPE_FULL),
        (m.UpdateMetadataRequest, TYPE_FULL),
    ]
    assert same_view(world)
    world.append(change(0, 2), change(1, 1))
    assert same_view(world), "and hears of changes again"
    assert len([line for line in world.logs if "answers control requests again" in line.event]) == 1
    assert world.driver.channels.queued == 0


def test_a_broker_that_is_always_behind_gets_on() -> None:
    """However many changes there are, what is queued is sent before what came later."""
    broker = Broker().connect()
    broker.put(0)
    for marker in range(1, 3_000):
        for one in (leaders(marker), named(3, marker)):
            broker.take(broker.channels.put(1, one, 0))
        if marker % 10 == 0:
            broker.answer_any()
    sent = [message for _, _, message in broker.requests]
    assert sum(isinstance(one, m.LeaderAndIsrRequest) for one in sent) > 100
    assert sum(isinstance(one, m.UpdateMetadataRequest) for one in sent) > 100


def test_the_request_under_way_is_asked_again_until_it_is_answered(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(merging, "ENTRIES_MAX", 4)
    broker = Broker().connect()
    for marker in (0, 1):
        broker.put(marker)
    broker.take(broker.channels.put(1, named(5, 2), 0))
    assert broker.channels.cut(1)
    assert broker.channels.queued == 2
    broker.put(7_777)
    assert broker.channels.queued == 2, "nothing more is put"
    broker.take(broker.channels.handle(Closed(broker.conns[-1], "reset"), broker.now_ms))
    broker.advance(100)
    broker.connect()
    assert broker.markers == [0, 0]
    broker.answer(HEARD)
    assert not broker.channels.caught_up
    broker.answer(HEARD)
    assert broker.channels.caught_up == {1}
    broker.channels.resume(1)
    broker.put(8_888)
    assert broker.markers == [0, 0, 1, 8_888]


def named(partitions: int, epoch: int = 0) -> m.UpdateMetadataRequest:
    kinds = m.UpdateMetadataRequest
    states = [
        kinds.UpdateMetadataPartitionState(
            partition_index=p, leader_epoch=epoch, isr=(1, 2, 3), replicas=(1, 2, 3)
        )
        for p in range(partitions)
    ]
    topic = kinds.UpdateMetadataTopicState(topic_name="t" * 40, topic_id=T, partition_states=states)
    return kinds(controller_id=3000, topic_states=[topic])


def leaders(epoch: int) -> m.LeaderAndIsrRequest:
    kinds = m.LeaderAndIsrRequest
    state = kinds.LeaderAndIsrPartitionState(
        leader=2, leader_epoch=epoch, partition_epoch=epoch, isr=(1, 2, 3), replicas=(1, 2, 3)
    )
    topic = kinds.LeaderAndIsrTopicState(topic_name="t" * 40, topic_id=T, partition_states=[state])
    return kinds(controller_id=3000, topic_states=[topic])


def test_a_queue_at_its_bound_is_no_long_request() -> None:
    request = named(20_000)
    header = RequestHeader(api_key=6, api_version=8, correlation_id=0, client_id="3000")
    size = len(encode_request(header, request)) * ENTRIES_MAX // 20_000
    assert size < 20 * 1024 * 1024, "a broker takes 100 MB"


def test_full_requests_wait_as_they_are_and_count_for_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Their bodies are shared by all brokers, and a large cluster must not be cut off by them."""
    monkeypatch.setattr(merging, "ENTRIES_MAX", 20)
    broker = Broker().connect()
    for marker in range(4):
        broker.put(marker)
        whole = named(50, marker)
        whole.type = TYPE_FULL
        broker.take(broker.channels.put(1, whole, 0))
        broker.take(broker.channels.put(1, named(1, marker), 0))
        broker.take(broker.channels.put(1, named(2, marker), 0))
    assert not broker.channels.cut(1)
    for _ in range(12):
        broker.answer(HEARD)
    assert broker.channels.queued == 0
    sent = [message for _, _, message in broker.requests]
    assert [
        (one.type, one.topic_states[0].partition_states[0].leader_epoch)
        for one in sent
        if one.topic_states  # type: ignore[attr-defined]
    ] == [pair for marker in range(4) for pair in ((TYPE_FULL, marker), (TYPE_INCREMENTAL, marker))]


def test_a_broker_that_is_fenced_meanwhile_begins_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(merging, "ENTRIES_MAX", 4)
    broker = Broker().connect()
    for marker in (0, 1):
        broker.put(marker)
    broker.take(broker.channels.put(1, named(5), 0))
    assert broker.channels.cut(1)
    broker.take(broker.channels.set_peers({}))
    broker.take(broker.channels.set_peers({1: PEER}))
    assert not broker.channels.cut(1), "it is told everything because it joins"
    assert broker.channels.queued == 1
    broker.answer(HEARD)
    assert not broker.channels.caught_up


def test_a_new_life_of_the_broker_begins_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(merging, "ENTRIES_MAX", 40)
    world = deaf()
    churn(world, 25)
    assert world.driver.channels.cut(2)
    world.silent.clear()
    world.register(2)
    world.views.pop(2)
    world.requests[2].clear()
    world.append(change(0, 2))
    world.unfence(2, fenced=1)
    world.unfence(2)
    world.advance(1_000)
    assert not world.driver.channels.cut(2)
    assert same_view(world)


@pytest.mark.parametrize("bound", [1, 4, 9, 20, 1_000])
def test_wherever_it_is_cut_off_it_ends_with_the_whole(
    bound: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(merging, "ENTRIES_MAX", bound)
    world = deaf()
    for number in range(40):
        if number % 7 == 3:
            world.silent.add(2)
        if number % 7 == 0:
            world.speak(2)
        if number % 9 == 1:
            world.append(*world.topic(f"t{number}", bytes([number]) * 16, (1, 2)))
        if number % 9 == 6:
            world.append(r.RemoveTopicRecord(topic_id=bytes([number - 5]) * 16))
        world.append(change(number % 5, 1 + number % 2))
    world.speak(2)
    world.advance(1_000)
    assert same_view(world)


def test_what_would_mean_something_else_is_not_merged() -> None:
    """Another sender, epochs that go back, and a StopReplica that the broker ignores."""
    broker = Broker().connect()
    put = [leaders(5), leaders(6), leaders(7), leaders(6), leaders(6)]
    put[-1].controller_epoch = 1
    stop = m.StopReplicaRequest
    state = stop.StopReplicaPartitionState(leader_epoch=5, delete_partition=True)
    topic = stop.StopReplicaTopicState(topic_name="t" * 40, partition_states=[state])
    for one in (*put, stop(controller_id=3000, controller_epoch=1, topic_states=[topic])):
        broker.take(broker.channels.put(1, one, 0))
    for _ in range(5):
        broker.answer(m.LeaderAndIsrResponse(), 4, 7)
    assert [type(one) for _, _, one in broker.requests] == [*map(type, put), stop]


def test_a_long_request_waits_as_it_is_and_counts() -> None:
    """To merge what a dead broker led, 100,000 topics, took 0.2 s in one step."""
    topic, state = (
        m.LeaderAndIsrRequest.LeaderAndIsrTopicState,
        m.LeaderAndIsrRequest.LeaderAndIsrPartitionState,
    )

    def named(count: int) -> m.LeaderAndIsrRequest:
        states = [state(partition_index=index, leader=2) for index in range(count)]
        return m.LeaderAndIsrRequest(
            type=TYPE_INCREMENTAL,
            topic_states=[topic(topic_name="t", topic_id=b"t" * 16, partition_states=states)],
        )

    later, requests = Later(1), [named(count) for count in (1, MERGED_MAX + 1, 2)]
    for request in requests:
        later.put(request)
    assert (later.count, later.entries) == (3, MERGED_MAX + 4)
    taken = []
    while later:
        [one] = later.take()
        taken.append(one)
    assert [*map(id, taken)] == [*map(id, requests)]
    assert later.entries == 0
    later.put(requests[1])
    later.clear()
    assert (later.count, later.entries) == (0, 0)
    full = named(1)
    full.type = TYPE_FULL
    later.put(full)
    full.type = TYPE_INCREMENTAL  # another broker failed it, and got it again as this
    assert later.take() == [full]


def stopped(leader_epoch: int) -> m.StopReplicaRequest:
    one = m.StopReplicaRequest
    state = one.StopReplicaPartitionState(leader_epoch=leader_epoch, delete_partition=True)
    return one(topic_states=[one.StopReplicaTopicState(topic_name="t", partition_states=[state])])


@pytest.mark.parametrize(
    ("first", "then", "kept"), [(5, 4, 5), (5, 6, 6), (5, -2, -2), (-2, 5, -2), (-2, -1, -2)]
)
def test_of_two_stops_the_greatest_epoch_counts_unless_one_is_negative(
    first: int, then: int, kept: int
) -> None:
    merged = Merged(1, stopped(first))
    merged.add(stopped(then))
    (request,) = merged.requests()
    assert isinstance(request, m.StopReplicaRequest)
    assert request.topic_states[0].partition_states[0].leader_epoch == kept
