"""The clients of a demonstration, in a thread with its own event loop."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Coroutine, Mapping
from concurrent.futures import Future
from importlib import metadata
from pathlib import Path
from typing import Any, Final, TypeVar

from bench.load.admin import AdminLoad, AdminResult
from bench.load.records import (
    Acknowledged,
    ConsumeLoad,
    ConsumeResult,
    ProduceLoad,
    ProduceResult,
    Verdict,
    verify,
)
from emulator.io.trace_file import TraceFile, run_row
from emulator.trace.rows import RequestRow, Row

T = TypeVar("T")

ADMIN: Final = "admin-load"
RECORDS_PER_S: Final = 100
_STOP_S: Final = 90.0
_ABANDON_S: Final = 6.0


class Clients:
    """A producer and a consumer group from the first step on, an administrator when asked.

    Args:
        bootstrap: ``host:port,...`` of brokers.
        trace: folder that the administrator's requests are recorded in.
        run_id: of that trace.
    """

    def __init__(self, bootstrap: str, trace: Path, run_id: str) -> None:
        self._bootstrap = bootstrap
        self._trace = trace
        self._run_id = run_id
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="clients", daemon=True)
        self._stop = asyncio.Event()
        self._produced: Future[ProduceResult] | None = None
        self._consumed: Future[ConsumeResult] | None = None
        self.admin_answered = 0
        """Administrative changes answered so far."""

    def call(self, work: Coroutine[Any, Any, T]) -> Future[T]:
        """Start a coroutine in the clients' event loop."""
        if not self._thread.is_alive():
            self._thread.start()
        return asyncio.run_coroutine_threadsafe(work, self._loop)

    def start(self, topics: Mapping[str, int]) -> None:
        """Produce to and consume from these topics (name -> partitions) until `stop`."""
        produce = ProduceLoad(self._bootstrap, topics, RECORDS_PER_S)
        consume = ConsumeLoad(self._bootstrap, list(topics), group="demo")
        self._produced = self.call(produce.run(self._stop))
        self._consumed = self.call(consume.run(self._stop))

    def check(self) -> None:
        """Raise the error that ended a client too early."""
        for running in (self._produced, self._consumed):
            if running is not None and running.done():
                running.result()

    def administer(self, rate: float, seconds: float) -> Future[AdminResult]:
        """Start the open-loop administrative load, recorded into the trace."""
        return self.call(self._administer(rate, seconds))

    async def _administer(self, rate: float, seconds: float) -> AdminResult:
        trace = TraceFile(self._trace, self._run_id, ADMIN)
        release = f"{ADMIN} {metadata.version('kraft-bridge')}"
        trace.append(run_row(release, {"changes_per_second": rate, "seconds": seconds}))
        flushed = time.monotonic()

        def record(row: Row) -> None:
            nonlocal flushed
            if isinstance(row, RequestRow):
                self.admin_answered += 1
            trace.append(row)
            if time.monotonic() - flushed > 1.0:
                flushed = time.monotonic()
                trace.flush()

        try:
            return await AdminLoad(
                self._bootstrap, rate, seconds, client_id=ADMIN, record=record
            ).run()
        finally:
            trace.close()

    def stop(self) -> tuple[ProduceResult, ConsumeResult]:
        """End producer and consumer; waits for the last acknowledgements.

        Raises:
            KafkaError: one of them had ended with it.
        """
        assert self._produced is not None
        assert self._consumed is not None
        self._loop.call_soon_threadsafe(self._stop.set)
        return self._produced.result(_STOP_S), self._consumed.result(_STOP_S)

    def verify(self, acknowledged: list[Acknowledged]) -> Verdict:
        """Read everything back and check it."""
        return self.call(verify(self._bootstrap, acknowledged)).result(_STOP_S)

    def abandon(self) -> None:
        """Cancel everything that still runs; its results are ignored."""
        if self._thread.is_alive():
            self._loop.set_exception_handler(lambda _loop, _context: None)
            asyncio.run_coroutine_threadsafe(self._cancel_all(), self._loop)
            self._thread.join(_ABANDON_S)
        if not self._thread.is_alive():
            self._loop.close()

    async def _cancel_all(self) -> None:
        own = asyncio.current_task()
        try:
            async with asyncio.timeout(_ABANDON_S / 2):
                # Cancelled tasks may start tasks to clean up.
                while tasks := asyncio.all_tasks() - {own}:
                    for task in tasks:
                        task.cancel()
                    await asyncio.wait(tasks, timeout=0.2)
        except TimeoutError:
            pass
        finally:
            self._loop.stop()
