"""One accepted connection."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import Final

from emulator.net.authentication import Authentication, LoginSession
from emulator.net.principal import NOBODY, PeerPrincipal
from emulator.seam import Slices, Ticket
from wire.errors import DecodeError
from wire.frame import SLICED_BYTES, FrameReader

QUEUED_MAX: Final = 10_000
"""Maximum requests of one connection that came and were not taken yet."""


def too_much(most: int) -> DecodeError:
    """More bytes are held for one connection than may be."""
    why = f"unanswered requests and the answers that wait for them have over {most} bytes"
    return DecodeError("request", -1, "header", 0, why)


@dataclass(slots=True)
class Inbound:
    """What is known of one connection, and what came on it and has no answer yet."""

    listener: str
    peer_address: bytes
    reader: FrameReader
    slots: deque[Ticket] = field(default_factory=deque)
    frames: deque[tuple[bytes, int]] = field(default_factory=deque)
    """Requests not taken yet, and when they came (ns)."""
    reading: tuple[bytes, int, Slices[object]] | None = None
    """A long request that is being decoded, and when it came (ns)."""
    held_bytes: int = 0
    principal: PeerPrincipal = NOBODY
    login: Authentication | None = None
    """None: the client has logged in, or need not."""
    session: LoginSession | None = None
    """That of a client which has to log in again; None: nobody, or its session has no end."""

    @property
    def long_is_next(self) -> bool:
        """Whether what is to be taken next is a long request, or its rest."""
        if self.reading is not None:
            return True
        return self.login is None and bool(self.frames) and len(self.frames[0][0]) >= SLICED_BYTES

    def fed(self, frames: list[bytes], now_ns: int, most: int) -> None:
        """Keep requests that came, to be taken later.

        Raises:
            DecodeError: too many are kept, or over ``most`` bytes.
        """
        self.frames += [(frame, now_ns) for frame in frames]
        if len(self.frames) > QUEUED_MAX:
            why = f"{QUEUED_MAX} requests of this connection wait to be processed"
            raise DecodeError("request", -1, "header", 0, why)
        self.hold(sum(map(len, frames)), most)

    def hold(self, size: int, most: int) -> None:
        """Count the bytes of requests until they are answered.

        Raises:
            DecodeError: there are over ``most``.
        """
        self.held_bytes += size
        if self.held_bytes > most:
            raise too_much(most)

    def read_on(self) -> tuple[bytes, int, object] | None:
        """Decode the next slice of the long request; at its end the frame, when it came, and it.

        Raises:
            DecodeError: it cannot be read.
        """
        assert self.reading is not None
        frame, came_ns, slices = self.reading
        try:
            next(slices)
        except StopIteration as end:
            self.reading = None
            return frame, came_ns, end.value
        return None
