"""metadata.version's table and replay against Kafka's own MetadataVersion and MetadataImage."""

import struct
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from io import BytesIO
from pathlib import Path

import msgspec
import pytest
from hypothesis import given, settings

from emulator.metadata import EMPTY, Feature, MetadataVersion, MigrationState, replay, to_records
from emulator.metadata.metadata_version import VERSIONS
from emulator.servers.jars import kafka_jars
from emulator.servers.java_tools import java
from tests.laws.metadata_records import logs
from wire import records as r
from wire.record_serde import decode_record, encode_record

HELPER = Path(__file__).parent / "MetadataOracle.java"
FEATURES = [
    Feature.LEADER_RECOVERY_STATE,
    Feature.NO_OP_RECORD,
    Feature.REGISTRATION_CHANGE,
    Feature.CONTROLLED_SHUTDOWN_STATE,
    Feature.MIGRATION,
    Feature.SCRAM,
    Feature.ISR_SHRINK_KEEPS_LEADER_EPOCH,
    Feature.TRANSACTIONS,
    Feature.DELEGATION_TOKENS,
    Feature.CONTROLLER_REGISTRATION,
    Feature.DIRECTORIES,
]

Oracle = Callable[..., bytes]


@pytest.fixture(scope="module")
def oracle(compile_java: Callable[..., Path]) -> Oracle:
    jars = kafka_jars("3.9.2")
    classes = compile_java([HELPER], jars)
    return partial(java, [*jars, classes], "MetadataOracle")


@pytest.mark.requirement("J02", "J19")
def test_the_table_is_kafkas(oracle: Oracle) -> None:
    ours = [
        " ".join(
            [
                str(version.level),
                version.name,
                str(version.wall).lower(),
                *(
                    str(version.record_version(record))
                    for record in (
                        r.RegisterBrokerRecord,
                        r.PartitionRecord,
                        r.PartitionChangeRecord,
                    )
                ),
                "".join(str(int(version.supports(feature))) for feature in FEATURES),
                str(MetadataVersion.from_ibp(version.name.partition("-")[0]).level),
            ]
        )
        for version in VERSIONS.values()
    ]
    assert ours == oracle("table").decode().splitlines()


@pytest.mark.requirement("R06")
def test_the_migration_state_record_says_to_kafka_what_it_says_here(oracle: Oracle) -> None:
    names = [f"{state.value} {state.name}" for state in MigrationState]
    assert names == oracle("states").decode().splitlines()
    level = r.FeatureLevelRecord(name="metadata.version", feature_level=8)
    written = [
        [encode_record(level, 0), encode_record(_state(state), 0)] for state in MigrationState
    ]
    output = BytesIO(oracle("replay", stdin=_packed(written)))
    for state in MigrationState:
        snapshot = [decode_record(value)[0] for value in _unpacked(output)]
        assert snapshot == [level, _state(state)]


def _state(state: MigrationState) -> r.ZkMigrationStateRecord:
    return r.ZkMigrationStateRecord(zk_migration_state=int(state))


def test_random_logs_make_the_image_that_kafka_makes_of_them(oracle: Oracle) -> None:
    drawn: list[list[object]] = []

    @settings(max_examples=120, database=None)
    @given(logs())
    def draw(records: list[object]) -> None:
        drawn.append(records)

    draw()
    given_in, ours = [], []
    for records in drawn:
        image, values = EMPTY, []
        for record in records:
            # The version in force after it: a FeatureLevel record is read by its own level.
            image = replay(image, record, image.offset + 1, 1)
            values.append(
                encode_record(record, image.metadata_version.record_version(type(record)))
            )
        given_in.append(values)
        ours.append([encode_record(*one) for one in to_records(image)])
    output = BytesIO(oracle("replay", stdin=_packed(given_in)))
    for records, image_ours in zip(drawn, ours, strict=True):
        assert _readable(image_ours) == _readable(_unpacked(output)), records


def _packed(logs_: list[list[bytes]]) -> bytes:
    out = [struct.pack(">i", len(logs_))]
    for values in logs_:
        out.append(struct.pack(">i", len(values)))
        out += [struct.pack(">i", len(value)) + value for value in values]
    return b"".join(out)


def _unpacked(stream: BytesIO) -> Iterator[bytes]:
    (count,) = struct.unpack(">i", stream.read(4))
    for _ in range(count):
        (length,) = struct.unpack(">i", stream.read(4))
        yield stream.read(length)


def _readable(values: Iterable[bytes]) -> list[str]:
    """Records as text, in one order: Kafka's maps have none."""
    return sorted(map(str, map(_canonical, values)))


def _canonical(value: bytes) -> object:
    record, version = decode_record(value)
    if isinstance(record, r.RegisterBrokerRecord | r.RegisterControllerRecord):
        record.features = sorted(record.features, key=lambda one: one.name)
        record.end_points = sorted(record.end_points, key=lambda one: one.name)
    if isinstance(record, r.RegisterBrokerRecord):
        record.log_dirs = sorted(record.log_dirs)
    if isinstance(record, r.ProducerIdsRecord):
        # Kafka's image forgets who asked for the block.
        record.broker_id = record.broker_epoch = -1
    return type(record).__name__, version, msgspec.to_builtins(record)
