"""When a leader gives its leadership up, and how long it waits: each row at its boundary."""

from __future__ import annotations

import pytest

from emulator.migration.authority import Authority
from emulator.node.role import CATCH_UP_MS, PATIENCE, SPARE, Apartness, Unfit, unfit

MAX_MS = 16 * 60_000
WITH_ZOOKEEPER = [one for one in Authority if one is not Authority.UNPROVEN]


@pytest.mark.parametrize(
    ("own_fault", "apart", "refused", "authority", "why"),
    [
        (False, False, False, Authority.UNPROVEN, None),
        (True, False, False, Authority.GRANTED, Unfit.OWN_FAULT),
        (True, True, True, Authority.UNPROVEN, Unfit.OWN_FAULT),
        (False, True, False, Authority.UNPROVEN, Unfit.APART),
        (False, True, True, Authority.UNPROVEN, Unfit.APART),
        (False, False, True, Authority.UNPROVEN, Unfit.REFUSED),
        *[(False, True, False, known, None) for known in WITH_ZOOKEEPER],
        *[(False, True, True, known, Unfit.REFUSED) for known in WITH_ZOOKEEPER],
    ],
)
def test_which_reason_counts(
    own_fault: bool, apart: bool, refused: bool, authority: Authority, why: Unfit | None
) -> None:
    def judged(*, over: bool, alone: bool) -> Unfit | None:
        return unfit(
            own_fault=own_fault,
            over=over,
            apart=apart,
            refused=refused,
            authority=authority,
            alone=alone,
        )

    assert judged(over=False, alone=False) is why
    assert judged(over=True, alone=False) is (Unfit.OWN_FAULT if own_fault else Unfit.OVER)
    assert judged(over=False, alone=True) is judged(over=True, alone=True) is None


def test_a_fault_of_its_own_and_a_claim_that_is_over_need_no_patience() -> None:
    assert PATIENCE[Unfit.OWN_FAULT] == PATIENCE[Unfit.OVER] == (0, 0)


def test_it_lasts_once_the_session_is_gone_for_the_first_patience() -> None:
    apart = Apartness()
    assert not apart.lasts(10**15)
    apart.seen(1_000)
    assert [apart.lasts(now_ms) for now_ms in (30_999, 31_000)] == [False, True]
    apart.seen(None)
    assert not apart.lasts(31_000)


def test_a_session_begins_the_count_anew() -> None:
    apart = Apartness()
    apart.times = 3
    apart.seen(5)
    assert apart.times == 3
    apart.seen(None)
    assert apart.times == 0


def test_what_goes_on_counts_from_when_it_was_seen_first() -> None:
    apart = Apartness()
    apart.goes_on(1_000)
    apart.goes_on(2_000)
    assert apart.due_ms(0) == 31_000
    apart.seen(500)
    apart.goes_on(2_000)
    assert apart.due_ms(0) == 30_500


@pytest.mark.parametrize(
    ("times", "since_ms", "term_ms", "due_ms"),
    [
        # The first time it counts from the loss, but the others get the time to catch up.
        (0, 1_000, 0, 31_000),
        (0, 1_000, 28_000, 31_000),
        (0, 1_000, 28_001, 28_001 + CATCH_UP_MS),
        # Then from the later of the two, each time twice as long, up to the longest.
        (1, 1_000, 500, 61_000),
        (1, 1_000, 5_000, 65_000),
        (2, 1_000, 5_000, 125_000),
        (5, 0, 0, MAX_MS),
        (6, 0, 0, MAX_MS),
        (1_000_000, 0, 0, MAX_MS),
    ],
)
def test_each_time_it_waits_twice_as_long(
    times: int, since_ms: int, term_ms: int, due_ms: int
) -> None:
    apart = Apartness()
    assert apart.due_ms(term_ms) is None
    apart.seen(since_ms)
    apart.times = times
    assert apart.due_ms(term_ms) == due_ms


def test_it_waits_less_if_another_voter_could_serve() -> None:
    apart = Apartness()
    apart.seen(0)
    found = []
    for apart.times in range(4):
        found.append(apart.due_ms(0, SPARE))
    assert found == [5_000, 10_000, 20_000, 20_000]
    apart.times = 0
    assert apart.due_ms(0, PATIENCE[Unfit.REFUSED]) == 5_000
    found = []
    for apart.times in range(1, 10):
        found.append(apart.due_ms(0, PATIENCE[Unfit.REFUSED]))
    assert found[:2] == [10_000, 20_000]
    assert found[-1] == MAX_MS
