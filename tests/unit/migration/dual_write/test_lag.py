"""Lag against a list of all that was committed and what is confirmed of it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from emulator.migration.dual_write.lag import Lag

STEPS = st.lists(
    st.tuples(st.integers(0, 50), st.booleans(), st.integers(1, 4), st.integers(0, 12)),
    max_size=25,
)
"""Pause in ms, whether the batch changes something, its records, how many of all are confirmed."""


@given(STEPS, st.integers(0, 3), st.integers(0, 5))
def test_what_is_behind_is_what_was_committed_and_is_not_confirmed(
    steps: list[tuple[int, bool, int, int]], confirmed: int, changes: int
) -> None:
    lag = Lag()
    committed, now_ms = confirmed + changes, 100
    lag.restart(committed, confirmed, changes, now_ms)
    batches = [(committed, changes, now_ms)] if changes else []
    longest = lag.records
    for pause_ms, changing, records, more in steps:
        now_ms += pause_ms
        lag.commit(committed + 1, committed + records, now_ms, changes=changing)
        committed += records
        batches += [(committed, records, now_ms)] if changing else []
        longest = max(longest, committed - confirmed)
        confirmed = min(committed, confirmed + more)
        lag.confirm(confirmed)
        with pytest.raises(AssertionError, match="the confirmed offset goes back"):
            lag.confirm(confirmed - 1)
        with pytest.raises(AssertionError, match="the committed offset goes back"):
            lag.commit(committed, committed - 1, now_ms, changes=True)
        left = [one for one in batches if one[0] > confirmed]
        assert (lag.committed, lag.confirmed) == (committed, confirmed)
        assert (lag.records, lag.longest) == (committed - confirmed, longest)
        assert lag.changed_records == sum(count for _, count, _ in left)
        assert lag.oldest_ms == (left[0][2] if left else None)
        assert lag.age_ms(now_ms + 7) == (now_ms + 7 - left[0][2] if left else 0)
        assert lag.age_ms(0) == 0, "a clock that went back"
    lag.restart(5, 9)
    assert (lag.records, lag.changed_records, lag.oldest_ms, lag.longest) == (0, 0, None, 0)
