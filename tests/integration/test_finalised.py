"""A real migration is finalised: real brokers, a real ZooKeeper that is asked nothing any more."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from bench.judge.stores import differences, dump_log, from_log, from_tree
from bench.load import cluster_api as api
from bench.rig.bridge import Bridge
from bench.rig.cluster import Cluster
from bench.rig.fault_proxy import FaultProxy
from bench.rig.kafka import Broker
from bench.rig.waiting import wait_for
from bench.rig.warming import connected
from bench.rig.zk_dump import contents, dump
from bench.rig.zookeeper import ZooKeeper

pytestmark = [pytest.mark.jvm, pytest.mark.slow]

RELEASE = "3.9.2"
FLAG = "zookeeper.metadata.migration.enable"
STATE = "ZK_MIGRATION_STATE_RECORD"
LAST_FRAMES = 50
"""Of the controller with the flag, on its way to its end."""
OLD = 7
"""A broker in ZooKeeper mode that comes too late."""


def create(cluster: Cluster, name: str) -> None:
    shape = asyncio.run(api.shape(cluster.brokers[0].bootstrap))
    topic = api.topic(name, 2, len(cluster.brokers), {})
    asyncio.run(api.create_topics(shape.brokers[shape.controller_id], [topic]))

    def shown() -> bool:
        shapes = [asyncio.run(api.shape(each.bootstrap)) for each in cluster.brokers]
        return all(name in shape.topics and not shape.short() for shape in shapes)

    wait_for(f"{name} on each broker", shown, 30)


def in_kraft_mode(cluster: Cluster, bridge: Bridge) -> None:
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


def migrated(cluster: Cluster, bridge: Bridge, zookeeper: ZooKeeper) -> None:
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


def finalised(cluster: Cluster, bridge: Bridge, zookeeper: ZooKeeper) -> None:
    """The controller restarts without the flag; zookeeper.connect stays."""
    assert bridge.stop() == 0
    stood = contents(dump(zookeeper.hosts))
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


def refused(bridge: Bridge, late: Broker) -> None:
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
        cluster: Cluster = real_brokers(Cluster(RELEASE, tmp_path, zookeeper, count=2))
        bridge: Bridge = real_brokers(Bridge(tmp_path, proxy.hosts))
        migrated(cluster, bridge, zookeeper)
        asked = [len(seen)]
        finalised(cluster, bridge, zookeeper)
        refused(bridge, real_brokers(Broker(RELEASE, OLD, tmp_path, zookeeper)))
        zookeeper.kill()
        assert bridge.stop() == 0
        bridge.extra[FLAG] = "true"
        bridge.start().wait_line("already finalised")
        create(cluster, "without-zookeeper")
        asked.append(len(seen))
        types = [(one["type"], one["data"]) for one in dump_log(bridge.data)]
        states = [data["zkMigrationState"] for kind, data in types if kind == STATE]
        assert states == [2, 1, 3]
        assert asked[1] - asked[0] < LAST_FRAMES
