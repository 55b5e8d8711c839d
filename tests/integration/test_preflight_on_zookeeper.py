"""The preflight on a live ensemble: the same findings as on its dump, and nothing written."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from kazoo.client import KazooClient
from kazoo.security import make_digest_acl
from typer.testing import CliRunner

from emulator.cli import app
from emulator.servers.waiting import PATIENCE_S
from emulator.servers.zookeeper import ZooKeeper
from tests import data

CHROOT = "/clusters/one"


@pytest.fixture(scope="module")
def filled(zookeeper: ZooKeeper) -> Iterator[KazooClient]:
    """A recorded cluster's tree below a chroot."""
    client = KazooClient(hosts=zookeeper.hosts, timeout=60)
    client.start(timeout=PATIENCE_S)
    client.ensure_path(CHROOT)
    nodes = data.tree("3.9.2-full", "0-before")["nodes"]
    for path in sorted(nodes):
        node = nodes[path]
        value = node.get("text", "").encode() or base64.b64decode(node.get("b64", ""))
        client.create(f"{CHROOT}{path}", None if node.get("null") else value)
    try:
        yield client
    finally:
        client.stop()
        client.close()


def mzxids(client: KazooClient, path: str = CHROOT) -> dict[str, int]:
    found = {path: client.exists(path).mzxid}
    for name in client.get_children(path):
        found |= mzxids(client, f"{path}/{name}")
    return found


def test_a_live_tree_is_looked_at_and_left_alone(zookeeper: ZooKeeper, filled: KazooClient) -> None:
    before = mzxids(filled)
    run = CliRunner().invoke(
        app, ["preflight", "--zookeeper", f"{zookeeper.hosts}{CHROOT}", "--json"]
    )
    assert run.exit_code == 3, run.stderr
    found = json.loads(run.stdout)
    assert found["counts"]["blocker"] == 0
    facts = {one["code"]: one["fact"] for one in found["findings"]}
    assert facts["PF-I01"].startswith("151 znodes: 6 topics, 18 partitions, ")
    assert facts["PF-I02"].startswith("round trips: ")
    assert "PF-I02" not in {one["code"] for one in found["not_run"]}
    assert mzxids(filled) == before


@pytest.mark.usefixtures("filled")
def test_a_forgotten_chroot_is_named(zookeeper: ZooKeeper) -> None:
    run = CliRunner().invoke(app, ["preflight", "--zookeeper", zookeeper.hosts, "--json"])
    assert run.exit_code == 1
    found = {(one["code"], one["znode"]) for one in json.loads(run.stdout)["findings"]}
    assert {("PF-B04", "/cluster/id"), ("PF-W10", CHROOT)} <= found


@pytest.mark.filterwarnings("ignore:No chroot path exists")
@pytest.mark.parametrize(("verb", "code"), [(("preflight",), 3), (("zk", "dump"), 3)])
def test_a_chroot_that_is_not_there_is_named(
    zookeeper: ZooKeeper, verb: tuple[str, ...], code: int
) -> None:
    run = CliRunner().invoke(app, [*verb, "--zookeeper", f"{zookeeper.hosts}/no/such"])
    assert run.exit_code == code
    assert run.stderr.endswith(
        f"ZooKeeper at {zookeeper.hosts}/no/such: there is no chroot /no/such\n"
    )


def test_znodes_that_are_closed_are_named_and_the_rest_is_judged(
    zookeeper: ZooKeeper, filled: KazooClient, tmp_path: Path
) -> None:
    """/config/users is open to one digest only: to nobody, to another, to the right one."""
    before, _ = filled.get_acls(f"{CHROOT}/config/users")
    owner = make_digest_acl("kafka", "secret", all=True)
    filled.set_acls(f"{CHROOT}/config/users", [owner])
    try:
        given = ["preflight", "--json", "--zookeeper", f"{zookeeper.hosts}{CHROOT}"]
        nobody = CliRunner().invoke(app, given)
        told = json.loads(nobody.stdout)
        assert any(
            one["code"] == "PF-B07" and one["why"].startswith("/config/users may not be read")
            for one in told["not_run"]
        )
        assert told["counts"]["blocker"] == 0, "nothing is known of the controllers' login"
        dumped = CliRunner().invoke(app, ["zk", "dump", "--zookeeper", given[-1]])
        assert dumped.exit_code == 3
        assert "/config/users may not be read with this login (NoAuth)" in dumped.stderr
        for password, blocked in (("wrong", True), ("secret", False)):
            file = tmp_path / f"{password}.properties"
            file.write_text(
                "process.roles=controller\nnode.id=3000\n"
                f"kraftbridge.zookeeper.digest=kafka:{password}\n"
            )
            found = json.loads(CliRunner().invoke(app, [*given, "-c", str(file)]).stdout)
            places = [one["znode"] for one in found["findings"] if one["code"] == "PF-B07"]
            assert places == (["/config/users"] if blocked else [])
    finally:
        filled.add_auth("digest", "kafka:secret")
        filled.set_acls(f"{CHROOT}/config/users", before)
