"""Turns records into the values of log batches: record versions, counts, sizes.

Source: ApiMessageAndVersion in QuorumController's managers; MAX_RECORDS_PER_BATCH, Kafka 3.9.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from emulator.controller.result import Record
from emulator.metadata.metadata_version import FEATURE_NAME, MetadataVersion
from emulator.seam import RECORDS_PER_SLICE, Slices
from wire import records as r
from wire.record_serde import encode_record

BATCH_RECORDS_MAX: Final = 10_000
PART_RECORDS_MAX: Final = 1_000
"""Of what may be cut: another voter replays each batch in one step (Kafka's controller: 10,000)."""
TOO_MANY_PARTITIONS: Final = "Excessively large number of partitions per request."
"""Checked before any replica is placed: more partitions than one batch can hold."""
TOO_LARGE: Final = "Unable to perform excessively large batch operation."
"""Text of POLICY_VIOLATION for more records than one batch can hold."""
BATCH_BYTES_MAX: Final = 8 * 1024 * 1024 - 1024
"""Kafka reads batches of at most 8 MiB; this leaves room for the batch header."""
RECORD_OVERHEAD_BYTES: Final = 24
"""Lengths, deltas and null key around a value in a batch, at most."""


class BatchTooLargeError(ValueError):
    """Records that must stay together do not fit one batch; nothing was appended."""


def record_version(record: Record, metadata_version: MetadataVersion) -> int:
    """The version a record is written in.

    Usually the version of the metadata.version level. But a registration change takes the lowest
    version that has the needed fields, and a partition without directories takes v0, as in Kafka.

    Raises:
        ValueError: such records are not written at this level.
    """
    match record:
        case r.BrokerRegistrationChangeRecord():
            needed = 2 if record.log_dirs else 1 if record.in_controlled_shutdown else 0
            highest = metadata_version.record_version(r.BrokerRegistrationChangeRecord)
            if needed > highest:
                raise ValueError(
                    f"BrokerRegistrationChangeRecord v{needed} is not written at metadata.version "
                    f"{metadata_version.level} ({metadata_version.name})"
                )
            return needed
        case r.PartitionRecord() if not record.directories:
            return 0
        case _:
            return metadata_version.record_version(type(record))


def encoded(records: Sequence[Record], metadata_version: MetadataVersion) -> Slices[list[bytes]]:
    """Values of the records of one operation, in slices.

    If the operation sets metadata.version, all its records are written at the new level: the first
    batch of a log begins with a record that only the new level knows.

    Raises:
        ValueError: a record that is not written at this level, or that cannot be encoded.
    """
    for record in records:
        if isinstance(record, r.FeatureLevelRecord) and record.name == FEATURE_NAME:
            metadata_version = MetadataVersion.from_level(record.feature_level)
    values: list[bytes] = []
    for first in range(0, len(records), RECORDS_PER_SLICE):
        if first:
            yield
        values += [
            encode_record(record, record_version(record, metadata_version))
            for record in records[first : first + RECORDS_PER_SLICE]
        ]
    return values


def too_large(values: Sequence[bytes]) -> bool:
    """Whether the values do not fit one batch."""
    size = sum(map(len, values)) + RECORD_OVERHEAD_BYTES * len(values)
    return len(values) > BATCH_RECORDS_MAX or size > BATCH_BYTES_MAX


def chunks(values: Sequence[bytes]) -> Iterator[range]:
    """Cut values, in order, into index ranges of one batch each."""
    start = size = 0
    for index, value in enumerate(values):
        weight = len(value) + RECORD_OVERHEAD_BYTES
        if index > start and (index - start == PART_RECORDS_MAX or size + weight > BATCH_BYTES_MAX):
            yield range(start, index)
            start, size = index, 0
        size += weight
    if start < len(values):
        yield range(start, len(values))
