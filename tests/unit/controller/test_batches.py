"""Record versions and the size of batches."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from emulator.controller.queue.batches import (
    BATCH_BYTES_MAX,
    PART_RECORDS_MAX,
    RECORD_OVERHEAD_BYTES,
    chunks,
    encoded,
    record_version,
    too_large,
)
from emulator.metadata.metadata_version import MetadataVersion
from emulator.seam import whole
from tests.unit.controller.world import level, partition, uuid
from wire import records as r
from wire.batch import Batch, encode_batch
from wire.record_serde import decode_record

VERSIONS = [
    (r.BrokerRegistrationChangeRecord(fenced=1), 6, 0),
    (r.BrokerRegistrationChangeRecord(fenced=-1), 21, 0),
    (r.BrokerRegistrationChangeRecord(in_controlled_shutdown=1), 7, 1),
    (r.BrokerRegistrationChangeRecord(in_controlled_shutdown=1), 21, 1),
    (r.BrokerRegistrationChangeRecord(log_dirs=(uuid(1),)), 17, 2),
    (partition(1, directories=()), 21, 0),
    (partition(1), 17, 1),
    (partition(1, directories=()), 8, 0),
    (r.PartitionChangeRecord(leader=1), 16, 0),
    (r.PartitionChangeRecord(leader=1), 17, 1),
    (r.TopicRecord(), 21, 0),
]


@pytest.mark.parametrize(("record", "mv", "version"), VERSIONS)
@pytest.mark.requirement("J01", "J12")
def test_the_version_a_record_is_written_in(record: object, mv: int, version: int) -> None:
    """KIP-778: one version per record and metadata.version, as real controllers wrote them."""
    assert record_version(record, MetadataVersion.from_level(mv)) == version


@pytest.mark.parametrize(
    ("record", "mv"),
    [
        (r.BrokerRegistrationChangeRecord(fenced=1), 5),
        (r.BrokerRegistrationChangeRecord(in_controlled_shutdown=1), 6),
        (r.BrokerRegistrationChangeRecord(log_dirs=(uuid(1),)), 16),
        (r.ZkMigrationStateRecord(), 7),
        (r.RegisterControllerRecord(), 14),
    ],
)
@pytest.mark.requirement("V06")
def test_a_record_older_readers_do_not_know_is_not_written(record: object, mv: int) -> None:
    with pytest.raises(ValueError, match="not written"):
        record_version(record, MetadataVersion.from_level(mv))


def test_a_new_level_counts_for_its_own_batch() -> None:
    records = [r.BeginTransactionRecord(), level(21), partition(1), r.EndTransactionRecord()]
    values = whole(encoded(records, MetadataVersion.from_level(1)))
    assert [decode_record(value)[1] for value in values] == [0, 0, 1, 0]


@given(st.lists(st.integers(0, 3_000_000), max_size=30))
def test_chunks_keep_order_and_fit(sizes: list[int]) -> None:
    values = [bytes(size) for size in sizes]
    cut = list(chunks(values))
    assert [index for part in cut for index in part] == list(range(len(values)))
    assert all(not too_large(values[part.start : part.stop]) for part in cut)


def test_chunks_of_many_small_records() -> None:
    values = [b"x"] * (2 * PART_RECORDS_MAX + 1)
    assert [len(part) for part in chunks(values)] == [PART_RECORDS_MAX, PART_RECORDS_MAX, 1]


def test_the_overhead_allowed_for_is_enough() -> None:
    """The bound is kept on the encoded batch, headers included."""
    for size, count in ((1, 9_000), (8_000, 1_000), (32_000, 261)):
        values: list[tuple[bytes | None, bytes]] = [(None, bytes(size))] * count
        batch = Batch(
            base_offset=2**40, leader_epoch=5, attributes=0, base_timestamp=2**41, records=values
        )
        body = len(encode_batch(batch)) - 61
        assert body <= count * (size + RECORD_OVERHEAD_BYTES)
    assert BATCH_BYTES_MAX + 61 < 8 * 1024 * 1024
