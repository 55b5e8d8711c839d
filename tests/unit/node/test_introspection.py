"""``/status``: every field stands in tools/status.toml with its type, and the other way round."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pytest

from emulator.commands.rollback.looking import StatusRead
from emulator.config.zookeeper_mode import KEYS
from emulator.controller.result import ApiError, RefusedAttempt, Registering
from emulator.controller.rules.finalisation import Lack
from emulator.metadata.migration_state import FinalisationMark, MarkKind, MigrationState, record_of
from emulator.migration.authority import Authority
from emulator.migration.dual_write.modes import Mode
from emulator.migration.dual_write.pipeline import Refused
from emulator.migration.dual_write.poison import Poisoned
from emulator.migration.phases import OperatorPhase
from emulator.migration.propagation.replies import RepairKind
from emulator.migration.states import State
from emulator.migration.status import Waiting, phase_of
from emulator.migration.taking_over.preconditions import Reason, Why
from emulator.node import advice, introspection
from emulator.node.machine import Node, SnapshotFailure
from emulator.znodes import acls
from emulator.zookeeper.errors import ZkCode
from emulator.zookeeper.ops import Create
from tests.unit.metadata.build import image_of
from tests.unit.node.test_machine import World, dual_writing
from wire import messages as m
from wire import records as r
from wire.errors import ErrorCode

PAGE = Path(__file__).resolve().parents[3] / "docs" / "status.md"
KIPS = PAGE.parent / "dev" / "kips.md"
FIELDS = tomllib.loads((PAGE.parents[1] / "tools" / "status.toml").read_text())["status"]
TYPES = {
    "int": {int},
    "int?": {int, type(None)},
    "str": {str},
    "str?": {str, type(None)},
    "bool": {bool},
    "bool?": {bool, type(None)},
}


def rows(heading: str, page: Path = PAGE) -> dict[str, tuple[str, ...]]:
    """The table under a heading: its first cell without quotes -> the other cells."""
    part = re.split(r"\n##+ ", page.read_text().partition(f"{heading}\n")[2])[0]
    cells = [re.split(r" *\| *", line.strip("| ")) for line in part.splitlines() if "|" in line]
    return {first.strip("`"): tuple(others) for first, *others in cells[2:]}


def fields(value: Any, path: str = "") -> Iterator[tuple[str, object]]:
    """Every leaf of a JSON value with its path."""
    if isinstance(value, dict):
        for key, member in value.items():
            yield from fields(member, f"{path}.{key}" if path else key)
    elif isinstance(value, list):
        assert value, f"{path}: an example is needed"
        for member in value:
            yield from fields(member, f"{path}[]")
    else:
        yield path, value


@pytest.fixture
def node(monkeypatch: pytest.MonkeyPatch) -> Node:
    """One that has something to tell in every field."""
    world = World()
    endpoint = r.RegisterBrokerRecord.BrokerEndpoint(name="INTERNAL", host="h", port=1)
    broker = r.RegisterBrokerRecord(broker_id=1, is_migrating_zk_broker=True, end_points=[endpoint])
    migrated = r.ZkMigrationStateRecord(zk_migration_state=1)
    mark = FinalisationMark(MarkKind.LEFT, 3000, 1, 2, 900_000, 5)
    world.node.controller.append([broker, migrated], world.now_ms)
    world.node.controller.append([record_of(mark)], world.now_ms)
    world.advance(1_000)
    refused = Registering(
        9, ApiError(ErrorCode.INVALID_REGISTRATION, "why"), RefusedAttempt(7, "h")
    )
    world.node.controller.surroundings.registrations.tried(refused)
    world.node.snapshots.failure = SnapshotFailure("no room", 900_000, 960_000, 1)
    driver = world.node.driver
    found = replace(
        driver.status(world.now_ms),
        poisoned=(Poisoned("/brokers/topics/t", "NO_AUTH", skipped=False, remedy="delete it"),),
        waiting=(Waiting(Reason(Why.BROKER_NOT_REGISTERED, "2", "broker 2"), 1_500),),
    )
    driver.channels.repairs.note(RepairKind.SENT_AGAIN, 1, "StopReplica", "UNKNOWN", 1_000)
    driver.write_behind.poison.refused(Refused(ZkCode.NODE_EXISTS, Create("/x", b"")), 1_000)
    out = [("/kafka-acl/Topic/a/b", "contains '/'")]
    monkeypatch.setattr(acls, "left_out", lambda _image: out)
    monkeypatch.setattr(type(driver), "status", lambda _driver, _now_ms: found)
    monkeypatch.setattr(type(driver), "copy_progress", (3, 9))
    return world.node


def test_the_page_lists_every_field_with_its_type(node: Node) -> None:
    trace = {"folder": "trace", "ended_because": "no room", "missing_s": 41}
    status = introspection.status(node, 1_001_000, trace)
    assert json.loads(json.dumps(status)) == status
    shown = dict(fields(status))
    assert shown.pop("schema") == introspection.STATUS_SCHEMA
    absent = {"migration", "finalisation", "finalisation.mark", "snapshot_failure", "trace"}
    absent |= {"migration.copy"}
    assert set(shown) == set(FIELDS) - absent
    wrong = {p: v for p, v in shown.items() if type(v) not in TYPES[FIELDS[p][0]]}
    assert not wrong


def test_what_zookeeper_refused_and_was_repaired_is_named(node: Node) -> None:
    *_, found = introspection.status(node, 1_001_000)["migration"]["repairs"]
    assert (found["kind"], found["broker"]) == ("znode_compared", -1)
    assert (found["request"], found["error"], found["times"]) == ("/x", "NODE_EXISTS", 1)


def test_the_schema_is_the_one_described(node: Node) -> None:
    assert introspection.STATUS_SCHEMA == "status/4"
    shown = introspection.status(node, 1_001_000)
    assert shown["log_lines_lost"] == 0
    assert shown["schema"] == introspection.STATUS_SCHEMA
    read = msgspec.convert(shown, StatusRead)
    assert read.migration is not None, "rollback reads it"


def test_before_the_claim_the_lag_is_unknown_and_not_0(node: Node) -> None:
    lag = introspection.status(node, 1_001_000)["migration"]["lag"]
    assert (lag["records"], lag["records_without_no_ops"]) == (None, None)


def test_who_is_missing_comes_with_its_time(node: Node) -> None:
    migration = introspection.status(node, 1_001_000)["migration"]
    assert [(one["subject"], one["since"][17:]) for one in migration["waiting"]] == [
        ("zk:2181", "40.000+00:00"),
        ("2", "01.500+00:00"),
    ]


def test_every_phase_is_explained() -> None:
    """And a controller that may not speak never shows the phase of one that may."""
    brokers = (
        r.RegisterBrokerRecord(broker_id=1, is_migrating_zk_broker=zk) for zk in (True, False)
    )
    images = [
        image_of(r.ZkMigrationStateRecord(zk_migration_state=int(state)), broker)
        for broker in brokers
        for state in MigrationState
    ]
    shown = {
        authority: {phase_of(image, state, authority).older for image in images for state in State}
        for authority in Authority
    }
    assert set(rows("## Phases")) == {one.value for one in OperatorPhase}
    assert set(rows("### The older words")) == set().union(*shown.values())
    assert shown[Authority.REFUSED] == {"refused"}
    assert shown[Authority.DEPOSED] == {"deposed"}
    assert not shown[Authority.UNPROVEN] & {"hybrid", "dual write"}


def test_brokers_that_refuse_our_epoch_are_among_the_reasons(node: Node) -> None:
    driver = node.driver
    old = m.UpdateMetadataRequest(controller_epoch=7)
    refused = m.UpdateMetadataResponse(error_code=ErrorCode.STALE_CONTROLLER_EPOCH)
    driver.channels.outdated.answered(3, old, refused, 2_500)
    waiting = introspection.status(node, 1_001_000)["migration"]["waiting"]
    assert (waiting[-1]["why"], waiting[-1]["subject"]) == ("stale_controller_epoch", "3")
    assert "above ours (7)" in waiting[-1]["text"]


def test_everything_that_may_be_missing_before_finalising_is_explained() -> None:
    assert set(rows("## What is missing before finalising")) == {one.value for one in Lack}


def test_every_reason_and_mode_is_explained() -> None:
    assert set(rows("## Reasons to wait")) == {why.value for why in Why}
    assert set(rows("## Write-behind")) == {mode.value for mode in Mode}


def test_without_a_migration_there_is_none() -> None:
    world = World(zookeeper_metadata_migration_enable="false")
    assert introspection.status(world.node, world.now_ms)["migration"] is None


def test_a_broker_that_was_refused_is_told_apart_from_one_that_did_not_come(node: Node) -> None:
    def text() -> str:
        waiting = introspection.status(node, 1_001_000)["migration"]["waiting"]
        return str(waiting[-1]["text"])

    assert text() == "broker 2"
    error = ApiError(ErrorCode.INVALID_REGISTRATION, "Broker 2 does not have the listener.")
    node.controller.surroundings.registrations.tried(Registering(2, error))
    assert text() == (
        "broker 2 tries to register and is refused: INVALID_REGISTRATION: "
        "Broker 2 does not have the listener."
    )
    other = "the broker does not support version 21 of metadata.version. It wants another."
    error = ApiError(ErrorCode.UNSUPPORTED_VERSION, other)
    node.controller.surroundings.registrations.tried(Registering(2, error))
    level = node.controller.stable.metadata_version.name
    assert text() == (
        f"broker 2 tries to register and is refused: UNSUPPORTED_VERSION: {other} "
        f"Restart it with inter.broker.protocol.version={level}."
    )


def test_the_claim_and_the_comparison_of_the_stores_have_their_times() -> None:
    world = dual_writing()
    migration = introspection.status(world.node, world.now_ms)["migration"]
    assert migration["claims"] == 1
    assert migration["claimed_at"] <= migration["compared_at"] <= advice.iso(world.now_ms)
    assert (
        migration["controller_epoch"] - migration["epoch_headroom"] == world.node.raft.leader_epoch
    )


def test_what_going_back_costs_is_said_in_each_phase(node: Node) -> None:
    driver = node.driver
    found = driver.status(1_001_000)

    def cost(state: MigrationState, *records: object, **changes: Any) -> str:
        image = image_of(r.ZkMigrationStateRecord(zk_migration_state=int(state)), *records)
        told = replace(found, **{"poisoned": (), "lag_known": True, "zk_epoch": 9} | changes)
        return advice.cost(image, told, node.raft.leader_epoch)

    kraft = r.RegisterBrokerRecord(broker_id=1)
    assert "no copy is complete" in cost(MigrationState.PRE_MIGRATION)
    dual = cost(MigrationState.MIGRATION, kraft, lag_changed_records=7)
    assert dual.startswith("7 changes are not in ZooKeeper yet; no change is lost")
    assert "1 broker is in KRaft mode" in dual
    assert "/controller_epoch: else" not in dual
    hybrid = cost(MigrationState.MIGRATION, zk_epoch=-1, lag_known=False)
    assert hybrid.startswith("It is not known what ZooKeeper lacks")
    assert "KRaft mode" not in hybrid
    assert "compared. Then kraft-bridge rollback --yes --config FILES" in hybrid
    nothing = cost(MigrationState.MIGRATION, lag_changed_records=0)
    assert nothing.startswith("Now: kraft-bridge rollback --yes --config FILES")
    assert nothing.endswith(f"At the end restart every broker without {KEYS}.")
    low = cost(MigrationState.MIGRATION, zk_epoch=node.raft.leader_epoch - 1)
    assert f"It raises /controller_epoch to {node.raft.leader_epoch} at least" in low
    assert "finalised" in cost(MigrationState.POST_MIGRATION, may_roll_back=False)
    told = Waiting(Reason(Why.ZOOKEEPER_MODE_TOOK_OVER, "/controller", "", fatal=True), 0)
    for state in MigrationState.MIGRATION, MigrationState.PRE_MIGRATION:
        after = cost(state, phase="refused", lag_known=False, waiting=(told,))
        assert after.startswith("Done already: the cluster is in ZooKeeper mode")
        assert "/controller is not to be deleted" in after
        for phase in ("refused", "deposed"):
            other = cost(state, phase=phase, lag_known=False, waiting=())
            assert other.startswith(f"Not known to this controller, as it is {phase}.")
            assert "wait" not in other, "they are never compared"
            assert "kraft-bridge rollback --config FILES" in other
    for text in (dual, hybrid, nothing, low, after, other):
        assert "elete /controller" not in text, "by the command, never by hand"
    image = image_of(r.ZkMigrationStateRecord(zk_migration_state=int(MigrationState.MIGRATION)))
    follows = replace(found, lag_known=False)
    asks = advice.cost(image, follows, node.raft.leader_epoch, leads=False)
    assert asks.startswith("What ZooKeeper lacks is known to the controller that leads: ask it.")


@pytest.mark.requirement("S07")
def test_the_drafts_numbers_of_states_are_mapped_to_those_shown() -> None:
    found = rows("## Numbers in the older draft of KIP-866", KIPS)
    states = ("MigrationIneligible", "MigratingZkData", "DualWriteMetadata", "MigrationFinalized")
    assert tuple(found) == states
    for number, (name, (in_draft, phases, shown)) in enumerate(found.items(), 1):
        assert int(in_draft) == number, name
        state, value = shown.split(", ")
        assert MigrationState[state].value == int(value)
        assert {phase.strip("`") for phase in phases.split(", ")} <= {*rows("## Phases")}


@pytest.mark.requirement("S06")
def test_what_a_controller_in_zookeeper_mode_reports_is_on_the_page() -> None:
    """In the accepted KIP, in the draft, and in Kafka; none of these numbers is one of ours."""
    page = " ".join(KIPS.read_text().split())
    told = (
        "A controller in ZooKeeper mode reports no state in the accepted KIP, always "
        "MigrationIneligible in the draft, and 4 (ZK) in Kafka from 3.6 on."
    )
    assert told in page
    assert 4 not in {*MigrationState}


@pytest.mark.requirement("N11")
def test_the_drafts_values_of_readiness_are_on_the_page() -> None:
    page = " ".join(KIPS.read_text().split())
    assert "is an int8 in the draft (0 not ready, 1 ready, a third value for disabled)" in page
    assert m.BrokerRegistrationRequest(is_migrating_zk_broker=True).is_migrating_zk_broker is True


def test_the_gauges_of_the_trace_are_whole_numbers_of_a_migration_alone() -> None:
    world = dual_writing()
    found = introspection.gauges(world.node, world.now_ms)
    names = "zk_write_behind_lag_records", "zk_write_behind_lag_without_no_ops_records"
    more = "zk_write_behind_lag_ms", "zk_blocked_operations", "last_committed_record_offset"
    assert set(found) == {f"kraft_bridge_{name}" for name in (*names, *more)}
    last = found["kraft_bridge_last_committed_record_offset"]
    assert last == world.node.raft.high_watermark - 1 > 0
    alone = World({}, **{"zookeeper.metadata.migration.enable": "false"})
    assert introspection.gauges(alone.node, alone.now_ms) == {}
