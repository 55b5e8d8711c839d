"""A task's end of the line to the driver."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable
from typing import Any

from emulator.io.together import Share

LINE_MAX = 1 << 20
"""Bytes of one message."""
_LOOKS = 9


class TaskSide:
    """The other tasks, as one of them sees them: ``emulator.io.together.Together``.

    Messages are lines of JSON. To the driver: ``hello``, ``say``, ``at``, ``failed``, ``done``;
    from it: ``go`` with the wall-clock nanoseconds at which all go on, and ``stop``, ``orderly`` or
    ``now``. An end of the connection means that the driver is gone: stop now.
    """

    def __init__(self, share: Share, begin_ns: int, writer: asyncio.StreamWriter) -> None:
        self.share = share
        self._begin_ns: int | None = begin_ns
        self._writer = writer
        self._waiting: dict[str, asyncio.Future[int]] = {}
        self._stop: Callable[[], object] = lambda: None
        self._asked = 0

    @classmethod
    async def open(
        cls, address: tuple[str, int], token: str, share: Share, begin_ns: int
    ) -> tuple[TaskSide, asyncio.Task[None]]:
        """Connect to the driver.

        Args:
            address: of the driver.
            token: by which the driver knows its tasks.
            share: of this task.
            begin_ns: what the first ``meet`` returns, monotonic nanoseconds.

        Returns:
            The side, and the task that reads; the caller cancels it at the end.

        Raises:
            OSError: the driver cannot be reached.
        """
        reader, writer = await asyncio.open_connection(*address, limit=LINE_MAX)
        side = cls(share, begin_ns, writer)
        side.send(hello=share.index, token=token)
        return side, asyncio.ensure_future(side._read(reader))

    def send(self, **message: Any) -> None:
        """Send a message; after the driver is gone nothing happens."""
        if not self._writer.is_closing():
            self._writer.write(json.dumps(message).encode() + b"\n")

    def report(self, line: str) -> None:
        """See Together."""
        self.send(say=line)

    async def meet(self, point: str) -> int:
        """See Together; the first one is Spark's barrier, which lies behind."""
        if self._begin_ns is not None:
            begin_ns, self._begin_ns = self._begin_ns, None
            return begin_ns
        self._waiting[point] = asyncio.get_running_loop().create_future()
        self.send(at=point)
        return monotonic_of(await self._waiting[point])

    def watch(self, stop: Callable[[], object]) -> None:
        """See Together."""
        self._stop = stop
        for _ in range(self._asked):
            stop()

    async def close(self, **last: Any) -> None:
        """Send a last message and end the connection."""
        self.send(**last)
        self._writer.close()
        await asyncio.gather(self._writer.wait_closed(), return_exceptions=True)

    async def _read(self, reader: asyncio.StreamReader) -> None:
        try:
            while line := await reader.readline():
                message = json.loads(line)
                if "go" in message and message["go"] in self._waiting:
                    waits = self._waiting.pop(message["go"])
                    if not waits.done():  # the waiting coroutine may be cancelled
                        waits.set_result(message["wall_ns"])
                elif "stop" in message:
                    self._ask(1 if message["stop"] == "orderly" else 2)
        except (OSError, ValueError):
            """The connection is unusable: treat it as closed."""
        self._ask(2)

    def _ask(self, times: int) -> None:
        while self._asked < times:
            self._asked += 1
            self._stop()


def monotonic_of(wall_ns: int) -> int:
    """An instant of the wall clock in this machine's monotonic nanoseconds.

    On a busy machine another program may run between a look at one clock and at the other: the
    looks that are closest to each other count.
    """
    looks = [(time.monotonic_ns(), time.time_ns(), time.monotonic_ns()) for _ in range(_LOOKS)]
    before_ns, now_ns, after_ns = min(looks, key=lambda look: look[2] - look[0])
    return (before_ns + after_ns) // 2 + wall_ns - now_ns
