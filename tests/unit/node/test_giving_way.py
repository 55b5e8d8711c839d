"""A leader without the flag gives way at once, then more and more rarely, and never too rarely."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from emulator.metadata.migration_state import MigrationState
from emulator.node.finalising import CAUGHT_UP_MS, FORGETS_MS, Finalising, GivingWay


def _waits(*, serves: bool) -> list[int]:
    way, found = GivingWay(), []
    assert way.due_ms(serves=serves) == 0
    now_ms = 1_000_000
    for _ in range(7):
        way.give([2], now_ms)
        found.append((way.due_ms(serves=serves) - now_ms) // 1_000)
        now_ms = way.due_ms(serves=serves)
    return found


def test_each_time_it_keeps_its_leadership_twice_as_long() -> None:
    assert _waits(serves=True) == [60, 120, 240, 480, 600, 600, 600]
    assert _waits(serves=False) == [5, 10, 20, 30, 30, 30, 30]


def test_it_forgets_what_was_long_ago_or_when_nobody_has_the_flag() -> None:
    way = GivingWay()
    for _ in range(3):
        way.give([2], 1_000)
    way.give([2], 1_000 + FORGETS_MS)
    assert way.times == 1
    way.end_term()
    assert (way.to, way.times) == ((), 1)
    way.forget()
    assert way.due_ms(serves=True) == 0


SEEN_MS = 1_000_000


class _Flags:
    """Voters 2 and 3 have the flag; 3 lags."""

    with_flag = (2, 3)

    @staticmethod
    def caught_up(voter: int, since_ms: int) -> bool:
        return voter == 2 and since_ms == SEEN_MS - CAUGHT_UP_MS


def _leading(*, serves: bool) -> Finalising:
    tip = SimpleNamespace(
        migration_state=MigrationState.MIGRATION, brokers={}, mark=object() if serves else None
    )
    controller = SimpleNamespace(config=SimpleNamespace(migration_enabled=False), tip=tip)
    side = Finalising(controller, _Flags(), hold=False)  # type: ignore[arg-type]
    assert side.waited_for == [], "it does not lead"
    side._leads, side._seen_ms = True, SEEN_MS
    return side


@pytest.mark.parametrize(
    ("serves", "ago_ms", "left_s", "does"),
    [
        (False, 1_000, 4, "brokers and callers are refused"),
        (True, 1_000, 59, "this leader serves"),
        (True, 70_000, 0, "this leader serves"),
    ],
)
def test_why_it_does_not_give_way_is_told_of_each_voter(
    serves: bool, ago_ms: int, left_s: int, does: str
) -> None:
    side = _leading(serves=serves)
    (lags,) = side.waited_for
    assert lags.startswith("controller 3 has zookeeper.metadata.migration.enable=true")
    assert lags.endswith(f"it does not have the whole log yet; {does}")
    side.giving_way.give([2], SEEN_MS - ago_ms)
    given, again = side.waited_for
    assert again == lags
    assert f"the leadership 1 times and did not keep it, the next time in {left_s} s. " in given
    assert given.endswith(does)
