"""Machines of the seam joined in memory: what one sends another receives, in order, at one time.

Time moves only in :meth:`Joined.wait`, from deadline to deadline.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from itertools import count
from types import MappingProxyType
from typing import Any

from emulator.net.greeting import declared
from emulator.seam import (
    Accepted,
    AppendFile,
    Close,
    Closed,
    Connect,
    Connected,
    DeleteFile,
    Effect,
    Event,
    FileWritten,
    Halt,
    Log,
    Machine,
    Received,
    ReplaceFile,
    Send,
    Synced,
    SyncFile,
    TruncateFile,
    WriteFile,
)
from emulator.trace.log_events import listed
from wire.frame import FrameReader, RequestHeader, decode_response, encode_request, framed

LOOPBACK = b"\x7f\0\0\1"


@dataclass
class Party:
    """One machine, what became of it, and where it listens."""

    name: str
    machine: Machine
    listeners: dict[tuple[str, int], str]
    logs: list[Log] = field(default_factory=list)
    files: dict[str, bytes] = field(default_factory=dict)
    halt: Halt | None = None


class Joined:
    """See the module's docstring. ``cut``: addresses that refuse connections."""

    def __init__(self) -> None:
        self.now_ms = 1_000_000
        self.parties: list[Party] = []
        self.cut: set[tuple[str, int]] = set()
        self.dialled: list[tuple[str, tuple[str, int]]] = []
        self._conns = count(1)
        self._other: dict[int, int] = {}
        self._owner: dict[int, Party | Asker] = {}
        self._waiting: deque[tuple[Party | Asker, Event]] = deque()

    def new_conn(self) -> int:
        """A connection id."""
        return next(self._conns)

    def join(
        self,
        name: str,
        machine: Machine,
        listeners: dict[tuple[str, int], str],
        files: Mapping[str, bytes] = MappingProxyType({}),
    ) -> Party:
        """Start a machine that listens at these addresses, by listener name, on a folder."""
        party = Party(name, machine, listeners, files=dict(files))
        self.parties.append(party)
        self.perform(party, machine.start(self.now_ms))
        self.settle()
        return party

    def leave(self, party: Party) -> None:
        """A machine dies: its connections end."""
        self.parties.remove(party)
        for conn in [conn for conn, owner in self._owner.items() if owner is party]:
            self.end(conn, "reset")

    def wait(self, ms: int) -> None:
        """Let time pass."""
        end_ms = self.now_ms + ms
        while True:
            due = self._deadlines()
            next_ms = max(self.now_ms, min((ms for _, ms in due), default=end_ms + 1))
            if next_ms > end_ms:
                break
            self.now_ms = next_ms
            for party, deadline_ms in due:
                if deadline_ms <= next_ms:
                    self.perform(party, party.machine.step([], next_ms))
            self.settle()
        self.now_ms = end_ms

    def until(self, done: Callable[[], bool], ms: int = 60_000) -> None:
        """Let time pass until something is true, in steps of 10 ms."""
        for _ in range(ms // 10):
            if done():
                return
            self.wait(10)
        assert done(), f"not in {ms} ms"

    def _deadlines(self) -> list[tuple[Party, int]]:
        """Who has something to do by itself, and when."""
        asked = ((party, party.machine.deadline_ms) for party in self.alive())
        return [(party, ms) for party, ms in asked if ms is not None]

    def alive(self) -> list[Party]:
        """The machines that have not halted."""
        return [party for party in self.parties if party.halt is None]

    def settle(self) -> None:
        """Deliver everything that is on its way."""
        while self._waiting:
            party, event = self._waiting.popleft()
            if isinstance(party, Asker):
                party.event(event)
            elif party.halt is None and party in self.parties:
                self.perform(party, party.machine.step([event], self.now_ms))

    def ask(self, address: tuple[str, int]) -> Asker:
        """A client connected to an address."""
        asker = Asker(self)
        self.connect(asker, asker.conn, address)
        self.settle()
        assert asker.open, "nobody listens there"
        return asker

    def perform(self, party: Party, effects: list[Effect]) -> None:
        for effect in effects:
            match effect:
                case Connect(conn, host, port):
                    self.dialled.append((party.name, (host, port)))
                    self.connect(party, conn, (host, port))
                case Send(conn, data):
                    self.send(conn, data)
                case Close(conn):
                    self.end(conn, "closed by peer", tell=False)
                case AppendFile(path, data):
                    party.files[path] = party.files.get(path, b"") + data
                case ReplaceFile(path, data):
                    party.files[path] = data
                case WriteFile(path, data):
                    party.files[path] = data
                    self._waiting.append((party, FileWritten(path)))
                case SyncFile(token=token):
                    self._waiting.append((party, Synced(token)))
                case DeleteFile(path):
                    party.files.pop(path, None)
                case TruncateFile(path, size):
                    party.files[path] = party.files[path][:size]
                case Log(level, text):
                    assert listed(level, text), f"no line of emulator/trace/log_events.py: {effect}"
                    party.logs.append(effect)
                case Halt():
                    party.halt = effect
                    for conn in [c for c, owner in self._owner.items() if owner is party]:
                        self.end(conn, "closed by peer")

    def connect(self, party: Party | Asker, conn: int, address: tuple[str, int]) -> None:
        for other in self.alive():
            name = other.listeners.get(address)
            if name is not None and address not in self.cut:
                far = self.new_conn()
                self._other[conn], self._other[far] = far, conn
                self._owner[conn], self._owner[far] = party, other
                self._waiting.append((other, Accepted(far, name, LOOPBACK)))
                self._waiting.append((party, Connected(conn)))
                return
        self._waiting.append((party, Closed(conn, "refused")))

    def send(self, conn: int, data: bytes) -> None:
        far = self._other.get(conn)
        if far is not None:
            self._waiting.append((self._owner[far], Received(far, data)))

    def end(self, conn: int, why: str, *, tell: bool = True) -> None:
        """One connection ends; ``tell``: its owner too, not only the other end."""
        far = self._other.pop(conn, None)
        owner = self._owner.pop(conn, None)
        if tell and owner is not None:
            self._waiting.append((owner, Closed(conn, why)))
        if far is not None:
            self._other.pop(far, None)
            self._waiting.append((self._owner.pop(far), Closed(far, why)))


class Asker:
    """A client with one connection."""

    def __init__(self, joined: Joined, client_id: str = "asker") -> None:
        self.conn = joined.new_conn()
        self.open = False
        self.frames: list[bytes] = []
        self._joined = joined
        self._client_id = client_id
        self._reader = FrameReader()
        self._next = count(100)

    def event(self, event: Event) -> None:
        match event:
            case Connected():
                self.open = True
            case Closed():
                self.open = False
            case Received(data=data):
                self.frames += self._reader.feed(data)

    def send(self, request: Any, version: int) -> RequestHeader:
        """Send without waiting for the answer."""
        _, key = declared(type(request))
        header = RequestHeader(
            api_key=key,
            api_version=version,
            correlation_id=next(self._next),
            client_id=self._client_id,
        )
        self._joined.send(self.conn, framed(encode_request(header, request)))
        self._joined.settle()
        return header

    def ask(self, request: Any, version: int, ms: int = 60_000) -> Any:
        """Send, wait for the answer, and decode it."""
        header = self.send(request, version)
        self._joined.until(lambda: bool(self.frames) or not self.open, ms)
        assert self.frames, "the connection was closed"
        correlation_id, answer = decode_response(header.api_key, version, self.frames.pop(0))
        assert correlation_id == header.correlation_id
        return answer
