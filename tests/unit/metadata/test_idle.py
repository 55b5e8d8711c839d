"""Which offsets change nothing, against a model that remembers each of them."""

from __future__ import annotations

import pytest
from hypothesis import given
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
