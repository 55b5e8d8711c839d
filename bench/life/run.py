"""Lives of several releases, each resumed at the phase in which an earlier run was cut."""

from __future__ import annotations

import asyncio
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

from aiokafka.errors import KafkaError
from kazoo.exceptions import KazooException
from kazoo.handlers.threading import KazooTimeoutError

from bench import record
from bench.life import phases
from bench.life.book import Book
from bench.life.clients import RECORDS, LifeClients
from bench.life.commands import untyped
from bench.life.life import Life
from bench.life.phases import Phase
from bench.life.stage import BROKERS, STATE, Stage
from bench.life.standing import BrokerStanding, Mode, Standing
from bench.life.table import PhaseRow, Restart, proofs, restarts, table
from bench.life.waits import Waits
from bench.lines import print_line
from bench.load import cluster_api as api
from bench.load.cluster_api import RefusedError
from bench.matrix.login import LoginError
from bench.runs.code import code_digest
from bench.runs.run import alone
from emulator.servers.jars import kafka_jars
from emulator.servers.process import ProcessError, running

_FAILURES: Final = (
    ProcessError,
    RefusedError,
    LoginError,
    KafkaError,
    KazooException,
    KazooTimeoutError,
    OSError,  # with it TimeoutError and ConnectionError
    subprocess.CalledProcessError,
)
"""Errors that a phase raises if a server ends, refuses or does not answer."""


@dataclass(frozen=True, slots=True)
class Options:
    """What the command line may change."""

    out: Path
    """Folder of all lives; each release has one in it."""
    releases: Sequence[str]
    until: str | None = None
    """The last phase to play; None: all."""
    again: bool = False
    """Begin anew, even if an earlier run can be continued."""
    whole: bool = False
    """Whether all phases of all releases are run."""


def run(options: Options) -> int:
    """Play the lives and print their table.

    Returns:
        Exit code: 0 if every check of every phase held, else 1.

    Raises:
        JarsMissingError: servers that a phase needs were not fetched.
        NotAloneError: another run plays in the same folder.
    """
    for release in options.releases:
        for phase in _wanted(options, release):
            kafka_jars(phase.needs or release)
    rows: list[PhaseRow] = []
    with alone(options.out):
        again = options.again or all(_ended(options, release) for release in options.releases)
        for release in options.releases:
            rows += _life(options, release, again=again)
    for lines in (table(rows), restarts(rows)):
        print_line("\n" + "\n".join(lines))
    for row in rows:
        for line in row.unjudged:
            print_line(f"not judged: {row.release} {row.phase}: {line}")
    wrong = [f"{row.release} {row.phase}: {line}" for row in rows for line in row.wrong]
    wrong += [f"left behind: {process.name} {process.pid}" for process in running()]
    if options.whole and not wrong:
        wrong += [f"no life typed: {form}" for form in untyped(_typed(options))]
    for line in wrong:
        print_line(f"WRONG: {line}")
    record.leave(proofs(rows), complete=options.whole)
    took = sum(row.seconds for row in rows)
    print_line(f"life {'FAILED' if wrong else 'OK'}: {len(rows)} phases, {took:.0f} s")
    return int(bool(wrong))


def _typed(options: Options) -> set[str]:
    """Names of the commands of the runbook that the lives typed, in all their runs."""
    found = [Standing.load(options.out / release / STATE) for release in options.releases]
    return {name for one in found if one is not None for name in one.typed}


def _wanted(options: Options, release: str) -> list[Phase]:
    return phases.phases_up_to(phases.phases_from(release), options.until)


def _ended(options: Options, release: str) -> bool:
    """Whether an earlier run has played all that is wanted of a life."""
    found = Standing.load(options.out / release / STATE)
    return found is not None and all(one.name in found.done for one in _wanted(options, release))


def _life(options: Options, release: str, *, again: bool) -> list[PhaseRow]:
    """Play what is left of one life; returns all its rows."""
    folder = options.out / release
    wanted = _wanted(options, release)
    standing = _standing(folder, release, again=again)
    left = [one for one in wanted if one.name not in standing.done]
    if left:
        begun = standing.begun or "its beginning"
        print_line(f"{release}: run {standing.run} in {folder}, from {begun}")
        _play(folder, standing, left)
    names = {one.name for one in wanted}
    return [_row(one) for one in standing.rows if one["phase"] in names]


def _standing(folder: Path, release: str, *, again: bool) -> Standing:
    """Where the life of a release stands; a new one if there is none that may be continued."""
    code = code_digest("bench/life")
    path = folder / STATE
    found = None if again else Standing.load(path)
    if found is not None and (found.code != code or found.failed):
        why = "a check failed in it" if found.failed else "the code has changed"
        print_line(f"{release}: begins anew: {why}")
        found = None
    if found is None:
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        brokers = {each: BrokerStanding(Mode.ZOOKEEPER, release) for each in range(BROKERS)}
        found = Standing(release, code, brokers)
    found.run += 1
    found.save(path)
    return found


def _play(folder: Path, standing: Standing, left: Sequence[Phase]) -> None:
    waits = Waits()
    book = Book(folder / "book.jsonl")
    with Stage(folder, standing) as stage:
        clients = LifeClients(stage.cluster.bootstrap, book, waits, standing.run)
        try:
            life = Life(stage, clients, book, waits, print_line)
            _phases(life, left)
        finally:
            clients.abandon()
            book.close()


def _phases(life: Life, left: Sequence[Phase]) -> None:
    stage, standing = life.stage, life.stage.standing
    life.row = PhaseRow(standing.release, left[0].name)
    before = len(life.book.records())
    try:
        stage.start()
        _prepare(life)
        for phase in left:
            _one(life, phase)
        consumed, failed = life.clients.finish()
        for client, errors in failed.items():
            life.check(f"no error that no retry mends: {client}", not errors, f"{dict(errors)}")
        acknowledged = life.book.records()
        unread = sorted(f"{name}-{number}" for name, number in consumed.unread(acknowledged))
        missed = f"; not to the end: {', '.join(unread)}" if unread else ""
        count = len(acknowledged) - before
        figures = f"{consumed.consumed} read, {count} acknowledged in this run{missed}"
        life.check("the group read every record", consumed.consumed and not unread, figures)
        unwell = stage.stop()
        life.check("every server stopped in order", not unwell, "; ".join(unwell))
    except _FAILURES as error:
        why = f"{type(error).__name__}: {error}"  # many have no text
        life.check("the phase came to its end", held=False, figures=why)
    _keep(standing, life.row)
    standing.failed |= any(row["wrong"] for row in standing.rows)
    stage.save()


def _one(life: Life, phase: Phase) -> None:
    stage, standing = life.stage, life.stage.standing
    cut = int(standing.begun == phase.name)
    standing.begun = phase.name
    stage.save()
    print_line(f"{standing.release}: {phase.name}")
    row = life.play(phase.name, phase.act, cut, phase.excused)
    standing.done.append(phase.name)
    standing.begun = ""
    _keep(standing, row)
    stage.save()


def _keep(standing: Standing, row: PhaseRow) -> None:
    others = [one for one in standing.rows if one["phase"] != row.phase]
    standing.rows = [*others, asdict(row)]


def _row(plain: dict[str, Any]) -> PhaseRow:
    return PhaseRow(**{**plain, "restarts": [Restart(**one) for one in plain["restarts"]]})


def _prepare(life: Life) -> None:
    """Let the topics of the clients be there, and let the clients run."""
    stage = life.stage
    topics = [api.topic(name, count, BROKERS, {}) for name, count in RECORDS.items()]
    broker = stage.cluster.brokers[0].bootstrap
    stage.wait("topics of the records", lambda: asyncio.run(api.created(broker, topics)))
    stage.whole()
    life.clients.produce()
    life.clients.settle()
