"""Placement: racks first, unfenced first, no broker twice."""

from __future__ import annotations

import random
from collections import Counter
from hashlib import sha256
from typing import Any
from unittest import mock

import pytest
from hypothesis import given
from hypothesis import strategies as st

from emulator.controller.rules import placement
from emulator.controller.rules.placement import (
    PlacementError,
    UsableBroker,
    UsableBrokers,
    _Ring,
    usable_brokers,
)
from emulator.controller.rules.placement import place as placed_in_slices
from emulator.seam import whole
from tests.unit.controller.world import World, broker, context, create, image_of
from wire import messages as m


def place(known: list[UsableBroker], *arguments: Any) -> list[tuple[int, ...]]:
    return whole(placed_in_slices(UsableBrokers(known), *arguments))


def brokers(*racks: str | None, fenced: tuple[int, ...] = ()) -> list[UsableBroker]:
    return [UsableBroker(index, rack, index in fenced) for index, rack in enumerate(racks)]


REFUSALS = [
    (brokers(None, None), 0, "must be positive"),
    (brokers(None, None, fenced=(0, 1)), 1, "All brokers are currently fenced."),
    ([], 1, "All brokers are currently fenced."),
    (brokers(None, None), 3, "only 2 broker(s) are registered"),
]


@pytest.mark.parametrize(("known", "factor", "why"), REFUSALS)
def test_refusals(known: list[UsableBroker], factor: int, why: str) -> None:
    with pytest.raises(PlacementError) as refusal:
        place(known, 1, factor, random.Random(1))
    assert why in str(refusal.value)


@given(
    racks=st.lists(st.sampled_from([None, "a", "b", "c"]), min_size=1, max_size=9),
    data=st.data(),
    seed=st.integers(0, 1000),
)
def test_every_placement_keeps_the_rules(
    racks: list[str | None], data: st.DataObject, seed: int
) -> None:
    fenced = data.draw(st.sets(st.integers(0, len(racks) - 1), max_size=len(racks) - 1))
    factor = data.draw(st.integers(1, len(racks)))
    known = brokers(*racks, fenced=tuple(fenced))
    for replicas in place(known, 5, factor, random.Random(seed)):
        assert len(set(replicas)) == factor
        assert replicas[0] not in fenced
        if factor <= len(set(racks)):
            assert len({racks[replica] for replica in replicas}) == factor


def test_leaders_and_replicas_are_spread_evenly() -> None:
    placed = place(brokers("a", "a", "b", "b", "c", "c"), 60, 3, random.Random(4))
    assert set(Counter(replicas[0] for replicas in placed).values()) <= set(range(8, 13))
    assert {len({one // 2 for one in replicas}) for replicas in placed} == {3}


def test_a_fenced_broker_is_the_last_choice_within_its_rack() -> None:
    placed = place(brokers(None, None, None, fenced=(1,)), 20, 2, random.Random(5))
    assert not [replicas for replicas in placed if 1 in replicas]
    assert all(
        replicas[2] == 1
        for replicas in place(brokers(None, None, None, fenced=(1,)), 20, 3, random.Random(5))
    )


def test_one_broker_takes_every_partition() -> None:
    assert place(brokers(None), 4, 1, random.Random(6)) == [(0,)] * 4


def test_the_seed_decides() -> None:
    known = brokers("a", "a", "b", "b")
    once = place(known, 10, 2, random.Random(7))
    assert once == place(known, 10, 2, random.Random(7))
    assert once != place(known, 10, 2, random.Random(8))


def test_brokers_on_their_way_out_are_not_used() -> None:
    image = image_of(broker(0), broker(1, in_controlled_shutdown=True), broker(2, fenced=True))
    ctx = context(image, m.CreateTopicsRequest())
    assert usable_brokers(image, ctx).racks == [([0], [2])]
    ctx.heartbeats.begin_controlled_shutdown(0, 5)
    assert usable_brokers(image, ctx).racks == [([], [2])]


def test_a_topic_costs_no_look_at_each_broker(monkeypatch: pytest.MonkeyPatch) -> None:
    """They are looked at anew when a registration has changed, or one leaves or no longer does."""
    world = World().join(*range(5))
    sessions = world.controller.heartbeats
    looks: list[object] = []
    monkeypatch.setattr(
        placement, "UsableBrokers", lambda them: looks.append(1) or UsableBrokers(them)
    )

    def looked() -> int:
        """How often, for two topics."""
        looks.clear()
        for _ in range(2):
            names.append(f"t{len(names)}")
            assert not world.ask(create(names[-1], 3)).topics[0].error_code
        return len(looks)

    names: list[str] = []
    looked()
    assert not looked()
    world.heartbeat(4, want_fence=True)
    assert looked() == 1
    begins = [lambda: sessions.begin_controlled_shutdown(3, 5)]
    ends = [lambda: sessions.fenced(3), lambda: sessions.activate(range(5), world.now_ms)]
    for change in (*begins, ends[0], *begins, ends[1]):
        change()
        assert looked() == 1


@given(
    st.lists(st.sampled_from([None, "a", "b"]), min_size=1, max_size=7),
    st.data(),
    st.lists(st.integers(0, 1000), min_size=2, max_size=5),
)
def test_no_topic_changes_the_brokers_of_the_next(
    racks: list[str | None], data: st.DataObject, seeds: list[int]
) -> None:
    fenced = data.draw(st.sets(st.integers(0, len(racks) - 1), max_size=len(racks) - 1))
    known, factor = brokers(*racks, fenced=tuple(fenced)), data.draw(st.integers(1, len(racks)))
    kept = UsableBrokers(known)
    for seed in seeds:
        placed = whole(placed_in_slices(kept, 30, factor, random.Random(seed)))
        assert placed == place(known, 30, factor, random.Random(seed))


def test_seeds_place_as_they_always_did() -> None:
    """Seeds of the simulator, and what they have found, depend on every draw."""
    cases, placed = random.Random(5), []
    for seed in range(200):
        many = cases.randint(1, 8)
        racks = [cases.choice((None, "a", "b", "c")[: 1 + seed % 4]) for _ in range(many)]
        fenced = tuple(cases.sample(range(many), cases.randint(0, many - 1)))
        factor, rng = cases.randint(1, many), random.Random(seed)
        known = brokers(*racks, fenced=fenced)
        cases.shuffle(known)
        placed.append((place(known, cases.randint(1, 20), factor, rng), rng.random()))
    assert sha256(repr(placed).encode()).hexdigest()[:16] == "12c9969ed94a87ee"


@given(st.integers(1, 7), st.integers(1, 40), st.data(), st.integers(0, 1000))
def test_without_racks_brokers_are_taken_as_in_turns(
    count: int, partitions: int, data: st.DataObject, seed: int
) -> None:
    factor = data.draw(st.integers(1, count))
    known = brokers(*[None] * count)
    taken = place(known, partitions, factor, random.Random(seed))

    def in_turns(ring: _Ring, turn: int, many: int) -> tuple[int | None, ...]:
        return tuple(ring.next(turn) for _ in range(many))

    with mock.patch.object(_Ring, "take", in_turns):
        assert place(known, partitions, factor, random.Random(seed)) == taken
