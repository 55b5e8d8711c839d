"""Whether what was refused for a time was refused with reason: by the log, no broker was unfenced.

A new partition needs one unfenced broker as its leader; brokers that are fenced are taken for the
other replicas (StripedReplicaPlacer, Kafka 3.9). Brokers are all fenced together when the leader
could not be reached by any of them for a session of 9 s.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from bench.load.changes import TemporaryRefusal

_SLACK_MS: Final = 1_000
"""Largest difference between the time in a batch and the client's clock."""
_DEPOSED_MS: Final = 15_000
"""How long after a strike a leader may not know that another one leads. It may have fenced brokers
while it was paused or cut off; the log of the others does not have that."""


@dataclass(frozen=True, slots=True)
class Period:
    """From when to when, in ms of one clock, both included."""

    begin_ms: float
    end_ms: float

    def meets(self, other: Period) -> bool:
        """Whether both have an instant in common."""
        return self.begin_ms <= other.end_ms and other.begin_ms <= self.end_ms


def none_unfenced(records: Iterable[Mapping[str, Any]]) -> list[Period]:
    """When no broker was unfenced, in ms since 1970; the first period begins before everything.

    Args:
        records: of the log, as `bench.judge.stores.dump_log` returns them.
    """
    unfenced: set[int] = set()
    begin_ms, found = float("-inf"), []
    for record in records:
        before = bool(unfenced)
        _replay(unfenced, record["type"], record["data"])
        if unfenced and not before:
            found.append(Period(begin_ms, record["at_ms"]))
        elif before and not unfenced:
            begin_ms = record["at_ms"]
    if not unfenced:
        found.append(Period(begin_ms, float("inf")))
    return found


def _replay(unfenced: set[int], kind: str, data: Mapping[str, Any]) -> None:
    match kind:
        case "REGISTER_BROKER_RECORD" if not data.get("fenced", True):
            unfenced.add(data["brokerId"])
        case "REGISTER_BROKER_RECORD" | "UNREGISTER_BROKER_RECORD":
            unfenced.discard(data["brokerId"])
        case "FENCE_BROKER_RECORD":
            unfenced.discard(data["id"])
        case "UNFENCE_BROKER_RECORD":
            unfenced.add(data["id"])
        case "BROKER_REGISTRATION_CHANGE_RECORD":
            if data.get("fenced", 0) < 0:
                unfenced.add(data["brokerId"])
            if data.get("fenced", 0) > 0 or data.get("inControlledShutdown", 0) > 0:
                unfenced.discard(data["brokerId"])


def unfounded(
    refused: Iterable[TemporaryRefusal],
    records: Sequence[Mapping[str, Any]],
    struck: Iterable[Period],
    ahead_ns: int,
) -> list[str]:
    """A line for each refusal that had no reason.

    Args:
        refused: by a controller, asked again and answered by now.
        records: of the log, as `bench.judge.stores.dump_log` returns them.
        struck: when controllers were, monotonic ms.
        ahead_ns: by how much the clock of the batches is ahead of the monotonic one.
    """
    reasons = [
        Period(each.begin_ms - _SLACK_MS, each.end_ms + _SLACK_MS)
        for each in none_unfenced(records)
    ]
    reasons += [
        Period(each.begin_ms + ahead_ns / 1e6, each.end_ms + ahead_ns / 1e6 + _DEPOSED_MS)
        for each in struck
    ]
    lines = []
    for one in refused:
        asked = Period((one.sent_ns + ahead_ns) / 1e6, (one.answered_ns + ahead_ns) / 1e6)
        if not any(asked.meets(reason) for reason in reasons):
            lines.append(f"{one.api} of {one.topic}: {one.error} though a broker was unfenced")
    return lines
