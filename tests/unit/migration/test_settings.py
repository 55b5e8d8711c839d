"""The settings of the migration, from the configuration to the bounds."""

from __future__ import annotations

from dataclasses import replace

import pytest

from emulator.config import load
from emulator.migration.dual_write.bound import Bounds
from emulator.migration.position import Claimer
from emulator.migration.settings import Settings
from tests.unit.node.test_machine import RAW
from wire.text import uuid_text

ID = bytes(range(16))
PREFIX = "kraftbridge.zk.write.behind."


def _settings(**more: str) -> Settings:
    named = {PREFIX + name.replace("_", "."): value for name, value in more.items()}
    return Settings.of(load.load(RAW | named)[0], "cluster", ID)


@pytest.mark.parametrize(
    ("properties", "bounds"),
    [
        ({"max_records": "7"}, (7, 14)),
        ({"max_records": "7", "hard_max_records": "9"}, (7, 9)),
        ({"max_records": "7", "hard_max_records": "0"}, (7, 0)),
        ({"max_records": "0"}, (0, 0)),
    ],
)
def test_the_second_bound_is_twice_the_first_unless_it_is_configured(
    properties: dict[str, str], bounds: tuple[int, int]
) -> None:
    found = _settings(**properties)
    assert (found.write_behind_max_records, found.write_behind_hard_max_records) == bounds


@pytest.mark.parametrize(
    ("records", "hard_records", "size", "hard_size"),
    [(7, 14, 50, 100), (7, 14, 0, 0), (7, 0, 50, 0), (0, 0, 50, 100), (0, 14, 50, 100)],
)
def test_the_second_bound_of_bytes(
    records: int, hard_records: int, size: int, hard_size: int
) -> None:
    found = replace(
        _settings(),
        write_behind_max_records=records,
        write_behind_hard_max_records=hard_records,
        write_behind_max_bytes=size,
        write_behind_max_age_ms=3,
    )
    assert found.bounds == Bounds(records, hard_records, size, hard_size, 3)


def test_who_claims() -> None:
    found = _settings()
    own = Claimer(found.node_id, 5, uuid_text(ID), witnessed=False)
    assert len(found.voters) == 1
    assert found.claimer(5) == own
    assert not own.stopped
    assert Claimer(found.node_id, 5, uuid_text(ID)) == own, "nobody is a witness unless it is said"
    several = replace(found, voters=frozenset({1, 2}))
    assert several.claimer(5) == Claimer(found.node_id, 5, uuid_text(ID), witnessed=True)
    assert (found.cluster_id, found.incarnation) == ("cluster", uuid_text(ID))
