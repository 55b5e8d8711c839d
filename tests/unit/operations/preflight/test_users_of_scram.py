"""Nodes that log in to the controllers by SCRAM before the copy has brought its users."""

from __future__ import annotations

from dataclasses import replace

import pytest

from emulator.metadata.migration_state import MigrationState
from emulator.operations.preflight.controller_folder import ControllerFolder, read
from emulator.operations.preflight.engine import Finding, Severity
from emulator.operations.preflight.node_file import Properties
from emulator.operations.preflight.report import run
from emulator.operations.preflight.survey import DumpedZnode, Survey
from emulator.raft import layout
from emulator.raft.format import render_bootstrap_checkpoint
from tests.unit.operations.preflight.changes import claimed, marked, then
from tests.unit.operations.preflight.clean import (
    CLUSTER,
    JAAS,
    clean,
    config,
    folder,
    long_scram,
    node_files,
    tree,
)
from wire import records as r
from wire.batch import Batch, encode_batch
from wire.record_serde import encode_record

KEY = "sasl.mechanism.controller.protocol"
META = {"version": "1", "node.id": "3000", "cluster.id": CLUSTER}
BROKER = {"listeners": "PLAINTEXT://:9092", "advertised.listeners": "PLAINTEXT://k{id}:9092"}
SHARED = {
    "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:SASL_PLAINTEXT",
    "listener.name.controller.sasl.enabled.mechanisms": "SCRAM-SHA-512",
    "listener.name.controller.scram-sha-512.sasl.jaas.config": JAAS,
    KEY: "SCRAM-SHA-512",
}
KNOWN = frozenset({("broker", 2)})


def found(survey: Survey) -> list[Finding]:
    return [one for one in run(survey).findings if one.code == "B22"]


def cluster(*folders: ControllerFolder, controllers: tuple[int, ...] = (3000,)) -> Survey:
    present, targets = node_files(BROKER, SHARED, controllers=controllers)
    return Survey(tree(), present, targets, folders)


def test_no_user_in_a_formatted_folder_is_a_blocker() -> None:
    told = found(cluster(folder(3000)))
    assert [one.znode for one in told] == [
        f"{name}: {KEY}" for name in ("broker-0", "broker-1", "broker-2", "controller-3000")
    ], "targets register after the copy"
    assert {one.severity for one in told} == {Severity.BLOCKER}
    assert told[0].fact == "SCRAM-SHA-512, and no folder given has user broker"


def test_without_a_folder_it_is_a_warning() -> None:
    assert {one.severity for one in found(cluster())} == {Severity.WARNING}


def test_the_user_of_add_scram_lets_the_brokers_in() -> None:
    assert not found(cluster(folder(3000, users=KNOWN)))


@pytest.mark.parametrize("users", [{("other", 2)}, {("broker", 1)}])
def test_another_user_or_another_mechanism_does_not(users: set[tuple[str, int]]) -> None:
    assert len(found(cluster(folder(3000, users=frozenset(users))))) == 4


def test_several_voters_elect_nobody_by_scram_whatever_their_folders_hold() -> None:
    ids = (3000, 3001, 3002)
    led = [folder(one, users=KNOWN, end_offset=9) for one in ids]
    for one in (cluster(*led, controllers=ids), cluster(controllers=ids)):
        voters = [x for x in found(one) if "the controllers are 3" in x.fact]
        assert [x.znode for x in voters] == [f"controller-{one}: {KEY}" for one in ids]
        assert {x.severity for x in voters} == {Severity.BLOCKER}
    copied = [
        folder(one, state=MigrationState.MIGRATION, end_offset=900, epochs=((3, 0),)) for one in ids
    ]
    late = then(claimed(), marked(758))(cluster(*copied, controllers=ids))
    assert [x.znode for x in found(late)] == [f"controller-{one}: {KEY}" for one in ids]


def test_after_the_copy_the_users_are_known() -> None:
    one = cluster(folder(3000, state=MigrationState.MIGRATION, end_offset=900, epochs=((3, 0),)))
    assert not found(then(claimed(), marked(758))(one))


def test_another_mechanism_and_a_listener_without_a_login_are_not_looked_at() -> None:
    def changed(values: dict[str, str]) -> Survey:
        one = cluster(folder(3000))

        def each(x: Properties) -> Properties:
            return replace(x, values={**x.values, **values})

        return replace(
            one, properties=[*map(each, one.properties)], targets=[*map(each, one.targets)]
        )

    listener = "listener.name.controller.sasl.enabled.mechanisms"
    assert not found(changed({KEY: "PLAIN", listener: "PLAIN"}))
    open_one = "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT"
    assert not found(changed({"listener.security.protocol.map": open_one}))


def user(name: str) -> bytes:
    return encode_record(r.UserScramCredentialRecord(name=name, mechanism=2, iterations=4096), 0)


def test_users_are_read_from_the_checkpoint_then_from_the_log() -> None:
    boot = {layout.BOOTSTRAP_CHECKPOINT: render_bootstrap_checkpoint([user("broker")], 1)}
    assert read("d", boot, META).users == KNOWN
    gone = encode_record(r.RemoveUserScramCredentialRecord(name="broker", mechanism=2), 0)
    values = [user("broker"), user("other"), gone]
    batch = encode_batch(Batch(0, 1, 0, 0, [(None, value) for value in values]))
    log = {**boot, layout.segment_path(0): batch}
    assert read("d", log, META).users == {("other", 2)}


def calling_as(name: str, *users: str) -> list[str]:
    """B21 where a controller calls the brokers, which are INTERNAL by SCRAM, as this user."""
    one = clean("secured")
    key = "listener.name.internal.scram-sha-512.sasl.jaas.config"
    files = [
        replace(x, values={**x.values, key: JAAS.replace("broker", name)}) if x.is_controller else x
        for x in one.properties
    ]
    nodes = {**one.nodes, "/config/users": DumpedZnode(None)}
    for user in users:
        nodes[f"/config/users/{user}"] = DumpedZnode(config({"SCRAM-SHA-512": long_scram()}))
    findings = run(replace(one, properties=files, nodes=nodes)).findings
    return [one.fact for one in findings if one.code == "B21"]


def test_a_controller_calls_the_brokers_as_a_user_that_they_know() -> None:
    assert calling_as("c a") == [
        "SCRAM-SHA-512 as c a, and /config/users has no such credential of it"
    ]
    assert not calling_as("c a", "c%20a")
    assert not calling_as("broker"), "as the brokers call each other"
