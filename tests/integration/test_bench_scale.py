"""A large cluster in small: every phase of a row of kind scale, without Java."""

from __future__ import annotations

import sys
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from emulator.cli import app
from emulator.servers.ports import HOST, free_port, is_open
from emulator.servers.process import ServerProcess

pytestmark = pytest.mark.slow

SMALL = """
about = "Small."
kind = "scale"
targets = ["kraft-bridge"]
rate = 25
count = 50
connections = 4
[[case]]
name = "b5-p40"
brokers = 5
topics_present = 4
partitions = 10
"""


def test_a_row_has_every_phase(tmp_path: Path) -> None:
    port = free_port()
    zookeeper = ServerProcess("zookeeper", tmp_path / "zookeeper")
    try:
        zookeeper.launch([sys.executable, "-m", "bench.zookeeper_model", str(port)])
        zookeeper.wait_until("its port", lambda: is_open(port))
        path = tmp_path / "small.toml"
        path.write_text(SMALL)
        out = tmp_path / "out"
        arguments = ["--repeat", "1", "--out", str(out), "--zookeeper", f"{HOST}:{port}"]
        said = CliRunner().invoke(app, ["bench", "run", str(path), *arguments])
    finally:
        zookeeper.kill()
    assert said.exit_code == 0, said.output
    [row] = pq.read_table(out / "small" / "rows.parquet").to_pylist()
    assert (row["void"], row["brokers"], row["answered"], row["refused"]) == ("", 5, 50, 0)
    assert row["heartbeats"] > 0
    assert row["snapshots"] > 0
    assert row["death_s"] >= 5, "a broker's session has to end"
    for phase in ("copy_s", "change_cpu_us", "failover_s", "listening_s", "first_in_zk_s"):
        assert row[phase] > 0, phase
    for name in ("copy_step_ms", "death_step_ms", "failover_step_ms", "longest_step_ms"):
        assert row[name] > 0, name
    for name in ("empty_rss_mib", "copy_rss_mib", "failover_rss_mib", "controller_rss_mib"):
        assert row[name] > 10, name
    assert "| start to listening, s |" in said.output
