"""Decodes each batch before it is written: one malformed record stops every real node.

Followers and brokers parse a record when it arrives, before it is committed, and stop if they
cannot; after a restart they stop again at the copy on their own disk. So our decoder first reads
each batch to the last byte.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from emulator.raft.errors import AppendRefusedError
from emulator.seam import RECORDS_PER_SLICE, Slices
from wire.batch import (
    batch_crc_holds,
    batch_header,
    decode_batches,
    decode_records,
    encode_records,
)
from wire.errors import DecodeError
from wire.record_serde import decode_control, decode_record

_REFUSED = "our own decoder refuses the batch"


class CheckedRecords(msgspec.Struct, frozen=True, gc=False):
    """The records of one batch, encoded and read back; its header is still to come."""

    body: bytes
    count: int


def checked(values: Sequence[bytes]) -> Slices[CheckedRecords]:
    """Encode metadata records for one batch and decode each of them again, in slices.

    Raises:
        AppendRefusedError: there is no record, or one does not end where it should.
    """
    if not values:
        raise AppendRefusedError("a batch holds at least one record")
    parts: list[bytes] = []
    for first in range(0, len(values), RECORDS_PER_SLICE):
        if first:
            yield
        some = values[first : first + RECORDS_PER_SLICE]
        part = encode_records([(None, value) for value in some], first)
        try:
            for _, value in decode_records(part, first, len(some)):
                decode_record(value)
        except DecodeError as error:
            raise AppendRefusedError(f"{_REFUSED}: {error}") from error
        parts.append(part)
    return CheckedRecords(b"".join(parts), len(values))


def checked_control(record: tuple[bytes, bytes]) -> CheckedRecords:
    """Encode the one record of a control batch, and decode it again.

    Raises:
        DecodeError: it does not end where it should.
    """
    body = encode_records([record])
    for key, value in decode_records(body, 0, 1):
        decode_control(key, value)
    return CheckedRecords(body, 1)


def check_sealed(data: bytes, records: CheckedRecords) -> None:
    """Read back the header of a batch that holds checked records.

    Raises:
        AppendRefusedError: it does not describe exactly these bytes.
    """
    header = batch_header(data)
    if (header.size, header.count) != (len(data), records.count) or not batch_crc_holds(data):
        raise AppendRefusedError(f"{_REFUSED}: {header} does not describe its {len(data)} bytes")


def read_back(data: bytes) -> None:
    """Decode one encoded batch and every record in it.

    Raises:
        AppendRefusedError: it is not exactly one batch, or a record does not end where it should.
    """
    try:
        count = 0
        for batch in decode_batches(data):
            count += 1
            for key, value in batch.records:
                if batch.is_control:
                    if key is None:
                        raise AppendRefusedError("a control record has no key")
                    decode_control(key, value)
                else:
                    decode_record(value)
    except DecodeError as error:
        raise AppendRefusedError(f"{_REFUSED}: {error}") from error
    if count != 1:
        raise AppendRefusedError(f"{count} batches, expected one")
