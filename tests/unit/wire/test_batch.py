"""Record batches: bytes that Kafka wrote, and bytes that nobody should."""

import struct

import google_crc32c
import pytest
from hypothesis import given
from hypothesis import strategies as st

from wire.batch import (
    CONTROL,
    HEADER_BYTES,
    Batch,
    BatchCorrupt,
    BatchTruncated,
    batch_crc_holds,
    batch_header,
    decode_batches,
    encode_batch,
)
from wire.errors import DecodeError

BATCH = Batch(
    base_offset=7,
    leader_epoch=2,
    attributes=0,
    base_timestamp=123,
    records=[(None, b"one"), (None, b""), (b"key", b"three")],
)


def sealed(data: bytes) -> bytes:
    """The same batch with a checksum that fits."""
    return data[:17] + struct.pack(">I", google_crc32c.value(data[21:])) + data[21:]


batches = st.builds(
    Batch,
    base_offset=st.integers(0, 2**62),
    leader_epoch=st.integers(0, 2**31 - 1),
    attributes=st.sampled_from([0, CONTROL]),
    base_timestamp=st.integers(-1, 2**62),
    records=st.lists(
        st.tuples(st.none() | st.binary(max_size=200), st.binary(max_size=200)),
        min_size=1,
        max_size=140,
    ),
)


@given(st.lists(batches, max_size=4))
def test_batches_come_back(found: list[Batch]) -> None:
    data = b"".join(encode_batch(batch) for batch in found)
    assert list(decode_batches(data)) == found


@given(batches)
def test_the_header_tells_what_the_batch_holds(batch: Batch) -> None:
    data = encode_batch(batch)
    header = batch_header(b"xyz" + data, 3)
    assert header.size == len(data)
    assert (header.base_offset, header.last_offset) == (batch.base_offset, batch.last_offset)
    assert (header.leader_epoch, header.attributes) == (batch.leader_epoch, batch.attributes)
    assert header.count == len(batch.records)
    assert header.base_timestamp == header.max_timestamp == batch.base_timestamp
    assert batch.is_control == (batch.attributes == CONTROL)


def test_every_damaged_bit_after_the_offsets_is_noticed() -> None:
    """Base offset and leader epoch stand outside the checksum: a leader fills them in last."""
    data = encode_batch(BATCH)
    for place in (*range(8, 12), *range(16, len(data))):
        for bit in range(8):
            damaged = bytearray(data)
            damaged[place] ^= 1 << bit
            with pytest.raises(DecodeError):
                list(decode_batches(bytes(damaged)))


def test_a_cut_anywhere_is_told_from_damage() -> None:
    data = encode_batch(BATCH)
    for cut in range(1, len(data)):
        with pytest.raises(BatchTruncated):
            list(decode_batches(data + data[:cut]))
        assert list(decode_batches(data + data[:cut], whole_only=False)) == [BATCH]


@pytest.mark.parametrize(
    ("place", "value", "why"),
    [
        (16, b"\1", "magic 1"),
        (8, b"\0\0\0\x30", "length 48"),
        (8, b"\xff\xff\xff\xff", "length -1"),
        (57, b"\xff\xff\xff\xff", "-1 records"),
        (23, b"\xff\xff\xff\xff", "last offset delta -1"),
    ],
)
def test_an_impossible_header_is_corrupt(place: int, value: bytes, why: str) -> None:
    data = encode_batch(BATCH)
    with pytest.raises(BatchCorrupt, match=why) as caught:
        batch_header(data[:place] + value + data[place + len(value) :])
    assert caught.value.path == "offset 7"


@pytest.mark.parametrize(
    ("place", "value", "why"),
    [
        (22, b"\1", "compressed"),
        (23, b"\0\0\0\4", "gaps"),
        (57, b"\0\0\0\2", "gaps"),
        (HEADER_BYTES, b"\x01", "record 0 of -1 bytes"),
        (HEADER_BYTES, b"\x7e", "record 0 of 63 bytes"),
        (HEADER_BYTES + 3, b"\2", "record 0 has another offset"),
        (HEADER_BYTES + 4, b"\x7e", "key or value of 63 bytes"),
        (HEADER_BYTES + 5, b"\1", "null value"),
        (HEADER_BYTES + 9, b"\2", "headers"),
    ],
)
def test_wrong_content_under_a_good_checksum_is_corrupt(place: int, value: bytes, why: str) -> None:
    data = encode_batch(BATCH)
    changed = sealed(data[:place] + value + data[place + len(value) :])
    with pytest.raises(BatchCorrupt, match=why):
        list(decode_batches(changed))


def test_bytes_after_the_last_record_are_corrupt() -> None:
    data = encode_batch(BATCH) + b"\0\0"
    longer = data[:8] + struct.pack(">i", len(data) - 12) + data[12:]
    with pytest.raises(BatchCorrupt, match="2 bytes after the last record"):
        list(decode_batches(sealed(longer)))


def test_an_empty_batch_cannot_be_written() -> None:
    with pytest.raises(ValueError, match="at least one record"):
        encode_batch(Batch(0, 0, 0, 0, []))


def test_the_checksum_alone() -> None:
    """A recovery looks no further; the offsets stand outside the checksum."""
    data = encode_batch(BATCH)
    assert batch_crc_holds(b"xyz" + data, 3)
    assert batch_crc_holds(bytes(8) + data[8:])
    assert not batch_crc_holds(data[:-1] + b"\1")
    with pytest.raises(BatchTruncated):
        batch_crc_holds(data[:-1])
