"""A server of asyncio that leaves nothing open: what is open would be found by a later test."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

TURNS = 5
"""Of the loop, in which a connection that was accepted already reaches its handler."""


async def turns() -> None:
    """Let the loop turn ``TURNS`` times and more."""
    loop = asyncio.get_running_loop()
    for _ in range(TURNS):
        turn = loop.create_future()
        loop.call_soon(turn.set_result, None)
        await turn


@asynccontextmanager
async def served(
    handle: Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]],
) -> AsyncIterator[int]:
    """Handle each connection to a port, which is given; at the end all are broken and closed."""
    writers: list[asyncio.StreamWriter] = []
    tasks: set[asyncio.Task[None]] = set()

    async def tracked(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        writers.append(writer)
        tasks.add(task)
        await handle(reader, writer)

    server = await asyncio.start_server(tracked, "127.0.0.1", 0)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()
        await turns()
        for task in tasks:
            task.cancel()
        for writer in writers:
            writer.transport.abort()
        ends = [writer.wait_closed() for writer in writers]
        await asyncio.gather(*tasks, *ends, return_exceptions=True)
        await server.wait_closed()
