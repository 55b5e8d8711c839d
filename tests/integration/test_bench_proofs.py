"""What only a bench can show: rows of real servers, of the sizes and delays that a row asks for."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from bench.analysis.sweep.copies import copies
from emulator.cli import app

pytestmark = [pytest.mark.jvm, pytest.mark.slow]

COPIES = """
about = "First copies of three sizes."
kind = "copy"
targets = ["kraft-bridge"]
[warm_up]
topics = 0
[[case]]
name = "p1k"
topics_present = 10
partitions = 100
[[case]]
name = "p10k"
topics_present = 100
partitions = 100
[[case]]
name = "p30k"
topics_present = 300
partitions = 100
"""
BUNDLES = """
about = "Creations at a ZooKeeper 5 ms away: many operations in a multi, beside one."
kind = "create"
targets = ["kraft-bridge", "sequential"]
rate = 400
count = 16
partitions = 100
connections = 16
latency_ms = 5
drain_s = 120
[warm_up]
topics = 20
partitions = 10
[[case]]
name = "rtt5"
"""


class BenchRun:
    """Takes the rows of scenarios into one folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def __call__(self, name: str, text: str) -> list[dict[str, Any]]:
        path = self.folder / f"{name}.toml"
        path.write_text(text)
        given = ("run", path, "--repeat", 1, "--patience", 0, "--out", self.folder)
        said = CliRunner().invoke(app, ["bench", *map(str, given)])
        assert said.exit_code == 0, said.output
        return list(pq.read_table(self.folder / name / "rows.parquet").to_pylist())


@pytest.fixture(scope="module")
def bench_run(tmp_path_factory: pytest.TempPathFactory) -> BenchRun:
    return BenchRun(tmp_path_factory.mktemp("bench"))


@pytest.mark.requirement("P12")
def test_the_time_without_a_controller_grows_in_line_with_the_partitions(
    bench_run: BenchRun,
) -> None:
    """Three sizes are copied, and the line through them is reported: how steep it is, how straight.

    How straight it is on a quiet machine is what ``make bench`` shows: one row of each size on a
    machine that others use may be late by seconds.
    """
    rows = bench_run("copies", COPIES)
    assert [row["void"] for row in rows] == [""] * 3
    [fit] = copies(rows)
    assert [size for size, _ in fit.sizes] == [1_000, 10_000, 30_000]
    took = [took for _, took in fit.sizes]
    assert 0 < took[0] < took[-1]
    assert fit.each_us > 0
    line = [fit.fixed_s + fit.each_us * size / 1e6 for size, _ in fit.sizes]
    off = [seconds - at for at, seconds in zip(line, took, strict=True)]
    share = [abs(one) / seconds for one, seconds in zip(off, took, strict=True)]
    assert fit.off == pytest.approx(max(share), abs=1e-6)
    around = [seconds - sum(took) / 3 for seconds in took]
    unexplained = sum(one**2 for one in off) / sum(one**2 for one in around)
    assert fit.r_squared == pytest.approx(1 - unexplained, abs=1e-6)


@pytest.mark.requirement("W06")
def test_writes_are_bundled_and_pipelined(bench_run: BenchRun) -> None:
    """5 ms of round trip: what one operation at a time needs, and what multis in flight need."""
    rows = {row["target"]: row for row in bench_run("bundles", BUNDLES)}
    ours, single = rows["kraft-bridge"], rows["sequential"]
    written = 16 * (3 + 2 * 100)
    for row in (ours, single):
        assert (row["answered"], row["refused"], row["void"]) == (16, 0, "")
        assert row["znodes"] == written
    # One operation a round trip, one after the other.
    assert single["zk_transactions"] >= written
    assert single["zk_s"] >= written * 0.005
    # Bundled: many operations a round trip; pipelined: several multis on their way at once.
    assert written / ours["zk_transactions"] >= 20
    folder = bench_run.folder / "bundles" / "trace"
    together = {row["target"]: in_flight(folder, row["run_id"]) for row in rows.values()}
    assert together["sequential"] == 1
    assert together["kraft-bridge"] >= 2
    assert ours["zk_changes_per_s"] >= 4 * single["zk_changes_per_s"]


def in_flight(trace: Path, run_id: str) -> int:
    """The most multis that were on their way at one time."""
    rows = [
        row for row in pq.read_table(trace / "multis").to_pylist() if str(row["run_id"]) == run_id
    ]
    steps = [(row["sent_ns"], 1) for row in rows] + [(row["answered_ns"], -1) for row in rows]
    most = now = 0
    for _, step in sorted(steps):
        now += step
        most = max(most, now)
    return most
