"""A proxy that records what passes: bytes go on at once, unchanged; whole pairs go to a file.

Each side's end is passed on by itself, so a peer that closes its half still gets its answers. If
one peer does not read, the other is not read from. The lines of the file are whole at any time:
each is one write, and a write that fails is taken back. After such a failure nothing is recorded,
as a recording with a gap is useless, and everything is passed on: the recorder only observes.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import math
import os
import time
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from emulator.config.listeners import HostPort
from emulator.io.printable import sentence
from emulator.net.recording import PairedConnection, RecordedPair

PAIRS: Final = "wire.jsonl"
TOTALS: Final = "wire.totals.json"
READ_BYTES: Final = 64 * 1024
CONNECT_S: Final = 10.0


class Route(NamedTuple):
    """Where a proxy listens, and where it connects to."""

    listen: HostPort
    to: HostPort


class RecordingFolder:
    """``wire.jsonl``, a line for each pair, and ``wire.totals.json`` at the end.

    They are for their own user to read: what clients send may be confidential.

    Args:
        folder: made if it is not there; it must not hold a recording.

    Raises:
        OSError: a recording is there, or the files cannot be written.
    """

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._folder = folder
        self._counts: Counter[tuple[str, int, str, int]] = Counter()
        self._number = 0
        self._size = 0
        self.withheld = 0
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_CLOEXEC
        self._fd = os.open(folder / PAIRS, flags, 0o600)

    @property
    def pairs(self) -> int:
        """Lines written."""
        return self._number

    def add(self, pair: RecordedPair) -> None:
        """Write one pair.

        Raises:
            OSError: it is not written, not even in part.
        """
        line = pair.line(self._number + 1).encode() + b"\n"
        view = memoryview(line)
        try:
            while view:
                view = view[os.write(self._fd, view) :]
        except OSError:
            with contextlib.suppress(OSError):
                os.ftruncate(self._fd, self._size)
            raise
        self._size += len(line)
        self._number += 1
        self._counts[pair.channel, pair.api_key, pair.api, pair.api_version] += 1

    def close(self) -> None:
        """Write the totals.

        Raises:
            OSError: they cannot be written; the pairs are.
        """
        os.close(self._fd)
        totals = [
            {"chan": chan, "api_key": key, "api": api, "api_version": version, "count": count}
            for (chan, key, api, version), count in sorted(self._counts.items())
        ]
        part = self._folder / f"{TOTALS}.part"
        part.touch(0o600)
        part.write_text(json.dumps(totals, indent=0) + "\n", encoding="utf-8")
        part.replace(self._folder / TOTALS)


class Recorder:
    """Proxies with one recording.

    Args:
        folder: where pairs go.
        note: takes a sentence on what could not be recorded, or not be connected; raises nothing.
    """

    def __init__(self, folder: RecordingFolder, note: Callable[[str], None]) -> None:
        self._folder = folder
        self._note = note
        self._tasks: set[asyncio.Task[None]] = set()
        self._next_conn = 0
        self._over = asyncio.Event()
        self._failed: OSError | None = None
        self._failed_at = 0.0

    def stop(self) -> None:
        """End :meth:`run`."""
        self._over.set()

    async def run(
        self, routes: Sequence[Route], ready: Callable[[Sequence[HostPort]], None]
    ) -> None:
        """Serve until :meth:`stop`; then what has no answer yet is written without one.

        What cannot be written ends the recording, which is noted; connections are passed on.

        Args:
            routes: one proxy each.
            ready: gets the addresses that are bound, in that order.

        Raises:
            OSError: an address cannot be bound; or, at the end, the recording was not written.
        """
        servers: list[asyncio.Server] = []
        try:
            for route in routes:
                server = await self._listen(route)
                servers.append(server)
            ready([HostPort(*server.sockets[0].getsockname()[:2]) for server in servers])
            await self._over.wait()
        finally:
            for server in servers:
                server.close()
            for task in list(self._tasks):
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)
        if self._failed is not None:
            missing_s = math.ceil(time.monotonic() - self._failed_at)
            self._note(f"the last {missing_s} s are not recorded")
            raise self._failed

    async def _listen(self, route: Route) -> asyncio.Server:
        async def accepted(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            task = asyncio.current_task()
            assert task is not None
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
            with contextlib.suppress(asyncio.CancelledError):
                await self._serve(route, reader, writer)

        return await asyncio.start_server(
            accepted, route.listen.host, route.listen.port, limit=READ_BYTES
        )

    async def _serve(
        self, route: Route, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        self._next_conn += 1
        paired = PairedConnection(f">{route.to}", self._next_conn)
        ends = [writer]
        try:
            try:
                async with asyncio.timeout(CONNECT_S):
                    there, onward = await asyncio.open_connection(
                        route.to.host, route.to.port, limit=READ_BYTES
                    )
            except (OSError, UnicodeError) as error:
                # Any text may be the name of a host.
                self._note(f"{route.to}: {error or 'no answer in time'}")
                return
            ends.append(onward)
            async with asyncio.TaskGroup() as both:
                both.create_task(self._pass(reader, onward, paired, paired.asked))
                both.create_task(self._pass(there, writer, paired, paired.answered))
        except* OSError:
            # One side is gone: nothing can be passed on, and the other must see that.
            for end in ends:
                end.transport.abort()
        finally:
            for end in ends:
                if self._over.is_set():
                    # Bytes that a peer does not read would keep the connection open for ever.
                    end.transport.abort()
                else:
                    end.close()
            self._add(paired.ended())
            self._folder.withheld += paired.withheld

    async def _pass(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        paired: PairedConnection,
        take: Callable[[bytes, float], list[RecordedPair]],
    ) -> None:
        """Pass bytes on until their end, then the end."""
        while data := await reader.read(READ_BYTES):
            if self._failed is None:
                recorded = not paired.stopped
                self._add(_taken(take, data, paired))
                if recorded and paired.stopped:
                    self._note(f"a connection is not recorded any more: {paired.stopped}")
            writer.write(data)
            await writer.drain()
        if writer.can_write_eof():
            writer.write_eof()

    def _add(self, pairs: Sequence[RecordedPair]) -> None:
        if self._failed is not None:
            return
        try:
            for pair in pairs:
                self._folder.add(pair)
        except OSError as error:
            # A recording with a hole is none: it ends here.
            self._failed = error
            self._failed_at = time.monotonic()
            self._note(f"nothing is recorded any more, connections go on: {sentence(error)}")


def _taken(
    take: Callable[[bytes, float], list[RecordedPair]], data: bytes, paired: PairedConnection
) -> list[RecordedPair]:
    """What is whole with these bytes; a fault in that ends the recording of the connection."""
    try:
        return take(data, time.time())
    except Exception as error:  # noqa: BLE001 - the connection itself goes on
        paired.stopped = f"a fault of this program: {type(error).__name__}: {error}"
        return []
