"""One life while it is played: servers, clients, figures and checks of the present phase."""

from __future__ import annotations

import contextlib
import re
import time
from collections.abc import Callable, Iterator
from typing import Final

from bench.life import book as books
from bench.life import commands, people, refusals, stores
from bench.life.book import Book
from bench.life.clients import LifeClients
from bench.life.shown import metadata, unequal
from bench.life.stage import Stage
from bench.life.standing import BrokerStanding, Mode, Quorum
from bench.life.table import PhaseRow, Restart
from bench.life.waits import CHANGE, RECORD, RulingWatch, Waits
from emulator.servers.kafka import KafkaBroker
from emulator.servers.machine import Sharing

_SHOWN: Final = 5
_GAUGE: Final = re.compile(
    r"^kraft_bridge_migrating_zk_broker_count(?:\{.*\})? (\d+)", re.MULTILINE
)
PrintLine = Callable[[str], None]


class Life:
    """What a phase acts on.

    Args:
        stage: servers that were started as they were left.
        clients: that run.
        book, waits: that the clients write.
        print_line: takes each line of progress.
    """

    def __init__(
        self, stage: Stage, clients: LifeClients, book: Book, waits: Waits, print_line: PrintLine
    ) -> None:
        self.stage = stage
        self.clients = clients
        self.book = book
        self.waits = waits
        self.print_line = print_line
        self.row = PhaseRow("", "")

    # ------------------------------------------------------------- phases
    def play(
        self,
        name: str,
        act: Callable[[Life], None],
        cut: int,
        excused: frozenset[str] = frozenset(),
    ) -> PhaseRow:
        """Play a phase under load, and check at its end what must always hold.

        Args:
            name: of the phase.
            act: what happens in it.
            cut: how often it was begun before.
            excused: refusals of changes, as ``API ERROR``, that are Kafka's own in this phase.

        Raises:
            whatever ends a step: ProcessError, TimeoutError, OSError, KafkaError.
        """
        standing = self.stage.standing
        self.row = row = PhaseRow(standing.release, name, cut=cut)
        begin = time.monotonic()
        with RulingWatch(self.stage.ruling, time.monotonic) as watch:
            self.clients.change(f"life-{standing.run}-{len(standing.done)}")
            act(self)
            people.change(self.stage, len(standing.done))
            self.clients.settle()
            done = self.clients.changed()
            row.changes = done.done.total()
            for line in done.slow:
                self.print_line(f"  waited long, or given up: {line}")
            row.seconds = time.monotonic() - begin
            self._judge(watch.quorum_s)
        row.nobody_s = watch.without_controller_s
        row.lag_records, row.lag_ms = watch.lag_records, watch.lag_ms
        row.record_s = self.waits.longest(RECORD, begin) or 0.0
        row.change_s = self.waits.longest(CHANGE, begin)
        row.records = len(self.book.acknowledged)
        failed = {f"{api} {error}": count for (api, error), count in done.failed.items()}
        lost = refusals.unexcused(done, excused, watch.moved)
        held = row.changes > 0 and not lost and not done.unsent
        figures = f"{row.changes}; refused: {failed}; never sent: {done.unsent}{_some(lost)}"
        self.check("every change was carried out", held, figures)
        if done.not_now:
            asked = refusals.of_ours(done, watch)
            wrong = refusals.without_reason(asked, stores.longest(self.stage)) if asked else []
            figures = f"{len(done.not_now)}, {len(asked)} of them by ours{_some(wrong)}"
            self.check("what was refused for a time was refused with reason", not wrong, figures)
        return row

    def check(self, what: str, held: object, figures: str = "") -> None:
        """Record the result of a check; ``figures``: the measured values."""
        text = f"{what} ({figures})" if figures else what
        (self.row.checks if held else self.row.wrong).append(text)
        self.print_line(f"  {'held' if held else 'WRONG'}: {text}")

    def check_speed(self, what: str, held: object, figures: str, sharing: Sharing) -> None:
        """Record a check of speed; on a busy machine a failed one is listed as not judged."""
        if held or not sharing.busy:
            self.check(what, held, figures)
            return
        text = f"{what} ({figures}; on this machine {sharing})"
        self.row.unjudged.append(text)
        self.print_line(f"  not judged: {text}")

    # ------------------------------------------------------------- restarts
    def restart(
        self,
        broker: KafkaBroker,
        mode: Mode,
        release: str | None = None,
        *,
        while_stopped: Callable[[KafkaBroker], None] = lambda _broker: None,
        when_started: Callable[[], None] = lambda: None,
    ) -> None:
        """Restart a broker in a mode, perhaps with another release; returns when all is in sync.

        ``while_stopped`` is called with the broker before it starts, ``when_started`` before
        replicas are waited for.

        Raises:
            ProcessError: it does not stop or start.
            TimeoutError: replicas do not get in sync.
        """
        standing = self.stage.standing
        before = standing.brokers[broker.id]
        after = BrokerStanding(mode, release or before.release)
        identity = _identity(broker)
        with self.restarting(f"broker {broker.id}", _change(before, after)):
            self.stage.stop_broker(broker)
            while_stopped(broker)
            standing.brokers[broker.id] = after
            self.stage.save()
            self.stage.start_broker(broker)
            when_started()
        if before.mode is not after.mode:
            same = _identity(broker) == identity
            what = f"meta.properties of broker {broker.id} is as it was"
            self.check(what, same, ", ".join(identity))

    def restart_controller(
        self, number: int, change: str, while_stopped: Callable[[], None] = lambda: None
    ) -> None:
        """Restart a controller as ``standing`` says; returns when a controller leads again.

        Raises:
            ProcessError: it does not stop or start.
            TimeoutError: none leads.
        """
        with self.restarting(f"controller {number}", change):
            self.stage.stop_controller(number)
            while_stopped()
            self.stage.save()
            self.stage.start_controller(number)

    @contextlib.contextmanager
    def restarting(self, server: str, change: str) -> Iterator[None]:
        """Measure the restart that the ``with`` block does."""
        self.print_line(f"  {server}: {change}")
        begin = time.monotonic()
        yield
        self.stage.whole()
        took = time.monotonic() - begin
        self.clients.settle()
        waited = self.waits.longest(RECORD, begin) or 0.0
        self.row.restarts.append(
            Restart(server, change, took, waited, self.waits.longest(CHANGE, begin))
        )
        self.print_line(
            f"  {server}: in sync after {took:.1f} s; longest wait for a record {waited:.2f} s"
        )

    # ------------------------------------------------------------- checks
    def _judge(self, ruled_s: float | None = None) -> None:
        """Check what must hold after each phase; ``ruled_s``: since when ours is active."""
        dual = self.stage.standing.quorum is Quorum.MIGRATING and self._migrated()
        if dual:
            log, wrong = stores.agree(self.stage)
            topics = len(log.plain.topics)
            self.check(
                "both stores are equal", not wrong and topics, f"{topics} topics{_some(wrong)}"
            )
            commands.compare(self.stage)
            self._gauge()
        final = self.stage.standing.quorum is Quorum.FINAL
        lost: list[str] = []

        def as_answered() -> bool:
            store = (stores.log if dual or final else stores.tree)(self.stage)
            lost[:] = books.unlike(self.book, store.plain)
            if dual or final:
                lost.extend(books.never_there(self.book.loads[-1], store.plain, ruled_s))
            return not lost

        if dual or final:
            as_answered()
        else:
            # A broker in ZooKeeper mode answers a deletion when its own metadata lacks the topic;
            # the controller takes it out of ZooKeeper after that.
            self._until("every change", as_answered, lost)
        self.check(
            "every change that was answered is there",
            not lost and self.book.topics,
            f"{len(self.book.topics)} topics of {len(self.book.loads)} loads{_some(lost)}",
        )
        self.same_metadata()
        wrong = people.wrong(self.stage, len(self.stage.standing.done))
        what = "passwords, ACLs and quotas" if self.stage.secured else "quotas"
        self.check(f"every broker enforces the {what} of this phase", not wrong, _some(wrong)[2:])
        read = self.clients.verify(self.book.records())
        self.check(
            "every record that was acknowledged is there, once, in order",
            read.held and read.acknowledged,
            f"{read.acknowledged} acknowledged, {read.read} read, {len(read.missing)} missing, "
            f"{len(read.duplicated)} twice, {len(read.out_of_order)} out of order"
            + _some([*map(str, read.missing), *map(str, read.duplicated + read.out_of_order)]),
        )

    def _migrated(self) -> bool:
        migration = self.stage.status()["migration"]
        return bool(migration["migration_state"] == "MIGRATION")

    def same_metadata(self) -> None:
        """Check that every broker answers Metadata requests of clients equally."""
        wrong: list[str] = []
        answers: dict[int, dict[str, object]] = {}

        def same() -> bool:
            for broker in self.stage.cluster.brokers:
                answers[broker.id] = metadata(broker.bootstrap)
            wrong[:] = unequal(answers)
            return not wrong

        self._until("equal metadata", same, wrong)
        modes = [f"{i}: {one.mode}" for i, one in self.stage.standing.brokers.items()]
        self.check("every broker shows the same", not wrong, f"{', '.join(modes)}{_some(wrong)}")

    def _gauge(self) -> None:
        """Check what the controller counts and ZooKeeper holds of brokers in ZooKeeper mode."""
        migrating = self.stage.in_mode(Mode.MIGRATING)
        page = self.stage.wait("/metrics", lambda: self.stage.leader().page("/metrics"))
        found = _GAUGE.search(page or "")
        counted = None if found is None else int(found[1])
        self.check(
            "the gauge MigratingZkBrokerCount counts them",
            counted == len(migrating),
            f"{counted} of {len(migrating)}",
        )
        ids: list[str] = []

        def shown() -> bool:
            ids[:] = sorted(self.stage.look.get_children("/brokers/ids"))
            return ids == [*map(str, migrating)]

        wrong: list[str] = []
        self._until("every session of a broker", shown, wrong)
        what = "/brokers/ids holds the brokers in ZooKeeper mode"
        self.check(what, not wrong, f"{', '.join(ids)}{_some(wrong)}")

    def _until(self, what: str, ready: Callable[[], bool], wrong: list[str]) -> None:
        """Wait, 15 minutes at most; then ``wrong`` is not empty."""
        try:
            self.stage.wait(what, ready)
        except TimeoutError as late:
            wrong[:] = wrong or [str(late)]


def _change(before: BrokerStanding, after: BrokerStanding) -> str:
    if before == after:
        return f"{before.mode}, as it was"
    if before.release != after.release:
        return f"{before.release} to {after.release}"
    return f"{before.mode} to {after.mode}"


def _identity(broker: KafkaBroker) -> list[str]:
    """``meta.properties``, but for the ids of directories, which 3.7 and later add themselves."""
    lines = (broker.data / "meta.properties").read_text().splitlines()
    return sorted(line for line in lines if not line.startswith(("#", "directory.id=")))


def _some(found: list[str]) -> str:
    more = f" and {len(found) - _SHOWN} more" if len(found) > _SHOWN else ""
    return "".join(f"; {line}" for line in found[:_SHOWN]) + more
