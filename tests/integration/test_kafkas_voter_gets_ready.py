"""Two voters of ours and one of Kafka 3.9.2 that has no migration configured at first."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from emulator.servers.bridge import Bridge
from emulator.servers.kafka import KraftController
from emulator.servers.ports import HOST, free_port
from emulator.servers.tool_host import ToolHost
from emulator.servers.waiting import wait_for
from emulator.servers.zk_dump import contents, dump
from emulator.servers.zookeeper import ZooKeeper
from tests.integration.migrating_controllers import IDS, MigratingControllers, migrating
from wire import messages as m

pytestmark = [pytest.mark.jvm, pytest.mark.slow]

KAFKAS = 3002
BEAN = "kafka.controller:type=KafkaController,name=ZkMigrationState"
PRE_MIGRATION, MIGRATION = 2, 1
GAUGE = "kraft_bridge_zk_migration_state"


@pytest.fixture
def quorum(
    make_zookeeper: Callable[..., ZooKeeper], tmp_path: Path
) -> Iterator[MigratingControllers]:
    with migrating(tmp_path, make_zookeeper(fsync=False), kafkas=1) as stage:
        yield stage


@pytest.fixture
def kafka_controller(quorum: MigratingControllers) -> KraftController:
    """The third voter, without the flag and without ZooKeeper's address; not started."""
    node = quorum.nodes[KAFKAS]
    assert isinstance(node, KraftController)
    node.zk, node.jmx_port = None, free_port()
    return node


def waits(quorum: MigratingControllers) -> list[tuple[str, str]]:
    """What the leader of ours waits for: subject and text of what is wrong with controllers."""
    found = []
    for one in quorum.leaders(*quorum.ours):
        node = quorum.nodes[one.node_id]
        assert isinstance(node, Bridge)
        status = node.status() or {"migration": {"waiting": []}}
        found += [
            (each["subject"], each["text"])
            for each in status["migration"]["waiting"]
            if each["why"] == "controller_not_ready"
        ]
    return found


def wait_until_named(quorum: MigratingControllers, why: str) -> None:
    def named() -> bool:
        [*found] = waits(quorum)
        return [subject for subject, _ in found] == [str(KAFKAS)] and why in found[0][1]

    wait_for(f"controller {KAFKAS}: {why}", named)


def ready(quorum: MigratingControllers) -> dict[int, bool]:
    """Voter -> what its ApiVersions say of its readiness."""
    asked = m.ApiVersionsRequest(client_software_name="proof", client_software_version="1")
    return {each: quorum.call(each, asked).zk_migration_ready for each in IDS}


def by_jmx(tools: ToolHost, port: int | None) -> int:
    """What Kafka's own controller shows as the state of the migration, by Kafka's own tool."""
    url = f"service:jmx:rmi:///jndi/rmi://{HOST}:{port}/jmxrmi"
    given = ("--object-name", BEAN, "--one-time", "true", "--jmx-url", url)
    printed = tools.run("org.apache.kafka.tools.JmxTool", *given)
    return int(printed.out.strip().rpartition(",")[2])


def shown(quorum: MigratingControllers) -> list[int]:
    """What ours show of it: the leader alone does."""
    pages = [node.page("/metrics") for node in quorum.nodes.values() if isinstance(node, Bridge)]
    return [
        int(sample.value)
        for page in pages
        for family in text_string_to_metric_families(page or "")
        for sample in family.samples
        if sample.name == GAUGE
    ]


@pytest.mark.requirement("M04", "P05", "R04", "S03", "T05")
def test_the_leader_waits_for_kafkas_voter_and_both_show_the_same(
    quorum: MigratingControllers, kafka_controller: KraftController
) -> None:
    with ToolHost() as tools:
        quorum.prepare()
        quorum.launch(quorum.ours)
        wait_until_named(quorum, "has not registered")
        quorum.launch([KAFKAS])
        wait_until_named(quorum, "has no migration configured")
        assert ready(quorum) == {each: each != KAFKAS for each in IDS}
        assert shown(quorum) == [PRE_MIGRATION]
        wait_for("its state", lambda: by_jmx(tools, kafka_controller.jmx_port) == PRE_MIGRATION)
        assert not {"/controller", "/kraft_bridge"} & contents(dump(quorum.zookeeper.hosts)).keys()

        kafka_controller.stop()
        kafka_controller.zk = quorum.proxies[KAFKAS].hosts
        quorum.launch([KAFKAS])
        quorum.until_leads(quorum.ours)
        leader = quorum.in_dual_write()
        assert quorum.holder() == leader
        assert ready(quorum) == dict.fromkeys(IDS, True)
        assert shown(quorum) == [MIGRATION]
        wait_for("its state", lambda: by_jmx(tools, kafka_controller.jmx_port) == MIGRATION)
