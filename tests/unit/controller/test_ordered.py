"""A map in another order: found by it is what a sort finds, in steps that no other map changes."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

import pytest

from emulator.controller.tables import acl_index
from emulator.controller.tables.acl_index import Ordered, Place
from emulator.metadata.pmap import PMap
from emulator.seam import whole


def places(key: int, value: int) -> Iterator[Place]:
    yield value, key


def steps(order: Ordered[int, int], entries: PMap[int, int]) -> int:
    made = order.of(entries)
    return sum(1 for _ in made)


@pytest.mark.parametrize("seed", range(20))
def test_each_version_is_what_a_sort_makes_of_it(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(acl_index, "RECORDS_PER_SLICE", 7)
    rng, order = Random(seed), Ordered(places)
    versions = [PMap[int, int]({n: rng.randrange(9) for n in range(rng.randrange(400))})]
    for _ in range(6):
        last = versions[-1]
        last = last.without(rng.sample([*last], min(len(last), rng.randrange(40))))
        versions.append(last.update({rng.randrange(500): rng.randrange(9) for _ in range(30)}))
    for entries in rng.choices(versions, k=20):
        found = whole(order.of(entries))
        assert [*found.items()] == sorted(((v, k), v) for k, v in entries.items())


def test_no_step_depends_on_the_map_of_another_node(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(acl_index, "RECORDS_PER_SLICE", 7)
    order, mine = Ordered(places), PMap({n: n % 9 for n in range(3_000)})
    changed = mine.without(range(40)).set(5_000, 1)
    alone = [steps(Ordered(places), mine), steps(order, mine), steps(order, changed)]
    after = Ordered(places)
    steps(after, PMap(dict.fromkeys(range(500), 1)))
    assert [steps(Ordered(places), mine), steps(after, mine), steps(after, changed)] == alone
    assert alone[2] < alone[1], "it follows"


def test_of_two_maps_that_are_asked_for_in_turn_each_is_followed() -> None:
    counted: list[int] = []

    def counting(key: int, value: int) -> Iterator[Place]:
        counted.append(key)
        return places(key, value)

    order = Ordered(counting)
    small, large = (PMap({n: n % 9 for n in range(count)}) for count in (500, 5_000))
    for entries in (small, large, small):
        whole(order.of(entries))
    counted.clear()
    whole(order.of(small.set(7, 1)))
    assert len(counted) <= 2
