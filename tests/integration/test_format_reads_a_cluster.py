"""``format`` beside a real ZooKeeper and a real broker: what it reads of them is what they have."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from kazoo.client import KazooClient

from emulator.servers.kafka import KafkaBroker
from emulator.servers.zookeeper import ZooKeeper
from tests.unit.commands.running import PROPERTIES, run

RELEASE = "3.9.2"
BELOW = "3.5"
"""As of a broker that was upgraded, and whose inter.broker.protocol.version was not raised yet."""


@pytest.fixture(scope="module")
def broker(zookeeper: ZooKeeper, tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaBroker]:
    home = tmp_path_factory.mktemp("broker")
    ibp = {"inter.broker.protocol.version": BELOW}
    made = KafkaBroker(RELEASE, 1, home, zookeeper, broker_count=1, properties=ibp)
    with ExitStack() as stack:
        stack.callback(made.kill)
        yield made.start().wait_started()


def test_the_id_and_the_version_are_those_of_the_cluster(
    zookeeper: ZooKeeper, broker: KafkaBroker, zk_client: KazooClient, tmp_path: Path
) -> None:
    assert broker.exit_code is None
    file = tmp_path / "server.properties"
    file.write_text(
        f"{PROPERTIES}inter.broker.listener.name=INTERNAL\nlog.dirs={tmp_path}/data\n"
        f"zookeeper.connect={zookeeper.hosts}\nzookeeper.metadata.migration.enable=true\n"
    )
    theirs = json.loads(zk_client.get("/cluster/id")[0])["id"]
    for wrong in ("-t", "AAAAAAAAAAAAAAAAAAAAAA"), ("-r", "3.6"):
        code, _, err = run("format", "-c", file, *wrong)
        assert (code, f"{' '.join(wrong)}: " in err) == (2, True), err
    code, out, err = run("format", "-c", file)
    assert (code, err) == (0, "")
    assert out.splitlines()[1:3] == [
        f"cluster id {theirs}, read from /cluster/id of ZooKeeper at {zookeeper.hosts}",
        "metadata.version 3.5-IV2, the inter.broker.protocol.version of broker 1",
    ]
    assert f"cluster.id={theirs}\n" in (tmp_path / "data" / "meta.properties").read_text()
    code, out, err = run("format", "-c", file, "-g", "-t", theirs, "-r", "3.5")
    assert (code, err, "already formatted" in out) == (0, "", True)
