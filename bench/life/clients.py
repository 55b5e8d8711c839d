"""The clients of a life: producers of three libraries, a group that reads, an administrator.

They run through every phase with the settings that they began with. What is answered goes into the
book, how long it took into the waits.
"""

from __future__ import annotations

import contextlib
import itertools
import logging
import threading
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path
from typing import Any, Final

import confluent_kafka

from bench.demo.clients import NOT_NOW, Clients
from bench.life.book import Book, first_sequence
from bench.life.waits import CHANGE, RECORD, Waits
from bench.load.admin import AdminLoad, AdminResult
from bench.load.records import (
    UNKNOWN_OFFSET,
    Acknowledged,
    ConsumeLoad,
    ConsumeResult,
    ProduceLoad,
    ProduceResult,
)
from emulator.servers.waiting import PATIENCE_S, wait_for
from emulator.trace.rows import RequestRow, Row

PARTITIONS: Final = 3
RECORDS: Final = dict.fromkeys(
    ("records-aiokafka", "records-librdkafka", "records-kafka-python"), PARTITIONS
)
"""Topic -> partitions; each is written by the library of its name."""
_AIOKAFKA, _LIBRDKAFKA, _KAFKA_PYTHON = RECORDS
_RECORDS_PER_S: Final = 30.0
_CHANGES_PER_S: Final = 3.0
_TOPICS_WANTED: Final = 12
_PATIENCE_MS: Final = round(PATIENCE_S * 1_000)
_ABANDON_S: Final = 5.0


class _Producer:
    """An idempotent producer with acks=all, in a thread of its own, at a fixed rate.

    Args:
        topic: that it writes to, with `PARTITIONS` partitions.
        first: sequence number of the first record of each partition.
        on_acknowledged: takes each acknowledgement, with the ms since the intended instant.
    """

    def __init__(
        self, topic: str, first: int, on_acknowledged: Callable[[Acknowledged, float], None]
    ) -> None:
        self.topic = topic
        self._first = first
        self._on_acknowledged = on_acknowledged
        self.failed: Counter[str] = Counter()
        """Error -> records given up."""
        self._patience_s = PATIENCE_S
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name=topic, daemon=True)
        self._thread.start()

    def _send(self, partition: int, sequence: int, intended: float) -> None:
        raise NotImplementedError

    def _serve(self, seconds: float) -> bool:
        """Let time pass; whether it is to end."""
        return self._stop.wait(seconds)

    def _flush(self) -> None:
        raise NotImplementedError

    def _run(self) -> None:
        begin = time.monotonic()
        for index in itertools.count():
            intended = begin + index / _RECORDS_PER_S
            if self._serve(max(0.0, intended - time.monotonic())):
                break
            turn, partition = divmod(index, PARTITIONS)
            self._send(partition, self._first + turn, intended)
        self._flush()

    def _answered(self, partition: int, offset: int | None, sequence: int, intended: float) -> None:
        where = UNKNOWN_OFFSET if offset is None else offset
        known = Acknowledged(self.topic, partition, where, sequence)
        self._on_acknowledged(known, (time.monotonic() - intended) * 1000)

    def stop(self) -> None:
        """Send no more, and wait for the last acknowledgements."""
        self._stop.set()
        self._thread.join(2 * PATIENCE_S)
        if self._thread.is_alive():
            self.failed["the last acknowledgements did not come"] += 1

    def abandon(self) -> None:
        """Send no more, and wait for nothing."""
        self._patience_s = 0.0
        self._stop.set()
        self._thread.join(_ABANDON_S)


class Librdkafka(_Producer):
    """The producer of confluent-kafka."""

    def __init__(
        self, bootstrap: str, first: int, on_acknowledged: Callable[[Acknowledged, float], None]
    ) -> None:
        # With more than one request under way, librdkafka 2.16 wrote a record twice when a leader
        # changed, also in plain ZooKeeper mode: what followed the refused one came first, was
        # refused by OUT_OF_ORDER_SEQUENCE_NUMBER, and all was sent again in another epoch.
        settings = {"acks": "all", "enable.idempotence": True, "log_level": 0}
        settings |= {
            "max.in.flight.requests.per.connection": 1,
            "message.timeout.ms": _PATIENCE_MS,
        }
        self._client = confluent_kafka.Producer({"bootstrap.servers": bootstrap, **settings})
        super().__init__(_LIBRDKAFKA, first, on_acknowledged)

    def _serve(self, seconds: float) -> bool:
        end = time.monotonic() + seconds
        self._client.poll(seconds)
        return super()._serve(max(0.0, end - time.monotonic()))

    def _send(self, partition: int, sequence: int, intended: float) -> None:
        def answered(error: Any, message: Any) -> None:
            if error is not None:
                self.failed[error.name()] += 1
            else:
                self._answered(partition, message.offset(), sequence, intended)

        key = str(sequence).encode()
        self._client.produce(
            self.topic, bytes(100), key=key, partition=partition, on_delivery=answered
        )

    def _flush(self) -> None:
        self._client.flush(self._patience_s)


class KafkaPython(_Producer):
    """The producer of kafka-python."""

    def __init__(
        self, bootstrap: str, first: int, on_acknowledged: Callable[[Acknowledged, float], None]
    ) -> None:
        import kafka  # noqa: PLC0415 - importing it warns, which is an error in tests

        logging.getLogger("kafka").setLevel(logging.CRITICAL)  # a broker that is away is expected
        self._error = kafka.errors.KafkaError
        self._client = kafka.KafkaProducer(
            bootstrap_servers=bootstrap.split(","),
            acks="all",
            enable_idempotence=True,
            delivery_timeout_ms=_PATIENCE_MS,
            max_block_ms=_PATIENCE_MS,
        )
        super().__init__(_KAFKA_PYTHON, first, on_acknowledged)

    def _send(self, partition: int, sequence: int, intended: float) -> None:
        def failed(error: BaseException) -> None:
            self.failed[type(error).__name__] += 1

        key = str(sequence).encode()
        try:
            sent = self._client.send(self.topic, bytes(100), key=key, partition=partition)
        except self._error as error:
            failed(error)
            return
        sent.add_callback(lambda held: self._answered(partition, held.offset, sequence, intended))
        sent.add_errback(failed)

    def _flush(self) -> None:
        with contextlib.suppress(self._error):
            self._client.flush(self._patience_s)
        self._client.close(self._patience_s)


class LifeClients(Clients):
    """All clients of a life.

    Args:
        bootstrap: ``host:port,...`` of brokers.
        book: takes what is acknowledged.
        waits: takes how long it took.
        run: number of this run: records of a later run have higher sequence numbers.
    """

    def __init__(self, bootstrap: str, book: Book, waits: Waits, run: int) -> None:
        super().__init__(bootstrap, Path(), "life")
        self._book = book
        self._waits = waits
        self._first = first_sequence(run)
        self._begun: dict[tuple[str, int], float] = {}
        self._changing: Future[AdminResult] | None = None
        self._producers: list[_Producer] = []
        self._ends: list[Acknowledged] = []
        """The last record of each partition, once all producers have ended."""

    def produce(self) -> None:
        """Produce and consume until `finish`; the topics are there."""
        producer = ProduceLoad(
            self._bootstrap,
            {_AIOKAFKA: PARTITIONS},
            _RECORDS_PER_S,
            first=self._first,
            give_up_s=PATIENCE_S,
            on_acknowledged=self._note_acknowledged,
        )
        self._consume = ConsumeLoad(self._bootstrap, list(RECORDS), group="life")
        self._produced = self.call(producer.run(self._stop))
        self._consumed = self.call(self._consume.run(self._stop_consuming))
        self._producers = [
            library(self._bootstrap, self._first, self._note_acknowledged)
            for library in (Librdkafka, KafkaPython)
        ]

    def _note_acknowledged(self, known: Acknowledged, waited_ms: float) -> None:
        now = time.monotonic()
        self._book.add_record(known)
        self._waits.note(RECORD, waited_ms / 1000, now)
        self._begun[known.topic, known.partition] = now - waited_ms / 1000

    def settle(self) -> None:
        """Wait until records that were begun after this call are acknowledged in every partition.

        Raises:
            TimeoutError: they are not.
            KafkaError: a client ended with it.
        """
        now = time.monotonic()
        every = [(topic, number) for topic, count in RECORDS.items() for number in range(count)]

        def settled() -> bool:
            self.check()
            return all(self._begun.get(each, 0.0) > now for each in every)

        wait_for("new records in every partition", settled)

    def change(self, prefix: str) -> None:
        """Ask for administrative changes until `changed`, of topics whose names begin so."""
        self._load = AdminLoad(
            self._bootstrap,
            _CHANGES_PER_S,
            None,
            client_id=prefix,
            replication_factor=2,
            record=self._answered,
            give_up_s=PATIENCE_S,
            prefix=prefix,
            topics_wanted=_TOPICS_WANTED,
            not_now=NOT_NOW,
        )
        self._changing = self.call(self._load.run())

    def _answered(self, row: Row) -> None:
        if isinstance(row, RequestRow) and row.intended_ns is not None:
            waited_ns = row.answered_ns - row.intended_ns
            self._waits.note(CHANGE, waited_ns / 1e9, row.answered_ns / 1e9)

    def changed(self) -> AdminResult:
        """End the changes, wait for the last answer, and enter them into the book."""
        assert self._load is not None
        assert self._changing is not None
        self._loop.call_soon_threadsafe(self._load.stop)
        found = self._changing.result(2 * PATIENCE_S)
        self._load = self._changing = None
        self._book.add_load(found)
        return found

    def _at_end(self, produced: ProduceResult) -> bool:
        """Whether the group has ended, or has read every record of every producer."""
        if not self._ends:  # all producers have ended: no record is acknowledged any more
            known = sorted(
                [*produced.acknowledged, *self._book.records()], key=lambda one: one.offset
            )
            self._ends = [*{(one.topic, one.partition): one for one in known}.values()]
        return super()._at_end(ProduceResult(self._ends))

    def abandon(self) -> None:
        """End everything that still runs at once; what is answered later is not in the book."""
        for each in self._producers:
            each.abandon()
        super().abandon()

    def finish(self) -> tuple[ConsumeResult, dict[str, Counter[str]]]:
        """End producers and group.

        Returns:
            What the group read, and client -> errors that no retry mended.

        Raises:
            KafkaError, TimeoutError: a client had ended, or does not end.
        """
        for each in self._producers:
            each.stop()
        produced, consumed = self.stop()
        failed = {each.topic: each.failed for each in self._producers}
        return consumed, {_AIOKAFKA: produced.failed, **failed, "the group": consumed.failed}
