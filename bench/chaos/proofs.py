"""Which requirements a round proves: by what struck in it, and what followed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, TypeAlias

from bench.chaos.plan import Fault
from bench.chaos.stage import Options
from bench.demo.controllers import IDS
from bench.record import Proof

Event: TypeAlias = Mapping[str, Any]
"""A line of ``events.jsonl``."""

SECONDS: Final = 110.0
"""Of each of the four rounds of ``make chaos``; a shorter one is a part only."""
RATE: Final = 8.0
"""Administrative changes per second; under a lower one a round is a part only."""


def whole(options: Options) -> bool:
    """Whether a round has the length and the load of those of ``make chaos``."""
    return options.seconds >= SECONDS and options.rate >= RATE


def proofs(events: Sequence[Event], *, held: bool) -> list[Proof]:
    """What a round proves, if anything.

    Args:
        events: of the round, in order.
        held: whether nothing was wrong at its end.
    """
    struck = {event["kind"] for event in events if event["what"] == "strike"}
    ids: tuple[str, ...] = ("U12",) if {"controller", "broker"} <= struck else ()
    if events[0]["servers"] and _followed(events):
        ids += ("U02", "Z03")
    name = f"chaos: servers {events[0]['servers']}, kafkas {events[0]['kafkas']}"
    return [Proof(name, ids, "real broker", "passed" if held else "failed")] if ids else []


def _followed(events: Sequence[Event]) -> bool:
    """Whether a leader was killed, and another one led after it."""
    leader, killed = None, False
    for event in events:
        if event["what"] == "leader":
            if killed and event["node"] != leader:
                return True
            leader, killed = event["node"], False
        elif event["what"] == "strike" and event["kind"] == "controller":
            killed |= event["fault"] == Fault.KILL.name and IDS[event["number"]] == leader
    return False
