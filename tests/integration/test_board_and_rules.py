"""What the board and the alert rules name is in the live ``/metrics`` of a migration.

Our controller as a process, a fleet of brokers in ZooKeeper mode, and the simulator's ZooKeeper.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Self, cast

import pytest

from emulator.servers.ports import HOST, free_port, is_open
from emulator.servers.process import ServerProcess
from tests.integration.node_stage import staged
from tools.alerts import forward, register
from tools.board import expressions, missing
from wire.errors import ErrorCode

# One process for all: its cluster is started once.
pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("board")]


class ModelOfZooKeeper(ServerProcess):
    """The simulator's, empty, behind a port."""

    def __init__(self, folder: Path) -> None:
        super().__init__("zookeeper", folder)
        self.port = free_port()
        self.hosts = f"{HOST}:{self.port}"

    def __enter__(self) -> Self:
        command = [sys.executable, "-m", "bench.zookeeper_model", str(self.port), "--empty"]
        self.launch(command).wait_until("its port", lambda: is_open(self.port))
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """In dual write, after a request that a broker forwarded, and a broker that was refused."""
    folder = tmp_path_factory.mktemp("board")
    with (
        ModelOfZooKeeper(folder) as zookeeper,
        staged(cast("Any", zookeeper), folder) as stage,
    ):
        forward(stage)
        refused = register(stage, "b3RoZXItY2x1c3Rlci1pZA", free_port())
        assert refused.error_code == ErrorCode.INCONSISTENT_CLUSTER_ID
        stage.settle()
        yield stage.bridge.wait_page("/metrics")


def test_each_metric_and_label_is_in_a_live_page(page: str) -> None:
    assert missing(expressions(), [page]) == []


@pytest.mark.parametrize(
    ("old", "new", "who"),
    [
        ("zk_write_behind_counted_records", "zk_behind_records", "KraftBridgeLagNearBound"),
        ("kraft_bridge_log_sync_ms_bucket", "kraft_bridge_sync_ms", "KraftBridgeLogSyncSlow"),
        ('why="no_session"', 'why="nothing"', "KraftBridgeZooKeeperLost"),
        ('forwarded="', 'passed_on="', "What do brokers forward, and does it fail?"),
    ],
)
def test_what_is_renamed_is_missed(page: str, old: str, new: str, who: str) -> None:
    found = missing(expressions(), [page.replace(old, new)])
    assert any(one.startswith(f"{who}: ") for one in found)
