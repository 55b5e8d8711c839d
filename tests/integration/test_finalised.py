"""A real migration is finalised: real brokers, a real ZooKeeper that is asked nothing any more."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from bench.judge.stores import differences, dump_log, from_log, from_tree
from bench.load import cluster_api as api
from emulator.servers.bridge import Bridge
from emulator.servers.cluster import KafkaCluster
from emulator.servers.fault_proxy import FaultProxy
from emulator.servers.kafka import KafkaBroker
from emulator.servers.seeded import connected
from emulator.servers.waiting import wait_for
from emulator.servers.zk_dump import contents, dump
from emulator.servers.zookeeper import ZooKeeper
from tests.integration.migrating_controllers import MigratingControllers, migrating
from tests.integration.node_stage import BROKERS
from wire import messages as m

pytestmark = [pytest.mark.jvm, pytest.mark.slow]

RELEASE = "3.9.2"
FLAG = "zookeeper.metadata.migration.enable"
STATE = "ZK_MIGRATION_STATE_RECORD"
KAFKAS = 3002
OLD = 7
"""A broker in ZooKeeper mode that comes too late."""


def create(cluster: KafkaCluster, name: str) -> None:
    shape = asyncio.run(api.shape(cluster.brokers[0].bootstrap))
    topic = api.topic(name, 2, len(cluster.brokers), {})
    asyncio.run(api.create_topics(shape.brokers[shape.controller_id], [topic]))

    def shown() -> bool:
        shapes = [asyncio.run(api.shape(each.bootstrap)) for each in cluster.brokers]
        return all(name in shape.topics and not shape.short() for shape in shapes)

    wait_for(f"{name} on each broker", shown)


def in_kraft_mode(cluster: KafkaCluster, bridge: Bridge) -> None:
    """Both restart at once, which is quicker than one by one."""
    cluster.stop()
    for broker in cluster.brokers:
        broker.zk, broker.migration = None, False
    cluster.start()
    bridge.wait_status(
        "every broker in KRaft mode",
        lambda status: (
            status["migration"]["phase"] == "dual write"
            and not any(one["fenced"] for one in status["brokers"])
        ),
    )


def migrated(cluster: KafkaCluster, bridge: Bridge, zookeeper: ZooKeeper) -> None:
    """Every broker in KRaft mode, and ZooKeeper is written still (F05)."""
    cluster.start().wait_ready()
    create(cluster, "before")
    identity = contents(dump(zookeeper.hosts))["/cluster/id"]
    assert identity is not None
    bridge.format(json.loads(identity)["id"]).start()
    cluster.migrate(bridge.port, rolling=False)
    bridge.wait_dual_write()
    in_kraft_mode(cluster, bridge)
    create(cluster, "in-kraft-mode")
    bridge.wait_drained()
    tree, log = from_tree(contents(dump(zookeeper.hosts))), from_log(dump_log(bridge.data))
    assert "in-kraft-mode" in tree.topics
    assert differences(tree, log) == []


def finalised(
    cluster: KafkaCluster, bridge: Bridge, zookeeper: ZooKeeper, seen: Sequence[bytes]
) -> None:
    """The controller restarts without the flag; zookeeper.connect stays, and nothing is asked."""
    assert bridge.stop() == 0
    stood = contents(dump(zookeeper.hosts))
    frames = len(seen)
    with connected(zookeeper.hosts) as look:
        look.exists("/")
        zxid = look.last_zxid
        bridge.extra[FLAG] = "false"
        bridge.start().wait_started()
        bridge.wait_status(
            "the final state",
            lambda status: (status["finalisation"] or {}).get("state") == "finalised",
        )
        create(cluster, "after")
        look.exists("/")
        assert look.last_zxid == zxid
    assert contents(dump(zookeeper.hosts)) == stood
    assert len(seen) == frames


def refused(bridge: Bridge, late: KafkaBroker) -> None:
    """A broker in ZooKeeper mode comes too late."""
    late.migrate(bridge.port).start()
    found = bridge.wait_status(
        "the refusal", lambda status: any(one["broker"] == OLD for one in status["refusals"])
    )
    assert found["refusals"][0]["error"] == "BROKER_ID_NOT_REGISTERED"
    late.kill()


@pytest.mark.requirement("F05", "F07", "F09", "F10", "S05", "U09")
def test_finalised_brokers_go_on_when_zookeeper_is_gone(
    make_zookeeper: Callable[..., ZooKeeper],
    real_brokers: Callable[[Any], Any],
    tmp_path: Path,
) -> None:
    zookeeper = make_zookeeper(fsync=False)
    seen: list[bytes] = []
    with FaultProxy(zookeeper.port) as proxy:
        proxy.watch = seen.append
        cluster: KafkaCluster = real_brokers(KafkaCluster(RELEASE, tmp_path, zookeeper, count=2))
        bridge: Bridge = real_brokers(Bridge(tmp_path, proxy.hosts))
        migrated(cluster, bridge, zookeeper)
        finalised(cluster, bridge, zookeeper, seen)
        frames = len(seen)
        refused(bridge, real_brokers(KafkaBroker(RELEASE, OLD, tmp_path, zookeeper)))
        zookeeper.kill()
        assert bridge.stop() == 0
        bridge.extra[FLAG] = "true"
        bridge.start().wait_line("already finalised")
        create(cluster, "without-zookeeper")
        types = [(one["type"], one["data"]) for one in dump_log(bridge.data)]
        states = [data["zkMigrationState"] for kind, data in types if kind == STATE]
        assert states == [2, 1, 3]
        assert len(seen) == frames


def without_flag(stage: MigratingControllers, node_id: int) -> None:
    """SIGTERM, and a start without the flag and without zookeeper.connect."""
    node = stage.nodes[node_id]
    node.stop()
    node.zk = None
    node.start().wait_started()


def missing(stage: MigratingControllers) -> set[tuple[str, str]]:
    """What the leader, if it is one of ours, says is missing."""
    found = set()
    for each in stage.ours:
        node = stage.nodes[each]
        status = node.status() if isinstance(node, Bridge) and node.alive else None
        part = status and status["finalisation"]
        if part and part["state"] != "follows":
            found |= {(one["why"], one["subject"]) for one in part["missing"]}
    return found


def states(stage: MigratingControllers, node_id: int) -> list[int]:
    """The states of the migration in one log, by Kafka's own tool; a bad record ends it."""
    records = dump_log(stage.nodes[node_id].data)
    return [one["data"]["zkMigrationState"] for one in records if one["type"] == STATE]


@pytest.mark.requirement("F08", "F12")
def test_three_controllers_finalise_and_kafkas_among_them_reads_the_mark(
    make_zookeeper: Callable[..., ZooKeeper], tmp_path: Path
) -> None:
    """While one has the flag, or a broker is in ZooKeeper mode, nobody does."""
    with migrating(tmp_path, make_zookeeper(fsync=False), kafkas=1) as stage:
        leader = stage.start()
        (other,) = stage.ours - {leader}
        stage.settled()
        without_flag(stage, other)
        assert ("zookeeper_broker", "0") in missing(stage)
        stage.brokers.close()
        for broker in range(len(BROKERS)):
            stage.call(leader, m.UnregisterBrokerRequest(broker_id=broker))
        wait_for("no broker", lambda: ("zookeeper_broker", "0") not in missing(stage))
        stage.settled()
        without_flag(stage, leader)
        wait_for("Kafka's leads, which has the flag", lambda: stage.leaders(KAFKAS))
        stage.passed(KAFKAS, 2)
        for each in stage.ours:
            assert states(stage, each)[-1] == 1
            status = stage.nodes[each].wait_status("an answer", bool)
            assert status["finalisation"]["mark"]["node_id"] == leader
        without_flag(stage, KAFKAS)
        wait_for("the end", lambda: all(states(stage, each)[-1] == 3 for each in stage.nodes))
        assert [states(stage, each) for each in stage.nodes] == [[2, 1, 3]] * 3
        stage.limit("user", "after", 1e6)
        assert all(node.alive for node in stage.nodes.values())
