"""Administrative load on any brokers for a time, its trace and its figures."""

from __future__ import annotations

import asyncio
import math
import signal
import time
from array import array
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from importlib import metadata
from typing import Any, Final

from bench.load.admin import AdminLoad, AdminResult
from bench.load.connection import Pool
from emulator.io.together import Alone, Share, Together
from emulator.io.trace_file import run_row
from emulator.io.trace_recording import recording
from emulator.trace.distribution import percentile
from emulator.trace.rows import RequestRow, Row
from wire.errors import ErrorCode

_FLUSH_S: Final = 0.5
_PROGRESS_S: Final = 2.0
_REACH_S: Final = 10.0
"""How long one attempt to find a broker may take, before the load begins."""


@dataclass(frozen=True, slots=True)
class LoadPlan:
    """What is asked of the brokers; ``seconds`` None: until SIGINT or SIGTERM.

    ``topics``: about as many are kept. ``give_up_s``: after it was due, a change counts as failed.
    ``one_broker``: see ``AdminLoad``.
    """

    bootstrap: str
    rate: float
    seconds: float | None
    topics: int = 40
    replication_factor: int = 2
    prefix: str = "load"
    seed: int = 0
    give_up_s: float = 60.0
    client_id: str = "kraft-bridge-load"
    connections: int = 100
    one_broker: bool = False


@dataclass
class LoadOutcome:
    """What became of a load, or of one process's share of it."""

    result: AdminResult = field(default_factory=AdminResult)
    waits: defaultdict[str, array[float]] = field(default_factory=lambda: defaultdict(_of_doubles))
    """API -> ms from the intended instant of all that were due; infinite: not carried out."""
    lacks: str = ""
    """What is missing in the trace of the load."""

    def add(self, other: LoadOutcome) -> None:
        """Add the result of another process."""
        self.result.add(other.result)
        for api, waits in other.waits.items():
            self.waits[api].extend(waits)


def _of_doubles() -> array[float]:
    return array("d")


class UnreachableError(OSError):
    """No bootstrap broker answered, or none knows the controller."""


def play(
    plan: LoadPlan, trace: str | None, run_id: str, print_line: Callable[[str], None]
) -> LoadOutcome:
    """Run a load in this process; SIGINT or SIGTERM ends it, a second one at once.

    Args:
        plan: what is asked.
        trace: path or URI for a trace.
        run_id: of the trace.
        print_line: takes lines about the progress.

    Raises:
        UnreachableError: before anything was asked.
        TraceUnavailableError: a trace is wanted and pyarrow is missing.
    """

    async def whole() -> LoadOutcome:
        await reach(plan)
        together = Alone(print_line, (signal.SIGINT, signal.SIGTERM))
        return await take_part(plan, trace, run_id, together)

    return asyncio.run(whole())


async def take_part(
    plan: LoadPlan, trace: str | None, run_id: str, together: Together
) -> LoadOutcome:
    """Do this process's share of a load. Args and errors: as for ``play``."""
    found = LoadOutcome()
    process = together.share.named(plan.client_id)
    described = run_row(f"load {metadata.version('kraft-bridge')}", asdict(plan))
    with recording(trace, run_id, process, described) as traced:

        def take(row: Row) -> None:
            if isinstance(row, RequestRow) and row.intended_ns is not None:
                waited_ms = (row.answered_ns - row.intended_ns) / 1e6
                found.waits[row.api].append(math.inf if row.error_code else waited_ms)
            traced.append(row)

        found.result = await _play(plan, take, traced.flush, together)
    found.lacks = traced.lacks
    return found


async def _play(
    plan: LoadPlan,
    take: Callable[[Row], None],
    flush: Callable[[], None],
    together: Together,
) -> AdminResult:
    load = AdminLoad(
        plan.bootstrap,
        plan.rate,
        plan.seconds,
        client_id=plan.client_id,
        seed=plan.seed,
        replication_factor=plan.replication_factor,
        record=take,
        give_up_s=plan.give_up_s,
        prefix=plan.prefix,
        topics_wanted=plan.topics,
        connections=plan.connections,
        one_broker=plan.one_broker,
        share=together.share,
        begin_ns=await together.meet("begin"),
    )
    running = asyncio.ensure_future(load.run())
    asked = 0

    def stop() -> None:
        nonlocal asked
        asked += 1
        if asked == 1:
            together.report("no more changes; waiting for the answers (again: end at once)")
            load.stop()
        else:
            running.cancel()

    together.watch(stop)
    reported_s = time.monotonic()
    while not running.done():
        await asyncio.wait([running], timeout=min(_FLUSH_S, _PROGRESS_S))
        flush()
        if running.done() or time.monotonic() - reported_s >= _PROGRESS_S:
            reported_s = time.monotonic()
            together.report(load.progress())
    if running.cancelled():
        return load.result
    return running.result()


async def reach(plan: LoadPlan, _share: Share = Share()) -> None:  # noqa: B008 - immutable
    """Find the controller once, so that a wrong address is not 60 s of failures.

    Raises:
        UnreachableError: it was not found.
    """
    pool = Pool(plan.bootstrap, plan.client_id, iter(range(1, 1_000)))
    attempts = 1 + len(plan.bootstrap.split(","))
    try:
        for attempt in range(attempts):
            try:
                async with asyncio.timeout(_REACH_S) as limit:
                    await pool.take()
            except OSError as error:
                # What is no broker may take the connection and never answer.
                silent = f"no answer within {_REACH_S:g} s; is it the address of a broker?"
                if attempt == attempts - 1:
                    raise UnreachableError(silent if limit.expired() else str(error)) from error
            else:
                return
    finally:
        pool.close()


def figures(plan: LoadPlan, shares: Sequence[LoadOutcome]) -> dict[str, Any]:
    """The figures of a load, for JSON.

    Args:
        plan: what was asked for.
        shares: what became of it, one for each process.
    """
    found = LoadOutcome()
    for share in shares:
        found.add(share)
    result = found.result
    return {
        "intended": result.intended,
        "done": result.done.total(),
        "failed": result.failed.total(),
        "given_up": result.intended - result.done.total() - result.failed.total(),
        "rate_per_s": plan.rate,
        "achieved_per_s": round(result.achieved_per_s, 2),
        "seconds": round(result.elapsed_s, 3),
        "give_up_s": plan.give_up_s,
        "waits": {api: _waits(waits) for api, waits in sorted(found.waits.items())},
        "errors": {f"{api}: {error}": n for (api, error), n in sorted(result.failed.items())},
        "retries": {f"{api}: {error}": n for (api, error), n in sorted(result.retried.items())},
        "topics_left": len(result.topics),
        "topics_doubtful": len(result.doubtful - result.topics.keys()),
    }


def _waits(waits: Sequence[float]) -> dict[str, float | int]:
    """Of all that were due; what is not reached, or has too few values beyond it, is left out."""
    done = sum(wait < math.inf for wait in waits)
    found: dict[str, float | int] = {"count": len(waits), "not_done": len(waits) - done}
    of = {"p50_ms": percentile(waits, 0.5), "p99_ms": percentile(waits, 0.99), "max_ms": max(waits)}
    return found | {
        name: round(value, 3)
        for name, value in of.items()
        if value is not None and value < math.inf
    }


def _waits_text(one: dict[str, Any], give_up_s: float) -> str:
    """Quantiles in words: of what was given up it is known that it waited for so long."""
    beyond = {"p50": one["count"] * 0.5, "p99": one["count"] * 0.01, "max": 0.0}
    parts = [
        f"{name} {one[f'{name}_ms']} ms" if f"{name}_ms" in one else f"{name} > {give_up_s:g} s"
        for name, share in beyond.items()
        if f"{name}_ms" in one or one["not_done"] > share
    ]
    lost = f", {one['not_done'] / one['count']:.1%} not done" if one["not_done"] else ""
    return f"{one['count']} due{lost}; {', '.join(parts)}"


def text(found: dict[str, Any], prefix: str) -> str:
    """The figures as lines for people."""
    whole = (
        f"{found['done']} of {found['intended']} changes done in {found['seconds']:g} s "
        f"({found['achieved_per_s']:g}/s of {found['rate_per_s']:g}/s), {found['failed']} failed, "
        f"{found['given_up']} without an answer"
    )
    lines = [whole]
    lines += [
        f"{api}: {_waits_text(one, found['give_up_s'])}" for api, one in found["waits"].items()
    ]
    lines += [f"failed: {what}, {n} times" for what, n in found["errors"].items()]
    lines += [f"tried again: {what}, {n} times" for what, n in found["retries"].items()]
    doubtful = found.get("topics_doubtful", 0)
    lines.append(
        f"topics left: {found['topics_left']}, named {prefix}-..."
        + (f"; of {doubtful} more a change failed, they may be there" if doubtful else "")
    )
    if f"CreateTopics: {ErrorCode.TOPIC_ALREADY_EXISTS.name}" in found["errors"]:
        lines.append(
            f"topics {prefix}-... were there before: delete them, or give another --prefix"
        )
    return "\n".join(lines)
