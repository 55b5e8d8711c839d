"""The model of ZooKeeper behind a real socket, for commands that connect to one."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from emulator.io.clock import Clock
from emulator.io.run import Shell
from tests.kit.joined_zookeeper import ZooKeeperMachine


@contextmanager
def on_a_socket(machine: ZooKeeperMachine) -> Iterator[str]:
    """Serve it in a thread; yields ``host:port``. Nobody else may use the model meanwhile."""
    ready = threading.Event()
    where: list[int] = []
    ending: list[tuple[asyncio.AbstractEventLoop, asyncio.Event]] = []

    async def serve() -> None:
        shell = Shell(machine, None, Clock(), log=lambda _line: None, row=lambda _row: None)
        where.append(await shell.listen("zk", "127.0.0.1", 0))
        end = asyncio.Event()
        ending.append((asyncio.get_running_loop(), end))
        running = asyncio.get_running_loop().create_task(shell.run(ready.set))
        await end.wait()
        running.cancel()
        await asyncio.wait([running])

    thread = threading.Thread(target=lambda: asyncio.run(serve()), daemon=True)
    thread.start()
    assert ready.wait()
    try:
        yield f"127.0.0.1:{where[0]}"
    finally:
        loop, end = ending[0]
        loop.call_soon_threadsafe(end.set)
        thread.join()
