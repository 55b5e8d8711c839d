"""metadata.version seen from outside a node: how a log begins, what a raise shows, what ends it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from emulator.config import load as config
from emulator.controller.registry import METADATA_VERSION_MAX
from emulator.io.formatting import format_folder
from emulator.metadata.metadata_version import VERSIONS, MetadataVersion
from emulator.migration.propagation.requests import peers
from emulator.migration.taking_over.preconditions import Why, reasons
from emulator.node import introspection
from emulator.raft.format import parse_bootstrap_checkpoint, render_bootstrap_checkpoint
from emulator.raft.layout import BOOTSTRAP_CHECKPOINT, META_PROPERTIES, RecoveryError
from emulator.seam import Received
from emulator.trace.exposition import exposition
from emulator.znodes.tree import Tree
from tests.kit.requests import raise_level
from tests.unit.controller.world import World as Machine
from tests.unit.controller.world import broker, image_of, registration
from tests.unit.node.test_machine import CALLER, IDENTITY, RAW, World
from wire import messages as m
from wire import records as r
from wire.errors import ErrorCode
from wire.frame import RequestHeader, decode_response, encode_request, framed
from wire.record_serde import decode_record, encode_record

VERSIONS_REQUEST = m.ApiVersionsRequest(client_software_name="a", client_software_version="1")


def plain(files: Mapping[str, bytes] | None = None, **more: str) -> World:
    """A node of a cluster that was never in ZooKeeper mode."""
    return World(files, None, zookeeper_metadata_migration_enable="false", **more)


def checkpoint(*records: object) -> dict[str, bytes]:
    """A folder as it is formatted."""
    values = [encode_record(record, 0) for record in records]
    return {BOOTSTRAP_CHECKPOINT: render_bootstrap_checkpoint(values, 0)}


def level(number: int) -> r.FeatureLevelRecord:
    return r.FeatureLevelRecord(name="metadata.version", feature_level=number)


def ask(world: World, message: object, key: int, version: int, *, first: bool = False) -> Any:
    """Ask on the connection that is open, or on a new one."""
    world.answers.clear()
    if first:
        world.call(message, key, version)
    else:
        header = RequestHeader(api_key=key, api_version=version, correlation_id=2, client_id="me")
        frame = framed(encode_request(header, message))
        world.perform(world.node.step([Received(CALLER, frame)], world.now_ms))
    (answer,) = world.answers
    return decode_response(key, version, answer[4:])[1]


def written(world: World) -> list[object]:
    """Every metadata record in the log but NoOps."""
    raft = world.node.raft
    batches = raft.read(raft.log_start_offset, raft.log_end_offset - 1)
    records = [
        decode_record(value)[0]
        for batch in batches
        if not batch.is_control
        for _key, value in batch.records
    ]
    return [one for one in records if not isinstance(one, r.NoOpRecord)]


# --- how a log begins


@pytest.mark.requirement("J03", "J04")
def test_a_log_begins_with_what_the_folder_was_formatted_with() -> None:
    """The users too that ``kafka-storage format --add-scram`` leaves in bootstrap.checkpoint."""
    user = r.UserScramCredentialRecord(
        name="alice", mechanism=1, salt=b"s", stored_key=b"k", server_key=b"v", iterations=4096
    )
    world = plain(checkpoint(level(14), user))
    assert [type(one).__name__ for one in written(world)] == [
        "BeginTransactionRecord",
        "FeatureLevelRecord",
        "UserScramCredentialRecord",
        "ZkMigrationStateRecord",
        "EndTransactionRecord",
    ]
    assert world.node.controller.stable.scram_credentials
    again = plain(world.files)
    assert written(again) == written(world), "only a first start reads it"


@pytest.mark.requirement("J04")
@pytest.mark.parametrize(("release", "highest"), list(METADATA_VERSION_MAX.items()))
def test_format_takes_the_newest_level_of_the_release_unless_told(
    release: str, highest: int, tmp_path: Path
) -> None:
    raw = {**RAW, "kraftbridge.release": release}
    for number, (text, expected) in enumerate(
        [(None, highest), (release, highest), ("3.4-IV0", 8), ("3.3", 7)]
    ):
        folder = tmp_path / str(number)
        migrates = {} if expected >= 8 else {"zookeeper.metadata.migration.enable": "false"}
        settings, _ = config.load({**raw, **migrates, "log.dirs": str(folder)})
        said = format_folder(settings, IDENTITY.cluster_id, text, ignore_formatted=False)
        files = {BOOTSTRAP_CHECKPOINT: (folder / BOOTSTRAP_CHECKPOINT).read_bytes()}
        found = [decode_record(value) for value in parse_bootstrap_checkpoint(files)]
        assert found == [(level(expected), 0)]
        assert VERSIONS[expected].name in said


@pytest.mark.requirement("J05", "J21")
def test_without_a_level_a_log_stands_at_1_whatever_the_inter_broker_protocol() -> None:
    """KIP-778 "Final IBP": a version is simply needed; 3.9.2 itself would take the newest."""
    world = plain({META_PROPERTIES: b""}, inter_broker_protocol_version="3.9")
    assert written(world) == []
    assert introspection.status(world.node, world.now_ms)["metadata_version"]["level"] == 1
    end = world.node.raft.log_end_offset
    world.advance(1_000)
    assert world.node.raft.log_end_offset == end, "nor a NoOp, which level 1 does not know"


@pytest.mark.requirement("J18")
@pytest.mark.parametrize("ibp", ["3.4", "3.9-IV0", "nonsense"])
def test_an_inter_broker_protocol_is_warned_of_and_has_no_effect(ibp: str) -> None:
    raw = {**RAW, "inter.broker.protocol.version": ibp}
    found, warnings = config.load(raw)
    (warning,) = warnings
    assert warning.startswith(f"inter.broker.protocol.version={ibp} has no effect")
    assert replace_static(found) == replace_static(config.load(RAW)[0])
    world = World(inter_broker_protocol_version=ibp)
    assert world.node.controller.stable.metadata_version.level == 21


def replace_static(found: config.Config) -> object:
    return {name: getattr(found, name) for name in found.__slots__ if name != "static"}


# --- a raise


@pytest.mark.requirement("M03")
def test_every_finalised_feature_is_a_series_that_follows_a_raise() -> None:
    world = plain(checkpoint(level(8)))

    def series() -> dict[tuple[str, str, str], float]:
        text = exposition(introspection.metrics(world.node, world.now_ms), active=True)
        return {
            (sample.name, sample.labels["feature"], sample.labels["level"]): sample.value
            for family in text_string_to_metric_families(text)
            for sample in family.samples
            if "feature" in sample.labels
        }

    names = ("kraft_bridge_features", "kafka_controller_kafkacontroller_features")
    assert series() == {(name, "metadata.version", "8"): 1 for name in names}
    assert ask(world, raise_level(21), 57, 1, first=True).results[0].error_code == 0
    world.node.controller.append(
        [r.FeatureLevelRecord(name="kraft.version", feature_level=1)], world.now_ms
    )
    world.advance(1_000)
    both = {("metadata.version", "21"), ("kraft.version", "1")}
    assert {found[1:] for found in series()} == both
    status = introspection.status(world.node, world.now_ms)
    assert status["metadata_version"] == {"level": 21, "name": "3.9-IV0"}


@pytest.mark.requirement("J16")
def test_a_raise_leaves_connections_open_and_they_see_the_new_level() -> None:
    """As shipped: KIP-778 suggests that a node close them; no release does (docs/divergence.md)."""
    world = plain(checkpoint(level(8)))
    before = ask(world, VERSIONS_REQUEST, 18, 3, first=True)
    assert ask(world, raise_level(21), 57, 1).results[0].error_code == 0
    after = ask(world, VERSIONS_REQUEST, 18, 3)
    levels = [one.finalized_features[0].max_version_level for one in (before, after)]
    assert levels == [8, 21]
    assert before.finalized_features_epoch < after.finalized_features_epoch
    assert before.api_keys == after.api_keys
    assert world.node.connections.open_count == 1


def test_a_snapshot_keeps_the_level_and_the_next_start_is_at_it() -> None:
    more = {"metadata_log_max_snapshot_interval_ms": "500"}
    world = plain(checkpoint(level(8)), **more)
    assert ask(world, raise_level(20), 57, 1, first=True).results[0].error_code == 0
    world.advance(2_000)
    assert world.node.raft.latest_snapshot is not None
    snapshot = [decode_record(value) for value in world.node.raft.snapshot_records]
    assert (level(20), 0) in snapshot
    again = plain(world.files, **more)
    assert again.node.controller.tip.metadata_version.level == 20


@pytest.mark.parametrize("snapshot_ms", ["0", "500"])
def test_a_level_that_the_claimed_release_does_not_know_ends_the_start(snapshot_ms: str) -> None:
    """KIP-778 "Compatibility": it ends, says which level it met, and writes nothing."""
    more = {"metadata_log_max_snapshot_interval_ms": snapshot_ms}
    world = plain(checkpoint(level(20)), **more)
    world.advance(2_000)
    files = dict(world.files)
    plain(files, kraftbridge_release="3.8", **more)
    before = dict(world.files)
    with pytest.raises(RecoveryError, match=r"metadata\.version 20 is finalised.*1 to 19 "):
        plain(world.files, kraftbridge_release="3.7", **more)
    assert world.files == before


# --- the table


@pytest.mark.requirement("J19")
def test_names_and_levels_are_one_to_one() -> None:
    assert [MetadataVersion.from_ibp(one.name) for one in VERSIONS.values()] == list(
        VERSIONS.values()
    )
    assert len({one.name for one in VERSIONS.values()}) == len(VERSIONS)


# --- the migration


@pytest.mark.requirement("V01", "V08", "J22")
def test_a_broker_of_another_level_is_refused_and_blocks_the_migration_by_name() -> None:
    """A ZooKeeper-mode broker offers exactly its inter.broker.protocol.version.

    Every level that can migrate, with a broker of every level there is, 3.3 and older included
    (those brokers cannot really be asked to: they do not know the setting).
    """
    tree = Tree()
    tree.lists["/brokers/ids"] = ("1",)
    for mine in range(8, 22):
        for offered in range(1, 22):
            world = Machine(migration_enabled=True, metadata_version=mine)
            answer = world.register(
                1, is_migrating_zk_broker=True, metadata_version=(offered, offered)
            )
            accepted = mine == offered
            assert answer.error_code == (0 if accepted else ErrorCode.UNSUPPORTED_VERSION)
            found = [one for one in reasons(tree, world.controller.stable) if one.subject == "1"]
            assert [one.why for one in found] == ([] if accepted else [Why.BROKER_NOT_REGISTERED])
            wanted = f"inter.broker.protocol.version={VERSIONS[mine].name}"
            assert all("broker 1 " in one.text and wanted in one.text for one in found)


def test_an_unregistered_broker_is_told_nothing_more() -> None:
    """KIP-500: its channel goes with its registration, alive or not."""
    known = broker(1, is_migrating_zk_broker=True)
    before = image_of(known)
    assert list(peers(before, "INTERNAL")) == [1]
    gone = image_of(known, r.UnregisterBrokerRecord(broker_id=1, broker_epoch=101))
    assert not peers(gone, "INTERNAL")


def test_an_alive_broker_may_be_unregistered_and_must_register_again() -> None:
    """As Kafka: nobody asks whether its session lives; its next heartbeat is stale."""
    world = Machine()
    world.join(1, 2)
    end = world.log.log_end_offset
    assert world.ask(m.UnregisterBrokerRequest(broker_id=1)).error_code == 0
    assert [type(one) for one, _ in world.records_since(end)] == [r.UnregisterBrokerRecord]
    late = m.BrokerHeartbeatRequest(broker_id=1, broker_epoch=end)
    assert world.ask(late).error_code == ErrorCode.STALE_BROKER_EPOCH
    assert world.ask(registration(1)).error_code == 0


# --- ApiVersions on the wire


@pytest.mark.requirement("V05")
def test_the_readiness_tag_is_on_the_wire_of_a_controller_that_may_migrate_alone() -> None:
    """KIP-866 "ApiVersionsResponse": tag 3, one byte, in versions that have tags."""
    for version in (0, 2, 3, 4):
        on = World()
        on.call(VERSIONS_REQUEST, 18, version)
        off = plain()
        off.call(VERSIONS_REQUEST, 18, version)
        (ready,), (without,) = on.answers, off.answers
        assert (ready.endswith(b"\x03\x01\x01")) == (version >= 3)
        assert b"\x03\x01\x00" not in without[-3:]
        shown = [
            decode_response(18, version, one[4:])[1].zk_migration_ready for one in (ready, without)
        ]
        assert shown == [version >= 3, False]
