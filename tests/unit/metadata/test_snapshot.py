import pytest
from msgspec.structs import replace

from emulator.metadata import EMPTY, Image, PMap, ReplayError, from_records, to_records
from tests.unit.metadata.build import (
    D1,
    D2,
    A,
    B,
    broker,
    config,
    image_of,
    level,
    partition,
    state,
    topic,
)
from wire import records as r
from wire.record_serde import decode_record, encode_record


def names(image: Image) -> list[tuple[str, int]]:
    return [(type(record).__name__, version) for record, version in to_records(image)]


def read_back(image: Image) -> Image:
    values = [encode_record(record, version) for record, version in to_records(image)]
    records = [decode_record(value)[0] for value in values]
    return from_records(records, image.offset, image.epoch)


FULL = (
    topic("t", A),
    partition(index=1),
    partition(index=0),
    config(2, "t", "b", "1"),
    config(2, "t", "a", "1"),
    broker(2, 20),
    broker(1, 10),
    r.ProducerIdsRecord(next_producer_id=1000, broker_id=1, broker_epoch=10),
)


@pytest.mark.requirement("V06")
def test_the_order_and_the_versions_at_3_9() -> None:
    image = image_of(
        level(21),
        state(1),
        *FULL,
        r.RegisterControllerRecord(controller_id=3000, incarnation_id=B, zk_migration_ready=True),
        r.FeatureLevelRecord(name="group.version", feature_level=1),
    )
    assert names(image) == [
        ("FeatureLevelRecord", 0),
        ("FeatureLevelRecord", 0),
        ("ZkMigrationStateRecord", 0),
        ("RegisterBrokerRecord", 3),
        ("RegisterBrokerRecord", 3),
        ("RegisterControllerRecord", 0),
        ("TopicRecord", 0),
        ("PartitionRecord", 1),
        ("PartitionRecord", 1),
        ("ConfigRecord", 0),
        ("ConfigRecord", 0),
        ("ProducerIdsRecord", 0),
    ]
    written = [one for one, _ in to_records(image)]
    assert written[0] == level(21)
    assert [one.broker_id for one in written[3:5]] == [1, 2]
    assert [one.partition_id for one in written[7:9]] == [0, 1]
    assert read_back(image) == image


@pytest.mark.parametrize(
    ("metadata_version", "migration", "register", "partition_version"),
    [(4, False, 0, 0), (7, False, 1, 0), (8, True, 2, 0), (16, True, 2, 0), (17, True, 3, 1)],
)
def test_older_levels_write_older_versions(
    metadata_version: int, migration: bool, register: int, partition_version: int
) -> None:
    image = image_of(level(metadata_version), *FULL)
    written = names(image)
    assert written[0] == ("FeatureLevelRecord", 0)
    assert (("ZkMigrationStateRecord", 0) in written) is migration
    assert ("RegisterBrokerRecord", register) in written
    assert ("PartitionRecord", partition_version) in written
    assert read_back(image) == image


@pytest.mark.requirement("R10")
@pytest.mark.parametrize("metadata_version", [8, 21])
def test_the_mark_of_a_zookeeper_broker_survives_the_log(metadata_version: int) -> None:
    image = image_of(level(metadata_version), broker(1, 10, is_migrating_zk_broker=True))
    assert read_back(image).brokers[1].is_migrating_zk_broker
    record, version = next(one for one in to_records(image) if one[1] >= 2)
    assert decode_record(encode_record(record, version)) == (record, version)


def test_below_the_first_level_that_is_kept_none_is_written() -> None:
    assert names(EMPTY) == []
    image = image_of(*FULL)
    assert names(image)[0] == ("RegisterBrokerRecord", 0)
    assert read_back(image) == image


@pytest.mark.parametrize(
    ("metadata_version", "records", "why"),
    [
        (3, (), "feature levels cannot be kept at metadata.version 3"),
        (7, (state(2),), "migration_state cannot be kept at metadata.version 7"),
        (6, (broker(1, in_controlled_shutdown=True),), "in_controlled_shutdown cannot"),
        (7, (broker(1, is_migrating_zk_broker=True),), "is_migrating_zk_broker cannot"),
        (16, (broker(1, log_dirs=[D1]),), "log_dirs cannot be kept at metadata.version 16"),
        (16, (topic("t", A), partition(directories=[D1, D2])), "directories cannot"),
        (14, (r.RegisterControllerRecord(),), "RegisterControllerRecord is not written at"),
    ],
)
def test_nothing_is_dropped_silently(
    metadata_version: int, records: tuple[object, ...], why: str
) -> None:
    image = image_of(level(metadata_version), *records)
    with pytest.raises(ValueError, match=why):
        list(to_records(image))


def test_a_recovery_state_is_not_dropped_either() -> None:
    image = image_of(topic("t", A), partition(leader_recovery_state=1))
    with pytest.raises(ValueError, match="leader_recovery_state cannot be kept at"):
        list(to_records(image))


def test_a_snapshot_stands_at_the_offset_of_the_log_it_replaces() -> None:
    empty = from_records([], 41, 3)
    assert empty == replace(EMPTY, offset=41, epoch=3)
    assert from_records([topic("t", A)], 41, 3).topic_ids == PMap({"t": A})


@pytest.mark.parametrize(
    "record",
    [r.BeginTransactionRecord(), r.EndTransactionRecord(), r.AbortTransactionRecord()],
    ids=lambda record: type(record).__name__,
)
def test_a_snapshot_holds_no_transaction(record: object) -> None:
    with pytest.raises(ReplayError, match=type(record).__name__):
        from_records([record], 5, 1)
