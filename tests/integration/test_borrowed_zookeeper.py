"""A bench is killed while it works in a ZooKeeper that is not its own; the next one clears up."""

from __future__ import annotations

import subprocess
import sys

import pytest
from kazoo.client import KazooClient

from bench.runs.borrowed import borrowed, check
from bench.runs.leftovers import NAME
from emulator.servers import seeded
from emulator.servers.waiting import PATIENCE_S
from emulator.servers.zookeeper import ZooKeeper

pytestmark = [pytest.mark.jvm]

MULTIS = 2
"""Of the warm-up: what is written is removed znode by znode."""

ROW = """
import sys
from emulator.servers import seeded
from bench.runs.borrowed import borrowed
seeded._MULTIS = int(sys.argv[2])
with borrowed(sys.argv[1], "row", print):
    print("there", flush=True)
    sys.stdin.read()
"""


def started(hosts: str) -> subprocess.Popen[str]:
    """Another process that works in a chroot of its own."""
    child = subprocess.Popen(
        [sys.executable, "-c", ROW, hosts, str(MULTIS)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        bufsize=1,
    )
    assert child.stdout.readline() == "there\n"
    return child


def killed(child: subprocess.Popen[str]) -> None:
    """End it as kill -9 does."""
    with child:
        child.kill()


def test_what_a_killed_bench_left_is_removed_and_a_running_one_keeps_its_own(
    tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(seeded, "_MULTIS", MULTIS)
    with ZooKeeper(tmp_path_factory.mktemp("borrowed"), fsync=False) as zookeeper:
        hosts = zookeeper.hosts
        client = KazooClient(hosts, timeout=60)
        client.start(timeout=PATIENCE_S)

        def chroots() -> set[str]:
            return {name for name in client.get_children("/") if name.startswith(NAME)}

        client.create("/kafka", b"somebody's")
        first = started(hosts)
        (dead,) = chroots()
        running = started(hosts)
        (alive,) = chroots() - {dead}
        killed(first)
        assert chroots() == {dead, alive}, "it is not ephemeral"
        said: list[str] = []
        check(hosts, said.append)
        assert chroots() == {alive}
        assert [line for line in said if dead in line] == said
        with borrowed(hosts, "row", said.append) as mine:
            assert mine.hosts.rpartition("/")[2] in chroots()
            assert len(chroots()) == 2
        assert chroots() == {alive}
        assert len(client.get_children(f"/{alive}/warm-up")) > 1_000
        killed(running)
        check(hosts, said.append)
        assert chroots() == set()
        assert client.get("/kafka")[0] == b"somebody's"
        client.stop()
        client.close()
