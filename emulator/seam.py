"""The interface between the pure machines and their environment: events and effects.

``emulator/io`` performs these effects and reports these events; ``emulator/simulation`` does the
same under a virtual clock. The machines make all decisions.

ORDER MATTERS in a list of effects: an ``AppendFile`` listed before a ``Send`` is *issued* before
it, but only ``Synced(token)`` says that it is durable. A machine that needs durability waits for
it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol, TypeAlias


@dataclass(frozen=True, slots=True)
class Accepted:
    """A peer connected to one of our listeners. ``conn`` is unique for the life of the process."""

    conn: int
    listener: str
    peer_address: bytes
    """4 or 16 raw bytes, as an Envelope carries it."""


@dataclass(frozen=True, slots=True)
class Connected:
    """A ``Connect`` effect succeeded."""

    conn: int


@dataclass(frozen=True, slots=True)
class Received:
    """Bytes arrived on an accepted or connected connection, split at any position."""

    conn: int
    data: bytes


@dataclass(frozen=True, slots=True)
class Closed:
    """The connection ended or a ``Connect`` failed. Never follows our own ``Close``."""

    conn: int
    why: str


@dataclass(frozen=True, slots=True)
class Synced:
    """Every ``AppendFile`` issued before ``SyncFile(token)`` on that path is durable."""

    token: int


@dataclass(frozen=True, slots=True)
class DiskFailed:
    """A file operation failed; the node halts (Kafka's fatal fault handler)."""

    why: str


@dataclass(frozen=True, slots=True)
class Send:
    """Write bytes to a connection; silently dropped when it is closed."""

    conn: int
    data: bytes


@dataclass(frozen=True, slots=True)
class Close:
    """Close a connection after flushing its bytes. No ``Closed`` event follows."""

    conn: int


@dataclass(frozen=True, slots=True)
class Connect:
    """Open a TCP connection; answered by ``Connected`` or ``Closed``.

    ``tls``: name of the shell's settings for it, "" for plain text. Connected: after the handshake.
    """

    conn: int
    host: str
    port: int
    tls: str = ""


@dataclass(frozen=True, slots=True)
class AppendFile:
    """Append to a file below the node's folder, creating it."""

    path: str
    data: bytes


@dataclass(frozen=True, slots=True)
class SyncFile:
    """``fdatasync`` the file outside the event loop, then report ``Synced(token)``."""

    path: str
    token: int


@dataclass(frozen=True, slots=True)
class ReplaceFile:
    """Write to a temporary name, fsync, rename over ``path``, fsync the folder; then it is done."""

    path: str
    data: bytes


@dataclass(frozen=True, slots=True)
class TruncateFile:
    """Truncate a file to ``size`` bytes and fsync it."""

    path: str
    size: int


@dataclass(frozen=True, slots=True)
class DeleteFile:
    """Remove a file if it exists."""

    path: str


@dataclass(frozen=True, slots=True)
class Log:
    """One structured log line. ``level``: debug, info, warning, error."""

    level: str
    event: str
    fields: dict[str, object]


@dataclass(frozen=True, slots=True)
class Row:
    """One trace row; ``row`` is one of the dataclasses of ``emulator.trace.rows``."""

    row: object


@dataclass(frozen=True, slots=True)
class Halt:
    """Stop the process with ``exit_code`` after flushing sent bytes."""

    exit_code: int
    why: str


Event: TypeAlias = Accepted | Connected | Received | Closed | Synced | DiskFailed
Effect: TypeAlias = (
    Send
    | Close
    | Connect
    | AppendFile
    | SyncFile
    | ReplaceFile
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
