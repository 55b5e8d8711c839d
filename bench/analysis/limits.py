"""What limited a run: how full each resource was, and what follows for ZooKeeper. Plain Python.

``RESOURCES`` is the one place of their names, how each is measured, its limit, and from which share
of it on it counts as full.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from emulator.servers.machine import QUIET_CORES

LATE_MS: Final = 10.0
"""A client that sends so much later than it should measures itself."""
BLOCKED_SHARE: Final = 0.01
"""From this share of the time on, changes that wait for ZooKeeper are what limits."""
BLOCKED: Final = "blocked"
"""In the column ``resource``: no resource, but the share of the time that operations waited for
ZooKeeper."""
PARTS: Final = ("client", "broker", "queue", "blocked", "commit", "answer")
"""Where a change's time goes: until its last attempt is sent; at the broker and on the way, there
and back; in the controller until it is appended, but for the wait for ZooKeeper; that wait; until
it is committed; until it is answered."""
DONE: Final = 0.99
"""So much of what was due is done in time where nothing limits."""
GROWS: Final = 0.01
"""From this share of what is committed on, ZooKeeper takes less than it gets."""
_NOT_MEASURED: Final = "so how much ZooKeeper can take was not measured"
"""Where a machine that is full, or a client that is late, limited first."""


class Key(StrEnum):
    """A resource; values are those of the column ``resource``."""

    MACHINE = "machine"
    CLIENT = "client"
    LOG_SYNC = "log_sync"
    EVENT_LOOP = "event_loop"
    FORWARDING = "forwarding"
    CONNECTIONS = "connections"
    ZOOKEEPER = "zookeeper"
    PROCESS = "process"
    OTHERS = "others"


@dataclass(frozen=True, slots=True)
class Resource:
    """One resource.

    ``full``: the share of the limit from which on it counts as full; None: it is shown, but alone
    it says nothing. ``first``: if it is full, the figures of the others, and so of ZooKeeper, are
    those of a machine or a client that could do no more. ``gathers``: it takes all that waits for
    it at once, so that it may be busy all the time and still keep up.
    """

    key: Key
    name: str
    measured: str
    limit: str
    full: float | None
    first: bool = False
    gathers: bool = False


RESOURCES: Final = (
    Resource(
        Key.MACHINE,
        "the machine's cores",
        "CPU seconds of all programs, by the time and the cores",
        "all cores of the machine",
        0.7,
        first=True,
    ),
    Resource(
        Key.CLIENT,
        "the client",
        "p99 of how late it turned to a change, where it waited for nothing; of few the greatest",
        f"{LATE_MS:g} ms",
        1.0,
        first=True,
    ),
    Resource(
        Key.LOG_SYNC,
        "the log's sync",
        "share of the time with a batch that is appended and not committed",
        "one sync at a time, of all that waits; a limit only where less was done than was due",
        0.8,
        gathers=True,
    ),
    Resource(
        Key.EVENT_LOOP,
        "the event loop",
        "CPU seconds of its thread, by the time",
        "one core",
        0.8,
    ),
    Resource(
        Key.FORWARDING,
        "the forwarding channel",
        "share of the time with a client's change at the broker, which forwards one at a time",
        "one request at a time",
        0.8,
    ),
    Resource(
        Key.CONNECTIONS,
        "the client's connections",
        "share of the changes that found no free one",
        "a free connection for each change",
        0.5,
    ),
    Resource(
        Key.ZOOKEEPER,
        "ZooKeeper",
        "share of the time with a multi in flight",
        "one chain of multis; a limit only where changes waited for it, or its lag grew",
        0.8,
        gathers=True,
    ),
    Resource(
        Key.PROCESS,
        "the process",
        "CPU seconds of the process, by the time",
        "all cores of the machine",
        None,
    ),
    Resource(
        Key.OTHERS,
        "other programs",
        "cores that programs used which are not of the run",
        f"{QUIET_CORES:g} cores",
        None,
    ),
)
"""From the cause to the effect: where one is full, those after it fill because they wait for it.
ZooKeeper is written behind the changes, so it is a cause only where changes waited for it."""

_BY_KEY: Final = {each.key: each for each in RESOURCES}
_ORDER: Final = [each.key for each in RESOURCES]


@dataclass(frozen=True, slots=True)
class Figure:
    """How much of a resource was used.

    ``subject``: whose, where there are several (a process, a broker). ``share``: of its limit;
    None: not known, and ``why`` says why. ``amount``: the same in its own unit, in words.
    ``of``: its limit in that unit, in words, where ``amount`` does not say it.
    """

    key: Key
    share: float | None
    subject: str = ""
    amount: str = ""
    why: str = ""
    of: str = ""

    @property
    def full(self) -> bool:
        """Whether it could take no more without a wait."""
        limit = _BY_KEY[self.key].full
        return limit is not None and self.share is not None and self.share >= limit

    @property
    def name(self) -> str:
        """The resource in words."""
        name = _BY_KEY[self.key].name
        if self.key is Key.FORWARDING and self.subject:
            return f"the forwarding channel of broker {self.subject}"
        return f"{name} ({self.subject})" if self.subject else name

    @property
    def used(self) -> str:
        """How full it was, in words."""
        if self.share is None:
            return f"not known: {self.why or 'nothing measured it'}"
        return self.amount or f"{self.share:.0%}"

    @property
    def counts_from(self) -> str:
        """From where on it counts as full, in words; empty: that alone does not decide."""
        resource = _BY_KEY[self.key]
        if self.key is Key.CLIENT:
            return f"{LATE_MS:g} ms"
        return "" if resource.full is None or resource.gathers else f"{resource.full:.0%}"

    @property
    def filled(self) -> str:
        """The same, as a share of its limit in any case."""
        return f"{self.share:.0%} ({self.amount} of {self.of})" if self.of else self.used


@dataclass(frozen=True, slots=True)
class Run:
    """What else a verdict needs; None: not known.

    ``done``: share of what was due that was carried out in time. ``blocked``: share of the time in
    which an operation waited for ZooKeeper. ``blocked_ms``: the same in milliseconds. ``growth``:
    of the lag, as a share of what was committed.
    """

    done: float | None = None
    blocked: float | None = None
    blocked_ms: float | None = None
    growth: float | None = None

    @property
    def behind(self) -> bool:
        """Whether less was done in time than was due."""
        return self.done is not None and self.done < DONE

    def limits(self, one: Figure) -> bool:
        """Whether a resource that is full held anything up.

        What gathers does so only where less was done than was due; ZooKeeper, to which changes go
        after their commit, where it took less than it got.
        """
        if one.key is Key.ZOOKEEPER:
            return (self.growth or 0.0) > GROWS
        return self.behind or not _BY_KEY[one.key].gathers


@dataclass(frozen=True, slots=True)
class Limited:
    """What limited a run. ``by``: None: nothing did, or it is not known."""

    text: str
    by: Figure | None
    zookeeper: bool | None
    """Whether the run may say how much ZooKeeper takes; None: it is not known."""
    unknown: tuple[str, ...] = ()
    behind: bool = False
    """Whether less was done in time than was due, by nothing that is known."""
    nothing: bool = False
    """Whether nothing that was measured did: what was due was done in time."""
    in_time: bool = False
    """Whether what was due was done in time, though the machine was full or the client late."""

    @property
    def warns(self) -> bool:
        """Whether it is more than a run that did what was due."""
        return self.by is not None or self.zookeeper is False or self.behind


def limited(figures: Iterable[Figure], run: Run = Run()) -> Limited:
    """Find what limited a run.

    Args:
        figures: of any resources; one that is not among them is unknown.
        run: what was done, and what waited for ZooKeeper.
    """
    found = sorted(figures, key=lambda one: (_ORDER.index(one.key), -(one.share or 0.0)))
    known = {one.key for one in found if one.share is not None}
    judged = [each for each in RESOURCES if each.full is not None]
    unknown = tuple(each.name for each in judged if each.key not in known)
    full = [one for one in found if one.full]
    if full and _BY_KEY[full[0].key].first:
        first = full[0]
        says = f"late itself, by {first.used}" if first.key is Key.CLIENT else _full(first)
        text = f"{_capital(first.name)}: {says}, {_NOT_MEASURED}"
        held_up = run.done is None or run.behind or (run.blocked or 0.0) >= BLOCKED_SHARE
        return Limited(text, first, False, unknown, in_time=not held_up)
    # Without these two figures a full machine, or a late client, would not have been seen.
    judges = None if any(each.first and each.key not in known for each in RESOURCES) else True
    limiting = [one for one in full if run.limits(one)]
    if (run.blocked or 0.0) >= BLOCKED_SHARE:
        zookeeper = (one for one in found if one.key is Key.ZOOKEEPER)
        by = next(zookeeper, Figure(Key.ZOOKEEPER, None))
        text = f"ZooKeeper: changes waited for it in {run.blocked:.0%} of the time"
    elif limiting:
        by = limiting[0]
        text = f"{_capital(by.name)}: {_full(by)}"
        if by.key is Key.ZOOKEEPER:
            text += f", and its lag grew by {run.growth:.0%} of what was committed"
    else:
        text = _nothing(found, run, unknown)
        nothing = len(unknown) < len(judged) and run.done is not None and not run.behind
        return Limited(text, None, judges, unknown, run.behind, nothing)
    also = ", ".join(f"{one.name} {one.used}" for one in full if one is not by)
    text += f"; full because of it, or besides: {also}" if also else ""
    return Limited(text + _not_known(unknown), by, judges, unknown)


def _full(one: Figure) -> str:
    return f"{one.used} busy"


def _nothing(found: Sequence[Figure], run: Run, unknown: Sequence[str]) -> str:
    measured = [one for one in found if one.share is not None and _BY_KEY[one.key].full is not None]
    if not measured:
        return f"Not known{_not_known(unknown)}"
    if run.done is None:
        what = "Not known: nothing says whether less was done than was due"
    elif run.behind:
        what = (
            f"Not known: {run.done:.0%} of what was due was done in time, by nothing that is known"
        )
    else:
        what = "Nothing: as much was done each second as was due"
    brief = f"; changes waited {run.blocked_ms:,.0f} ms for ZooKeeper" if run.blocked_ms else ""
    most = max(measured, key=lambda one: (one.share or 0.0) / (_BY_KEY[one.key].full or 1.0))
    fullest = f"; the fullest was {most.name} with {most.filled}"
    if most.full:
        fullest += ", which takes all that waits at once"
    return f"{what}{brief}{fullest}{_not_known(unknown)}"


def _not_known(unknown: Sequence[str]) -> str:
    if not unknown:
        return ""
    return f". Not known: how full {', '.join(unknown)} {'were' if len(unknown) > 1 else 'was'}"


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]


def figures_of(rows: Iterable[Mapping[str, Any]]) -> list[Figure]:
    """The figures of one run, from the records of ``utilisation.utilisation``."""
    found = [_figure(row) for row in rows if row["resource"] != BLOCKED]
    why = "a trace cannot tell ZooKeeper and brokers from other programs"
    return [*found, Figure(Key.OTHERS, None, why=why)]


def _figure(row: Mapping[str, Any]) -> Figure:
    key, value, limit = Key(row["resource"]), row["value"], row["limit"]
    if key is Key.CLIENT:
        of = f"the {LATE_MS:g} ms that it may be late"
        return Figure(key, value / LATE_MS, row["subject"], f"{value:.3g} ms", of=of)
    if key is Key.PROCESS:
        share = value / limit if limit else None
        return Figure(key, share, row["subject"], f"{value:.2f} cores")
    return Figure(key, value, row["subject"])


def blocked_share(rows: Iterable[Mapping[str, Any]]) -> float | None:
    """Share of the time that operations waited for ZooKeeper, at the controller with most."""
    return max((row["value"] for row in rows if row["resource"] == BLOCKED), default=None)


def table_of(figures: Iterable[Figure]) -> list[Mapping[str, Any]]:
    """The figures as rows for a page, each resource at least once, in their order."""
    found = [*figures]
    rows: list[Mapping[str, Any]] = []
    for each in RESOURCES:
        mine = sorted(
            (one for one in found if one.key is each.key), key=lambda one: -(one.share or 0.0)
        )
        rows += [
            {
                "resource": one.name,
                "used": one.used,
                "full": "yes" if one.full else "no" if one.share is not None else "not known",
                "full from": "-" if each.full is None else f"{each.full:.0%}",
                "limit": each.limit,
                "measured": each.measured,
            }
            for one in mine or [Figure(each.key, None)]
        ]
    return rows
