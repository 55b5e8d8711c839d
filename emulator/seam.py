"""The interface between the pure machines and their environment: events and effects.

``emulator/io`` performs these effects and reports these events; ``emulator/simulation`` does the
same under a virtual clock. The machines make all decisions.

ORDER MATTERS in a list of effects: an ``AppendFile`` listed before a ``Send`` is *issued* before
it, but only ``Synced(token)`` says that it is durable. A machine that needs durability waits for
it.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Generator, Iterable, Mapping
from enum import Enum
from inspect import GEN_CREATED, getgeneratorstate
from typing import Any, Final, Generic, NamedTuple, Protocol, TypeAlias, TypeVar

import msgspec

from wire.frame import RequestHeader


class Accepted(msgspec.Struct, frozen=True, gc=False):
    """A peer connected to one of our listeners. ``conn`` is unique for the life of the process."""

    conn: int
    listener: str
    peer_address: bytes
    """4 or 16 raw bytes, as an Envelope carries it."""
    principal: str = ""
    """``Type:name`` by the peer's certificate; empty: it showed none."""


class Connected(msgspec.Struct, frozen=True, gc=False):
    """A ``Connect`` effect succeeded."""

    conn: int


class Received(msgspec.Struct, frozen=True, gc=False):
    """Bytes arrived on an accepted or connected connection, split at any position."""

    conn: int
    data: bytes


class Closed(msgspec.Struct, frozen=True, gc=False):
    """The connection ended or a ``Connect`` failed. Never follows our own ``Close``."""

    conn: int
    why: str


class Synced(msgspec.Struct, frozen=True, gc=False):
    """Every ``AppendFile`` issued before ``SyncFile(token)`` on that path is durable."""

    token: int


class FileWritten(msgspec.Struct, frozen=True, gc=False):
    """``WriteFile`` of that path is done: the file is durable under its name."""

    path: str


class FileNotWritten(msgspec.Struct, frozen=True, gc=False):
    """``WriteFile`` of that path failed; what the path holds does not count. The node goes on."""

    path: str
    why: str


class DiskFailed(msgspec.Struct, frozen=True, gc=False):
    """A file operation failed; the node halts (Kafka's fatal fault handler)."""

    why: str


class Send(msgspec.Struct, frozen=True, gc=False):
    """Write bytes to a connection; silently dropped when it is closed."""

    conn: int
    data: bytes


class Close(msgspec.Struct, frozen=True, gc=False):
    """Close a connection after flushing its bytes. No ``Closed`` event follows."""

    conn: int


class Connect(msgspec.Struct, frozen=True, gc=False):
    """Open a TCP connection; answered by ``Connected`` or ``Closed``.

    ``tls``: name of the shell's settings for it, "" for plain text. Connected: after the handshake.
    """

    conn: int
    host: str
    port: int
    tls: str = ""


class AppendFile(msgspec.Struct, frozen=True, gc=False):
    """Append to a file below the node's folder, creating it."""

    path: str
    data: bytes


class SyncFile(msgspec.Struct, frozen=True, gc=False):
    """``fdatasync`` the file outside the event loop, then report ``Synced(token)``."""

    path: str
    token: int


class ReplaceFile(msgspec.Struct, frozen=True, gc=False):
    """Write to a temporary name, fsync, rename over ``path``, fsync the folder; then it is done."""

    path: str
    data: bytes


class WriteFile(msgspec.Struct, frozen=True, gc=False):
    """As ``ReplaceFile``, outside the event loop; then report ``FileWritten(path)``.

    If that fails, ``FileNotWritten(path)``. Until then, the path holds what it held before. Other
    effects on this path wait for its end.
    """

    path: str
    data: bytes


class TruncateFile(msgspec.Struct, frozen=True, gc=False):
    """Truncate a file to ``size`` bytes and fsync it."""

    path: str
    size: int


class DeleteFile(msgspec.Struct, frozen=True, gc=False):
    """Remove a file if it exists."""

    path: str


class Log(msgspec.Struct, frozen=True, gc=False):
    """One structured log line. ``level``: trace, debug, info, warning, error."""

    level: str
    event: str
    fields: dict[str, object]


class Row(msgspec.Struct, frozen=True, gc=False):
    """One trace row; ``row`` is one of the dataclasses of ``emulator.trace.rows``."""

    row: object


class Halt(msgspec.Struct, frozen=True, gc=False):
    """Stop the process with ``exit_code`` after flushing sent bytes."""

    exit_code: int
    why: str


Event: TypeAlias = (
    Accepted | Connected | Received | Closed | Synced | FileWritten | FileNotWritten | DiskFailed
)
Effect: TypeAlias = (
    Send
    | Close
    | Connect
    | AppendFile
    | SyncFile
    | ReplaceFile
    | WriteFile
    | TruncateFile
    | DeleteFile
    | Log
    | Row
    | Halt
)


class Machine(Protocol):
    """A machine that the shell runs."""

    def start(self, now_ms: int) -> list[Effect]:
        """Begin; called once, before any event."""

    def step(self, events: list[Event], now_ms: int) -> list[Effect]:
        """Take events, return effects, in order."""

    def shutdown(self, now_ms: int) -> list[Effect]:
        """Begin an orderly stop; ``Halt`` follows when it is done."""

    @property
    def deadline_ms(self) -> int | None:
        """When to call ``step`` again even if nothing happens."""


class Part(Protocol):
    """A pure machine inside another one, which asks it for nothing before it has something to do.

    What it has for others at once it shows as plain attributes (``dirty``, ``effects``), so nothing
    is called to find that there is nothing.
    """

    @property
    def deadline_ms(self) -> int | None:
        """When its ``tick`` is due even if nothing happens; None: never."""


# Work that is done in slices: a generator that yields where others may be served in between.
#
# A request with thousands of entries takes a tenth of a second. Cut into slices of a fixed number
# of entries, it keeps nobody waiting for longer than one slice. All requests of a step share a
# :class:`Budget`, however many there are. Both are counted, not timed, so that equal events always
# give equal steps.

T = TypeVar("T")
ItemT = TypeVar("ItemT")

Slices: TypeAlias = Generator[None, None, T]
"""Yields between slices, and returns what was made."""

RECORDS_PER_SLICE: Final = 500
"""Records that one slice encodes, reads back or replays: one to four milliseconds."""

ENTRIES_PER_SLICE: Final = 250
"""Entries of a request that one slice checks: one to three milliseconds."""


def whole(slices: Slices[T]) -> T:
    """Do all slices at once; returns what was made.

    >>> def counted():
    ...     yield
    ...     return 3
    >>> whole(counted())
    3
    """
    while True:
        try:
            next(slices)
        except StopIteration as end:
            made: T = end.value
            return made


def listed(
    make: Callable[[ItemT], T], items: Iterable[ItemT], most: int | None = None
) -> Slices[list[T]]:
    """What is made of each item, in slices of at most ``most`` items (``ENTRIES_PER_SLICE``).

    >>> whole(listed(abs, [1, -2]))
    [1, 2]
    """
    made: list[T] = []
    pace = Pace(most)
    for item in items:
        made.append(make(item))
        if pace.over():
            yield
    return made


class Pace:
    """Says where a slice ends, for work that is more than one loop.

    Args:
        most: what one slice takes, in entries; ``ENTRIES_PER_SLICE`` if left out.
    """

    __slots__ = ("_left", "_most")

    def __init__(self, most: int | None = None) -> None:
        self._most = self._left = most or ENTRIES_PER_SLICE

    def over(self, weight: int = 1) -> bool:
        """Count an entry, or what weighs as much as so many; whether the slice is over.

        >>> pace = Pace(2)
        >>> [pace.over() for _ in range(4)]
        [False, True, False, True]
        """
        self._left -= weight
        if self._left > 0:
            return False
        self._left = self._most
        return True


STEP_COST: Final = 12_000
"""What the requests of one step may cost together: about as many microseconds."""
SLICE_COST: Final = 4_000
"""Of a whole slice, and the most that is counted for a request when it is taken."""
REQUEST_COST: Final = 25
"""Of a request, besides its bytes: each of them counts as 1, of an urgent one nothing."""
CALL_COST: Final = 100
"""Of what is decided, refused or encoded in less than a slice, besides its records."""
RECORD_COST: Final = 15
"""Of a record that is appended."""
ENCODED_PER_COST: Final = 6
"""Bytes of an answer that cost as much as one of a request."""
URGENT_PER_STEP: Final = 32
"""Urgent requests that are taken when nothing else is taken any more."""
ANSWERS_PER_STEP: Final = 500
"""Answers that are ready, and sent in one step."""


class Budget:
    """What the requests of one step may still cost, shared by all that serves them.

    Without :meth:`renew` it has no end. ``left``: what the step may still cost; ``answers`` and
    ``urgent``: how many may still be sent, and be taken besides.
    """

    __slots__ = ("_kept", "answers", "left", "urgent")

    def __init__(self) -> None:
        self.left = self.answers = sys.maxsize
        self._kept = self.urgent = 0

    def renew(self, *, busy: bool = False) -> None:
        """A step begins.

        Args:
            busy: it does a slice of what is under way in any case, of a call and of an answer.
        """
        self.left, self._kept = STEP_COST, 2 * SLICE_COST * busy
        self.answers, self.urgent = ANSWERS_PER_STEP, URGENT_PER_STEP

    @property
    def over(self) -> bool:
        """Whether what is left to do has to wait for the next step."""
        return self.left <= 0

    def takes(self) -> bool:
        """Whether requests may still be taken, beside the slices that are done in any case."""
        return self.left > self._kept

    def goes_on(self, slices: Slices[None]) -> bool:
        """Do the next slice, at its cost; whether there are more."""
        return not self.end_of(slices)

    def end_of(self, slices: Slices[T]) -> list[T]:
        """The same; returns what was made, in a list that is empty if there are more."""
        begins = getgeneratorstate(slices) == GEN_CREATED
        self.left -= SLICE_COST
        try:
            next(slices)
        except StopIteration as end:
            if begins:
                self.left += SLICE_COST - CALL_COST
            return [end.value]
        return []


class Same:
    """A value that is compared as the object that it is, not by its content."""

    __slots__ = ("of",)

    def __init__(self, of: Any) -> None:
        self.of = of

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Same) and self.of is other.of

    def __hash__(self) -> int:
        return id(self.of)


class Kept(Generic[T]):
    """What was made last, by what it is made of; nodes of one process may be in several threads.

    Args:
        most: values that are kept.
    """

    def __init__(self, most: int = 1) -> None:
        self._most = most
        self._kept: dict[Any, T] = {}

    def find(self, key: Any) -> T | None:
        """The value of a key; None if it is not kept."""
        found = self._kept.get(key)
        return None if found is None else self.keep(key, found)

    def keep(self, key: Any, value: T) -> T:
        """Keep a value; those that were asked for least recently go."""
        self._kept.pop(key, None)
        self._kept[key] = value
        for old in [*self._kept][: -self._most]:
            self._kept.pop(old, None)
        return value

    def made(self, key: Any, make: Callable[[], Slices[T]]) -> Slices[T]:
        """The value of a key, made in slices if it is not kept."""
        found = self.find(key)
        return self.keep(key, (yield from make())) if found is None else found


# States of machines are tables: (state, event) -> the state after it.

StateT = TypeVar("StateT", bound=Enum)
EventT = TypeVar("EventT", bound=Enum)


def state_after(
    table: Mapping[tuple[StateT, EventT], StateT],
    state: StateT,
    event: EventT,
    whose: object = "",
) -> StateT:
    """The state after an event; ``whose`` state it is, for the error.

    Raises:
        AssertionError: the table has no such row: a bug, which stops the node.
    """
    found = table.get((state, event))
    assert found is not None, f"{whose} {event.value}: not while {state.value}".lstrip()
    return found


# Deadlines of machines that are made of others: asked several times in every step.


def earlier(one: int | None, other: int | None) -> int | None:
    """The earlier one; None is never.

    >>> earlier(3, 2), earlier(None, 2), earlier(3, None), earlier(None, None)
    (2, 2, 3, None)
    """
    if one is None:
        return other
    if other is None or one <= other:
        return one
    return other


def earliest(times: Iterable[int | None]) -> int | None:
    """The earliest one; None is never, and so is nothing at all.

    >>> earliest((3, None, 2)), earliest((None, None)), earliest(())
    (2, None, None)
    """
    # Without a generator inside ``min``: that takes three times as long.
    found = None
    for one in times:
        if one is not None and (found is None or one < found):
            found = one
    return found


class Ticket(msgspec.Struct, eq=False, gc=False):
    """One request's place in its connection's queue of answers.

    A request inside an Envelope has no own ticket: the Envelope is answered, once.
    """

    conn: int
    request_id: int
    header: RequestHeader
    received_ns: int
    offsets: tuple[int, int] | None = None
    """First and last record the request appended."""
    payload: bytes | None = None
    """The framed answer, once there is one."""
    bytes: int = 0
    """Of the request."""


class Reply(msgspec.Struct, frozen=True, gc=False):
    """``message`` answers the request that carried ``ticket``; it is not encoded yet."""

    ticket: Ticket
    message: object


class OtherLimits(NamedTuple):
    """What limits appending besides the number of records."""

    byte_room: int | None = None
    """Bytes that ordinary calls may append; None for no limit."""
    hard_byte_room: int | None = None
    """Bytes that urgent calls may append; None for no limit."""
    aged: bool = False
    """A change has waited too long for ZooKeeper: ordinary calls append nothing."""
    retry_ms: int = 0
    """After which time a call that waited in vain may be sent again."""


NO_OTHERS: Final = OtherLimits()
