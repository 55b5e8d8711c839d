"""Folders restored from a backup and clones of a disk, as processes on a real ZooKeeper."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from emulator.servers.bridge import Bridge
from emulator.servers.zookeeper import ZooKeeper
from tests.integration.node_stage import NODE_ID, Stage, staged

pytestmark = [pytest.mark.jvm, pytest.mark.slow]

CLAIMS = "kraft_bridge_zk_claims_total"


@pytest.fixture
def stage(make_zookeeper: Callable[..., ZooKeeper], tmp_path: Path) -> Iterator[Stage]:
    with staged(make_zookeeper(), tmp_path / "original") as made:
        yield made


@pytest.fixture
def copy(stage: Stage, tmp_path: Path) -> Iterator[Bridge]:
    """Another process on a copy of the folder, which the test takes."""
    other = Bridge(tmp_path / "copy", stage.zookeeper.hosts)
    try:
        yield other
    finally:
        other.kill()


def copied(stage: Stage, other: Bridge) -> None:
    shutil.copytree(stage.bridge.data, other.data, dirs_exist_ok=True)


def refusal(status: dict[str, Any]) -> dict[str, Any] | None:
    for each in status["migration"]["waiting"]:
        if each["why"] in ("controller_held", "other_log"):
            return dict(each)
    return None


def refused(other: Bridge) -> dict[str, Any]:
    found = refusal(other.wait_status("a refusal", lambda status: refusal(status) is not None))
    assert "start the controller with the folder that was used last" in found["text"]
    return found


def test_a_restored_folder_deletes_nothing_however_often_it_is_started(
    stage: Stage, copy: Bridge
) -> None:
    """The backup is taken while the controller writes, and one start is missing in it."""
    stage.create(stage.name())
    copied(stage, copy)
    stage.bridge.kill()
    stage.bridge.start().wait_dual_write()
    acknowledged = stage.name("acknowledged")
    stage.create(acknowledged)
    stage.settle()
    stage.bridge.kill()
    before = stage.tree()
    found = []
    for _ in range(3):
        copy.start()
        found.append(refused(copy)["why"])
        copy.kill()
    assert found == ["controller_held", "other_log", "other_log"]
    assert stage.tree() == before
    stage.bridge.start().wait_dual_write()
    assert acknowledged in stage.topics()
    assert stage.disagreements() == []


@pytest.mark.requirement("E09", "W05")
def test_of_two_clones_started_at_once_one_writes(stage: Stage, copy: Bridge) -> None:
    stage.create(stage.name())
    stage.settle()
    stage.bridge.kill()
    copied(stage, copy)
    epoch = int(stage.client.get("/controller_epoch")[0])
    both = (stage.bridge, copy)
    for bridge in both:
        bridge.start()

    def decided() -> list[str]:
        found = []
        for bridge in both:
            status = bridge.status() or {"migration": {"driver_state": "", "waiting": []}}
            if status["migration"]["driver_state"] == "DUAL_WRITE":
                found.append("writes")
            elif refusal(status) is not None:
                found.append("refused")
        return found

    stage.bridge.wait_until("a decision", lambda: len(decided()) == 2)
    assert sorted(decided()) == ["refused", "writes"]
    loser = both[decided().index("refused")]
    found = refused(loser)
    assert found["why"] == "controller_held"
    assert f"controller {NODE_ID} in epoch" in found["text"]
    assert "another process with our id" in found["text"]
    assert int(stage.client.get("/controller_epoch")[0]) == epoch + 1
    page = loser.wait_page("/metrics")
    assert f"{CLAIMS} 0" in page
