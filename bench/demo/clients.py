"""The clients of a demonstration, in a thread with its own event loop."""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
from collections.abc import Coroutine, Mapping
from concurrent.futures import Future
from importlib import metadata
from pathlib import Path
from typing import Any, Final, TypeVar

from aiokafka.errors import KafkaError

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
from emulator.io.trace_file import TraceFailedError, TraceFile, run_row
from emulator.servers.waiting import PATIENCE_S, wait_for
from emulator.trace.rows import RequestRow, Row
from wire.errors import ErrorCode

T = TypeVar("T")

ADMIN: Final = "admin-load"
RECORDS_PER_S: Final = 20
NOT_NOW: Final = frozenset(
    {
        ("CreateTopics", ErrorCode.INVALID_REPLICATION_FACTOR),
        ("CreatePartitions", ErrorCode.INVALID_REPLICATION_FACTOR),
    }
)
"""Refused while so few brokers are unfenced, as on a machine that is too busy for heartbeats."""
_ABANDON_S: Final = 6.0
_AGAIN_S: Final = 1.0


class Clients:
    """A producer and a consumer group from the first step on, an administrator when asked.

    Args:
        bootstrap: ``host:port,...`` of brokers.
        trace: folder that the administrator's requests are recorded in.
        run_id: of that trace.
        records_per_s: of the producer.
    """

    def __init__(
        self, bootstrap: str, trace: Path, run_id: str, records_per_s: float = RECORDS_PER_S
    ) -> None:
        self._bootstrap = bootstrap
        self._trace = trace
        self._run_id = run_id
        self._records_per_s = records_per_s
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="clients", daemon=True)
        self._stop = asyncio.Event()
        self._stop_consuming = asyncio.Event()
        self._load: AdminLoad | None = None
        self._consume: ConsumeLoad | None = None
        self._produced: Future[ProduceResult] | None = None
        self._consumed: Future[ConsumeResult] | None = None
        self.waits: list[tuple[int, int]] = []
        """Of each administrative change that was carried out: when it was due (monotonic, ns), and
        for how many ns it was waited for."""

    def call(self, work: Coroutine[Any, Any, T]) -> Future[T]:
        """Start a coroutine in the clients' event loop."""
        if not self._thread.is_alive():
            self._thread.start()
        return asyncio.run_coroutine_threadsafe(work, self._loop)

    def start(self, topics: Mapping[str, int]) -> None:
        """Produce to and consume from these topics (name -> partitions) until `stop`."""
        produce = ProduceLoad(self._bootstrap, topics, self._records_per_s, give_up_s=PATIENCE_S)
        self._consume = ConsumeLoad(self._bootstrap, list(topics), group="demo")
        self._produced = self.call(produce.run(self._stop))
        self._consumed = self.call(self._consume.run(self._stop_consuming))

    @property
    def read(self) -> int:
        """How many records the group has read so far."""
        assert self._consume is not None
        return self._consume.result.consumed

    def check(self) -> None:
        """Raise the error that ended a client too early."""
        for running in (self._produced, self._consumed):
            if running is not None and running.done():
                running.result()

    def administer(self, rate: float) -> Future[AdminResult]:
        """Start the open-loop administrative load, traced, until `administer_no_more`."""
        return self.call(self._administer(rate))

    def administer_no_more(self) -> None:
        """Begin no more changes; the load's result comes with the last answer."""
        assert self._load is not None
        self._loop.call_soon_threadsafe(self._load.stop)

    async def _administer(self, rate: float) -> AdminResult:
        trace = TraceFile(self._trace, self._run_id, ADMIN)
        release = f"{ADMIN} {metadata.version('kraft-bridge')}"
        trace.append(run_row(release, {"changes_per_second": rate}))
        flushed = time.monotonic()

        def record(row: Row) -> None:
            nonlocal flushed
            if isinstance(row, RequestRow) and row.intended_ns is not None and not row.error_code:
                self.waits.append((row.intended_ns, row.answered_ns - row.intended_ns))
            trace.append(row)
            if time.monotonic() - flushed > 0.5:
                flushed = time.monotonic()
                trace.flush()

        self._load = AdminLoad(
            self._bootstrap,
            rate,
            None,
            client_id=ADMIN,
            record=record,
            give_up_s=PATIENCE_S,
            not_now=NOT_NOW,
        )
        try:
            return await self._load.run()
        finally:
            with contextlib.suppress(TraceFailedError):  # the report says what is missing
                trace.close()

    def stop(self) -> tuple[ProduceResult, ConsumeResult]:
        """End the producer, and the group once it has read all that was acknowledged.

        Raises:
            KafkaError: one of them had ended with it.
            TimeoutError: the last acknowledgement did not come.
        """
        assert self._produced is not None
        assert self._consumed is not None
        self._loop.call_soon_threadsafe(self._stop.set)
        produced = self._produced.result(2 * PATIENCE_S)
        with contextlib.suppress(TimeoutError):  # what the group has not read is judged
            wait_for("the group at the end", lambda: self._at_end(produced), PATIENCE_S)
        self._loop.call_soon_threadsafe(self._stop_consuming.set)
        return produced, self._consumed.result(PATIENCE_S)

    def _at_end(self, produced: ProduceResult) -> bool:
        """Whether the group has ended, or has read every record that was acknowledged."""
        assert self._consume is not None
        assert self._consumed is not None
        unread = self._consume.result.unread(produced.acknowledged)
        return self._consumed.done() or not unread

    def verify(self, acknowledged: list[Acknowledged]) -> Verdict:
        """Read everything back and check it; a broker that is too slow is asked again.

        Raises:
            KafkaError, TimeoutError: it could not be read within 15 minutes.
        """
        end = time.monotonic() + PATIENCE_S
        while True:
            left_s = max(1.0, end - time.monotonic())
            try:
                reading = verify(self._bootstrap, acknowledged, timeout_s=left_s)
                return self.call(reading).result(2 * PATIENCE_S)
            except KafkaError:
                if time.monotonic() > end:
                    raise
                time.sleep(_AGAIN_S)

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
