"""Record batches of magic 2, as the metadata log holds them.

No compression, no producer, no record headers. Without a producer id readers ignore the header's
sequence number, so ``base_sequence`` is free for other use by the log's writer
(``emulator/raft/log.py``).

Source: DefaultRecordBatch, DefaultRecord, Kafka 3.9.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Final

import google_crc32c
import msgspec

from wire.errors import DecodeError

HEADER_BYTES: Final = 61
MAGIC: Final = 2
CONTROL: Final = 0x20
"""Bit of ``attributes`` that marks a control batch."""
NO_SEQUENCE: Final = -1

_COMPRESSION: Final = 0x07
_HEADER: Final = struct.Struct(">qiibIhiqqqhii")
_CHECKED: Final = struct.Struct(">hiqqqhii")
_CRC_AT: Final = 17
_CHECKED_AT: Final = 21
_LENGTH_AT: Final = 12
"""The length counts the bytes after it: the batch is 12 bytes longer."""


class BatchCorrupt(DecodeError):  # noqa: N818 (what recovery of the log found)
    """A batch whose checksum, magic or content is wrong."""


class BatchTruncated(DecodeError):  # noqa: N818 - as above
    """The data ends inside a batch."""


class Batch(msgspec.Struct, frozen=True, gc=False):
    """Records of one leader epoch; record ``i`` has offset ``base_offset + i``. Times are in ms."""

    base_offset: int
    leader_epoch: int
    attributes: int
    base_timestamp: int
    records: Sequence[tuple[bytes | None, bytes]]
    """(key, value); the key is None except in control records."""
    base_sequence: int = NO_SEQUENCE

    @property
    def last_offset(self) -> int:
        """Offset of the last record."""
        return self.base_offset + len(self.records) - 1

    @property
    def is_control(self) -> bool:
        """Whether it is a control batch of the quorum."""
        return bool(self.attributes & CONTROL)


class BatchHeader(msgspec.Struct, frozen=True, gc=False):
    """The header of a batch."""

    base_offset: int
    last_offset: int
    leader_epoch: int
    magic: int
    crc: int
    attributes: int
    base_timestamp: int
    max_timestamp: int
    count: int
    size: int
    """Bytes of the whole batch."""
    base_sequence: int = NO_SEQUENCE


def batch_header(data: bytes, position: int = 0) -> BatchHeader:
    """Read the header of the batch at a position; the checksum is not checked.

    Raises:
        BatchTruncated: fewer bytes than a header.
        BatchCorrupt: a length that cannot be, or another magic.
    """
    if len(data) - position < HEADER_BYTES:
        why = f"{len(data) - position} bytes instead of a header of {HEADER_BYTES}"
        raise BatchTruncated("RecordBatch", -1, "header", position, why)
    (base, length, epoch, magic, crc, attributes, delta, first, last, _, _, sequence, count) = (
        _HEADER.unpack_from(data, position)
    )
    path = f"offset {base}"
    if magic != MAGIC:
        raise BatchCorrupt("RecordBatch", magic, path, position + 16, f"magic {magic}")
    if length < HEADER_BYTES - _LENGTH_AT:
        raise BatchCorrupt("RecordBatch", magic, path, position + 8, f"length {length}")
    if count < 0 or delta < 0:
        why = f"{count} records, last offset delta {delta}"
        raise BatchCorrupt("RecordBatch", magic, path, position + 23, why)
    size = length + _LENGTH_AT
    return BatchHeader(
        base, base + delta, epoch, magic, crc, attributes, first, last, count, size, sequence
    )


def batch_crc_holds(data: bytes, position: int = 0) -> bool:
    """Whether the checksum of the complete batch at a position equals that of its header.

    Raises:
        BatchTruncated: the batch is incomplete.
        BatchCorrupt: a length that cannot be, or another magic.
    """
    return crc_holds(data, _whole_header(data, position), position)


def crc_holds(data: bytes, header: BatchHeader, position: int = 0) -> bool:
    """The same of a complete batch whose header was read."""
    crc = google_crc32c.value(data[position + _CHECKED_AT : position + header.size])
    return bool(crc == header.crc)


def encode_batch(batch: Batch) -> bytes:
    """Write a batch.

    Raises:
        ValueError: the batch is empty.
    """
    return seal_batch(batch, encode_records(batch.records), len(batch.records))


def encode_records(records: Sequence[tuple[bytes | None, bytes]], first: int = 0) -> bytes:
    """Write consecutive records of a batch, as its body has them.

    Args:
        records: keys and values.
        first: which record of the batch the first one is, from 0.
    """
    body = bytearray()
    for delta, (key, value) in enumerate(records, first):
        head = _head(delta) if key is None else _head(delta)[:-1] + _signed_varint(len(key)) + key
        record = head + _signed_varint(len(value)) + value + b"\0"
        body += _signed_varint(len(record)) + record
    return bytes(body)


def seal_batch(batch: Batch, body: bytes, count: int) -> bytes:
    """Put the header before the body of a batch.

    Args:
        batch: what the header says; its own records do not count.
        body: all of :func:`encode_records`, in order.
        count: number of records in it.

    Raises:
        ValueError: there is none.
    """
    if not count:
        raise ValueError("a batch has at least one record")
    stamp = batch.base_timestamp
    delta = count - 1
    sequence = batch.base_sequence
    fixed = _CHECKED.pack(batch.attributes, delta, stamp, stamp, -1, -1, sequence, count)
    checked = fixed + body
    head = struct.pack(
        ">qiibI",
        batch.base_offset,
        len(checked) + _CHECKED_AT - _LENGTH_AT,
        batch.leader_epoch,
        MAGIC,
        google_crc32c.value(checked),
    )
    return head + checked


def decode_batches(data: bytes, *, whole_only: bool = True) -> Iterator[Batch]:
    """Read consecutive batches.

    Args:
        data: consecutive batches, as in a Fetch response or a segment file.
        whole_only: False: stop without error at an incomplete batch, since a Fetch may end
            anywhere.

    Raises:
        BatchTruncated: the data ends inside a batch and ``whole_only`` is set.
        BatchCorrupt: a checksum, magic or record is wrong.
    """
    position = 0
    while position < len(data):
        try:
            header = _whole_header(data, position)
        except BatchTruncated:
            if whole_only:
                raise
            return
        yield _decode_batch(data, position, header)
        position += header.size


def _whole_header(data: bytes, position: int) -> BatchHeader:
    """The header of a complete batch."""
    header = batch_header(data, position)
    if len(data) - position < header.size:
        why = f"{len(data) - position} bytes instead of {header.size}"
        path = f"offset {header.base_offset}"
        raise BatchTruncated("RecordBatch", MAGIC, path, position, why)
    return header


def _decode_batch(data: bytes, position: int, header: BatchHeader) -> Batch:
    path = f"offset {header.base_offset}"
    end = position + header.size
    if not crc_holds(data, header, position):
        why = f"the bytes do not have CRC-32C {header.crc:#010x}, as the header says"
        raise BatchCorrupt("RecordBatch", MAGIC, path, position + _CRC_AT, why)
    if header.attributes & _COMPRESSION:
        raise BatchCorrupt("RecordBatch", MAGIC, path, position + 21, "compressed")
    if header.last_offset - header.base_offset + 1 != header.count:
        raise BatchCorrupt("RecordBatch", MAGIC, path, position + 23, "offsets with gaps")
    reader = _Records(data, position + HEADER_BYTES, end, path)
    records = _decode_records(reader, 0, header.count)
    return Batch(
        header.base_offset,
        header.leader_epoch,
        header.attributes,
        header.base_timestamp,
        records,
        header.base_sequence,
    )


def decode_records(body: bytes, first: int, count: int) -> list[tuple[bytes | None, bytes]]:
    """Read consecutive records, as :func:`encode_records` writes them.

    Args:
        body: these records, and nothing else.
        first: which record of its batch the first one is, from 0.
        count: how many there are.

    Raises:
        BatchCorrupt: a record is wrong, or the bytes do not end with the last one.
    """
    return _decode_records(_Records(body, 0, len(body), f"record {first}"), first, count)


def _decode_records(reader: _Records, first: int, count: int) -> list[tuple[bytes | None, bytes]]:
    indexes = range(first, first + count)
    records = [reader.plain(index) or reader.record(index) for index in indexes]
    if reader.position != reader.end:
        raise reader.wrong(f"{reader.end - reader.position} bytes after the last record")
    return records


class _Records:
    """Reads the records of one batch; the CRC was checked, so errors here were written that way."""

    __slots__ = ("data", "end", "path", "position")

    def __init__(self, data: bytes, position: int, end: int, path: str) -> None:
        self.data = data
        self.position = position
        self.end = end
        self.path = path

    def wrong(self, why: str) -> BatchCorrupt:
        return BatchCorrupt("RecordBatch", MAGIC, self.path, self.position, why)

    def plain(self, index: int) -> tuple[None, bytes] | None:
        """A record as a metadata log has it: no key, shorter than 8 KiB; None if it is not one."""
        data, at, head = self.data, self.position, _head(index)
        try:
            size, at = data[at], at + 1
            if size > 127:
                size, at = size & 127 | data[at] << 7, at + 1
            stop = at + (size >> 1)
            if size & 1 or size > 16_383 or stop > self.end or not data.startswith(head, at):
                return None
            at += len(head)
            size, at = data[at], at + 1
            if size > 127:
                size, at = size & 127 | data[at] << 7, at + 1
        except IndexError:
            return None
        if size & 1 or at + (size >> 1) + 1 != stop or data[stop - 1]:
            return None
        self.position = stop
        return None, data[at : stop - 1]

    def record(self, index: int) -> tuple[bytes | None, bytes]:
        size = self.varint()
        stop = self.position + size
        if size < 0 or stop > self.end:
            raise self.wrong(f"record {index} of {size} bytes")
        self.position += 1
        self.varint()
        if self.varint() != index:
            raise self.wrong(f"record {index} has another offset")
        key = self.sized()
        value = self.sized()
        headers = self.varint()
        if value is None or headers != 0 or self.position != stop:
            raise self.wrong(f"record {index}: null value, headers or bytes left over")
        return key, value

    def sized(self) -> bytes | None:
        size = self.varint()
        if size < -1 or self.position + size > self.end:
            raise self.wrong(f"a key or value of {size} bytes")
        if size < 0:
            return None
        self.position += size
        return self.data[self.position - size : self.position]

    def varint(self) -> int:
        position = self.position
        if position < self.end and (byte := self.data[position]) < 128:
            self.position = position + 1
            return byte >> 1 ^ -(byte & 1)
        if position + 1 < self.end and (last := self.data[position + 1]) < 128:
            # Two bytes: the size of nearly every record, and its place in a batch.
            self.position = position + 2
            value = byte & 127 | last << 7
            return value >> 1 ^ -(value & 1)
        return self.long_varint()

    def long_varint(self) -> int:
        value = 0
        for shift in range(0, 70, 7):
            if self.position >= self.end:
                break
            byte = self.data[self.position]
            self.position += 1
            value |= (byte & 127) << shift
            if byte < 128:
                return value >> 1 ^ -(value & 1)
        raise self.wrong("no varint")


@lru_cache(1_024)
def _head(index: int) -> bytes:
    """The bytes between the length and the value of a record without a key."""
    return b"\0\0" + _signed_varint(index) + b"\x01"


def _signed_varint(value: int) -> bytes:
    """Zig-zag varint."""
    value = value << 1 ^ value >> 63
    if value < 128:
        return bytes((value,))
    if value < 16_384:
        return bytes((value & 127 | 128, value >> 7))
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    out.append(value)
    return bytes(out)
