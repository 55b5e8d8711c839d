"""``kraft-bridge simulate``."""

from __future__ import annotations

import json
import multiprocessing
import os
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from itertools import count as numbers
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from emulator.simulation.aftermath import Struck
    from emulator.simulation.run import Report

AT_ONCE = 5
"""Seeds a process takes at a time."""
OF_HOURS = ("endurance", "endurance-kraft")
"""Kinds of one cluster for many virtual hours."""
KINDS = ("quick", "long", "swarm", "aimed", "quorum", "failover", "attempts", "operator", *OF_HOURS)
OF_THREE = ("quorum", "failover")
"""Kinds with three controllers: without a migration, and with one."""
SEEDS_MIN = 1_000
"""Fewer seeds of the swarm, or of three controllers in a migration, do not count as a proof."""
PROVES = ("G06", "W07", "Z02", "Z03")
"""The rows of tests/requirements.toml that the checkers hold in every seed of a migration."""


def simulate(  # noqa: PLR0917  # one option each
    seed: Annotated[
        int | None, typer.Option(min=0, help="The first seed; a random one by default.")
    ] = None,
    count: Annotated[int, typer.Option(min=1, help="Number of seeds, counted from the first.")] = 1,
    hours: Annotated[
        float | None,
        typer.Option(min=0, help="Run seeds for this many hours (endurance: one cluster's hours)."),
    ] = None,
    kind: Annotated[
        str,
        typer.Option(help=f"How clusters are drawn: {', '.join(KINDS)}."),
    ] = "",
    controllers: Annotated[
        int, typer.Option(help="Voters of the quorum: 1, or 3 (kind quorum; failover migrates).")
    ] = 1,
    jobs: Annotated[int, typer.Option(min=1, help="Processes to run seeds in.")] = 1,
    record: Annotated[
        Path | None,
        typer.Option(envvar="KRAFT_BRIDGE_RECORD", help="A file for a JSON record of all runs."),
    ] = None,
    *,
    migration: Annotated[
        bool, typer.Option("--migration", help="With --controllers 3: they migrate a cluster.")
    ] = False,
    shrink: Annotated[
        bool, typer.Option("--shrink", help="Shrink failing runs and print them as tests.")
    ] = False,
    story: Annotated[
        bool, typer.Option("--story", help="Print every line of each run, passed or failed.")
    ] = False,
) -> None:
    """Run simulated clusters, each determined by its seed; exit 1 if a check failed."""
    kind = _kind(kind, controllers, migration=migration)
    if record is not None and not _may_keep(record):
        typer.echo(f"kraft-bridge: --record: {record} cannot be written", err=True)
        raise typer.Exit(2)
    first = int.from_bytes(os.urandom(5), "big") if seed is None else seed
    if kind in OF_HOURS:
        raise typer.Exit(_endure(kind, hours, first, record))
    began = time.monotonic()
    end = None if hours is None else began + hours * 3_600
    seeds = numbers(first) if hours is not None else iter(range(first, first + count))
    done, failed = 0, []
    strikes: list[tuple[Struck, ...]] = []
    interrupted = False
    try:
        for reports in _batches(seeds, kind, jobs, end):
            for report in reports:
                done += 1
                strikes.append(report.strikes)
                failed += [report] * bool(report.failure)
                if story or report.failure or (count == 1 and hours is None):
                    _show(report, story=story, small=shrink)
    except KeyboardInterrupt:
        interrupted = True
    seconds = time.monotonic() - began
    rate = done / seconds * 60
    typer.echo(
        f"{done} seed{'' if done == 1 else 's'} of kind {kind} from {first} in {seconds:.1f} s: "
        f"{rate:.0f} seeds/min, "
        f"{len(failed)} failed{', interrupted' if interrupted else ''}"
    )
    if record is not None and (failed or not interrupted):
        _keep(record, kind, first, strikes, failed, seconds)
    if interrupted:
        raise typer.Exit(130)
    raise typer.Exit(1 if failed else 0)


def _kind(kind: str, controllers: int, *, migration: bool) -> str:
    """How clusters are drawn; ends the process with 2 if there is none of that kind."""
    if controllers not in {1, 3}:
        raise _refused(f"--controllers is 1 or 3, not {controllers}")
    of_three = OF_THREE[migration]
    chosen = kind or ("swarm" if controllers == 1 else of_three)
    if chosen not in KINDS:
        raise _refused(f"--kind is one of {', '.join(KINDS)}, not {chosen}")
    if controllers == 3 and chosen not in {*OF_THREE, *OF_HOURS}:
        drawn = "draw how many" if chosen in {"attempts", "operator"} else "have one controller"
        raise _refused(f"--controllers 3: clusters of kind {chosen} {drawn}")
    if migration and chosen == "quorum":
        raise _refused("--migration: clusters of kind quorum do not migrate; failover does")
    return chosen


def _endure(kind: str, hours: float | None, seed: int, record: Path | None) -> int:
    """Run one cluster for many virtual hours; returns the exit code."""
    from emulator.simulation.scenarios.endurance import run_hours

    if not hours or hours % 1:
        raise _refused(f"--kind {kind} takes --hours, 1 or more and no part of one")
    return run_hours(int(hours), seed, record, kraft=kind == OF_HOURS[1])


def _refused(why: str) -> typer.Exit:
    """Print why nothing is simulated; returns the end of the process."""
    typer.echo(f"kraft-bridge: {why}", err=True)
    return typer.Exit(2)


def _may_keep(record: Path) -> bool:
    """Whether a record may be written there: asked before a run that may take hours."""
    try:
        record.parent.mkdir(parents=True, exist_ok=True)
    except OSError:
        return False
    return not record.is_dir() and os.access(record if record.exists() else record.parent, os.W_OK)


def _run(seeds: list[int], kind: str) -> list[Report]:
    from emulator.simulation.run import simulate as run

    return [run(seed, kind=kind) for seed in seeds]


def _batches(
    seeds: Iterator[int], kind: str, jobs: int, end: float | None
) -> Iterator[list[Report]]:
    """Run seeds, a few at a time, until there are no more or the time is over."""
    if jobs == 1:
        for seed in seeds:
            yield _run([seed], kind)
            if end is not None and time.monotonic() >= end:
                return
        return
    with ProcessPoolExecutor(jobs, initializer=_end_with_parent) as pool:
        try:
            while wave := [some for _ in range(jobs * 4) if (some := list(islice(seeds, AT_ONCE)))]:
                yield from pool.map(_run, wave, [kind] * len(wave))
                if end is not None and time.monotonic() >= end:
                    return
        except BaseException:
            # Interrupted, here or by the reader of the reports: the rest is not waited for.
            for worker in multiprocessing.active_children():
                worker.terminate()
            raise


def _end_with_parent() -> None:
    """Have a worker end when the process that gives it seeds has, however that ended."""
    parent = multiprocessing.parent_process()
    assert parent is not None, "a worker has a parent"

    def wait() -> None:
        parent.join()
        os._exit(1)

    threading.Thread(target=wait, daemon=True).start()


def _show(report: Report, *, story: bool, small: bool) -> None:
    from emulator.simulation.scenarios.shrink import as_test
    from emulator.simulation.scenarios.shrink import shrink as make_small

    if story:
        typer.echo("\n".join(report.lines))
    if not report.failure:
        if not story:
            typer.echo(str(report))
        return
    if small:
        typer.echo(as_test(make_small(report)))
    else:
        typer.echo(str(report))
    typer.echo(f"again: kraft-bridge simulate --kind {report.kind} --seed {report.seed} --shrink")


def _keep(  # noqa: PLR0917  # the columns of a record
    path: Path,
    kind: str,
    first: int,
    strikes: list[tuple[Struck, ...]],
    failed: list[Report],
    seconds: float,
) -> None:
    """Write what was run and what came of it; ``tools.recorded`` adds the commit."""
    from emulator.simulation.aftermath import sum_up

    done = len(strikes)
    proof = {
        "test": f"{done} seeds of kind {kind} from {first}",
        "ids": [] if kind == "quorum" else list(PROVES),
        "kind": "simulation",
        "outcome": "failed" if failed else "passed",
    }
    content = {
        "complete": kind in {"swarm", "failover", "attempts", "operator"} and done >= SEEDS_MIN,
        "tests": [proof],
        "kind": kind,
        "first_seed": first,
        "seeds": done,
        "failures": [{"seed": one.seed, "failure": one.failure} for one in failed],
        "effects": sum_up(strikes),
        "seconds": round(seconds, 1),
        "seeds_per_minute": round(done / seconds * 60, 1),
    }
    path.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
