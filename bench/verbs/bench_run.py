"""``kraft-bridge bench run``: options, and what is printed."""

from __future__ import annotations

import logging
import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from bench.lines import print_line
from emulator.commands.common import check_name, fail
from emulator.commands.exits import ExitCode
from emulator.config.words import install
from emulator.io.printable import sentence

if TYPE_CHECKING:
    from bench.runs.scenario import Planned, Scenario
    from bench.runs.store import Store


def run(  # noqa: PLR0917  # one option each
    scenarios: Annotated[
        list[str] | None,
        typer.Argument(
            help="TOML files, or names of scenarios of this package.", show_default=False
        ),
    ] = None,
    targets: Annotated[
        str | None, typer.Option(help="Names, comma separated; else those of the scenario.")
    ] = None,
    repeat: Annotated[int, typer.Option(min=1, max=1_000, help="Rounds of each case.")] = 5,
    out: Annotated[
        Path, typer.Option(help="Rows go to a folder of the scenario's name in this one.")
    ] = Path("out/bench"),
    zookeeper: Annotated[
        str | None,
        typer.Option(help="HOST:PORT,... of one that is there; else each row gets its own."),
    ] = None,
    patience: Annotated[
        float,
        typer.Option(min=0, max=3_600, help="Seconds to wait for a quiet machine before a row."),
    ] = 15.0,
    *,
    quick: Annotated[
        bool, typer.Option("--quick", help="Only the cases that the scenario names as quick.")
    ] = False,
    any_code: Annotated[
        bool, typer.Option("--any-code", help="Keep rows that other source code has taken.")
    ] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Say what would run, and about how long.")
    ] = False,
) -> None:
    """Run scenarios, each row on a ZooKeeper of its own; rows that are there are not run again.

    Exit code 1: a row is void, or could not be taken. 2: a scenario is wrong.
    """
    check_name("--out", out)
    try:
        from bench.runs import run as runner
        from bench.runs.scenario import planned
        from bench.runs.store import Store
    except ImportError as error:
        raise fail(f"{error}; {install('spark', 'java')}") from error
    plans: list[tuple[Scenario, list[str], list[Planned], Store]] = []
    for one in _read(scenarios or []):
        scenario = one.shortened() if quick else one
        names = _targets(targets, scenario)
        _check_borrowed(zookeeper, scenario)
        plan = planned(scenario, names, repeat, zookeeper)
        plans.append((scenario, names, plan, Store(out / scenario.name, any_code=any_code)))
    if dry_run:
        for _, _, plan, store in plans:
            runner.dry_run(plan, store, typer.echo)
        minutes = sum(runner.left_s(plan, store) for _, _, plan, store in plans) / 60
        typer.echo(f"all together about {minutes:.0f} min")
        return
    if zookeeper is not None:
        _reach(zookeeper)
    try:
        with runner.alone(out):
            code = _run(plans, patience)
    except (runner.NotAloneError, OSError) as error:
        raise fail(f"--out {out}: {sentence(error)}") from error
    raise typer.Exit(code)


def _read(names: list[str]) -> list[Scenario]:
    from bench.runs.reading import ScenarioError, find, known, read

    if not names:
        ours = ", ".join(known())
        raise fail(f"which scenarios? Give TOML files, or names of this package's: {ours}", 2)
    if len({*names}) < len(names):
        raise fail("a scenario is named twice", 2)
    try:
        found = [read(find(name)) for name in names]
    except ScenarioError as error:
        raise fail(str(error), 2) from error
    if len({one.name for one in found}) < len(found):
        # Rows go by the name of the scenario: each would take the other's for its own.
        raise fail("two scenarios have the same name: rename one of the files", 2)
    return found


def _targets(given: str | None, scenario: Scenario) -> list[str]:
    from bench.runs.reading import suits
    from bench.runs.targets import RAW_TARGET, TARGETS

    # ZooKeeper alone has no controller to choose.
    if given is None or scenario.targets == (RAW_TARGET,):
        return [*scenario.targets]
    names = [name.strip() for name in given.split(",")]
    for name in names:
        if name not in TARGETS:
            raise fail(f"--targets: {name!r} is none of {', '.join(TARGETS)}", 2)
        if not suits(name, scenario.kind):
            raise fail(f"--targets: {name} and kind {scenario.kind} do not go together", 2)
    if len({*names}) < len(names):
        raise fail(f"--targets {given}: a name stands there twice", 2)
    return names


def _check_borrowed(zookeeper: str | None, scenario: Scenario) -> None:
    from bench.runs.borrowed import problem
    from bench.runs.scenario import Kind

    if zookeeper is None:
        return
    if scenario.kind is Kind.RAW:
        raise fail("--zookeeper: kind raw fills a ZooKeeper, so it gets its own", 2)
    for case in scenario.cases:
        why = problem(case)
        if why is not None:
            raise fail(why, 2)


def _reach(zookeeper: str) -> None:
    from kazoo.handlers.threading import KazooTimeoutError

    from bench.runs.borrowed import ZooKeeperUnreachableError, check
    from emulator.commands.zk.client import check_reachable

    if "/" in zookeeper:
        raise fail("--zookeeper: HOST:PORT,... without a chroot; each row makes its own", 2)
    try:
        check_reachable(zookeeper)
        check(zookeeper, typer.echo)
    except ValueError as error:
        raise fail(f"--zookeeper {zookeeper}: {error}", 2) from error
    except (ZooKeeperUnreachableError, KazooTimeoutError) as error:
        raise fail(f"--zookeeper {zookeeper}: {error}", ExitCode.UNREACHABLE) from error


def _run(plans: list[tuple[Scenario, list[str], list[Planned], Store]], patience: float) -> int:
    from bench.runs import run as runner
    from bench.runs.progress import Progress
    from bench.runs.table import text
    from emulator.servers.jars import JarsMissingError
    from emulator.servers.java import JavaNotFoundError
    from emulator.servers.process import interrupt_on_terminate, kill_all

    interrupt_on_terminate()
    logging.getLogger("kazoo").setLevel(logging.CRITICAL)  # each row ends its connections
    command = shlex.join(["kraft-bridge", *sys.argv[1:]])
    missing = void = 0
    left = [one for _, _, plan, store in plans for one in plan if store.taken(one) is None]
    try:
        with Progress(left) as progress:
            say = progress.print_line
            say(f"about {sum(one.seconds for one in left) / 60:.0f} min, if the machine is quiet")
            for scenario, names, plan, store in plans:
                say(f"\n== {scenario.name}: {scenario.about}")
                rows = runner.run(
                    plan,
                    store,
                    patience_s=patience,
                    command=command,
                    print_line=say,
                    begins=progress.begin,
                )
                missing += len(plan) - len(rows)
                void += sum(bool(row.void) for row in rows)
                table = text(rows, names)
                (store.folder / "table.md").write_text(table + "\n")
                say(f"\n{table}\n\nrows: {store.folder / 'rows.parquet'}")
    except (JarsMissingError, JavaNotFoundError) as error:
        raise fail(str(error)) from error
    except KeyboardInterrupt as interrupt:
        raise fail("interrupted; the same command goes on with the rows that are missing") from (
            interrupt
        )
    finally:
        kill_all()
    rows_in_all = sum(len(plan) for _, _, plan, _ in plans)
    print_line(verdict(rows_in_all, missing, void))
    return int(bool(missing or void))


def verdict(rows: int, missing: int, void: int) -> str:
    """The last line.

    >>> verdict(27, 0, 0)
    'bench OK: 27 of 27 rows are there, none is void'
    >>> verdict(27, 2, 1)
    'bench FAILED: 25 of 27 rows are there, 1 of them void; the same command takes the others'
    """
    if not missing and not void:
        return f"bench OK: {rows} of {rows} rows are there, none is void"
    there = f"{rows - missing} of {rows} rows are there, {void or 'none'} of them void"
    return f"bench FAILED: {there}" + ("; the same command takes the others" if missing else "")
