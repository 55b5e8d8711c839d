"""Changes that were refused: which a client may have to ask for again, and which are wrong.

What a broker in ZooKeeper mode refuses as controller is Kafka's own; only ours are judged.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from bench.chaos.refusals import unfounded
from bench.demo.verdict import ALREADY
from bench.life.waits import RulingWatch
from bench.load.admin import AdminResult, GivenUp
from bench.load.changes import TemporaryRefusal


def unexcused(
    done: AdminResult, excused: Collection[str], moved: Iterable[tuple[float, float]]
) -> list[str]:
    """A line for each change that was given up without an excuse.

    Args:
        done: the result of the load.
        excused: refusals, as ``API ERROR``, that are Kafka's own in a phase.
        moved: from when to when the controller was replaced, in seconds of the monotonic clock. A
            broker passes a change on again then, and the client gets the second answer.
    """
    spans = [*moved]
    return [
        f"{change.api} of topic {topic}: {change.error}"
        for topic, change in sorted(done.given_up.items())
        if f"{change.api} {change.error}" not in excused and not _twice(change, spans)
    ]


def _twice(change: GivenUp, moved: Iterable[tuple[float, float]]) -> bool:
    return change.error == ALREADY.get(change.api) and any(
        change.sent_ns <= end_s * 1e9 and begin_s * 1e9 <= change.answered_ns
        for begin_s, end_s in moved
    )


def of_ours(done: AdminResult, watch: RulingWatch) -> list[TemporaryRefusal]:
    """Retriable refusals by a controller of ours: sent and answered while one was active."""
    if watch.quorum_s is None:
        return []
    since_ns, until_ns = watch.quorum_s * 1e9, watch.quorum_until_s * 1e9
    return [one for one in done.not_now if since_ns <= one.sent_ns and one.answered_ns <= until_ns]


def without_reason(
    refused: Sequence[TemporaryRefusal], records: Sequence[Mapping[str, Any]]
) -> list[str]:
    """A line for each refusal while a broker was unfenced, by the log of our controllers."""
    return unfounded(refused, records, (), time.time_ns() - time.monotonic_ns())
