"""What a partition costs in a controller that leads: in the image, and in the index over it."""

from __future__ import annotations

import gc
import tracemalloc
from collections.abc import Iterator, Sequence

import pytest

from emulator.controller.tables.index import TipIndex
from emulator.metadata import topics
from emulator.metadata.history import History
from wire import records as r
from wire.record_serde import decode_record, encode_record

BROKERS = 40
REACHED = {(50, 100): (145.0, 36.1), (2_000, 1): (710.0, 306.1)}
"""Topics, and partitions of each -> bytes a partition, of the image and of the index. What makes
them fewer writes the lower numbers here."""
SPARE = 1.2
"""Other releases of Python have objects of other sizes."""


def batches(count: int, partitions: int) -> Iterator[list[bytes]]:
    """The records of each topic, as the log has them; each partition has a past of its own."""
    for number in range(count):
        topic_id = number.to_bytes(16, "big")
        values = [encode_record(r.TopicRecord(name=f"topic-{number:04}", topic_id=topic_id), 0)]
        for index in range(partitions):
            replicas = tuple((number + index + more) % BROKERS + 1 for more in range(3))
            record = r.PartitionRecord(
                partition_id=index,
                topic_id=topic_id,
                replicas=replicas,
                isr=replicas,
                leader=replicas[0],
                leader_epoch=number + 1,
                partition_epoch=index + 1,
            )
            values.append(encode_record(record, 0))
        yield values


def replayed(found: Sequence[Sequence[bytes]]) -> History:
    """A history of them, all committed."""
    history, offset = History(), 0
    for values in found:
        history.append([decode_record(value)[0] for value in values], offset, 1)
        offset += len(values)
        history.advance(offset)
    return history


def costs(count: int, partitions: int) -> tuple[float, float]:
    """Bytes of the image and of the index, for each partition."""
    found = [*batches(count, partitions)]
    TipIndex(replayed(found[:1]).tip)  # compiles what it needs
    gc.collect()
    tracemalloc.start()
    try:
        history = replayed(found)
        gc.collect()
        image, _ = tracemalloc.get_traced_memory()
        index = TipIndex(history.tip)
        gc.collect()
        whole, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert len(history.stable.topics) == count
    del index
    return image / (count * partitions), (whole - image) / (count * partitions)


def too_much(size: tuple[int, int]) -> list[float]:
    """What is above what was reached."""
    pairs = zip(costs(*size), REACHED[size], strict=True)
    return [found for found, reached in pairs if found > reached * SPARE]


@pytest.mark.parametrize("size", REACHED, ids=str)
def test_a_partition_takes_no_more_memory_than_it_did(size: tuple[int, int]) -> None:
    assert too_much(size) == []


def test_partitions_that_share_nothing_are_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(topics, "shared", tuple)
    assert too_much((50, 100))
