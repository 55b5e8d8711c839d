"""``kraft-bridge predict`` probes a real ZooKeeper: at its pace, in its place; nothing is left."""

from __future__ import annotations

import itertools
import json
import re
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field

import pytest
from kazoo.client import KazooClient
from typer.testing import CliRunner

from bench.predict import probe
from emulator.cli import app
from emulator.servers.fault_proxy import FaultProxy
from emulator.servers.waiting import wait_for
from emulator.servers.zookeeper import ZooKeeper

CHROOT = "/clusters/two"
PLACE = f"{CHROOT}{probe.FOLDER}"
END_OF_SESSION = -11


@dataclass
class Seen:
    """The requests of one client as a proxy saw them pass, and how long each took."""

    begins_s: dict[int, float] = field(default_factory=dict)
    ends_s: dict[int, float] = field(default_factory=dict)
    frames: list[bytes] = field(default_factory=list)

    def asked(self, frame: bytes) -> None:
        number, code = _head(frame)
        if number > 0 and code != END_OF_SESSION:
            self.begins_s[number] = time.monotonic()
            self.frames.append(frame)

    def answered(self, request: bytes, _: bytes) -> None:
        self.ends_s[_head(request)[0]] = time.monotonic()

    @property
    def spans(self) -> list[tuple[float, float]]:
        return [(begin, self.ends_s[number]) for number, begin in self.begins_s.items()]


def _head(frame: bytes) -> tuple[int, int]:
    return int.from_bytes(frame[:4], signed=True), int.from_bytes(frame[4:8], signed=True)


def line(hosts: str) -> list[str]:
    where = ("--zookeeper", f"{hosts}{CHROOT}")
    return ["predict", *where, "--rate", "40", "--stall", "5", "--yes", "--json"]


def killed_midway(zookeeper: ZooKeeper, client: KazooClient) -> int:
    """How many znodes a probe leaves that is killed between two requests or in one."""
    child = subprocess.Popen(
        [sys.executable, "-m", "emulator.cli", *line(zookeeper.hosts)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
    )
    try:
        wait_for(
            "a probe at work",
            lambda: child.poll() is not None or client.exists(f"{PLACE}/z-009") is not None,
        )
    finally:
        child.kill()
        _, error = child.communicate()
    assert child.returncode == -9, error
    return len([one for one in client.get_children(PLACE) if one != "running"]) + 1


@pytest.mark.slow
def test_a_probe_keeps_its_pace_and_leaves_nothing_even_of_one_that_was_killed(
    zookeeper: ZooKeeper, zk_client: KazooClient, fault_proxy: Callable[[int], FaultProxy]
) -> None:
    zk_client.ensure_path(CHROOT)
    left = killed_midway(zookeeper, zk_client)
    assert left >= 11
    proxy, seen = fault_proxy(zookeeper.port), Seen()
    proxy.watch, proxy.watch_replies = seen.asked, seen.answered
    run = CliRunner().invoke(app, line(f"127.0.0.1:{proxy.port}"))
    assert run.exit_code == 0, run.stderr
    assert zk_client.get_children(CHROOT) == []
    found = json.loads(run.stdout)["probe"]
    assert found["left_by_another"] == left
    written = [frame.count(probe.DATA) for frame in seen.frames]
    # The mark of a probe that runs is one more; the folder was the other's.
    assert found["znodes_written"] == sum(written) + 1
    names = {name for frame in seen.frames for name in re.findall(rb"/z-\d+", frame)}
    assert found["znodes_removed"] == len(names) + 1
    # One request at a time, each followed by nineteen times as long without one.
    for one, after in itertools.pairwise(seen.spans):
        assert one[0] <= one[1] <= after[0]
        assert min(one[1] - one[0], probe.STALL_S) <= probe.SHARE * (after[0] - one[0])
    begins = [span[0] for span, count in zip(seen.spans, written, strict=True) if count == 1][
        : probe.SAMPLES
    ]
    gaps = [after - one for one, after in itertools.pairwise(begins)]
    assert sum(gaps) >= (len(begins) - 1) / probe.FIRST_PER_S - 0.05
    assert found["share_percent"] <= 100 * probe.SHARE
