"""How a unit is cut into multis: each limit at its boundary."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from msgspec.structs import astuple, replace

from emulator.metadata.delta import Touched
from emulator.metadata.image import EMPTY
from emulator.migration.dual_write.unit import (
    COMPARED_PIECES_PER_STEP,
    PIECES_PER_STEP,
    PLAN_OPS_PER_STEP,
    EncodedGroup,
    Unit,
    operations,
)
from emulator.migration.plan import PAUSE, Group, Piece
from emulator.migration.position import Position
from emulator.zookeeper.ops import Check, Delete, ZkOp

BASE = Position(4, 2)
AFTER = Position(9, 3)


def _group(ops: int) -> Group:
    return tuple(Delete("/x") for _ in range(ops))


def _bytes(op: ZkOp) -> bytes:
    """Each is ten bytes long."""
    assert op == Delete("/x")
    return b"x" * 10


def _unit(*pieces: Piece, full: bool = False) -> Unit:
    return Unit(BASE, replace(EMPTY, offset=9, epoch=3), Touched(), iter(pieces), full)


def _whole(*sizes: int) -> Unit:
    """Planned to its end: one group of each size."""
    unit = _unit([_group(size) for size in sizes])
    assert unit.plan(_bytes, 10_000)
    return unit


def _sizes(taken: Sequence[EncodedGroup] | None) -> list[int]:
    assert taken is not None
    return [len(ops) for ops, _ in taken]


@pytest.mark.parametrize(
    ("ops_max", "bytes_max", "taken"),
    [
        (5, 1_000, [2, 3]),
        (4, 1_000, [2]),
        (6, 1_000, [2, 3, 1]),
        (100, 50, [2, 3]),
        (100, 49, [2]),
        (100, 60, [2, 3, 1]),
        (1, 1_000, [2]),
        (100, 1, [2]),
    ],
)
def test_a_multi_holds_what_fits_and_one_group_in_any_case(
    ops_max: int, bytes_max: int, taken: list[int]
) -> None:
    unit = _whole(2, 3, 1)
    assert (unit.waiting_ops, unit.waiting_bytes, unit.ops_count) == (6, 60, 6)
    groups = unit.pack(ops_max, bytes_max)
    assert _sizes(groups) == taken
    assert [len(encoded) for _, encoded in groups or ()] == [10 * size for size in taken]
    left = 6 - sum(taken)
    assert (unit.waiting_ops, unit.waiting_bytes) == (left, 10 * left)
    assert unit.packed_bytes == 10 * sum(taken)
    assert unit.packed == (left == 0)
    assert unit.position == (AFTER if left == 0 else Position(4, 2, 1))


@pytest.mark.parametrize(
    ("ops_max", "bytes_max", "enough"),
    [(3, 1_000, False), (2, 1_000, True), (100, 30, False), (100, 29, True)],
)
def test_more_is_planned_until_a_multi_is_full(ops_max: int, bytes_max: int, enough: bool) -> None:
    unit = _unit([_group(1), _group(2)], [_group(1)])
    assert not unit.plan(_bytes, 10_000, 1)
    assert (unit.pack(ops_max, bytes_max) is not None) is enough
    assert not unit.packed


def test_a_large_group_waits_until_it_is_known_whether_anything_follows() -> None:
    unit = _unit([_group(3)])
    assert not unit.plan(_bytes, 10_000, 1)
    assert unit.pack(1, 1_000) is None
    assert (unit.waiting_ops, unit.waiting_bytes) == (3, 30)
    assert unit.plan(_bytes, 10_000)
    assert _sizes(unit.pack(1, 1_000)) == [3]
    assert unit.packed


def test_an_offset_without_data_is_a_multi_too() -> None:
    unit = _whole()
    assert _sizes(unit.pack(5, 50)) == []
    assert unit.packed
    assert unit.position == AFTER
    assert (unit.first_offset, unit.last_offset) == (5, 9)


def test_what_was_not_applied_is_sent_again_in_its_order() -> None:
    unit = _whole(1, 2, 3)
    first = unit.pack(3, 1_000)
    assert first is not None
    unit.parts_sent = 1
    second = unit.pack(3, 1_000)
    assert second is not None
    unit.parts_sent = 2
    assert (_sizes(first), _sizes(second), unit.packed) == ([1, 2], [3], True)
    unit.put_back(second)
    assert (unit.parts_sent, unit.packed, unit.position) == (1, False, Position(4, 2, 2))
    unit.put_back(first)
    assert (unit.parts_sent, unit.waiting_ops, unit.waiting_bytes) == (0, 6, 60)
    assert _sizes(unit.pack(100, 1_000)) == [1, 2, 3]
    assert unit.packed


def test_what_was_not_sent_is_no_part() -> None:
    unit = _whole(1, 2)
    taken = unit.pack(1, 1_000)
    assert taken is not None
    unit.untake(taken)
    assert (unit.parts_sent, unit.waiting_ops, unit.waiting_bytes) == (0, 3, 30)
    assert _sizes(unit.pack(100, 1_000)) == [1, 2]


def test_planning_stops_once_enough_waits() -> None:
    unit = _unit(*([_group(2)] for _ in range(5)))
    assert not unit.plan(_bytes, 4, 10)
    assert unit.waiting_ops == 4
    assert not unit.plan(_bytes, 4, 10)
    assert unit.waiting_ops == 4
    assert not unit.plan(_bytes, 5, 10)
    assert unit.waiting_ops == 6


def test_a_step_draws_no_more_operations_than_it_may() -> None:
    unit = _unit([_group(PLAN_OPS_PER_STEP - 1)], [_group(1)], [_group(1)])
    assert not unit.plan(_bytes, 10**6, 10)
    assert unit.waiting_ops == PLAN_OPS_PER_STEP


def test_a_pause_ends_a_step() -> None:
    unit = _unit([_group(1)], PAUSE, [_group(2)])
    assert not unit.plan(_bytes, 10_000)
    assert unit.waiting_ops == 1
    assert unit.plan(_bytes, 10_000)
    assert unit.waiting_ops == 3


@pytest.mark.parametrize("full", [False, True])
def test_a_step_draws_a_number_of_pieces(full: bool) -> None:
    usual = COMPARED_PIECES_PER_STEP if full else PIECES_PER_STEP
    unit = _unit(*([_group(1)] for _ in range(usual + 1)), full=full)
    assert not unit.plan(_bytes, 10**6)
    assert unit.ops_count == usual
    assert unit.plan(_bytes, 10**6)
    assert unit.ops_count == usual + 1


def test_a_group_that_begins_with_a_check_of_a_topic_changes_it() -> None:
    state = "/brokers/topics/t/partitions/0/state"
    counted = operations([((Check(state, 3), Delete(state)), b"x" * 7)], 9)
    assert [*map(astuple, counted)] == [
        ("partition_change", 2, 7),
        ("chain", 3, 2),
    ]
