"""What a case is: a small pure program over connections, with its level and its sources.

A program is a generator. It yields what is to be done (:class:`Ask`, :class:`Send`, ...), is sent
the outcome, and raises :class:`Violation` at the first thing that is not as Kafka does it.
"""

from __future__ import annotations

import enum
import random
from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

from wire.errors import named
from wire.schema import spec

Ranges: TypeAlias = Mapping[int, tuple[int, int]]
"""API key -> lowest and highest version."""


_LEADER_AND_ISR: Final = 4


class Level(enum.StrEnum):
    """How much depends on it."""

    MUST = "must"
    """A client or a broker of Kafka fails without it."""
    SHOULD = "should"
    """All releases do it, and a client may rely on it."""
    HABIT = "habit"
    """Kafka does it, and nobody needs it."""


class Where(enum.StrEnum):
    """The listener that a case asks."""

    BROKER = "broker"
    CONTROLLER = "controller"
    EACH = "each"
    """Every listener that was named: the case runs on each."""


CUT: Final = " characters)"
"""How the text of a value ends that was cut."""


class Violation(Exception):  # noqa: N818 - what a case finds
    """The server does not do what the case asks for."""

    def __init__(self, what: str, expected: object, got: object) -> None:
        super().__init__(f"{what}: expected {expected}, got {got}")
        self.what = what
        self.expected = str(expected)
        self.got = str(got)


class NotOffered(Exception):  # noqa: N818 - no error: the server has no such thing
    """The server does not offer what the case is about; the text says what."""


# ------------------------------------------------------------------ what a program may yield
@dataclass(frozen=True, slots=True)
class Ask:
    """Send a request; the outcome is an :class:`Answer`.

    ``version`` None: the newest that both sides speak, at least ``lowest``. ``line`` names the
    connection: one that is new is opened. ``at`` None: the listener that the case runs on.
    """

    request: Any
    version: int | None = None
    lowest: int = 0
    line: str = "main"
    at: Where | None = None
    client_id: str | None = "kraft-bridge-conformance"
    header_tags: tuple[tuple[int, bytes], ...] = ()


@dataclass(frozen=True, slots=True)
class Answer:
    """The decoded answer to an :class:`Ask`, the version it was asked in, and its frame."""

    message: Any
    version: int
    frame: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class Send:
    """Send bytes as they are; the outcome is None."""

    data: bytes
    line: str = "main"


@dataclass(frozen=True, slots=True)
class Receive:
    """Wait for one frame; the outcome is its bytes, or an :class:`End`.

    ``closes``: whether it is to be the end of the connection.
    """

    line: str = "main"
    closes: bool = False


class End(enum.Enum):
    """Why no frame came."""

    CLOSED = "the connection was closed"
    SILENT = "nothing came"
    REFUSED = "the connection was refused"


@dataclass(frozen=True, slots=True)
class HalfClose:
    """Say that nothing more will be sent."""

    line: str = "main"


@dataclass(frozen=True, slots=True)
class Pause:
    """Wait."""

    seconds: float


@dataclass(frozen=True, slots=True)
class Again:
    """Wait a moment, as what was asked for is not so yet.

    ``number`` counts such moments, from 0. The outcome is 0, or the seconds that it was given: it
    is over.
    """

    number: int
    every_s: float = 0.05


Effect: TypeAlias = Ask | Send | Receive | HalfClose | Pause | Again
Program: TypeAlias = Generator[Effect, Any, Any]


# ------------------------------------------------------------------ what a program knows
@dataclass(slots=True)
class Facts:
    """What is known of the server: asked before the first case."""

    ranges: dict[Where, Ranges] = field(default_factory=dict)
    """What each named listener offers."""
    release: str = ""
    """Of Kafka, such as "3.9"; empty: unknown."""
    features: dict[str, tuple[int, int]] = field(default_factory=dict)
    """Supported, of the controller if one is named."""
    finalized: dict[str, int] = field(default_factory=dict)
    brokers: tuple[int, ...] = ()
    """Live brokers by id; empty: no broker is named."""
    cluster_id: str = ""
    plain: frozenset[Where] = frozenset()
    """Listeners that are asked without TLS and without a login."""
    authorizer: bool | None = None
    """None: it is not known whether there is one."""

    @property
    def zookeeper(self) -> bool:
        """Whether the broker is in ZooKeeper mode: only such a one lists LeaderAndIsr."""
        return _LEADER_AND_ISR in self.ranges.get(Where.BROKER, {})

    def offers(self, where: Where, request: type) -> tuple[int, int] | None:
        """The versions of a request that both speak; None: there are none."""
        ours = spec(request)
        low, high = self.ranges.get(where, {}).get(ours.key or 0, (0, -1))
        low, high = max(low, ours.min_version), min(high, ours.max_version)
        return (low, high) if low <= high else None


@dataclass(slots=True)
class Stage:
    """What a program is given.

    ``rng`` is its own, by seed and case. ``here`` is the listener that it runs on. ``shared`` keeps
    what one case made for those after it.
    """

    facts: Facts
    here: Where
    prefix: str
    rng: random.Random
    shared: dict[str, Any]
    numbers: list[int] = field(default_factory=lambda: [0])

    def name(self, what: str = "") -> str:
        """A name that nothing has yet; it begins with the prefix."""
        self.numbers[0] += 1
        return f"{self.prefix}-{self.numbers[0]}{what}"

    def versions(self, request: type) -> range:
        """Every version of a request that is offered here.

        Raises:
            NotOffered: none is.
        """
        found = self.facts.offers(self.here, request)
        if found is None:
            raise NotOffered(f"{spec(request).name.removesuffix('Request')} is not offered")
        return range(found[0], found[1] + 1)


# ------------------------------------------------------------------ the catalogue
@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One case of the catalogue."""

    id: str
    group: str
    title: str
    level: Level
    sources: str
    rows: tuple[str, ...]
    where: Where
    asks: tuple[type, ...]
    """Requests that it needs; it is not offered without them."""
    brokers: int
    """So many live ones are needed; those of a broker listener."""
    kraft: bool
    """Whether it holds in KRaft mode only."""
    since: str
    """The release from which on it holds; judged of an unknown release too if empty."""
    disruptive: bool
    slow: bool
    program: Callable[[Stage], Program]


CASES: Final[dict[str, Case]] = {}
"""By id, in the order of the groups' files."""


def case(
    title: str,
    *,
    level: Level = Level.MUST,
    sources: str = "",
    rows: str = "",
    where: Where = Where.EACH,
    asks: tuple[type, ...] = (),
    brokers: int = 0,
    kraft: bool = False,
    since: str = "",
    disruptive: bool = False,
    slow: bool = False,
) -> Callable[[Callable[[Stage], Program]], Callable[[Stage], Program]]:
    """Enter a program into the catalogue; its group is the file's name, its id that and its own."""

    def enter(program: Callable[[Stage], Program]) -> Callable[[Stage], Program]:
        group = program.__module__.rpartition(".")[2]
        add(
            Case(
                id=f"{group}.{program.__name__}",
                group=group,
                title=title,
                level=level,
                sources=sources,
                rows=tuple(rows.split()),
                where=where,
                asks=asks,
                brokers=brokers,
                kraft=kraft,
                since=since,
                disruptive=disruptive,
                slow=slow,
                program=program,
            )
        )
        return program

    return enter


def add(one: Case) -> None:
    """Enter a case."""
    assert one.id not in CASES, one.id
    CASES[one.id] = one


# ------------------------------------------------------------------ what a program expects
def same(what: str, got: object, expected: object) -> None:
    """Compare.

    Raises:
        Violation: they differ.
    """
    if got != expected:
        raise Violation(what, printed(expected), printed(got))


def holds(what: str, truth: object, expected: object, got: object) -> None:
    """Demand that something is true.

    Raises:
        Violation: it is not.
    """
    if not truth:
        raise Violation(what, expected, printed(got))


def code(what: str, got: int, *expected: int) -> None:
    """Demand one of some error codes; names are shown.

    Raises:
        Violation: it is another one.
    """
    if got not in expected:
        raise Violation(what, " or ".join(map(named, expected)), named(got))


def only(what: str, got: Any) -> Any:
    """The one element of a list.

    Raises:
        Violation: it has none, or more.
    """
    if len(got) != 1:
        raise Violation(what, "one entry", f"{len(got)}: {printed(got)}")
    return got[0]


def printed(value: object) -> str:
    """A value as text, cut at 300 characters."""
    text = repr(value)
    return text if len(text) <= 300 else f"{text[:300]}... ({len(text)}{CUT}"
