"""A broker that never answers control requests, and one that answers late."""

from __future__ import annotations

from typing import Any

import pytest

from emulator.migration.telling import owed
from emulator.migration.telling.owed import ENTRIES_MAX, REQUESTS_MAX, Debt, Owed, entries_of
from emulator.net.control import TYPE_FULL
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


def request_of(kind: str, topics: list[int], brokers: int) -> Any:
    """A request that names so many partitions of each topic, and so many brokers."""
    one, of = getattr(m, f"{kind}Request"), "PartitionState"
    state = getattr(one, f"{kind}{of}")
    topic = getattr(one, f"{kind}TopicState")
    states = [
        topic(topic_name=f"t{at}", partition_states=[state(partition_index=n) for n in range(size)])
        for at, size in enumerate(topics)
    ]
    match kind:
        case "UpdateMetadata":
            live = [one.UpdateMetadataBroker(id=at) for at in range(brokers)]
            return one(topic_states=states, live_brokers=live)
        case "LeaderAndIsr":
            leaders = [one.LeaderAndIsrLiveLeader(broker_id=at) for at in range(brokers)]
            return one(topic_states=states, live_leaders=leaders)
        case _:
            return one(topic_states=states)


@pytest.mark.parametrize("topics", [[], [1], [3, 0, 4]])
@pytest.mark.parametrize("brokers", [0, 1, 5])
def test_what_a_request_names_counts_partitions_and_brokers(
    topics: list[int], brokers: int
) -> None:
    with_brokers = sum(topics) + brokers
    assert entries_of(request_of("UpdateMetadata", topics, brokers)) == with_brokers
    assert entries_of(request_of("LeaderAndIsr", topics, brokers)) == with_brokers
    assert entries_of(request_of("StopReplica", topics, brokers)) == sum(topics)
    assert entries_of(m.MetadataRequest(topics=None)) == 0, "a question"


def test_what_is_owed_grows_and_falls_by_what_a_request_names_and_is_over_beyond_a_bound() -> None:
    debt = Debt()
    one = Owed.of(request_of("UpdateMetadata", [2, 3], 4), joining=False)
    joining = Owed.of(request_of("UpdateMetadata", [2, 3], 4), joining=True)
    debt.add(joining)
    assert (debt.requests, debt.entries) == (0, 0)
    for count in (1, 2):
        debt.add(one)
        assert (debt.requests, debt.entries) == (count, 9 * count)
    debt.remove(joining)
    debt.remove(one)
    assert (debt.requests, debt.entries) == (1, 9)
    assert not Debt(REQUESTS_MAX, ENTRIES_MAX).over
    assert Debt(REQUESTS_MAX + 1, 0).over
    assert Debt(0, ENTRIES_MAX + 1).over


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


def test_a_broker_that_never_answers_holds_a_bounded_queue() -> None:
    world = deaf()
    for number in range(REQUESTS_MAX):
        world.append(change(number % 5, 1 + number % 2))
        assert world.driver.channels.queued <= REQUESTS_MAX
    assert world.driver.channels.queued <= 2
    assert (world.driver.channels.cut_count, world.driver.channels.waiting) == (1, {1: 0, 2: 1})
    (line,) = [line for line in world.logs if "does not answer" in line.event]
    assert (line.fields["broker"], line.fields["requests"]) == (2, REQUESTS_MAX + 1)


def test_it_is_told_everything_once_it_answers() -> None:
    world = deaf()
    world.append(*world.topic("gone", U, (1, 2)))
    for number in range(REQUESTS_MAX):
        world.append(change(number % 5, 1 + number % 2))
    world.append(r.RemoveTopicRecord(topic_id=U))
    world.append(*world.topic("new", b"N" * 16, (2, 1)))
    world.append(*world.topic("gone", b"G" * 16, (2, 1)))
    heard = len(world.requests[2])
    world.advance(120_000)
    world.speak(2)
    world.advance(1_000)
    told = world.requests[2][heard + 1 :]
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


def filled(broker: Broker, count: int) -> None:
    for marker in range(count):
        broker.put(marker)


def test_a_slow_broker_that_stays_below_the_bound_misses_nothing() -> None:
    broker = Broker()
    broker.connect()
    filled(broker, REQUESTS_MAX)
    for _ in range(REQUESTS_MAX):
        broker.answer(HEARD)
    assert broker.markers == list(range(REQUESTS_MAX))
    assert not broker.channels.caught_up


def test_a_slow_broker_that_is_always_behind_misses_nothing_either() -> None:
    """What was answered counts no more, however much was asked in all."""
    broker = Broker()
    broker.connect()
    filled(broker, REQUESTS_MAX // 2)
    for marker in range(3 * REQUESTS_MAX):
        broker.answer(HEARD)
        broker.put(REQUESTS_MAX // 2 + marker)
    assert not broker.channels.cut(1)
    assert broker.markers == list(range(3 * REQUESTS_MAX + 1))


def test_the_request_under_way_is_asked_again_until_it_is_answered() -> None:
    broker = Broker()
    broker.connect()
    filled(broker, REQUESTS_MAX + 1)
    assert broker.channels.cut(1)
    assert broker.channels.queued == 1
    broker.put(7_777)
    assert broker.channels.queued == 1, "nothing more is put"
    broker.take(broker.channels.handle(Closed(broker.conns[-1], "reset"), broker.now_ms))
    broker.advance(100)
    broker.connect()
    assert broker.markers == [0, 0]
    assert not broker.channels.caught_up
    broker.answer(HEARD)
    assert broker.channels.caught_up == {1}
    broker.channels.resume(1)
    broker.put(8_888)
    assert broker.markers == [0, 0, 8_888]


def test_a_broker_nobody_can_connect_to_holds_the_oldest_request() -> None:
    broker = Broker()
    filled(broker, REQUESTS_MAX + 1)
    assert broker.channels.queued == 1
    broker.connect()
    assert broker.markers == [0]
    broker.answer(HEARD)
    assert broker.channels.caught_up == {1}


def named(partitions: int) -> m.UpdateMetadataRequest:
    kinds = m.UpdateMetadataRequest
    states = [
        kinds.UpdateMetadataPartitionState(partition_index=p, isr=(1, 2, 3), replicas=(1, 2, 3))
        for p in range(partitions)
    ]
    topic = kinds.UpdateMetadataTopicState(topic_name="t" * 40, topic_id=T, partition_states=states)
    return kinds(controller_id=3000, topic_states=[topic])


def test_few_large_requests_are_bounded_too() -> None:
    broker = Broker()
    broker.connect()
    request = named(20_000)
    for _ in range(ENTRIES_MAX // 20_000):
        broker.take(broker.channels.put(1, request, 0))
        assert not broker.channels.cut(1)
    broker.take(broker.channels.put(1, request, 0))
    assert broker.channels.cut(1)
    assert broker.channels.queued == 1
    header = RequestHeader(api_key=6, api_version=8, correlation_id=0, client_id="3000")
    size = len(encode_request(header, request)) * ENTRIES_MAX // entries_of(request)
    assert size < 20 * 1024 * 1024, "bytes of a queue at its bound"


def test_what_tells_a_broker_everything_is_never_dropped() -> None:
    """Else a broker that is slower than changes are made would never get to the end of it."""
    broker = Broker()
    broker.connect()
    everything = named(ENTRIES_MAX)
    for _ in range(3):
        broker.take(broker.channels.put(1, everything, 0, joining=True))
    assert not broker.channels.cut(1)
    filled(broker, REQUESTS_MAX + 1)
    assert broker.channels.cut(1)
    assert broker.channels.queued == 3
    for _ in range(3):
        assert not broker.channels.caught_up
        broker.answer(HEARD)
    assert broker.channels.caught_up == {1}


def test_a_broker_that_is_fenced_meanwhile_begins_anew() -> None:
    broker = Broker()
    broker.connect()
    filled(broker, REQUESTS_MAX + 1)
    broker.take(broker.channels.set_peers({}))
    broker.take(broker.channels.set_peers({1: PEER}))
    assert not broker.channels.cut(1), "it is told everything because it joins"
    filled(broker, REQUESTS_MAX - 1)
    assert not broker.channels.cut(1)
    broker.answer(HEARD)
    assert not broker.channels.caught_up


def test_a_new_life_of_the_broker_begins_anew() -> None:
    world = deaf()
    for number in range(REQUESTS_MAX):
        world.append(change(number % 5, 1 + number % 2))
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


@pytest.mark.parametrize("bound", [1, 2, 5, 9])
def test_wherever_it_is_cut_off_it_ends_with_the_whole(
    bound: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(owed, "REQUESTS_MAX", bound)
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
