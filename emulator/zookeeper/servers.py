"""Selects the server to try next, and the wait before it."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import Final, NamedTuple

BACKOFF_MS_MIN: Final = 100
BACKOFF_MS_MAX: Final = 1_000


def mute(last_zxid: int) -> str:
    """Why a server may hang up before it has answered anything, as an addition to a sentence.

    Args:
        last_zxid: the newest transaction that this client has seen; 0 for none. A server that does
            not have it serves no session to this client.

    >>> mute(0)
    ' (before it answered: it is starting, or it expects TLS at this port)'
    """
    if not last_zxid:
        return " (before it answered: it is starting, or it expects TLS at this port)"
    return (
        f" (before it answered: it is starting, or it is behind transaction {last_zxid:#x}, "
        "which this client has seen. If ZooKeeper was restored from an older state, restart this "
        "process)"
    )


class Down(NamedTuple):
    """There is no session: since when, and the error of the last attempt."""

    since_ms: int
    why: str


class Servers:
    """The servers in an order shuffled once, with a pause after each round without success.

    Source: org.apache.zookeeper.client.StaticHostProvider, ZooKeeper 3.9.5 (one pause of up to 1
        s); here the pause doubles from 100 ms to 1 s.
    """

    def __init__(self, servers: Sequence[tuple[str, int]], rng: Random) -> None:
        if not servers:
            raise ValueError("at least one ZooKeeper server")
        self._servers = rng.sample(list(servers), len(servers))
        self._index = -1
        self._failures = 0
        self.down: Down | None = None
        """Since when there is no session, and why; None with a session or before any attempt."""

    @property
    def name(self) -> str:
        """host:port last given, or "" before the first."""
        if self._index < 0:
            return ""
        host, port = self._servers[self._index]
        return f"{host}:{port}"

    def next(self) -> tuple[str, int]:
        """Host and port to try now."""
        self._index = (self._index + 1) % len(self._servers)
        return self._servers[self._index]

    def stay(self) -> None:
        """Return the same server again next time, because it has just answered."""
        self._index -= 1

    def served(self) -> None:
        """A session is established."""
        self.down = None

    def failed(self, why: str, now_ms: int, *, after_success: bool) -> int:
        """A connection failed or was lost; returns how many ms to wait.

        ``after_success``: it had worked for a while, so the back-off begins again.
        """
        self.down = Down(now_ms if self.down is None else self.down.since_ms, why)
        self._failures = 0 if after_success else self._failures + 1
        rounds, in_round = divmod(self._failures, len(self._servers))
        if not rounds or in_round:
            return 0
        return min(BACKOFF_MS_MIN << min(rounds - 1, 10), BACKOFF_MS_MAX)
