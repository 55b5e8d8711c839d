"""What one process of a fleet measures: rows for a trace, and its totals at the end."""

from __future__ import annotations

import resource
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

from emulator.broker.churn import ChurnedIsr
from emulator.io.clock import Clock
from emulator.io.fleet.life import BrokerLife
from emulator.io.fleet.member import FleetMember
from emulator.io.fleet.tap import HEARTBEAT, Exchange
from emulator.io.fleet.totals import FleetTotals, WaitTimes
from emulator.trace.rows import FleetRow, RequestRow, Row, StallRow
from wire.errors import named
from wire.schema import api_name


class FleetResults:
    """See the module's docstring.

    Args:
        row: takes each row.
        flush: called now and then.
    """

    def __init__(self, row: Callable[[Row], None], flush: Callable[[], None]) -> None:
        self.flush = flush
        self.storm_ns = 0
        self.topics_ns = 0
        self.churn_ns = 0
        self.unfinished = 0
        self.absent: Counter[str] = Counter()
        """Why brokers did not run at the end that should -> how many."""
        self.load_ns: tuple[int, int | None] | None = None
        """When changes and waves began and ended; None: not yet."""
        self._beats_under_load = WaitTimes()
        self._row = row
        self._waits: dict[str, WaitTimes] = {}
        self._errors: Counter[str] = Counter()
        self._lost = 0
        self._numbers = 0
        self._members: Sequence[FleetMember] = ()
        self._stall_ns = 0
        self._rss_before_kib = _rss_kib()

    def note_exchange(self, broker_id: int, seen: Exchange) -> None:
        """A request was answered."""
        self._numbers += 1
        api = api_name(seen.api_key)
        self._wait(api, seen.answered_ns - seen.intended_ns)
        if seen.api_key == HEARTBEAT and self._in_load(seen.intended_ns):
            self._beats_under_load.add(seen.answered_ns - seen.intended_ns)
        if seen.error_code:
            self._errors[f"{api}: {named(seen.error_code)}"] += 1
        self._row(
            RequestRow(
                request_id=self._numbers,
                api=api,
                api_version=seen.version,
                client_id=str(broker_id),
                correlation_id=seen.correlation_id,
                answered_ns=seen.answered_ns,
                error_code=seen.error_code,
                intended_ns=seen.intended_ns,
                sent_ns=seen.sent_ns,
            )
        )

    def note_isr(self, broker_id: int, change: ChurnedIsr, clock: Clock) -> None:
        """An ISR is as it was asked for, or the partition has another leader."""
        event = "isr_shrink" if change.drops else "isr_expand"
        due_ns = clock.monotonic_anchor_ns + int((change.due_ms - clock.wall_anchor_ms) * 1e6)
        now_ns = clock.now_ns()
        if change.lost:
            self._lost += 1
        else:
            self._wait("ISR change", now_ns - due_ns)
        done_ns = None if change.lost else now_ns
        self._row(FleetRow(event, broker_id, due_ns, done_ns, *change.key))

    def note_end(self, broker_id: int, life: BrokerLife, due_ns: int) -> None:
        """A life was asked to end."""
        self._row(FleetRow("shutdown", broker_id, due_ns, life.ended_ns))
        if life.problem is None and not life.killed and life.ended_ns is not None:
            self._wait("shutdown", life.ended_ns - due_ns)

    def note_members(self, members: Sequence[FleetMember]) -> None:
        """All brokers, before those that live are stopped."""
        self._members = members
        for member in members:
            for life in member.lives:
                if life.running_ns is not None:
                    self._wait("registration", life.running_ns - life.due_ns)
                row = FleetRow("registration", member.broker_id, life.due_ns, life.running_ns)
                self._row(row)

    def note_stall(self, stall: StallRow) -> None:
        """The fleet's own loop was late."""
        self._stall_ns = max(self._stall_ns, stall.end_ns - stall.begin_ns)
        self._row(stall)

    @property
    def failed(self) -> bool:
        """See FleetTotals."""
        return self.totals(0.0, 0.0).failed

    @property
    def _bad_ends(self) -> Counter[str]:
        lives = (life for member in self._members for life in member.lives)
        return Counter(life.problem for life in lives if life.problem is not None)

    def figures(self, wall_s: float, cpu_s: float) -> dict[str, Any]:
        """All figures of this process alone, for JSON. Args: as for ``totals``."""
        return self.totals(wall_s, cpu_s).figures()

    def totals(self, wall_s: float, cpu_s: float) -> FleetTotals:
        """What this process saw, to be added to what others did.

        Args:
            wall_s: duration of the run.
            cpu_s: CPU time of this process.
        """
        found = FleetTotals(
            brokers=len(self._members),
            waits=self._waits,
            beats_under_load=self._beats_under_load,
            lost=self._lost,
            unfinished=self.unfinished,
            errors=self._errors,
            ended_badly=self._bad_ends,
            absent=self.absent,
            storm_ns=self.storm_ns,
            topics_ns=self.topics_ns,
            churn_ns=self.churn_ns,
            stall_ns=self._stall_ns,
            cpu_cores=cpu_s / wall_s if wall_s else 0.0,
            memory_kib=_rss_kib() - self._rss_before_kib,
        )
        for member in self._members:
            by_key, by_text = member.totals()
            found.sent.update(by_key)
            found.warnings.update(by_text)
            found.asked += sum(life.asked for life in member.lives)
            found.skipped += sum(life.skipped for life in member.lives)
        return found

    def _in_load(self, due_ns: int) -> bool:
        if self.load_ns is None:
            return False
        begin_ns, end_ns = self.load_ns
        return begin_ns <= due_ns and (end_ns is None or due_ns <= end_ns)

    def _wait(self, what: str, ns: int) -> None:
        self._waits.setdefault(what, WaitTimes()).add(ns)


def _rss_kib() -> int:
    with open("/proc/self/statm", encoding="ascii") as statm:  # noqa: PTH123 - not a file
        return int(statm.read().split()[1]) * resource.getpagesize() // 1024
