"""Which offsets change nothing, against a model that remembers each of them."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from emulator.metadata import idle
from emulator.metadata.history import History
from emulator.metadata.idle import ChangeCount, IdleOffsets
from emulator.metadata.image import EMPTY
from wire import records as r

STEPS = st.lists(
    st.tuples(st.sampled_from(["idle", "idle", "change", "rewind"]), st.integers(1, 4)),
    max_size=30,
)


@given(STEPS, st.integers(-1, 5), st.integers(-1, 60))
def test_counts_are_those_of_a_set(steps: list[tuple[str, int]], since: int, asked: int) -> None:
    offsets, end, known = IdleOffsets(since), since + 1, set[int]()
    for kind, count in steps:
        if kind == "rewind":
            end = max(since + 1, end - count)
            known = {offset for offset in known if offset < end}
            offsets.rewind(end - 1)
            continue
        if kind == "idle":
            offsets.add(end, end + count - 1)
            known |= set(range(end, end + count))
        end += count
    every = set(range(asked + 1, end))
    changes = len({offset for offset in every if offset > since} - known)
    unknown = max(0, since - asked)
    assert offsets.changes(asked, end - 1) == ChangeCount(changes, unknown)


@given(
    st.lists(
        st.tuples(st.sampled_from(["idle", "idle", "change", "change", "thin"]), st.integers(1, 4)),
        max_size=60,
    )
)
@example([("idle", 2), ("change", 1), ("idle", 2), ("change", 1), ("idle", 1), ("thin", 1)])
def test_above_the_start_of_the_log_counts_stay_exact_and_below_it_nearly(
    steps: list[tuple[str, int]],
) -> None:
    offsets, end, start, known = IdleOffsets(-1), 0, 0, set[int]()
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(idle, "BLOCK", 5)
        for kind, count in steps:
            if kind == "thin":
                start = min(end, start + 4 * count)
                offsets.thin(start)
                continue
            if kind == "idle":
                offsets.add(end, end + count - 1)
                known |= set(range(end, end + count))
            end += count
    for asked in range(-1, end):
        changes = len(set(range(asked + 1, end)) - known)
        counted, unknown = offsets.changes(asked, end - 1)
        assert unknown == 0
        assert changes <= counted <= changes + (5 if asked < start - 1 else 0)


def test_below_the_start_of_the_log_blocks_are_kept_and_no_more_than_so_many(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """However long the process lives: runs of the log, and blocks."""
    monkeypatch.setattr(idle, "BLOCK", 10)
    monkeypatch.setattr(idle, "BLOCKS_MAX", 4)
    offsets = IdleOffsets(-1)
    for at in range(0, 1_000, 2):
        offsets.add(at, at)
        offsets.thin(at - 19)
        assert len(offsets._firsts) == len(offsets._before) <= 4 + 10
    assert offsets.since == 939
    assert offsets.changes(939, 999) == ChangeCount(30, 0)
    assert offsets.changes(-1, 999) == ChangeCount(30, 940)
    offsets.rewind(994)
    assert offsets.changes(979, 994) == ChangeCount(7, 0)


def test_without_idle_offsets_there_is_nothing_to_thin() -> None:
    offsets = IdleOffsets(4)
    offsets.thin(10)
    assert offsets.changes(4, 9) == ChangeCount(5, 0)


def test_the_oldest_runs_are_forgotten_and_count_as_unknown(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(idle, "RUNS_MAX", 4)
    offsets = IdleOffsets(-1)
    for at in range(0, 100, 2):
        offsets.add(at, at)
    assert len(offsets._firsts) <= 4
    known, unknown = offsets.changes(-1, 99)
    assert known + unknown >= 50
    assert offsets.changes(offsets.since, 99).unknown == 0
    assert offsets.changes(97, 99) == ChangeCount(1, 0)


def test_no_ops_and_control_batches_are_no_changes() -> None:
    history = History(EMPTY)
    history.skip(0, 0, 1)
    history.append([r.NoOpRecord()], 1, 1)
    history.append([r.FeatureLevelRecord(name="metadata.version", feature_level=21)], 2, 1)
    history.append([r.NoOpRecord()], 3, 1)
    assert history.changes_after(-1) == ChangeCount(1, 0)
    assert history.changes_after(2) == ChangeCount(0, 0)
    history.advance(3)
    history.append([r.NoOpRecord()], 4, 1)
    history.rewind()
    history.append([r.FeatureLevelRecord(name="metadata.version", feature_level=21)], 3, 2)
    assert history.changes_after(-1) == ChangeCount(2, 0)


def test_a_rewind_into_an_earlier_run_leaves_what_is_before_it() -> None:
    offsets = IdleOffsets(-1)
    offsets.add(0, 4)
    offsets.add(6, 6)
    offsets.add(8, 9)
    offsets.rewind(2)
    assert offsets.changes(-1, 9) == ChangeCount(7, 0), "0, 1 and 2 change nothing"
    offsets.add(3, 3)
    offsets.rewind(-1)
    assert offsets.changes(-1, 9) == ChangeCount(10, 0)
