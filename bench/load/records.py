"""A producer that records acknowledgements, a consumer group, and the verification of both.

Each record carries a sequence number of its partition as its key. ``verify`` checks that every
acknowledged record is there, once, at the acknowledged offset, and in order.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.errors import CommitFailedError, KafkaError, KafkaTimeoutError

COMMIT_S: Final = 1.0
"""Between two commits of a group, at least."""
UNKNOWN_OFFSET = -1
"""Of a record whose second attempt was answered DUPLICATE_SEQUENCE_NUMBER."""

# A killed broker is part of the load: that it cannot be reached is expected and is not logged.
logging.getLogger("aiokafka").addHandler(logging.NullHandler())


class Acknowledged(NamedTuple):
    """A record that the cluster acknowledged."""

    topic: str
    partition: int
    offset: int
    """`UNKNOWN_OFFSET` if the answer has no offset: an earlier attempt wrote the record."""
    sequence: int


@dataclass
class ProduceResult:
    """The result of a ``ProduceLoad``."""

    acknowledged: list[Acknowledged] = field(default_factory=list)
    failed: Counter[str] = field(default_factory=Counter)
    """Error -> records given up; a retriable error counts when its retries ran out of time."""
    longest_ms: float = 0.0
    """From the intended instant to the acknowledgement."""


class ProduceLoad:
    """Records with acks=all by an idempotent producer, at a fixed rate, spread over partitions.

    Args:
        bootstrap: ``host:port,...`` of brokers.
        partitions: topic -> number of partitions to write to.
        rate: records per second.
        value_bytes: size of each record's value.
        first: sequence number of the first record of each partition.
        give_up_s: for so long a record is sent again; then it counts as failed.
        on_acknowledged: takes each acknowledgement, with the ms since the intended instant.
    """

    def __init__(
        self,
        bootstrap: str,
        partitions: Mapping[str, int],
        rate: float,
        *,
        client_id: str = "produce-load",
        value_bytes: int = 100,
        first: int = 0,
        give_up_s: float = 60.0,
        on_acknowledged: Callable[[Acknowledged, float], None] | None = None,
    ) -> None:
        self._bootstrap = bootstrap
        self._targets = [
            (topic, partition) for topic, count in partitions.items() for partition in range(count)
        ]
        self._rate = rate
        self._client_id = client_id
        self._value = bytes(value_bytes)
        self._first = first
        self._give_up_ms = round(give_up_s * 1_000)
        self._on_acknowledged = on_acknowledged
        self._result = ProduceResult()

    async def run(self, stop: asyncio.Event) -> ProduceResult:
        """Produce until ``stop`` is set, then wait for the last acknowledgements."""
        producer = AIOKafkaProducer(
            bootstrap_servers=self._bootstrap,
            client_id=self._client_id,
            acks="all",
            enable_idempotence=True,
            request_timeout_ms=self._give_up_ms,
            retry_backoff_ms=100,
            metadata_max_age_ms=5_000,
        )
        await producer.start()
        begin = time.monotonic()
        try:
            async with asyncio.TaskGroup() as tasks:
                for index in itertools.count():
                    intended = begin + index / self._rate
                    await asyncio.sleep(max(0.0, intended - time.monotonic()))
                    if stop.is_set():
                        break
                    turn, which = divmod(index, len(self._targets))
                    sequence = self._first + turn
                    topic, partition = self._targets[which]
                    # Sent in order here; only the wait for the acknowledgement is a task.
                    sent = await self._send(producer, topic, partition, sequence)
                    if sent is not None:
                        tasks.create_task(self._await(sent, sequence, intended))
        finally:
            await producer.stop()
        return self._result

    async def _send(
        self, producer: AIOKafkaProducer, topic: str, partition: int, sequence: int
    ) -> Any:
        try:
            return await producer.send(
                topic, self._value, key=str(sequence).encode(), partition=partition
            )
        except KafkaError as error:
            self._result.failed[type(error).__name__] += 1
            return None

    async def _await(self, sent: Any, sequence: int, intended: float) -> None:
        try:
            held = await sent
        except KafkaError as error:
            self._result.failed[type(error).__name__] += 1
            return
        waited = (time.monotonic() - intended) * 1000
        self._result.longest_ms = max(self._result.longest_ms, waited)
        known = Acknowledged(held.topic, held.partition, held.offset, sequence)
        self._result.acknowledged.append(known)
        if self._on_acknowledged is not None:
            self._on_acknowledged(known, waited)


@dataclass
class ConsumeResult:
    """The result of a ``ConsumeLoad``."""

    consumed: int = 0
    failed: Counter[str] = field(default_factory=Counter)
    """Error that no retry mends -> times."""
    retried: Counter[str] = field(default_factory=Counter)
    positions: dict[tuple[str, int], int] = field(default_factory=dict)
    """(topic, partition) -> offset after the last record seen."""

    def unread(self, acknowledged: Iterable[Acknowledged]) -> set[tuple[str, int]]:
        """(topic, partition) of acknowledged records that the group has not come to."""
        return {
            (one.topic, one.partition)
            for one in acknowledged
            if self.positions.get((one.topic, one.partition), 0) <= one.offset
        }


class ConsumeLoad:
    """A consumer group that goes on until it is stopped.

    It commits by time, not after each poll: a commit names every partition it has read, and each is
    a record that brokers replicate.
    """

    def __init__(
        self,
        bootstrap: str,
        topics: Sequence[str],
        *,
        group: str = "consume-load",
        client_id: str = "consume-load",
    ) -> None:
        self._bootstrap = bootstrap
        self._topics = list(topics)
        self._group = group
        self._client_id = client_id
        self._result = ConsumeResult()
        self._commit_at = 0.0
        self._uncommitted = False

    @property
    def result(self) -> ConsumeResult:
        """The result so far."""
        return self._result

    async def run(self, stop: asyncio.Event) -> ConsumeResult:
        """Consume until ``stop`` is set."""
        consumer = AIOKafkaConsumer(
            *self._topics,
            bootstrap_servers=self._bootstrap,
            client_id=self._client_id,
            group_id=self._group,
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            metadata_max_age_ms=5_000,
            session_timeout_ms=15_000,
        )
        await consumer.start()
        try:
            while not stop.is_set():
                await self._once(consumer)
        finally:
            await consumer.stop()
        return self._result

    async def _once(self, consumer: AIOKafkaConsumer) -> None:
        try:
            fetched = await consumer.getmany(timeout_ms=500)
            for where, records in fetched.items():
                self._result.consumed += len(records)
                self._result.positions[where.topic, where.partition] = records[-1].offset + 1
            self._uncommitted |= bool(fetched)
            if self._uncommitted and time.monotonic() >= self._commit_at:
                self._commit_at = time.monotonic() + COMMIT_S
                await consumer.commit()
                self._uncommitted = False
        except CommitFailedError as error:
            # The group has put its member out meanwhile. It joins again by itself at the next call
            # and reads again what was not committed, as the protocol of groups asks.
            self._result.retried[type(error).__name__] += 1
        except KafkaError as error:
            # A broker that is late has refused nothing.
            again = error.retriable or isinstance(error, KafkaTimeoutError)
            kept = self._result.retried if again else self._result.failed
            kept[type(error).__name__] += 1
            await asyncio.sleep(0.1)


@dataclass(frozen=True, slots=True)
class Verdict:
    """The result of reading everything back."""

    acknowledged: int
    read: int
    missing: tuple[Acknowledged, ...]
    """Acknowledged, but not at that offset with that key."""
    duplicated: tuple[tuple[str, int, int], ...]
    """(topic, partition, sequence) of records that occur more than once."""
    out_of_order: tuple[tuple[str, int, int], ...]
    """(topic, partition, offset) whose sequence number is below one before it."""

    @property
    def held(self) -> bool:
        """Every acknowledged record is there once, in order."""
        return not (self.missing or self.duplicated or self.out_of_order)


def judge(
    acknowledged: Iterable[Acknowledged], read: Mapping[tuple[str, int], Sequence[tuple[int, int]]]
) -> Verdict:
    """Compare the records read with the acknowledged records.

    Args:
        acknowledged: by the producers.
        read: (topic, partition) -> (offset, sequence) of each record. What stands once may be named
            twice: a leader that is behind sends a reader back to the beginning.

    >>> judge([Acknowledged("t", 0, 5, 1)], {("t", 0): [(5, 1)]}).held
    True
    """
    promised = list(acknowledged)
    read = {where: sorted(set(records)) for where, records in read.items()}
    found = {where: dict(records) for where, records in read.items()}
    missing = tuple(
        each for each in promised if not _held(each, found.get((each.topic, each.partition), {}))
    )
    duplicated: list[tuple[str, int, int]] = []
    out_of_order: list[tuple[str, int, int]] = []
    for (topic, partition), records in read.items():
        counts = Counter(sequence for _, sequence in records)
        duplicated += [(topic, partition, each) for each, count in counts.items() if count > 1]
        highest = -1
        for offset, sequence in records:
            if sequence < highest:
                out_of_order.append((topic, partition, offset))
            highest = max(highest, sequence)
    count = sum(len(records) for records in read.values())
    return Verdict(len(promised), count, missing, tuple(duplicated), tuple(out_of_order))


def _held(record: Acknowledged, found: Mapping[int, int]) -> bool:
    """Whether a partition has a record; ``found``: offset -> sequence."""
    if record.offset == UNKNOWN_OFFSET:
        return record.sequence in found.values()
    return found.get(record.offset) == record.sequence


async def verify(
    bootstrap: str, acknowledged: Sequence[Acknowledged], *, timeout_s: float = 60.0
) -> Verdict:
    """Read every partition written to from its beginning to its end, and judge.

    Raises:
        TimeoutError: the end was not reached in time.
        KafkaError: the cluster refused.
    """
    partitions = sorted({(each.topic, each.partition) for each in acknowledged})
    read: dict[tuple[str, int], list[tuple[int, int]]] = defaultdict(list)
    if partitions:
        consumer = AIOKafkaConsumer(
            bootstrap_servers=bootstrap, client_id="verify", auto_offset_reset="earliest"
        )
        async with asyncio.timeout(timeout_s):
            await consumer.start()
            try:
                await _read_all(consumer, [TopicPartition(*each) for each in partitions], read)
            finally:
                await consumer.stop()
    return judge(acknowledged, read)


async def _read_all(
    consumer: AIOKafkaConsumer,
    partitions: list[TopicPartition],
    read: dict[tuple[str, int], list[tuple[int, int]]],
) -> None:
    consumer.assign(partitions)
    await consumer.seek_to_beginning(*partitions)
    ends = await consumer.end_offsets(partitions)
    left = {where for where, end in ends.items() if end > 0}
    while left:
        for where, records in (await consumer.getmany(timeout_ms=500)).items():
            key = (where.topic, where.partition)
            read[key] += [(record.offset, int(record.key)) for record in records]
            if records[-1].offset + 1 >= ends[where]:
                left.discard(where)
