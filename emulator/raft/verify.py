"""Decodes each batch before it is written: one malformed record stops every real node.

Followers and brokers parse a record when it arrives, before it is committed, and stop if they
cannot; after a restart they stop again at the copy on their own disk. So our decoder first reads
each batch to the last byte.
"""

from __future__ import annotations

from emulator.raft.errors import AppendRefusedError
from wire.batch import decode_batches
from wire.errors import DecodeError
from wire.record_serde import decode_control, decode_record


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
        raise AppendRefusedError(f"our own decoder refuses the batch: {error}") from error
    if count != 1:
        raise AppendRefusedError(f"{count} batches, expected one")
