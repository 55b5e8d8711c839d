"""A controller that is killed: what it recorded up to a second before is read."""

from __future__ import annotations

import contextlib
import time
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.dataset
import pytest

from bench.analysis.tails import Tails
from emulator.io.kafka_client import Connection
from emulator.servers.bridge import Bridge
from emulator.servers.ports import HOST
from tests.kit.requests import quota

pytestmark = pytest.mark.slow

CLUSTER_ID = "a2lsbGVkLWNvbnRyb2xsZQ"
LOAD_S = 3.0
LOST_S = 1.0


def answered_until_killed(bridge: Bridge) -> list[float]:
    """When each change was answered; the controller is killed right after the last one."""
    found: list[float] = []
    bridge.format(CLUSTER_ID).start()
    try:
        bridge.wait_started()
        with contextlib.closing(Connection(HOST, bridge.port, 30.0)) as client:
            begun = time.monotonic()
            while time.monotonic() - begun < LOAD_S:
                (entry,) = client.call(quota(float(len(found) + 1), "u")).entries
                assert not entry.error_code
                found.append(time.monotonic())
    finally:
        bridge.kill()
    return found


def read(trace: Path, streams: Path, table: str) -> list[dict[str, Any]]:
    """The rows of files and of streams, as Spark gets them."""
    Tails(str(trace), streams)
    found: list[dict[str, Any]] = []
    for folder in (trace / table, streams / table):
        if folder.exists():
            found += pa.dataset.dataset(folder, partitioning="hive").to_table().to_pylist()
    return found


def test_a_killed_controller_leaves_all_but_its_last_second(tmp_path: Path) -> None:
    trace, streams = tmp_path / "my trace", tmp_path / "streams"
    traced = {"kraftbridge.trace.dir": trace, "kraftbridge.trace.run.id": "r"}
    answers = answered_until_killed(Bridge(tmp_path, None, properties=traced))
    until = answers[-1] - LOST_S
    wanted = sum(at <= until for at in answers)
    assert wanted > 10
    changes = [row for row in read(trace, streams, "requests") if row["api"] == "AlterClientQuotas"]
    assert len(changes) >= wanted
    assert len(read(trace, streams, "runs")) == 1
    committed = [row for row in read(trace, streams, "ranges") if row["stage"] == "committed"]
    assert max(row["answered_ns"] for row in changes) / 1e9 >= until
    assert max(row["time_ns"] for row in committed) / 1e9 >= until
    assert not list(trace.rglob("_*.parquet"))
