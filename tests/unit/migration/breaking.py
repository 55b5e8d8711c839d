"""A ZooKeeper model whose connections break in the middle of reading a tree."""

from __future__ import annotations

from random import Random

from emulator.seam import Close, Effect
from emulator.simulation.models.zookeeper import ZooKeeperModel
from emulator.zookeeper import jute
from tests.unit.migration.world import World

LONG_BYTES = 200
"""Requests for many znodes are longer; those that read the chain back are shorter."""


class Breaking(ZooKeeperModel):
    """See the module's docstring. ``every``: each so many-th request breaks; 0: none does."""

    def __init__(self) -> None:
        super().__init__(Random(7))
        self.every = 0
        self.asked = self.broken = 0
        self.on_break = self.nothing

    def nothing(self) -> None:
        """What happens beside it."""

    def _serve(self, conn: int, session_id: int, frame: bytes, now_ms: int) -> list[Effect]:
        opcode = int.from_bytes(frame[4:8], "big") if len(frame) > LONG_BYTES else 0
        if opcode == jute.OP_MULTI_READ:
            self.asked += 1
            if self.every and self.asked % self.every == 0:
                self.broken += 1
                self.on_break()
                self.disconnected(conn)
                return [Close(conn)]
        return super()._serve(conn, session_id, frame, now_ms)


def behind_breaks(world: World) -> Breaking:
    """Put a model that can break before a world that has not begun."""
    model = Breaking()
    world.model = model
    return model
