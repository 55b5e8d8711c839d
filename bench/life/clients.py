"""The clients of a life: producers of two libraries, a group that reads, an administrator.

They run through every phase with the settings that they began with. What is answered goes into the
book, how long it took into the waits.
"""

from __future__ import annotations

import itertools
import threading
import time
from collections import Counter
from concurrent.futures import Future
from pathlib import Path
from typing import Any, Final

import confluent_kafka

from bench.demo.clients import Clients
from bench.life.book import Book, first_sequence
from bench.life.waits import CHANGE, RECORD, Waits
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
from bench.rig.waiting import wait_for
from emulator.trace.rows import RequestRow, Row

PARTITIONS: Final = 3
RECORDS: Final = {"records-aiokafka": PARTITIONS, "records-librdkafka": PARTITIONS}
"""Topic -> partitions; each is written by the library of its name."""
_AIOKAFKA, _LIBRDKAFKA = RECORDS
_RECORDS_PER_S: Final = 30.0
_CHANGES_PER_S: Final = 3.0
_TOPICS_WANTED: Final = 12
_SETTLED_S: Final = 60.0
_END_S: Final = 90.0


class Librdkafka:
    """An idempotent producer of confluent-kafka, in a thread of its own."""

    def __init__(self, bootstrap: str, topic: str, first: int, told: Any) -> None:
        self._topic = topic
        self._first = first
        self._told = told
        self.failed: Counter[str] = Counter()
        self._producer = confluent_kafka.Producer(
            {
                "bootstrap.servers": bootstrap,
                "acks": "all",
                "enable.idempotence": True,
                "log_level": 0,
            }
        )
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="librdkafka", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        begin = time.monotonic()
        for index in itertools.count():
            intended = begin + index / _RECORDS_PER_S
            self._producer.poll(max(0.0, intended - time.monotonic()))
            if self._stop.wait(max(0.0, intended - time.monotonic())):
                break
            turn, partition = divmod(index, PARTITIONS)
            self._send(partition, self._first + turn, intended)
        self._producer.flush(_SETTLED_S)

    def _send(self, partition: int, sequence: int, intended: float) -> None:
        def answered(error: Any, message: Any) -> None:
            if error is not None:
                self.failed[error.name()] += 1
                return
            known = Acknowledged(self._topic, partition, message.offset(), sequence)
            self._told(known, (time.monotonic() - intended) * 1000)

        self._producer.produce(
            self._topic,
            bytes(100),
            key=str(sequence).encode(),
            partition=partition,
            on_delivery=answered,
        )

    def stop(self) -> None:
        """Send no more, and wait for the last acknowledgements."""
        self._stop.set()
        self._thread.join(_END_S)


class LifeClients(Clients):
    """All of them.

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
        self._load: AdminLoad | None = None
        self._changing: Future[AdminResult] | None = None
        self._librdkafka: Librdkafka | None = None

    def produce(self) -> None:
        """Produce and consume until `finish`; the topics are there."""
        producer = ProduceLoad(
            self._bootstrap,
            {_AIOKAFKA: PARTITIONS},
            _RECORDS_PER_S,
            first=self._first,
            told=self._told,
        )
        consumer = ConsumeLoad(self._bootstrap, list(RECORDS), group="life")
        self._produced = self.call(producer.run(self._stop))
        self._consumed = self.call(consumer.run(self._stop))
        self._librdkafka = Librdkafka(self._bootstrap, _LIBRDKAFKA, self._first, self._told)

    def _told(self, known: Acknowledged, waited_ms: float) -> None:
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

        wait_for("new records in every partition", settled, _SETTLED_S)

    def change(self, prefix: str) -> None:
        """Ask for administrative changes until `changed`, of topics whose names begin so."""
        self._load = AdminLoad(
            self._bootstrap,
            _CHANGES_PER_S,
            None,
            client_id=prefix,
            replication_factor=2,
            record=self._answered,
            prefix=prefix,
            topics_wanted=_TOPICS_WANTED,
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
        found = self._changing.result(_END_S)
        self._load = self._changing = None
        self._book.add_load(found)
        return found

    def read_back(self) -> Verdict:
        """Read every record that was acknowledged before this call, of all runs, and judge."""
        return self.call(verify(self._bootstrap, self._book.records())).result(_END_S)

    def finish(self) -> tuple[ProduceResult, ConsumeResult, Counter[str]]:
        """End producers and group; what librdkafka failed to write comes last."""
        assert self._librdkafka is not None
        self._librdkafka.stop()
        produced, consumed = self.stop()
        return produced, consumed, self._librdkafka.failed
