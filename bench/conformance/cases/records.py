"""A broker that stores records: Produce, ListOffsets, Fetch, DeleteRecords."""

from __future__ import annotations

import itertools
import time
from typing import Any, Final

from bench.conformance.asking import created, shown
from bench.conformance.case import (
    Again,
    Ask,
    NotOffered,
    Program,
    Stage,
    Where,
    case,
    code,
    holds,
    only,
    same,
)
from wire import messages as m
from wire.batch import Batch, decode_batches, encode_batch

_ASKS: Final = (m.ProduceRequest, m.FetchRequest, m.ListOffsetsRequest)
INVALID_REQUEST: Final = 42
_NOT_YET: Final = {3, 6}
"""UNKNOWN_TOPIC_OR_PARTITION, NOT_LEADER_OR_FOLLOWER."""


def batch(*values: bytes) -> bytes:
    """One batch of records without keys, as a producer without idempotence sends it."""
    now_ms = int(time.time() * 1_000)
    return encode_batch(
        Batch(
            base_offset=0,
            leader_epoch=-1,
            attributes=0,
            base_timestamp=now_ms,
            records=[(None, one) for one in values],
        )
    )


def production(name: str, data: bytes) -> Any:
    """A Produce request for partition 0 with acks=-1."""
    kind = m.ProduceRequest
    part = kind.PartitionProduceData(index=0, records=data)
    topic = kind.TopicProduceData(name=name, partition_data=[part])
    return kind(acks=-1, timeout_ms=20_000, topic_data=[topic])


def produced(name: str, data: bytes) -> Program:
    """Produce; returns the result of the partition.

    A broker shows a leader before its log is there: until then it says so, and clients ask again.
    """
    for number in itertools.count():
        answer = (yield Ask(production(name, data), lowest=3)).message
        result = only("partitions", only("topics", answer.responses).partition_responses)
        if result.error_code == INVALID_REQUEST:
            raise NotOffered("the broker stores no records")
        if result.error_code not in _NOT_YET or (yield Again(number)):
            return result
    raise AssertionError("it counts for ever")


def stored(stage: Stage) -> Program:
    """A topic that this broker leads: (name, id)."""
    led = stage.facts.brokers[:1]
    name, topic_id = yield from created(stage, assignments=[led])
    yield from shown(stage, name)
    return name, topic_id


@case(
    "what is produced is fetched again, byte by byte, at the offsets that were told",
    sources="KIP-98, KIP-516; ReplicaManager",
    where=Where.BROKER,
    asks=_ASKS,
    brokers=1,
)
def round_trip(stage: Stage) -> Program:
    if len(stage.facts.brokers) > 1:
        raise NotOffered("judged with one broker alone: others lead elsewhere")
    name, topic_id = yield from stored(stage)
    values = [stage.rng.randbytes(20) for _ in range(5)]
    first = yield from produced(name, batch(*values[:3]))
    code("Produce", first.error_code, 0)
    same("the base offset", first.base_offset, 0)
    second = yield from produced(name, batch(*values[3:]))
    same("the next base offset", second.base_offset, 3)
    for timestamp, expected in ((-1, 5), (-2, 0)):
        kind = m.ListOffsetsRequest
        part = kind.ListOffsetsPartition(partition_index=0, timestamp=timestamp)
        asked = kind(replica_id=-1, topics=[kind.ListOffsetsTopic(name=name, partitions=[part])])
        told = (yield Ask(asked, lowest=1)).message
        result = only("partitions", only("topics", told.topics).partitions)
        same(f"ListOffsets at {timestamp}", (result.error_code, result.offset), (0, expected))
    fetch = m.FetchRequest
    wanted = fetch.FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1 << 20)
    request = fetch(
        max_wait_ms=5_000,
        min_bytes=1,
        max_bytes=1 << 20,
        topics=[fetch.FetchTopic(topic=name, topic_id=topic_id, partitions=[wanted])],
    )
    got = (yield Ask(request, lowest=4)).message
    result = only("partitions", only("topics", got.responses).partitions)
    code("Fetch", result.error_code, 0)
    same("the high watermark", result.high_watermark, 5)
    records = [value for each in decode_batches(result.records or b"") for _, value in each.records]
    same("the values", records, values)


@case(
    "Produce of damaged records gets CORRUPT_MESSAGE",
    sources="DefaultRecordBatch.ensureValid",
    where=Where.BROKER,
    asks=_ASKS,
    brokers=1,
)
def damaged(stage: Stage) -> Program:
    if len(stage.facts.brokers) > 1:
        raise NotOffered("judged with one broker alone: others lead elsewhere")
    name, _ = yield from stored(stage)
    data = bytearray(batch(b"value"))
    data[-3] ^= 0xFF
    result = yield from produced(name, bytes(data))
    code("Produce of a batch with a wrong checksum", result.error_code, 2, 87)
    holds("the base offset", result.base_offset == -1, "-1", result.base_offset)
