"""Answers of the metadata log that brokers of one process get alike are split and checked once."""

from __future__ import annotations

import pytest

from emulator.broker.kraft import followed
from emulator.broker.kraft.followed import SPLIT_BYTES_MAX, FollowedMetadata, FollowerIdentity
from emulator.broker.zookeeper import quorum_registration
from emulator.broker.zookeeper.quorum_registration import LogOffsets
from wire import messages as m
from wire.batch import Batch, batch_crc_holds, batch_header, encode_batch
from wire.errors import DecodeError


def batch(base: int, value: str) -> bytes:
    return encode_batch(Batch(base, 1, 0, 0, [(None, value.encode())]))


def told(records: bytes, high_watermark: int) -> m.FetchResponse.PartitionData:
    return m.FetchResponse.PartitionData(high_watermark=high_watermark, records=records)


def brokers(count: int) -> list[FollowedMetadata]:
    return [
        FollowedMetadata(FollowerIdentity(one, "a-cluster", bytes(16)), LogOffsets())
        for one in range(count)
    ]


class Counted:
    """How many headers were read, and how many checksums computed."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.headers = self.checksums = 0
        followed._split.cache_clear()
        quorum_registration._crc_holds.cache_clear()

        def header(data: bytes, position: int = 0) -> object:
            self.headers += 1
            return batch_header(data, position)

        def holds(data: bytes) -> bool:
            self.checksums += 1
            return batch_crc_holds(data)

        patch.setattr(followed, "batch_header", header)
        patch.setattr(quorum_registration, "batch_crc_holds", holds)


def test_each_batch_is_read_once_for_all_brokers(monkeypatch: pytest.MonkeyPatch) -> None:
    counted = Counted(monkeypatch)
    data = b"".join(batch(base, f"once-{base}") for base in range(10))
    for broker in brokers(3):
        # Bytes of their own, as they come from connections of their own.
        broker.fetched(told(bytes(bytearray(data)), 10))
        assert broker.image.offset == 9
    assert (counted.headers, counted.checksums) == (10, 10)


def test_brokers_whose_answers_end_elsewhere_check_the_same_batches_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    counted = Counted(monkeypatch)
    batches = [batch(base, f"elsewhere-{base}") for base in range(6)]
    for cut, broker in zip((2, 3, 6), brokers(3), strict=True):
        broker.fetched(told(b"".join(batches[:cut]), 6))
        broker.fetched(told(b"".join(batches[cut:]), 6))
        assert broker.image.offset == 5
    assert counted.checksums == 6


def test_bytes_that_were_changed_on_the_way_to_one_broker_are_refused_by_it_alone() -> None:
    good = batch(0, "a-name-to-change")
    bad = good.replace(b"to-change", b"to-chance")
    for data, holds in ((good, True), (bad, False), (good, True), (bad, False)):
        (broker,) = brokers(1)
        if holds:
            broker.fetched(told(data, 1))
            assert broker.image.offset == 0
        else:
            with pytest.raises(DecodeError, match="CRC-32C"):
                broker.fetched(told(data, 1))
            assert broker.image.offset == -1


def test_an_answer_that_follows_on_one_broker_does_not_on_another() -> None:
    first, second = brokers(2)
    first.fetched(told(batch(0, "first"), 2))
    first.fetched(told(batch(1, "second"), 2))
    with pytest.raises(DecodeError, match="offset 1 instead of 0"):
        second.fetched(told(batch(1, "second"), 2))
    assert (first.image.offset, second.image.offset) == (1, -1)


def test_a_long_answer_is_read_and_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    counted = Counted(monkeypatch)
    data = batch(0, "x" * (SPLIT_BYTES_MAX + 1))
    for broker in brokers(2):
        broker.fetched(told(data, 1))
        assert broker.image.offset == 0
    assert (counted.headers, counted.checksums) == (2, 2)
    assert not followed._split.cache_info().currsize
