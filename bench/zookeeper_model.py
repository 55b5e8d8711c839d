"""A ZooKeeper without Java: ``python -m bench.zookeeper_model PORT`` serves the simulator's model.

It holds a cluster without topics, in which a migration can begin, or with ``--empty`` nothing. It
keeps nothing on disk.
"""

from __future__ import annotations

import asyncio
import itertools
import sys
import time
from collections.abc import Iterable
from random import Random
from typing import Final

from emulator.seam import Close, Effect, Send
from emulator.simulation.models.zookeeper_mode import CLUSTER_ID, fill
from emulator.simulation.models.zookeeper_watches import WatchedZooKeeper

__all__ = ["CLUSTER_ID"]
_TICK_S: Final = 0.5


class Server:
    """The model, its connections and the clock."""

    def __init__(self, *, empty: bool) -> None:
        self.model = WatchedZooKeeper(Random())
        if not empty:
            fill(self.model.tree, Random(0), brokers=1, topics=0, now_ms=_now_ms())
        self.conns = itertools.count(1)
        self.open: dict[int, asyncio.Transport] = {}

    def turn(self, effects: Iterable[Effect] = ()) -> None:
        """Serve all that was received."""
        for effect in (*effects, *self.model.run(_now_ms())):
            transport = self.open.get(effect.conn) if isinstance(effect, Send | Close) else None
            if transport is not None and isinstance(effect, Send):
                transport.write(effect.data)
            elif transport is not None:
                transport.close()

    async def ticking(self) -> None:
        """Expire sessions that are silent, for ever."""
        while True:
            await asyncio.sleep(_TICK_S)
            self.turn(self.model.tick(_now_ms()))


class _Peer(asyncio.Protocol):
    def __init__(self, server: Server) -> None:
        self._server, self._conn = server, next(server.conns)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._server.open[self._conn] = transport
        self._server.model.accepted(self._conn)

    def data_received(self, data: bytes) -> None:
        self._server.model.received(self._conn, data, _now_ms())
        self._server.turn()

    def connection_lost(self, exc: Exception | None) -> None:
        del exc, self._server.open[self._conn]
        self._server.model.disconnected(self._conn)


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


async def serve(port: int, *, empty: bool = False) -> None:
    """Serve until it is cancelled.

    Raises:
        OSError: the port is taken.
    """
    server = Server(empty=empty)
    loop = asyncio.get_running_loop()
    await loop.create_server(lambda: _Peer(server), "127.0.0.1", port)
    await server.ticking()


if __name__ == "__main__":
    asyncio.run(serve(int(sys.argv[1]), empty="--empty" in sys.argv))
