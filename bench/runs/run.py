"""Runs the rows of a plan that are not there yet."""

from __future__ import annotations

import contextlib
import fcntl
import shutil
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from itertools import groupby
from pathlib import Path
from typing import Final

from kazoo.exceptions import KazooException
from kazoo.handlers.threading import KazooTimeoutError

from bench.runs import raw, scale, stage
from bench.runs.code import code_now
from bench.runs.row import BenchRow
from bench.runs.scenario import Kind, Planned
from bench.runs.store import Store
from bench.runs.targets import KAFKA_RELEASE, OFF
from emulator.servers.jars import JarsMissingError
from emulator.servers.java import JavaNotFoundError
from emulator.servers.machine import description
from emulator.servers.process import PortTakenError, ProcessError, kill_all
from wire.errors import DecodeError

ATTEMPTS: Final = 2
"""A row whose servers do not start is tried again once."""

_FAILURES: Final = (
    ProcessError,
    RuntimeError,
    OSError,
    DecodeError,
    KazooException,
    KazooTimeoutError,
)
"""Errors that a row raises if a server ends, refuses or does not answer."""

_PAIR: Final = frozenset({"kraft-bridge", OFF})
"""Rows of one round that differ in writing to ZooKeeper alone."""

PrintLine = Callable[[str], None]


class NotAloneError(RuntimeError):
    """Another bench writes to the same folder."""


@contextlib.contextmanager
def alone(out: Path) -> Iterator[None]:
    """Hold the folder of several scenarios: two benches at once would measure each other.

    Raises:
        NotAloneError: another process holds it.
        OSError: it cannot be made.
    """
    out.mkdir(parents=True, exist_ok=True)
    with (out / ".lock").open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise NotAloneError("another bench is running there") from error
        yield


def dry_run(planned: Sequence[Planned], store: Store, print_line: PrintLine) -> None:
    """Print which rows would run, and about how long they take."""
    left = [one for one in planned if store.taken(one) is None]
    for one in planned:
        state = "" if one in left else "  (is there)"
        case = one.case
        schedule = f"{case.count} at {case.rate:g}/s" if case.count and case.rate else ""
        print_line(f"{one.run_id}  {schedule}{state}  ~{one.seconds:.0f} s")
    minutes = left_s(planned, store) / 60
    print_line(f"{len(left)} of {len(planned)} rows to take, about {minutes:.0f} min")


def left_s(planned: Sequence[Planned], store: Store) -> float:
    """About how long the rows take that are not there, in seconds."""
    return sum(one.seconds for one in planned if store.taken(one) is None)


def run(
    planned: Sequence[Planned],
    store: Store,
    *,
    patience_s: float,
    command: str,
    print_line: PrintLine,
    begins: Callable[[Planned], None] = lambda _one: None,
) -> list[BenchRow]:
    """Take every row that is not there, round by round; ``begins`` is told of each before it.

    Returns:
        The rows of the plan that are there in the end; one that failed twice is not.
    """
    versions = f"Python {sys.version}, Kafka {KAFKA_RELEASE}, ZooKeeper 3.9.5"
    machine = description()
    for _, group in groupby(planned, key=lambda one: one.round):
        of_round = list(group)
        fresh = False
        for one in of_round:
            if store.taken(one) is not None:
                print_line(f"{one.run_id}: is there")
                continue
            began = time.monotonic()
            begins(one)
            try:
                row = _taken(one, store, patience_s, print_line)
            except ProcessError as error:
                print_line(f"FAILED {error}")
                continue
            if one.target in _PAIR and {each.target for each in of_round} >= _PAIR:
                row.pair = one.round
            row.command, row.versions, row.machine = command, versions, machine
            store.keep(row)
            store.write_parquet()
            fresh = True
            print_line(f"{row.line()} [{time.monotonic() - began:.0f} s]")
        if fresh:
            store.judge(of_round)
            store.write_parquet()
    return [found for one in planned if (found := store.taken(one)) is not None]


def _take(one: Planned, store: Store, patience_s: float, print_line: PrintLine) -> BenchRow:
    if one.scenario.kind is Kind.RAW:
        return raw.take(one, store, patience_s)
    if one.scenario.kind is Kind.SCALE:
        return scale.take(one, store, print_line)
    return stage.take(one, store, patience_s, print_line)


def _taken(one: Planned, store: Store, patience_s: float, print_line: PrintLine) -> BenchRow:
    if one.scenario.kind is Kind.SCALE and (why := scale.lacks(one.case, store.servers)):
        raise ProcessError(f"{one.run_id}: {why}")
    for attempt in range(1, ATTEMPTS + 1):
        try:
            row = _take(one, store, patience_s, print_line)
        except (JarsMissingError, JavaNotFoundError):
            raise
        except PortTakenError:
            kill_all()
        except _FAILURES as error:
            kill_all()
            why = str(error) or type(error).__name__
            if attempt == ATTEMPTS:
                raise ProcessError(f"{one.run_id}: {why}") from error
            print_line(f"{one.run_id}: once more, because: {why.splitlines()[0]}")
        else:
            if code_now() != row.code:
                # Servers are started from the files, so what was measured is neither of both.
                row.void = "the source code was changed while the bench ran: start it again"
            shutil.rmtree(store.servers / one.run_id, ignore_errors=True)
            return row
    raise ProcessError(f"{one.run_id}: its ports were taken {ATTEMPTS} times")
