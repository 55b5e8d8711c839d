"""The interface between the pure machines and their environment: events and effects.

``emulator/io`` performs these effects and reports these events; ``emulator/simulation`` does the
same under a virtual clock. The machines make all decisions.

ORDER MATTERS in a list of effects: an ``AppendFile`` listed before a ``Send`` is *issued* before
it, but only ``Synced(token)`` says that it is durable. A machine that needs durability waits for
it.
"""

from __future__ import annotations

from typing import Protocol, TypeAlias

import msgspec


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
