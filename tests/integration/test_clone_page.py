"""The commands of docs/clone.md, as they are there, with brokers of Kafka 3.9.2."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from kazoo.client import KazooClient
from typing_extensions import override

from bench.rehearsal.made import document
from emulator.servers.bridge import COMMAND
from emulator.servers.kafka import KafkaBroker
from emulator.servers.ports import free_port, is_open
from emulator.servers.process import ServerProcess
from emulator.servers.waiting import PATIENCE_S, wait_for

pytestmark = [pytest.mark.jvm]

PAGE = Path(__file__).parents[2] / "docs" / "clone.md"
BROKER = """\
broker.id={id}
listeners=INTERNAL://0.0.0.0:9091,CLIENT://:9092
advertised.listeners=INTERNAL://b{id}.example:9091,CLIENT://b{id}.example:9092
listener.security.protocol.map=INTERNAL:PLAINTEXT,CLIENT:PLAINTEXT
inter.broker.listener.name=INTERNAL
inter.broker.protocol.version=3.9
zookeeper.connect=zk1.example:2181,zk2.example:2181/kafka
log.dirs=/var/kafka
broker.rack=r{id}
"""
TARGET = """\
process.roles=broker
node.id={id}
controller.quorum.voters=3000@c0.example:9093
controller.listener.names=CONTROLLER
listeners=INTERNAL://0.0.0.0:9091,CLIENT://:9092
advertised.listeners=INTERNAL://b{id}.example:9091,CLIENT://b{id}.example:9092
listener.security.protocol.map=INTERNAL:PLAINTEXT,CLIENT:PLAINTEXT,CONTROLLER:PLAINTEXT
inter.broker.listener.name=INTERNAL
log.dirs=/var/kafka
"""


class AsWritten(KafkaBroker):
    """A broker with a file that is there."""

    def __init__(self, number: int, file: Path, folder: Path) -> None:
        super().__init__("3.9.2", number, folder, None)
        self.file = file

    @override
    def _write_properties(self) -> Path:
        self.folder.mkdir(parents=True, exist_ok=True)
        return self.file


def commands(port: int) -> Iterator[list[str]]:
    """The lines of the page's second block."""
    block = PAGE.read_text().split("```")[3]
    for line in block.strip().splitlines():
        yield line.replace("2181", str(port)).split()


def expanded(words: list[str], folder: Path) -> list[str]:
    found = []
    for word in words:
        names = sorted(str(one.relative_to(folder)) for one in folder.glob(word))
        found += names if "*" in word else [word]
    return found


def test_the_commands_of_the_page_make_a_copy_of_a_cluster(tmp_path: Path) -> None:
    tree = tmp_path / "with-secrets.json"
    tree.write_text(json.dumps(document(topics=2, partitions=2, brokers=2)))
    for kind, text in (("brokers", BROKER), ("targets", TARGET)):
        (tmp_path / kind).mkdir()
        for number in (1, 2):
            (tmp_path / kind / f"{number}.properties").write_text(text.format(id=number))
    port = free_port()
    start, *others, kafka = commands(port)
    assert kafka == ["kafka-server-start.sh", "copy/broker-1.properties"]
    zookeeper = ServerProcess("zookeeper", tmp_path / "zk")
    client = KazooClient(f"127.0.0.1:{port}/kafka")
    try:
        zookeeper.launch(
            [sys.executable, "-c", COMMAND, *start[1:], "--data", str(tmp_path / "zk-data")]
        )
        wait_for("ZooKeeper", lambda: is_open(port), PATIENCE_S)
        for words in others:
            line = [sys.executable, "-c", COMMAND, *expanded(words[1:], tmp_path)]
            done = subprocess.run(line, cwd=tmp_path, capture_output=True, text=True, check=False)
            assert done.returncode == 0, done.stderr
        assert not _production(tmp_path / "copy")
        files = [tmp_path / "copy" / f"broker-{one}.properties" for one in (1, 2)]
        with (
            AsWritten(1, files[0], tmp_path / "b1"),
            AsWritten(2, files[1], tmp_path / "b2"),
        ):
            client.start(PATIENCE_S)
            path = "/brokers/topics/orders-0001/partitions/1/state"

            def whole() -> bool:
                held = json.loads(client.get(path)[0])
                return sorted(held["isr"]) == [1, 2] and held["leader"] > 0

            wait_for("all replicas in sync", whole, PATIENCE_S)
            held = [tmp_path / f"copy/broker-{one}-data-1/orders-0001-1" for one in (1, 2)]
            wait_for("logs", lambda: all(map(Path.is_dir, held)), PATIENCE_S)
    finally:
        client.stop()
        client.close()
        zookeeper.stop(PATIENCE_S)


def _production(folder: Path) -> list[str]:
    """Lines of the files that name a host of production."""
    files = folder.glob("*.properties")
    return [line for one in files for line in one.read_text().splitlines() if ".example" in line]
