"""The examples in Java and Go, and clients of Kafka beside nodes that come and go."""

from __future__ import annotations

import asyncio
import shutil
import socket
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from aiokafka.admin import AIOKafkaAdminClient, NewTopic

from emulator.servers.jars import client_jars
from emulator.servers.java_tools import java
from emulator.servers.waiting import wait_for
from emulator.testing import Cluster
from tests.unit.testing.test_examples import EXAMPLES, SURROUNDINGS

pytestmark = pytest.mark.slow
RELEASE = "3.9.2"
UNREGISTERS = """
import java.util.Map;
import org.apache.kafka.clients.admin.Admin;

class Unregisters {
    public static void main(String[] words) throws Exception {
        try (Admin admin = Admin.create(Map.of("bootstrap.servers", words[0]))) {
            admin.unregisterBroker(Integer.parseInt(words[1])).all().get();
            int controllers = admin.describeMetadataQuorum().quorumInfo().get().voters().size();
            System.out.print("done " + controllers);
        }
    }
}
"""


@pytest.mark.jvm
def test_the_example_in_java_holds(
    compile_java: Callable[..., Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = EXAMPLES / "LeaderMoves.java"
    jars = client_jars(RELEASE)
    classes = compile_java([source], jars)
    left = tmp_path / "temporary"
    left.mkdir()
    for name, value in {**SURROUNDINGS, "TMPDIR": str(left)}.items():
        monkeypatch.setenv(name, value)
    assert java([classes, *jars], "LeaderMoves") == b"leader 2\n"
    assert list(left.iterdir()) == []


@pytest.mark.skipif(shutil.which("go") is None, reason="this machine has no Go")
def test_the_example_in_go_holds(tmp_path: Path) -> None:
    """Needs Go, and nothing from its registry."""
    (tmp_path / "go.mod").write_text("module orders\n\ngo 1.21\n")
    (tmp_path / "cluster_test.go").write_text((EXAMPLES / "cluster_test.go").read_text())
    left = tmp_path / "temporary"
    left.mkdir()
    offline = {"GOPROXY": "off", "GOTOOLCHAIN": "local", "GOFLAGS": "-mod=mod"}
    command = ["go", "test", "-v", "./..."]
    ran = subprocess.run(
        command,
        cwd=tmp_path,
        env={**SURROUNDINGS, **offline, "TMPDIR": str(left)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert "--- PASS: TestABrokerThatIsStopped" in ran.stdout
    assert [one.name for one in left.iterdir() if one.name.startswith("kraft-bridge")] == []


@pytest.mark.jvm
def test_a_broker_that_kafkas_admin_client_unregisters_ends(
    compile_java: Callable[..., Path], tmp_path: Path
) -> None:
    source = tmp_path / "Unregisters.java"
    source.write_text(UNREGISTERS)
    jars = client_jars(RELEASE)
    classes = compile_java([source], jars)
    with Cluster(brokers=2, controllers=3, fsync=False) as cluster:
        # The client knows both brokers, and may send it to the one that ends.
        assert java([classes, *jars], "Unregisters", cluster.bootstrap, "1") == b"done 3"
        wait_for("its end", lambda: cluster.nodes[-1]["state"] == "stopped")
        host, _, port = cluster.nodes[-1]["address"].rpartition(":")
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection((host, int(port)), 5)
        cluster.start(1)
        assert java([classes, *jars], "Unregisters", cluster.bootstrap, "0") == b"done 3"
        wait_for("its end", lambda: cluster.nodes[-2]["state"] == "stopped")


@pytest.mark.asyncio
async def test_a_client_of_asyncio_goes_on_while_nodes_come_and_go() -> None:
    async with Cluster(brokers=3, controllers=3, fsync=False) as cluster:
        admin = AIOKafkaAdminClient(bootstrap_servers=cluster.bootstrap)
        await admin.start()
        try:
            names = [f"t{number}" for number in range(6)]
            changes = [
                (cluster.resign,),
                (cluster.move_controller, 3002),
                (cluster.stop, 3002),
                (cluster.start, 3002),
                (cluster.fence, 2),
                (cluster.unfence, 2),
            ]
            for name, (change, *arguments) in zip(names, changes, strict=True):
                created = await admin.create_topics([NewTopic(name, 1, 1)])
                assert [error for _, error, _ in created.topic_errors] == [0]
                await asyncio.to_thread(change, *arguments)
            assert set(await admin.list_topics()) >= set(names)
            await asyncio.to_thread(cluster.move_leader, "t0", 0, await replica(admin, "t0"))
        finally:
            await admin.close()


async def replica(admin: AIOKafkaAdminClient, topic: str) -> int:
    (found,) = await admin.describe_topics([topic])
    return int(found["partitions"][0]["replicas"][0])
