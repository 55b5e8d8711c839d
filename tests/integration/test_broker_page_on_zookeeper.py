"""The second example of docs/broker.md, on a real ZooKeeper: from ZooKeeper mode to KRaft mode."""

from __future__ import annotations

import asyncio
import re
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from kazoo.client import KazooClient

from bench.load.cluster_api import call, create_topics, topic
from emulator.servers.bridge import COMMAND, Bridge
from emulator.servers.ports import free_port, is_open
from emulator.servers.process import ServerProcess
from emulator.servers.waiting import wait_for
from emulator.servers.zookeeper import ZooKeeper
from wire import messages as m

pytestmark = [pytest.mark.jvm, pytest.mark.slow]
PAGE = Path(__file__).resolve().parents[2] / "docs/broker.md"
ROLL = (
    "take out `broker.id` and what begins with `zookeeper.` or `kraftbridge.zookeeper.`, and add "
    "`process.roles=broker` and `node.id=1`"
)
TAKEN_OUT = ("broker.id=", "zookeeper.", "kraftbridge.zookeeper.")
PROTOCOLS = "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT"


class Typed(ServerProcess):
    """``kraft-bridge broker`` on a file as a reader of the page has it."""

    def __init__(self, folder: Path, port: int) -> None:
        super().__init__("broker-1", folder)
        self.port = port

    def run(self, text: str) -> None:
        """Start on these properties, and wait until it listens."""
        path = self.folder / "server.properties"
        path.write_text(text)
        self.launch([sys.executable, "-c", COMMAND, "broker", "-c", path])
        self.wait_until("its listener", lambda: is_open(self.port))

    def topics(self) -> set[str]:
        """What its clients are shown."""
        request = m.MetadataRequest(topics=None, allow_auto_topic_creation=False)
        answer = asyncio.run(call(f"127.0.0.1:{self.port}", request))
        return {one.name or "" for one in answer.topics}

    def create(self, name: str) -> None:
        """Create a topic, as soon as a controller is known."""
        asyncio.run(create_topics(f"127.0.0.1:{self.port}", [topic(name, 1, 1, {})]))
        wait_for(f"the topic {name}", lambda: name in self.topics())


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    with ExitStack() as made:
        yield made


@pytest.mark.requirement("N02", "Y02")
def test_the_example_migrates_and_comes_back_in_kraft_mode(
    tmp_path: Path, zookeeper: ZooKeeper, zk_client: KazooClient, stack: ExitStack
) -> None:
    page = PAGE.read_text()
    assert ROLL in " ".join(page.split()), "this test does what the page says"
    blocks = re.findall(r"^```\n(.*?)^```", page, re.DOTALL | re.MULTILINE)
    port = free_port()
    changed = {":9092": f":{port}", "127.0.0.1:2181": zookeeper.hosts}
    changed |= {"/var/lib/kraft-bridge": str(tmp_path)}
    # Some Kafka broker was the controller once: without one, nothing can be migrated.
    zk_client.create("/controller_epoch", b"1")
    broker = Typed(tmp_path, port)
    stack.callback(broker.kill)
    plain = replaced(blocks[3], changed)
    broker.run(plain)
    wait_for("the cluster's id", lambda: zk_client.exists("/cluster/id"))
    wait_for("meta.properties", (tmp_path / "broker-1" / "meta.properties").exists)
    kept = (tmp_path / "broker-1" / "meta.properties").read_text()
    assert broker.stop() == 0

    more = {"inter.broker.listener.name": "PLAINTEXT", "listener.security.protocol.map": PROTOCOLS}
    bridge = Bridge(tmp_path, zookeeper.hosts, properties=more)
    stack.callback(bridge.kill)
    (cluster_id,) = re.findall(r"^cluster\.id=(.*)$", kept, re.MULTILINE)
    bridge.format(cluster_id).start().wait_started()
    migrating = plain + replaced(blocks[4], changed | {":9093": f":{bridge.port}"})
    broker.run(migrating)
    bridge.wait_dual_write()
    broker.create("in-dual-write")
    assert broker.stop() == 0
    assert zk_client.exists("/brokers/ids/1") is None

    lines = [line for line in migrating.splitlines() if not line.startswith(TAKEN_OUT)]
    broker.run("\n".join([*lines, "process.roles=broker", "node.id=1", ""]))
    wait_for("what was made before", lambda: "in-dual-write" in broker.topics())
    broker.create("in-kraft-mode")
    bridge.wait_drained()
    assert zk_client.exists("/brokers/topics/in-kraft-mode")
    assert zk_client.exists("/brokers/ids/1") is None
    assert broker.stop() == 0


def replaced(text: str, changed: dict[str, str]) -> str:
    for old, new in changed.items():
        text = text.replace(old, new)
    return text
