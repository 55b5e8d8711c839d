"""``kraft-bridge conformance --against``: what is printed, and how it ends."""

from __future__ import annotations

import json
import secrets
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

import typer

from emulator.commands.common import fail
from emulator.commands.exits import ExitCode
from emulator.io.printable import printable, sentence

if TYPE_CHECKING:
    from bench.conformance.oracle.compare import Difference
    from bench.conformance.oracle.operation import Operation
    from bench.conformance.oracle.run import Found, Oracle, Progress
    from bench.conformance.runner import Address

OPERATIONS: Final = 10_000
SHOWN: Final = 600
"""Characters of a value that are shown; the transcript shows the rest."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """What is wished.

    Args:
        reference: the controller that is right.
        ours: the controller that is compared with it.
        operations: so many in all.
        seed: of the histories; None: drawn.
        replay: a transcript to carry out instead; None: histories.
        progress: where a run goes on from, and is kept; None: nowhere.
    """

    reference: Address
    ours: Address
    operations: int
    seed: int | None
    replay: Path | None
    progress: Path | None


def known() -> Iterator[str]:
    """The table of known differences, a line each."""
    from bench.conformance.oracle.known import KNOWN

    for row in KNOWN:
        yield f"{row.id}: {row.subject}. Kafka: {row.kafka} ({row.source}); here: {row.ours}"


def compared(wish: Comparison) -> None:
    """Compare, and say what differs.

    Raises:
        Exit: 1: something differs; 3: one cannot be reached, or they cannot be compared.
    """
    from bench.conformance.case import Violation
    from bench.conformance.oracle.run import Oracle
    from bench.conformance.runner import UnreachableError
    from emulator.io.kafka_client import LoginError

    transcript = None if wish.replay is None else _transcript(wish.replay)
    progress = _progress(wish)
    try:
        oracle = Oracle(wish.reference, wish.ours)
        try:
            if transcript is None:
                _run(oracle, progress, wish)
            else:
                _replayed(oracle, progress, *transcript)
        finally:
            oracle.close()
    except (UnreachableError, LoginError, OSError) as error:
        raise fail(sentence(error), ExitCode.UNREACHABLE) from error
    except Violation as error:
        raise fail(f"an answer cannot be read: {sentence(error)}", ExitCode.FOUND) from error


def _run(oracle: Oracle, progress: Progress, wish: Comparison) -> None:
    oracle.told = lambda text: typer.echo(text, err=True)
    try:
        found = oracle.run(progress, wish.operations, wish.progress)
    except KeyboardInterrupt:
        oracle.clean()
        raise
    rate = progress.operations / progress.seconds if progress.seconds else 0.0
    what = f"{progress.operations:,} operations of {progress.history:,} histories"
    verdict = "OK: nothing differs" if found is None else "FAILED: a difference no row names"
    typer.echo(f"comparison {verdict}; {what}, seed {progress.seed}, {rate:,.0f}/s")
    for line in _counts(progress):
        typer.echo(line)
    if found is None:
        return
    for line in _told(found):
        typer.echo(printable(line))
    raise typer.Exit(ExitCode.FOUND)


def _counts(progress: Progress) -> Iterator[str]:
    from bench.conformance.oracle.known import OFTEN

    for row, count in progress.excuses.counts.most_common():
        share = count / max(progress.operations, 1)
        often = "  (often: read the row again)" if share > OFTEN else ""
        yield f"  {row:18} {count:>9,}  {share:.2%}{often}"


def _told(found: Found) -> Iterator[str]:
    from bench.conformance.oracle.operation import written

    yield from map(_line, found.differences)
    if not found.again:
        yield "It was not seen again when the history was carried out anew: the whole history."
    yield f"The transcript of {len(found.operations)} operations, for --replay:"
    about = {"seed": found.seed, "history": found.history, "placed": found.placed}
    yield from written(found.operations, about).splitlines()


def _line(one: Difference) -> str:
    asked = f" to {one.operation}" if one.operation is not None else ""
    values = [json.dumps(value, default=str) for value in (one.reference, one.ours)]
    short = [text if len(text) <= SHOWN else f"{text[:SHOWN]} ..." for text in values]
    return f"{one.path}: {short[0]} there, {short[1]} here{asked}"


def _replayed(
    oracle: Oracle, progress: Progress, operations: Sequence[Operation], placed: bool
) -> None:
    def shown(operation: Operation, reference: object, ours: object) -> None:
        typer.echo(printable(f"{operation}"))
        typer.echo(printable(f"  there {json.dumps(reference, default=str)}"))
        if ours != reference:
            typer.echo(printable(f"  here  {json.dumps(ours, default=str)}"))

    oracle.claim(progress)
    oracle.clean()
    found = oracle.one(operations, progress.excuses, placed=placed, every=1, shown=shown)
    oracle.clean()
    for one in found:
        typer.echo(printable(_line(one)))
    if found:
        raise typer.Exit(ExitCode.FOUND)
    typer.echo(f"comparison OK: nothing differs in {len(operations)} operations")


def _transcript(path: Path) -> tuple[list[Operation], bool]:
    from bench.conformance.oracle.operation import read

    try:
        return read(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise fail(f"--replay {path}: {sentence(error)}", ExitCode.WRONG) from error


def _progress(wish: Comparison) -> Progress:
    from bench.conformance.oracle.run import Progress

    seed = secrets.randbelow(1 << 31) if wish.seed is None else wish.seed
    path = wish.progress
    if path is None or not path.exists():
        if path is not None and not path.absolute().parent.is_dir():
            raise fail(f"--progress {path}: no file can be written there", ExitCode.WRONG)
        return Progress(seed)
    try:
        kept = Progress.read(path)
    except (OSError, ValueError) as error:
        raise fail(f"--progress {path}: {sentence(error)}", ExitCode.WRONG) from error
    if wish.seed not in {None, kept.seed}:
        why = f"is of seed {kept.seed}, not {wish.seed}. Name another file"
        raise fail(f"--progress {path} {why}", ExitCode.WRONG)
    return kept
