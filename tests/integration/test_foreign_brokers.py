"""Real brokers that must not take part: they block the start, or are left out, and are named."""

from __future__ import annotations

import json
from contextlib import ExitStack
from pathlib import Path

import pytest

from emulator.servers.jars import cache_dir
from emulator.servers.kafka import CONTROLLER_ID
from tests.integration.foreign import (
    CHANGES,
    IDLE,
    MIGRATING,
    NEWEST,
    NO_FLAG,
    OLD,
    STRANGER,
    TOPIC,
    play,
)
from tools.jars import digest, pins
from wire import messages as m
from wire.errors import ErrorCode

pytestmark = [pytest.mark.jvm, pytest.mark.slow]

DIVERGENCE_LIMIT_S = 5.0
"""For how long at most, at the 99th percentile, brokers of both kinds may show different topics."""


@pytest.fixture(scope="module")
def run(module_brokers, tmp_path_factory):
    """One story; what is left of it runs until the last test of this module."""
    cluster = module_brokers(NEWEST, count=3, start=False)
    with ExitStack() as stack:
        stack.callback(cluster.kill)
        yield play(cluster, tmp_path_factory.mktemp("foreign"), stack)


@pytest.mark.requirement("P01", "Q05")
def test_an_old_broker_and_one_without_the_flag_block_the_start_and_are_named(run):
    waiting, logged = run.seen["waiting"], run.seen["logged"]
    for broker in (OLD, NO_FLAG):
        text = waiting[str(broker)]
        assert f"broker {broker} " in text
        assert "/brokers/ids, replica assignments" in text
        assert "zookeeper.metadata.migration.enable=true" in text
        assert any(f"broker {broker} " in line for line in logged), logged
    assert str(MIGRATING) not in waiting


@pytest.mark.requirement("P01", "Q05")
def test_meanwhile_a_zookeeper_controller_rules(run):
    assert json.loads(run.seen["controller"])["brokerid"] != CONTROLLER_ID
    assert json.loads(run.seen["controller"]).get("kraftControllerEpoch", -1) == -1  # 3.3: none
    status = run.seen["status"]
    assert status["migration"]["phase"] == "pre-migration"
    assert status["migration"]["records_copied"] == 0
    assert (status["topics"], [one["id"] for one in status["brokers"]]) == (0, [MIGRATING])


@pytest.mark.requirement("Q04")
def test_a_broker_without_assignments_blocks_while_it_is_there_only(run):
    assert f"broker {IDLE} (known from /brokers/ids)" in run.seen["waiting"][str(IDLE)]
    assert str(IDLE) not in run.seen["waiting later"]


@pytest.mark.requirement("N07")
def test_the_id_of_a_controller_is_refused_and_named(run):
    assert str(CONTROLLER_ID) in run.seen["waiting"]
    for alive, refusals in (run.seen["misnamed"], run.seen["misnamed later"]):
        assert alive, "a ZooKeeper-mode broker asks on"
        assert any("DUPLICATE_BROKER_REGISTRATION" in line for line in refusals)


@pytest.mark.requirement("N04", "N09", "T01", "J22")
def test_another_protocol_version_is_refused_for_as_long_as_it_is_set(run):
    refusals = run.seen["wrong version"]
    assert any("UNSUPPORTED_VERSION" in line for line in refusals)
    assert run.seen["alive with wrong version"]
    assert "inter.broker.protocol.version=3.9-IV0" in run.seen["waiting with wrong version"]["1"]


@pytest.mark.requirement("B04")
def test_a_controller_that_begins_with_epoch_1_again_is_refused_by_brokers(run):
    """As the next one would, if /controller_epoch were deleted with /controller."""
    assert int(run.seen["epoch later"]) > 1
    for kind in (m.UpdateMetadataRequest, m.LeaderAndIsrRequest):
        assert run.seen["of epoch 1", kind] == ErrorCode.STALE_CONTROLLER_EPOCH


@pytest.mark.requirement("R03")
def test_without_the_flag_a_full_update_is_an_error_to_a_broker(run):
    code, complaints = run.seen["full without flag"]
    assert code == ErrorCode.NONE
    assert any("ERROR" in line and "migrations are not enabled" in line for line in complaints)


@pytest.mark.requirement("R03")
def test_with_the_flag_the_same_brokers_follow_the_controller(run):
    shapes = run.seen["shapes beside strangers"]
    assert all(TOPIC in shape.topics and "spread" in shape.topics for shape in shapes)
    assert not any("Type=FULL" in line for line in run.cluster.brokers[OLD].lines())


@pytest.mark.requirement("N07", "Q05", "U05", "U06")
def test_who_appears_during_dual_write_is_told_nothing_and_leads_nothing(run):
    assert {str(STRANGER), str(CONTROLLER_ID)} <= set(run.seen["znodes beside strangers"])
    assert {broker: tap.kept for broker, tap in run.strangers.items()} == {
        STRANGER: [],
        CONTROLLER_ID: [],
    }
    for shape in run.seen["shapes beside strangers"]:
        assert set(shape.brokers) == {0, 1, 2}
        assert {replica for _, replicas, _ in shape.partitions for replica in replicas} == {0, 1, 2}
        named = {x for leader, _, isr in shape.partitions for x in (leader, *isr)}
        assert named <= {-1, 0, 1, 2}, "neither a leader nor in an ISR"
    assert run.seen["assigned to a stranger"] == ErrorCode.INVALID_REPLICA_ASSIGNMENT


@pytest.mark.requirement("N08")
def test_a_broker_of_another_cluster_is_refused_and_in_kraft_mode_it_ends(run):
    alive, refusals = run.seen["of another cluster"]
    assert alive, "a ZooKeeper-mode broker asks on"
    assert any("in FETCH response" in line for line in refusals)
    code, refusals = run.seen["of another cluster, in KRaft mode"]
    assert code != 0
    assert any("in FETCH response" in line for line in refusals)
    registered = {one["id"] for one in run.seen["status beside them"]["brokers"]}
    assert registered == {MIGRATING, NO_FLAG, OLD}


@pytest.mark.requirement("N07", "N10")
def test_a_kraft_broker_with_the_id_of_a_live_one_is_refused_and_ends(run):
    code, refusals, address = run.seen["twin"]
    assert code != 0
    assert any("DUPLICATE_BROKER_REGISTRATION" in line for line in refusals)
    assert not address.endswith(f":{run.cluster.brokers[NO_FLAG].client_port}")


@pytest.mark.requirement("N10")
def test_it_is_accepted_when_the_other_has_left(run):
    (accepted,) = [one for one in run.seen["twin later"]["brokers"] if one["id"] == NO_FLAG]
    assert (accepted["kind"], accepted["fenced"]) == ("kraft", False)


@pytest.mark.requirement("U14")
def test_brokers_of_both_kinds_say_the_same_after_a_short_time(run):
    apart = run.seen["divergence_s"]
    assert len(apart) == CHANGES
    assert apart[int(0.99 * CHANGES) - 1] <= DIVERGENCE_LIMIT_S


@pytest.mark.requirement("X03")
def test_the_brokers_are_kafkas_own_binaries(run):
    wanted = pins()
    for release, jars in run.seen["class paths"].items():
        below = {str(Path(jar).relative_to(cache_dir() / "jars")) for jar in jars}
        assert below == {path for path in wanted if path.startswith(f"kafka-{release}/")}
        assert all(digest(Path(jar)) == wanted[f"kafka-{release}/{Path(jar).name}"] for jar in jars)
