"""Periodic work: when it is done, how much at a time, and what it waits for."""

from __future__ import annotations

from typing import Any

import pytest

from emulator.controller.queue.periodic import LOOKS_PER_TICK, PAUSE_MS, Periodic, Sweep
from emulator.controller.queue.sweeps import PREFERRED_LEADERS, UNCLEAN_LEADERS
from emulator.controller.tables.index import TipIndex
from emulator.metadata.image import EMPTY
from tests.unit.controller.world import (
    World,
    broker,
    config,
    image_of,
    partition,
    topic,
    uuid,
)
from wire import records as r

INTERVAL_MS = 300_000
INDEX = TipIndex(EMPTY)


class Numbers:
    """A sweep over numbers, of which the even ones are due."""

    def __init__(self, *numbers: int, records_max: int = 1_000) -> None:
        self.numbers = list(numbers)
        self.looked: list[int] = []
        self.sweep = Sweep(
            name="numbers",
            interval_ms=lambda _config: INTERVAL_MS,
            candidates=lambda _image, _index: self.numbers,
            visit=self._visit,
            records_max=records_max,
        )
        self.periodic = Periodic(config(), [self.sweep])

    def _visit(self, _image: object, _config: object, number: int, _now_ms: int) -> list[object]:
        self.looked.append(number)
        return [number] if number % 2 == 0 else []

    def due(self, since_ms: int = 0) -> int | None:
        return self.periodic.deadline_ms(EMPTY, INDEX, since_ms, lambda _urgency: None)

    def next(self, now_ms: int, room: int | None = None) -> list[object]:
        return self.periodic.next(EMPTY, INDEX, now_ms, lambda _urgency: room)


def test_nothing_is_due_without_candidates_and_then_an_interval_after_them() -> None:
    numbers = Numbers()
    assert numbers.due(5) is None
    numbers.numbers = [1]
    assert numbers.due(7) == INTERVAL_MS + 7
    assert numbers.due(999) == INTERVAL_MS + 7, "the first candidate counts"
    assert numbers.next(INTERVAL_MS + 6) == []
    assert numbers.looked == []
    assert numbers.next(INTERVAL_MS + 8) == []
    assert numbers.looked == [1]
    assert numbers.due(7) == 2 * INTERVAL_MS + 8, "again, from when it was done"
    numbers.numbers = []
    assert numbers.due(7) is None


def test_a_sweep_that_is_off_is_never_due() -> None:
    sweep = Sweep("off", lambda _config: None, lambda _image, _index: [1], lambda *_: [1])
    assert Periodic(config(), [sweep]).deadline_ms(EMPTY, INDEX, 0, lambda _: None) is None


def test_one_tick_looks_at_few_and_the_next_goes_on_at_once() -> None:
    numbers = Numbers(*range(3 * LOOKS_PER_TICK - 1))
    found: list[object] = []
    numbers.due()
    for tick in range(1, 4):
        assert numbers.due() == INTERVAL_MS
        found += numbers.next(INTERVAL_MS)
        assert len(numbers.looked) == min(tick * LOOKS_PER_TICK, len(numbers.numbers))
    assert found == [number for number in numbers.numbers if number % 2 == 0]
    assert numbers.looked == numbers.numbers
    assert numbers.due() == 2 * INTERVAL_MS


def test_room_stops_it_and_what_is_left_goes_on_later() -> None:
    numbers = Numbers(0, 1, 2, 3, 4)
    numbers.due()
    assert numbers.next(INTERVAL_MS, room=1) == [0]
    assert numbers.next(INTERVAL_MS, room=1) == [2]
    assert numbers.due() == INTERVAL_MS
    assert numbers.next(INTERVAL_MS, room=9) == [4]


def test_a_round_ends_at_its_limit_and_another_begins_after_a_pause() -> None:
    numbers = Numbers(0, 2, 4, records_max=2)
    numbers.due()
    assert numbers.next(INTERVAL_MS) == [0, 2]
    assert numbers.due() == INTERVAL_MS + PAUSE_MS
    numbers.numbers = [4]
    assert numbers.next(INTERVAL_MS + PAUSE_MS) == [4]
    assert numbers.due() == 2 * INTERVAL_MS + PAUSE_MS


def test_a_new_leader_counts_from_its_own_beginning() -> None:
    numbers = Numbers(1)
    assert numbers.due(5) == INTERVAL_MS + 5
    numbers.periodic.reset(1_000)
    assert numbers.due(5) == INTERVAL_MS + 1_000


# Preferred leaders, through the controller.


def imbalanced(world: World, count: int = 1, **fields: Any) -> None:
    """Partitions of three replicas that the second one leads."""
    records = [broker(0), broker(1), broker(2), topic("t", 1)]
    values = {"leader": 1, **fields}
    records += [partition(1, number, **values) for number in range(count)]
    world.controller.append(records, world.now_ms)
    world.controller.heartbeats.activate(world.tip.brokers, world.now_ms)
    world.commit()


def awake(world: World, milliseconds: int) -> None:
    """Time passes in which every broker keeps in contact."""
    end_ms = world.now_ms + milliseconds
    while world.now_ms < end_ms:
        for id_ in world.tip.brokers:
            world.controller.heartbeats.contact(id_, None, world.now_ms)
        world.later(min(2_000, end_ms - world.now_ms))


def leaders(world: World) -> list[int]:
    return [one.leader for one in world.tip.topics[uuid(1)].partitions.values()]


@pytest.mark.requirement("K19")
def test_leaders_move_back_by_themselves() -> None:
    """KIP-183 "Proposed Changes": with automatic rebalance nobody has to ask."""
    world = World()
    imbalanced(world, 100)
    awake(world, INTERVAL_MS - 1)
    assert set(leaders(world)) == {1}
    awake(world, 1)
    assert leaders(world) == [0] * 100
    records = [record for record, _ in world.records_since(0)]
    moves = [one for one in records if isinstance(one, r.PartitionChangeRecord)]
    assert len(moves) == 100
    assert {(one.leader, one.isr) for one in moves} == {(0, None)}


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        ({"auto_leader_rebalance_enable": False}, "it is off"),
        ({"leader_imbalance_check_interval_seconds": 600}, "it is not time yet"),
    ],
)
def test_leaders_stay_when(fields: dict[str, Any], why: str) -> None:
    world = World(**fields)
    imbalanced(world)
    awake(world, INTERVAL_MS + 1_000)
    assert leaders(world) == [1], why


@pytest.mark.parametrize("fields", [{"isr": (1, 2)}, {"directories": (bytes(15) + b"\2",) * 3}])
def test_leaders_stay_while_the_preferred_replica_cannot_lead(fields: dict[str, Any]) -> None:
    world = World()
    imbalanced(world, **fields)
    if "directories" in fields:
        del fields["directories"]
        world.controller.append(
            [
                r.PartitionChangeRecord(
                    partition_id=0,
                    topic_id=uuid(1),
                    directories=(bytes(15) + b"\2", uuid(5001), uuid(5002)),
                )
            ],
            world.now_ms,
        )
    awake(world, 2 * INTERVAL_MS)
    assert leaders(world) == [1]


def test_it_is_never_unclean_whatever_the_topic_allows() -> None:
    image = image_of(
        broker(0), broker(1, fenced=True), topic("t", 1), partition(1, isr=(1,), leader=-1)
    )
    settings = config(properties={"unclean.leader.election.enable": "true"})
    assert PREFERRED_LEADERS.visit(image, settings, (uuid(1), 0), 0) == ()
    (record,) = UNCLEAN_LEADERS.visit(image, settings, (uuid(1), 0), 0)
    assert isinstance(record, r.PartitionChangeRecord)
    assert (record.leader, record.isr) == (0, (0,))


@pytest.mark.parametrize("allowed", [True, False])
def test_a_partition_without_leader_gets_an_unclean_one_once_its_topic_allows_it(
    allowed: bool,
) -> None:
    """KAFKA-12670: nothing else happens to it after the config was changed."""
    world = World()
    imbalanced(world, isr=(3,), replicas=(3, 0), leader=-1)
    awake(world, INTERVAL_MS)
    assert leaders(world) == [-1]
    change = r.ConfigRecord(
        resource_type=2,
        resource_name="t",
        name="unclean.leader.election.enable",
        value=str(allowed).lower(),
    )
    world.controller.append([change], world.now_ms)
    awake(world, INTERVAL_MS)
    assert leaders(world) == [0 if allowed else -1]
    assert world.tip.topics[uuid(1)].partitions[0].isr == ((0,) if allowed else (3,))


def test_it_waits_for_zookeeper_as_callers_do() -> None:
    world = World()
    imbalanced(world, 3)
    world.controller.hold(room=0, now_ms=world.now_ms)
    awake(world, 2 * INTERVAL_MS)
    assert leaders(world) == [1, 1, 1]
    world.controller.hold(now_ms=world.now_ms, room=1)
    awake(world, 1)
    assert leaders(world) == [0, 1, 1]
    world.controller.hold(now_ms=world.now_ms)
    awake(world, 1)
    assert leaders(world) == [0, 0, 0]


def test_nothing_is_done_before_the_copy_after_the_rule_and_while_ending() -> None:
    waiting = World(migration_enabled=True)
    imbalanced(waiting)
    deposed, ending = World(), World()
    for world in (deposed, ending):
        imbalanced(world)
    deposed.controller.resign(deposed.now_ms)
    ending.controller.end()
    for world in (waiting, deposed, ending):
        awake(world, 2 * INTERVAL_MS)
        assert leaders(world) == [1]
