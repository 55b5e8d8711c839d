"""A ZooKeeper model at the end of a slow line: requests arrive one after the other, by length."""

from __future__ import annotations

from collections import deque
from random import Random

from emulator.seam import Effect
from emulator.simulation.models.zookeeper import ZooKeeperModel
from tests.unit.migration.world import World


class SlowLine(ZooKeeperModel):
    """See the module's docstring. ``bytes_per_s`` 0: a line that takes no time."""

    def __init__(self, bytes_per_s: int = 0) -> None:
        super().__init__(Random(7))
        self.bytes_per_s = bytes_per_s
        self.carried = 0
        self._on_the_way: deque[tuple[int, int, bytes]] = deque()
        self._free_ms = 0

    def received(self, conn: int, data: bytes, now_ms: int) -> None:
        """Put it on the line."""
        if not self.bytes_per_s and not self._on_the_way:
            super().received(conn, data, now_ms)
            return
        per_s = self.bytes_per_s or 1_000_000_000
        self._free_ms = max(self._free_ms, now_ms) + len(data) * 1_000 // per_s
        self._on_the_way.append((self._free_ms, conn, data))

    def disconnected(self, conn: int) -> None:
        """What is still on the line from that client is dropped, as by a reset."""
        self._on_the_way = deque(one for one in self._on_the_way if one[1] != conn)
        if not self._on_the_way:
            self._free_ms = 0
        super().disconnected(conn)

    @property
    def deadline_ms(self) -> int | None:
        """When the next request has arrived, or a session ends."""
        times = (super().deadline_ms, self._on_the_way[0][0] if self._on_the_way else None)
        return min((one for one in times if one is not None), default=None)

    def tick(self, now_ms: int) -> list[Effect]:
        """Take what has arrived."""
        effects: list[Effect] = []
        while self._on_the_way and self._on_the_way[0][0] <= now_ms:
            _, conn, data = self._on_the_way.popleft()
            self.carried += len(data)
            super().received(conn, data, now_ms)
            effects += self.run(now_ms)
        return effects + super().tick(now_ms)


def behind_a_line(world: World) -> SlowLine:
    """Put a line that takes no time yet before the ZooKeeper of a world that has not begun."""
    line = SlowLine()
    world.model = line
    return line
