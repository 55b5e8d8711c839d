"""A broker that returns: who leads then, and what it costs while most brokers are fenced."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from emulator.controller.rules.broker_changes import _Hope, lead_again, partition_change
from emulator.controller.tables.index import TipIndex
from emulator.metadata.image import Image
from emulator.seam import ENTRIES_PER_SLICE, whole
from tests.unit.controller.world import broker, config, image_of, partition, topic
from wire import records as r

BROKERS = range(5)
PICKED = st.lists(st.sampled_from(BROKERS), min_size=1, max_size=3, unique=True).map(tuple)


@st.composite
def images(draw: st.DrawFn) -> Image:
    """Brokers of which some are fenced, and partitions without leaders in any state."""
    alive = draw(st.sets(st.sampled_from(BROKERS)))
    made: list[object] = [broker(each, fenced=each not in alive) for each in BROKERS]
    made.append(topic("a", 1))
    for index in range(draw(st.integers(1, 8))):
        replicas = draw(PICKED)
        isr = draw(st.lists(st.sampled_from(replicas), min_size=1, unique=True).map(tuple))
        adding = draw(st.sampled_from([(), replicas[-1:]]))
        where = {"replicas": replicas, "isr": isr, "leader": -1, "adding_replicas": adding}
        made.append(partition(1, index, **where))
    if draw(st.booleans()):
        unclean = {"name": "unclean.leader.election.enable", "value": "true"}
        made.append(r.ConfigRecord(resource_type=2, resource_name="a", **unclean))
    return image_of(*made)


@given(images(), st.sampled_from(BROKERS))
def test_what_is_passed_over_would_not_have_changed(image: Image, back: int) -> None:
    index, settings = TipIndex(image), config()
    looked_at = (
        partition_change(image, settings, key, joining=back).build() for key in index.leaderless()
    )
    expected = tuple(record for record in looked_at if record is not None)
    assert whole(lead_again(image, settings, index, back)) == expected


def _slices(partitions: int) -> int:
    """Slices of the return of broker 0, in whose ISR is one of so many; one other is there."""
    replicas = [(0,), *[(1, 2, 3)] * (partitions - 1)]
    made: list[object] = [broker(each, fenced=each != 3) for each in BROKERS]
    made.append(topic("a", 1))
    made += [
        partition(1, index, replicas=one, isr=one[:1], leader=-1)
        for index, one in enumerate(replicas)
    ]
    image = image_of(*made)
    return sum(1 for _ in lead_again(image, config(), TipIndex(image), 0))


def test_partitions_of_fenced_brokers_are_passed_over() -> None:
    assert _slices(8 * ENTRIES_PER_SLICE) == 0


def test_one_that_looks_at_all_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_Hope, "of", lambda *_: True)
    assert _slices(8 * ENTRIES_PER_SLICE) == 8
