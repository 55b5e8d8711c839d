"""A leader without the flag gives way at once, then more and more rarely, and never too rarely."""

from __future__ import annotations

from emulator.node.giving_way import FORGETS_MS, GivingWay


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
