"""Open connections: their number, by address, and since when each is idle.

Source: ConnectionQuotas and Selector.IdleExpiryManager, Kafka 3.9. Kafka lets a connection over
``max.connections`` wait until another ends; here it is closed, as Kafka closes one over
``max.connections.per.ip``.
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from typing import Final

from emulator.config.java_text import INT_MAX
from emulator.config.limits import ConnectionSettings

_MAPPED: Final = bytes(10) + b"\xff\xff"


class Population:
    """Open connections by address, longest idle first.

    Args:
        settings: Kafka's limits.
        descriptors: number of connections with file descriptors.
    """

    def __init__(self, settings: ConnectionSettings, descriptors: int = INT_MAX) -> None:
        self._settings = settings
        self._most = min(settings.most, descriptors)
        self._active_ms: OrderedDict[int, int] = OrderedDict()
        self._addresses: dict[int, bytes] = {}
        self._count_of: Counter[bytes] = Counter()

    def enter(self, conn: int, peer_address: bytes, now_ms: int) -> str:
        """Add a connection; returns why it is refused, empty if it is added.

        Args:
            conn: its id.
            peer_address: 4 or 16 raw bytes.
            now_ms: the clock.
        """
        address = peer_address.removeprefix(_MAPPED)
        limit = self._settings.most_of.get(address, self._settings.most_per_address)
        if len(self._active_ms) >= self._most:
            return f"{self._most} connections are open already"
        if self._count_of[address] >= limit:
            return f"{limit} connections of its address are open already"
        self._count_of[address] += 1
        self._addresses[conn] = address
        self._active_ms[conn] = now_ms
        return ""

    def active(self, conn: int, now_ms: int) -> None:
        """Bytes were received or sent."""
        before_ms = self._active_ms.get(conn)
        if before_ms is not None and before_ms != now_ms:
            # Among those of one millisecond the order does not matter.
            self._active_ms[conn] = now_ms
            self._active_ms.move_to_end(conn)

    def leave(self, conn: int) -> None:
        """A connection ended, whether or not it was added."""
        address = self._addresses.pop(conn, None)
        if address is None:
            return
        del self._active_ms[conn]
        self._count_of[address] -= 1
        if not self._count_of[address]:
            del self._count_of[address]

    @property
    def deadline_ms(self) -> int | None:
        """When the next connection has been idle for too long."""
        if self._settings.idle_ms < 0 or not self._active_ms:
            return None
        return next(iter(self._active_ms.values())) + self._settings.idle_ms

    def idle(self, now_ms: int) -> list[int]:
        """Connections that have been idle for too long; they are not removed."""
        if self._settings.idle_ms < 0:
            return []
        found = []
        for conn, active_ms in self._active_ms.items():
            if active_ms + self._settings.idle_ms > now_ms:
                break
            found.append(conn)
        return found
