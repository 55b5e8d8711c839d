"""Accepted connections of a node with a script of faults.

Where requests come in and answers go out, whatever answers them. A request that is late holds
those behind it on its connection, as Kafka reads one at a time; one without an answer keeps the
answers behind it, as they have an order.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

from emulator.config.sasl import SaslSettings
from emulator.net.accepted import TAKEN_MAX, WHY_MAX, Connections
from emulator.net.faults.script import FaultScript, Refuse, StruckRequest
from emulator.net.logins import Logins
from emulator.net.population import Population
from emulator.net.reply import API_VERSIONS, Request
from emulator.net.scram import CredentialStore
from emulator.seam import Close, Effect, Log, Ticket, earliest

Taken = tuple[list[Request], list[Effect]]


@dataclass(slots=True)
class _Troubled:
    """A connection with requests that were struck."""

    waiting: deque[Request] = field(default_factory=deque)
    """Not looked at yet, behind one that is late."""
    late: tuple[int, Request, StruckRequest] | None = None
    """When it is taken, and what becomes of it then."""
    executed: dict[int, StruckRequest] = field(default_factory=dict)
    """Requests that were struck, and executed in whole or in part, by request id."""
    answers: list[tuple[int, Ticket, bytes | None]] = field(default_factory=list)
    """When each is given; None closes the connection then."""

    @property
    def due_ms(self) -> int | None:
        times = [due for due, _, _ in self.answers]
        if self.late is not None:
            times.append(self.late[0])
        return min(times, default=None)

    @property
    def over(self) -> bool:
        return not (self.waiting or self.late or self.executed or self.answers)


class FaultyConnections(Connections):
    """As :class:`Connections`; a script strikes requests before anybody else sees them.

    Args:
        script: may change at any time.
        refuse: ``(api key, request, code, text) -> response``, for every advertised API.
    """

    def __init__(
        self,
        advertised: Mapping[int, tuple[int, int]],
        frame_bytes_max: int,
        stamp: Callable[[], int],
        population: Population | None = None,
        *,
        script: FaultScript,
        refuse: Refuse,
        logins: Logins | None = None,
    ) -> None:
        super().__init__(advertised, frame_bytes_max, stamp, population, logins)
        self._script = script
        self._refused = refuse
        self._api_versions_max = advertised.get(API_VERSIONS, (0, 0))[1]
        self._troubled: dict[int, _Troubled] = {}
        self._ripe: dict[int, None] = {}

    @property
    def deadline_ms(self) -> int | None:
        """Also when something late is due."""
        if self._ripe:
            return 0
        times = [super().deadline_ms, *(one.due_ms for one in self._troubled.values())]
        return earliest(times)

    def turns(self) -> Iterator[int]:
        """Also connections with something late that is due."""
        ripe = {**self._ripe}
        for conn in super().turns():
            ripe.pop(conn, None)
            yield conn
        for conn in ripe:
            if conn in self._ripe and self.budget.takes():
                yield conn

    def tick(self, now_ms: int) -> list[int]:
        """Also find what is due; the next :meth:`received` takes it."""
        for conn, one in self._troubled.items():
            if one.due_ms is not None and one.due_ms <= now_ms:
                self._ripe[conn] = None
        return super().tick(now_ms)

    def closed(self, conn: int) -> None:
        """Also forget what was late."""
        super().closed(conn)
        self._troubled.pop(conn, None)
        self._ripe.pop(conn, None)

    def received(self, conn: int, data: bytes, now_ms: int) -> Taken:
        """Take bytes; what is struck is answered here, or not at all."""
        requests, effects = super().received(conn, data, now_ms)
        trouble = self._troubled.get(conn)
        if trouble is None and not self._script.scripted:
            return requests, effects
        trouble = trouble or _Troubled()
        trouble.waiting += requests
        self._ripe.pop(conn, None)
        taken: list[Request] = []
        effects += self._answers_due(conn, trouble, now_ms)
        effects += self._requests_due(conn, trouble, taken, now_ms)
        if not self.owns(conn) or trouble.over:
            self._troubled.pop(conn, None)
        else:
            self._troubled[conn] = trouble
            if trouble.waiting and trouble.late is None:
                self._ripe[conn] = None
        return taken, effects

    def reply(self, ticket: Ticket, payload: bytes | None, now_ms: int) -> list[Effect]:
        """Answer one request, unless its answer is late or lost."""
        trouble = self._troubled.get(ticket.conn)
        struck = trouble.executed.pop(ticket.request_id, None) if trouble else None
        if trouble is None or struck is None or payload is None:
            return super().reply(ticket, payload, now_ms)
        if struck.merged is not None:
            return super().reply(ticket, struck.merged(payload), now_ms)
        if struck.fault.silent:
            return []
        if struck.fault.delay_ms:
            given = None if struck.fault.drop else payload
            trouble.answers.append((now_ms + struck.fault.delay_ms, ticket, given))
            return []
        return self._dropped(ticket.conn)

    def _answers_due(self, conn: int, trouble: _Troubled, now_ms: int) -> list[Effect]:
        effects: list[Effect] = []
        due = [one for one in trouble.answers if one[0] <= now_ms]
        trouble.answers = [one for one in trouble.answers if one[0] > now_ms]
        for _, ticket, payload in due:
            if payload is None:
                return effects + self._dropped(conn)
            effects += super().reply(ticket, payload, now_ms)
        return effects

    def _requests_due(
        self, conn: int, trouble: _Troubled, taken: list[Request], now_ms: int
    ) -> list[Effect]:
        """Add what is to be executed to ``taken``.

        The requests before an invalid frame are struck too, though their connection is closed.
        """
        effects: list[Effect] = []
        open_before = self.owns(conn)
        if trouble.late is not None and trouble.late[0] <= now_ms:
            _, request, struck = trouble.late
            trouble.late = None
            effects += self._carry_out(trouble, request, struck, taken, now_ms)
        while trouble.waiting and trouble.late is None and len(taken) < TAKEN_MAX:
            if open_before and not self.owns(conn):
                break
            request = trouble.waiting.popleft()
            found = self._script.strike(request, self._refused, self._api_versions_max)
            if found is None:
                taken.append(request)
                continue
            effects.append(_line(found, request))
            if found.fault.delay_ms and not found.fault.executed:
                trouble.late = (now_ms + found.fault.delay_ms, request, found)
            else:
                effects += self._carry_out(trouble, request, found, taken, now_ms)
        return effects

    def _carry_out(
        self,
        trouble: _Troubled,
        request: Request,
        struck: StruckRequest,
        taken: list[Request],
        now_ms: int,
    ) -> list[Effect]:
        fault, ticket = struck.fault, request.ticket
        if struck.payload is not None:
            return super().reply(ticket, struck.payload, now_ms)
        if struck.rest is None:
            return self._dropped(ticket.conn)
        if fault.executed or struck.merged is not None:
            trouble.executed[ticket.request_id] = struck
        elif fault.drop:
            return self._dropped(ticket.conn)
        elif fault.silent:
            return []
        taken.append(struck.rest)
        return []

    def _dropped(self, conn: int) -> list[Effect]:
        self.closed(conn)
        return [Close(conn)]


def accepting(
    advertised: Mapping[int, tuple[int, int]],
    frame_bytes_max: int,
    stamp: Callable[[], int],
    population: Population,
    *,
    script: FaultScript | None,
    refuse: Refuse,
    sasl: SaslSettings,
    store: CredentialStore,
) -> Connections:
    """The accepted connections of a node; without a script nothing strikes them.

    Those of listeners in ``sasl`` begin with a login, for which ``store`` is asked.
    """
    newest = advertised.get(API_VERSIONS, (0, 0))[1]
    logins = Logins(sasl, store, newest) if sasl.listeners else None
    if script is None:
        return Connections(advertised, frame_bytes_max, stamp, population, logins)
    return FaultyConnections(
        advertised,
        frame_bytes_max,
        stamp,
        population,
        script=script,
        refuse=refuse,
        logins=logins,
    )


def _line(struck: StruckRequest, request: Request) -> Log:
    fault, client = struck.fault, request.ticket.header.client_id or ""
    what = fault.error or fault.action
    fields: dict[str, object] = {"api": fault.api, "what": what, "delay_ms": fault.delay_ms}
    return Log("warning", "scripted fault", {**fields, "client_id": client[:WHY_MAX]})
