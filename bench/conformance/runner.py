"""Runs cases on real connections, and keeps what each of them found.

The connections of a case are closed at its end: nothing of one case is met by the next. At the end,
however it comes, what was made is removed.
"""

from __future__ import annotations

import contextlib
import random
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from bench.conformance.case import (
    CUT,
    Again,
    Answer,
    Ask,
    Case,
    Effect,
    End,
    Facts,
    HalfClose,
    NotOffered,
    Pause,
    Program,
    Receive,
    Send,
    Stage,
    Violation,
    Where,
)
from bench.conformance.connection import Line
from bench.conformance.echo import once, strangers
from bench.conformance.facts import greeting
from bench.conformance.made import Made
from bench.conformance.patience import Patience
from emulator.config.tls import TlsSettings
from emulator.io.printable import sentence
from emulator.net.login import Login, LoginError
from wire.errors import DecodeError, EncodeError
from wire.schema import api_name, spec

EXCHANGES_KEPT: Final = 12
"""Of a case, the last ones."""
BYTES_KEPT: Final = 2_048
DEAF: Final = 20
"""After so many in a row, without any answer between them, nothing more is asked."""
BACK_S: Final = 10.0
"""A server that is away may come back within that time; then it is judged on."""
LAST_S: Final = 2.0
"""How long answers may take when what was made is removed from a server that has ended."""
_AGAIN_S: Final = 0.2
CONNECTIONS_MAX: Final = 20
CONNECTIONS_DISRUPTIVE: Final = 1_000
_DESCRIBE_CONFIGS: Final = 32
_TOKENS: Final = (38, 41)
"""Keys of APIs whose answers have tokens: one, or a list."""
_SECRET_PART: Final = 4
"""Characters: what is shorter is no secret, and a text that was cut may end with so many of one."""
_SECRET: Final = frozenset({32, 33, 36, 38, 39, 40, 41, 44, 51, 58})
"""Keys of APIs whose bytes may hold a secret: they are not kept."""


_AWAY: Final = frozenset(one.value for one in End)


class UnreachableError(Exception):
    """The server cannot be reached, or ends each connection; the text says what happened."""


@dataclass(frozen=True, slots=True)
class Address:
    """Where a listener is, and how to talk to it."""

    host: str
    port: int
    tls: TlsSettings | None = None
    login: Login | None = None

    def __str__(self) -> str:
        return f"{self.host}:{self.port}"


@dataclass(slots=True)
class Exchange:
    """What was sent and what came; bytes are cut at ``BYTES_KEPT``, those with secrets left out."""

    line: str
    what: str
    sent: bytes = b""
    got: bytes = b""
    answer: str = ""
    bare: bool = False
    """Whether ``sent`` lacks its length."""


@dataclass(slots=True)
class Finding:
    """What one run of a case found. ``outcome``: passed, failed, not offered or not judged."""

    case: Case
    where: Where
    outcome: str
    why: str = ""
    expected: str = ""
    got: str = ""
    seconds: float = 0.0
    exchanges: list[Exchange] = field(default_factory=list)
    plain: Address | None = None
    """The listener, if it wants neither TLS nor a login."""

    @property
    def id(self) -> str:
        """The case's, with the listener where it runs on each."""
        each = self.case.where is Where.EACH
        return f"{self.case.id}@{self.where.value}" if each else self.case.id


class Performer:
    """Performs what programs yield: opens lines, sends, receives."""

    def __init__(
        self,
        addresses: Mapping[Where, Address],
        facts: Facts,
        made: Made,
        most: int = CONNECTIONS_MAX,
        patience: Patience | None = None,
    ) -> None:
        self._most = most
        self._patience = patience or Patience()
        self.addresses = addresses
        self.facts = facts
        self.made = made
        self.exchanges: list[Exchange] = []
        self.secrets: set[str] = set()
        self._lines: dict[tuple[Where, str], Line] = {}

    def run(self, program: Program, here: Where) -> Any:
        """Run a program to its end; returns what it returns.

        Raises:
            Violation, NotOffered: of the program.
            UnreachableError: no connection could be made.
        """
        try:
            effect = next(program)
            while True:
                try:
                    outcome = self._perform(effect, here)
                except (Violation, NotOffered) as error:
                    effect = program.throw(error)
                else:
                    effect = program.send(outcome)
        except StopIteration as end:
            return end.value

    def close(self) -> None:
        """End all lines."""
        for line in self._lines.values():
            line.close()
        self._lines.clear()

    def _perform(self, effect: Effect, here: Where) -> Any:
        match effect:
            case Ask():
                return self._ask(effect, effect.at or here)
            case Send(data, line):
                self._note(Exchange(line, f"{len(data)} bytes", data[:BYTES_KEPT]))
                self._line(here, line).send(data)
            case Receive():
                return self._receive(effect, here)
            case HalfClose(line):
                self._note(Exchange(line, "half close"))
                self._line(here, line).half_close()
            case Pause(seconds):
                time.sleep(seconds)
            case Again(number, every_s):
                given_s = self._patience.change_s()
                if number * every_s >= given_s:
                    self._patience.unchanged += 1
                    return given_s
                time.sleep(every_s)
                return 0.0
        return None

    def _receive(self, wanted: Receive, here: Where) -> bytes | End:
        patience = self._patience
        within_s = patience.closed_s() if wanted.closes else patience.answer_s(None)
        got = self._line(here, wanted.line).frame(within_s)
        if got is End.SILENT and wanted.closes:
            patience.unclosed += 1
        elif got is End.SILENT:
            patience.was_silent(None)
        shown, text = (got, "") if isinstance(got, bytes) else (b"", got.value)
        self._note(Exchange(wanted.line, "wait", b"", shown[:BYTES_KEPT], text))
        return got

    def _ask(self, asked: Ask, at: Where) -> Answer:
        version = asked.version
        if version is None:
            offered = self.facts.offers(at, type(asked.request))
            name = spec(type(asked.request)).name.removesuffix("Request")
            if offered is None or offered[1] < asked.lowest:
                raise NotOffered(f"{name} is not offered in version {asked.lowest} or later")
            version = offered[1]
        key = spec(type(asked.request)).key or 0
        exchange = Exchange(asked.line, f"{api_name(key)} v{version} to {at.value}", bare=True)
        self._note(exchange)
        self.made.note(asked.request)
        line = self._line(at, asked.line)
        try:
            _, answer = line.ask(asked, version, self._patience.answer_s(key))
        except Violation as found:
            if found.got == End.SILENT.value:
                self._patience.was_silent(key)
            raise
        finally:
            if key not in _SECRET:
                exchange.sent, exchange.got = (one[:BYTES_KEPT] for one in line.last)
        self._patience.in_a_row = 0
        self._secrets(key, answer.message)
        shown = repr(answer.message)[:BYTES_KEPT]
        exchange.answer = "not shown: it may hold secrets" if key in _SECRET else shown
        strangers(asked.request, answer.message)
        once(asked.request, answer.message)
        return answer

    def _secrets(self, key: int, message: Any) -> None:
        """Keep what no output may have."""
        if key == _DESCRIBE_CONFIGS:
            configs = [one for result in message.results for one in result.configs]
            hidden = [one.value for one in configs if one.is_sensitive or "password" in one.name]
            self.secrets |= {one for one in hidden if one and len(one) >= _SECRET_PART}
        elif key in _TOKENS:
            tokens = [message] if key == _TOKENS[0] else message.tokens
            self.secrets |= {repr(one.hmac)[2:-1] for one in tokens if one.hmac}

    def told(self, text: str) -> str:
        """A text of a finding, unless it has a secret."""
        logins = [one.login.password for one in self.addresses.values() if one.login]
        whole = not text.endswith(CUT)
        parts = [one if whole else one[:_SECRET_PART] for one in (*self.secrets, *logins)]
        return "not shown: it holds a secret" if any(one in text for one in parts) else text

    def _note(self, exchange: Exchange) -> None:
        self.exchanges.append(exchange)
        del self.exchanges[:-EXCHANGES_KEPT]

    def _line(self, at: Where, name: str) -> Line:
        found = self._lines.get((at, name))
        if found is None:
            assert len(self._lines) < self._most, f"a case opens at most {self._most} connections"
            found = opened(self.addresses[at])
            self._lines[at, name] = found
        return found


def opened(address: Address) -> Line:
    """A connection, logged in.

    Raises:
        UnreachableError: it cannot be made.
        LoginError: the server refuses the login.
    """
    try:
        line = Line(address.host, address.port, address.tls)
    except OSError as error:
        raise UnreachableError(f"no server answers at {address}: {sentence(error)}") from error
    if address.login is not None:
        try:
            line.log_in(address.login)
        except Violation as error:
            line.close()
            raise UnreachableError(f"{address}: the login is not answered: {error}") from error
        except BaseException:
            line.close()
            raise
    return line


@dataclass(slots=True)
class Run:
    """All cases on one server.

    Args:
        addresses: of the listeners that were named.
        facts: of the server.
        made: what has been made on it.
        seed: of what is drawn.
        disruptive: whether cases run that may disturb others.
        slow: whether cases run that take long.
    """

    addresses: Mapping[Where, Address]
    facts: Facts
    made: Made
    seed: int
    disruptive: bool = False
    slow: bool = False
    shared: dict[Where, dict[str, Any]] = field(default_factory=dict)
    numbers: list[int] = field(default_factory=lambda: [0])
    patience: Patience = field(default_factory=Patience)
    gone: str = ""
    """Which listener cannot be reached any more, since when, and why."""
    deaf: str = ""
    """Which listener does answer, but no request of a case any more."""

    @property
    def ended(self) -> str:
        """Why nothing more is judged; empty: it is."""
        return self.gone or self.deaf

    def findings(self, cases: Iterable[Case], told: Callable[[Finding], None]) -> list[Finding]:
        """Run the cases in order, each where it belongs; ``told`` hears each finding at once."""
        found: list[Finding] = []
        for one in cases:
            for where in self.places(one):
                finding = self.one(one, where)
                found.append(finding)
                told(finding)
        return found

    def places(self, case: Case) -> list[Where]:
        """The named listeners on which a case runs."""
        return [one for one in self.facts.ranges if case.where in {one, Where.EACH}]

    def one(self, case: Case, where: Where) -> Finding:
        """Run one case on one listener."""
        reason = self._not_judged(case, where)
        if reason:
            return Finding(case, where, *reason)
        most = CONNECTIONS_DISRUPTIVE if case.disruptive else CONNECTIONS_MAX
        performer = Performer(self.addresses, self.facts, self.made, most, self.patience)
        stage = Stage(
            self.facts,
            where,
            self.made.prefix,
            random.Random(f"{self.seed} {case.id} {where}"),
            self.shared.setdefault(where, {}),
            self.numbers,
        )
        at = self.addresses[where]
        secured = at.tls is not None or at.login is not None
        finding = Finding(case, where, "passed", plain=None if secured else at)
        began = time.monotonic()
        try:
            self._perform(case.program(stage), performer, finding)
        finally:
            with contextlib.suppress(OSError):
                performer.close()
        if finding.outcome == "failed" and finding.got in _AWAY:
            self._look(finding)
        if self.patience.in_a_row >= DEAF:
            self.deaf = f"the {where.value} left {DEAF} requests in a row without an answer"
        finding.expected, finding.got = map(performer.told, (finding.expected, finding.got))
        finding.seconds = time.monotonic() - began
        finding.exchanges = performer.exchanges
        return finding

    def _perform(self, program: Program, performer: Performer, finding: Finding) -> None:
        """Run a program, and enter what it finds."""
        try:
            performer.run(program, finding.where)
        except NotOffered as why:
            finding.outcome, finding.why = "not offered", str(why)
        except Violation as found:
            finding.outcome, finding.why = "failed", found.what
            finding.expected, finding.got = found.expected, found.got
        except UnreachableError as error:
            finding.outcome, finding.why = "failed", f"a new connection: {error}"
            finding.expected, finding.got = "it is accepted", End.REFUSED.value
        except LoginError as error:
            finding.outcome, finding.why = "failed", "a login as before"
            finding.expected, finding.got = "it is accepted", str(error)
        except EncodeError as error:
            finding.outcome, finding.why = "not judged", f"a mistake of the case: {error}"
        except (LookupError, TypeError, ValueError, AttributeError, DecodeError) as error:
            # What a program takes for granted, such as a result for each topic that it named, and
            # records that can be read.
            finding.outcome, finding.why = "failed", "what the answers hold"
            finding.expected, finding.got = "what was asked for", f"{type(error).__name__}: {error}"

    def _look(self, finding: Finding) -> None:
        """Whether the servers are still there, after an answer or a connection that never came."""
        for where in self.addresses:
            why = self._away(where)
            if why:
                since = f"since {finding.id}"
                self.gone = f"the {where.value} cannot be reached any more, {since}: {why}"
                finding.outcome, finding.why = "not judged", self.gone
                finding.expected = finding.got = ""
                return

    def _not_judged(self, case: Case, where: Where) -> tuple[str, str] | None:
        """The outcome without running it, and why; None: it runs."""
        if self.ended:
            # Most programs look at the other listener too.
            return "not judged", self.ended
        if case.disruptive and not self.disruptive:
            return "not judged", "needs --allow-disruptive"
        if case.slow and not self.slow:
            return "not judged", "needs --slow"
        if case.brokers > len(self.facts.brokers):
            return "not judged", f"needs {case.brokers} live brokers, and --bootstrap-server"
        if case.kraft and self.facts.zookeeper:
            return "not judged", "holds in KRaft mode"
        release = self.facts.release
        if case.since and (not release or _number(release) < _number(case.since)):
            return "not judged", f"holds from Kafka {case.since} on"
        for request in case.asks:
            if self.facts.offers(where, request) is None:
                name = spec(request).name.removesuffix("Request")
                return "not offered", f"{name} is not offered"
        return None

    def _away(self, where: Where) -> str:
        """Why a listener answers nothing, neither now nor soon; empty: it answers."""
        end = time.monotonic() + BACK_S
        while True:
            line = None
            try:
                line = opened(self.addresses[where])
                line.ask(Ask(greeting()), 0, max(_AGAIN_S, end - time.monotonic()))
            except (UnreachableError, LoginError, Violation) as error:
                if time.monotonic() >= end:
                    return str(error)
                time.sleep(_AGAIN_S)
            else:
                return ""
            finally:
                if line is not None:
                    line.close()

    def remove(self) -> list[str]:
        """Remove what was made; returns what is left."""
        patience = Patience(most=LAST_S if self.ended else None)
        performer = Performer(self.addresses, self.facts, self.made, patience=patience)
        try:
            left: list[str] = performer.run(self.made.removal(self.facts), Where.BROKER)
        except (Violation, NotOffered, UnreachableError, LoginError) as error:
            return [f"what was made with the prefix {self.made.prefix}: {error}"]
        else:
            return left
        finally:
            performer.close()


def _number(release: str) -> tuple[int, ...]:
    return tuple(int(part) for part in release.split("."))
