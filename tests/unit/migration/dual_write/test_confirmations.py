"""What a confirmed unit counts as, and when brokers may be told of it."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from emulator.metadata.delta import Delta, Touched
from emulator.metadata.image import EMPTY
from emulator.migration.dual_write.backlog import Backlog
from emulator.migration.dual_write.lag import Confirmations
from emulator.migration.dual_write.unit import Unit
from emulator.migration.position import Position
from emulator.trace.rows import PipelineStage, RangeRow
from emulator.znodes.tree import Tree

T = b"T" * 16
MS = 1_000_000


def unit(first: int, last: int, *, full: bool = False, ops: int = 0, partition: int = 0) -> Unit:
    touched = Touched()
    touched.topics[T] = "t"
    touched.partitions.add((T, partition))
    after = replace(EMPTY, offset=last, epoch=3)
    begun_ns = first * 10 * MS
    return Unit(
        Position(first - 1, 3), after, touched, iter(()), full, begun_ns=begun_ns, ops_count=ops
    )


def confirmations() -> Confirmations:
    found = Confirmations(Backlog(lambda piece: piece))
    found.restart(100, -1)
    return found


@pytest.mark.parametrize(
    ("full", "ops", "counted"),
    [
        (True, 0, ([], [2.5])),
        (True, 7, ([], [2.5])),
        (False, 1, ([2.5], [])),
        (False, 0, ([], [])),
    ],
)
def test_the_time_of_a_unit_is_a_comparisons_or_a_changes_and_of_nothing_done_no_time(
    full: bool, ops: int, counted: tuple[list[float], list[float]]
) -> None:
    """ZkWriteSnapshotTimeMs and ZkWriteDeltaTimeMs of KIP-866."""
    found = confirmations()
    one = unit(5, 9, full=full, ops=ops)
    found.confirm(one, one.begun_ns + 2 * MS + MS // 2)
    times = found.delta_time_ms, found.snapshot_time_ms
    assert [(each.count, each.total) for each in times] == [
        (len(values), sum(values)) for values in counted
    ]


def test_each_unit_moves_what_is_confirmed_to_its_end_and_leaves_a_row() -> None:
    found = confirmations()
    for first, last, records in ((0, 4, 5), (5, 5, 6), (6, 5, 6), (6, 20, 21)):
        row = found.confirm(unit(first, last), 77)
        assert row == RangeRow(PipelineStage.ZK_ACKED, first, last, 77)
        assert (found.lag.confirmed, found.records) == (last, records)
    assert found.lag.records == 80


def test_brokers_are_told_from_the_first_comparison_on_with_all_that_was_before() -> None:
    found = confirmations()
    found.confirm(unit(0, 4, ops=1, partition=1), 1 * MS)
    assert (found.reconciled, found.take()) == (False, [])
    found.confirm(unit(5, 6, full=True, partition=2), 60 * MS)
    found.confirm(unit(7, 8, ops=1, partition=3), 90 * MS)
    assert found.reconciled
    told = found.take()
    assert [(one.first_offset, one.last_offset, one.after.offset) for one in told] == [
        (5, 6, 6),
        (7, 8, 8),
    ]
    assert [sorted(at for _, at in one.touched.partitions) for one in told] == [[1, 2], [3]]
    assert found.take() == [], "each once"


def test_in_another_term_nothing_of_an_earlier_one_is_told() -> None:
    found = confirmations()
    found.confirm(unit(0, 4, full=True), 1 * MS)
    found.compared(11, 12)
    found.restart(200, 4, changes=3, now_ms=50)
    assert (found.reconciled, found.take()) == (False, [])
    assert (found.lag.committed, found.lag.confirmed, found.lag.changed_records) == (200, 4, 3)
    assert found.lag.age_ms(60) == 10
    assert (found.read_ms, found.compared_ms, found.records) == (11, 12, 5), "of the process"
    found.confirm(unit(5, 9, ops=1), 60 * MS)
    assert found.take() == []


def test_the_changes_for_zookeeper_follow_each_other_without_a_gap() -> None:
    """One that is left out would be missing there, and nothing would notice."""
    at = [replace(EMPTY, offset=offset, epoch=3) for offset in range(10)]
    backlog = Backlog(lambda piece: piece)
    backlog.begin(at[5], Position(5, 3))
    backlog.add(Delta(at[5], at[7], Touched(), 6, 7))
    for before, after in ((8, 9), (5, 7), (5, 9)):
        with pytest.raises(AssertionError, match=f"after offset {before} follows offset 7"):
            backlog.add(Delta(at[before], at[after], Touched(), before + 1, after))


def test_what_zookeeper_holds_is_never_written_back_to_an_earlier_offset() -> None:
    backlog = Backlog(lambda piece: piece)
    backlog.begin(replace(EMPTY, offset=5, epoch=3), Position(6, 3))
    with pytest.raises(AssertionError, match="back from offset 6 to 5"):
        backlog.full_unit(Tree(), 3, 0)
    backlog.begin(replace(EMPTY, offset=6, epoch=3), Position(6, 3))
    assert backlog.full_unit(Tree(), 3, 0).last_offset == 6
