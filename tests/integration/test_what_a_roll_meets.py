"""What preflight says before a migration of a broker's folders and files, and what Kafka then does.

One real broker of 3.9.2 with our controller, in ZooKeeper mode first.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from bench.load import cluster_api
from emulator.cli import app
from emulator.servers.bridge import Bridge
from emulator.servers.kafka import KafkaBroker
from emulator.servers.ports import HOST, free_port
from emulator.servers.seeded import connected
from emulator.servers.waiting import wait_for
from emulator.servers.zookeeper import ZooKeeper
from tests.kit.certificates import Authority
from tests.kit.requests import create_topics
from wire.errors import ErrorCode

pytestmark = [pytest.mark.jvm, pytest.mark.slow]
KEYSTORE = "listener.name.ext.ssl.keystore.location"
KEYSTORE_TYPE = "listener.name.ext.ssl.keystore.type"
OTHER_ID = "XlPz6HQHU9GfpmrI4Ebriw"


class Stage:
    """A broker, its controller, and the part of ZooKeeper that they use."""

    def __init__(self, hosts: str, folder: Path) -> None:
        self.hosts = hosts
        self.broker = KafkaBroker("3.9.2", 0, folder / "broker", hosts, broker_count=1)
        self.bridge = Bridge(folder / "bridge", hosts)

    def with_a_topic(self) -> Path:
        """The broker has run in ZooKeeper mode and has stopped; the folder of its topic."""
        with self.broker as broker:
            request = create_topics("orders", timeout_ms=20_000)

            def made() -> bool:
                # At first the broker does not know of itself.
                answer = asyncio.run(cluster_api.call(broker.bootstrap, request, None))
                return answer.topics[0].error_code in {0, ErrorCode.TOPIC_ALREADY_EXISTS}

            wait_for("its topic", made)
            folder = broker.data / "orders-0"
            wait_for("its topic id on the disk", (folder / "partition.metadata").exists)
            broker.stop()
        return folder

    def preflight(self, code: str) -> list[tuple[str, str]]:
        """Severity and fact of what a rule finds now."""
        files = ("-c", self.broker.migrate(self.bridge.port)._write_properties())
        given = ["preflight", "--json", "--zookeeper", self.hosts, *map(str, files)]
        found = json.loads(CliRunner().invoke(app, given).stdout)["findings"]
        return [(one["severity"], one["fact"]) for one in found if one["code"] == f"PF-{code}"]

    def migrate(self) -> dict[str, Any]:
        """Start the controller, then the broker for the migration; the status in dual write."""
        with connected(self.hosts) as client:
            cluster_id = json.loads(client.get("/cluster/id")[0])["id"]
        self.bridge.format(cluster_id, new_quorum=True).start()
        self.broker.migrate(self.bridge.port).start().wait_started()
        return self.bridge.wait_dual_write()


@pytest.fixture
def stage(zookeeper: ZooKeeper, tmp_path: Path) -> Iterator[Stage]:
    made = Stage(f"{zookeeper.hosts}/{tmp_path.name}", tmp_path)
    try:
        yield made
    finally:
        made.broker.kill()
        made.bridge.kill()


def test_a_folder_without_a_topic_id_is_found_before_and_named_by_status_afterwards(
    stage: Stage,
) -> None:
    """Kafka's own controller does not go on after the broker's error; ours does, and says so."""
    stage.with_a_topic()
    (stage.broker.data / "ancient-0").mkdir()
    assert ("warning", "no partition.metadata in 1 folder: ancient-0") in stage.preflight("W25")
    stage.migrate()
    status = stage.bridge.wait_status("repairs", lambda one: bool(one["migration"]["repairs"]))
    (one,) = (x for x in status["migration"]["repairs"] if x["kind"] == "full_as_incremental")
    assert (one["broker"], one["error"]) == (0, "UNKNOWN_SERVER_ERROR")
    assert one["kafka"].startswith("would not go on")


def test_a_folder_with_the_id_of_another_topic_is_put_aside(stage: Stage) -> None:
    folder = stage.with_a_topic()
    (folder / "partition.metadata").write_text(f"version: 0\ntopic_id: {OTHER_ID}")
    ((severity, fact),) = stage.preflight("W25")
    assert severity == "blocker"
    assert fact.startswith(f"another topic id than the tree's in 1 folder: orders-0 ({OTHER_ID};")
    stage.migrate()
    wait_for("the folder aside", lambda: list(stage.broker.data.glob("orders-0*-stray")))


def test_a_broker_reads_its_dynamic_keystore_before_it_starts_in_zookeeper_mode_only(
    stage: Stage, tmp_path: Path
) -> None:
    """Half-way in the roll it does not come back, if the keystore of its file is gone."""
    good = str(Authority(tmp_path).issue("broker", HOST))
    gone = str(tmp_path / "gone.pem")
    stage.with_a_topic()
    with connected(stage.hosts) as client:
        config = {"version": 1, "config": {KEYSTORE: good, KEYSTORE_TYPE: "PEM"}}
        client.create("/config/brokers/0", json.dumps(config).encode())
    given = stage.broker.properties()
    stage.broker.extra |= {
        "listeners": f"{given['listeners']},EXT://{HOST}:{free_port()}",
        "listener.security.protocol.map": f"{given['listener.security.protocol.map']},EXT:SSL",
        KEYSTORE: gone,
        KEYSTORE_TYPE: "PEM",
    }
    ((severity, fact),) = stage.preflight("W07")
    assert (severity, f"{KEYSTORE} is {gone} in " in fact) == ("warning", True)
    stage.migrate()
    broker = stage.broker
    broker.stop()
    broker.zk, broker.migration = None, False
    broker.start().wait_line("Failed to load PEM SSL keystore")
    broker.kill()
    broker.extra[KEYSTORE] = good
    broker.start().wait_started()
