"""What only observes a node: when it fails, it ends alone, and that is said."""

from __future__ import annotations

import logging
import os
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Mapping
from itertools import count
from pathlib import Path

import pytest

from emulator.config.load import load
from emulator.io import process, trace_file
from emulator.io.clock import Clock
from emulator.io.trace_recording import NodeTrace, cpu_rows
from emulator.node import introspection
from emulator.seam import Log
from emulator.servers.waiting import wait_for
from emulator.testing import Cluster
from emulator.trace import metrics as metric
from emulator.trace.rows import CpuGauge
from tests.kit.requests import quota

PROPERTIES = {
    "process.roles": "controller",
    "node.id": "3000",
    "controller.quorum.voters": "3000@h:9093",
    "listeners": "CONTROLLER://h:9093",
    "controller.listener.names": "CONTROLLER",
    "listener.security.protocol.map": "CONTROLLER:PLAINTEXT",
    "log.dirs": "logs",
}


def of(folder: str, said: list[Log]) -> NodeTrace:
    config, _ = load(PROPERTIES | ({"kraftbridge.trace.dir": folder} if folder else {}))
    return NodeTrace(config, Clock(), said.append)


def gauges() -> Mapping[str, float]:
    return {"kraft_bridge_loop_stalls": 1.0}


def no_gauges() -> Mapping[str, float]:
    raise ZeroDivisionError("a fault of this program")


def changes(cluster: Cluster) -> bool:
    """Whether a change is carried out."""
    answer = cluster.request(quota(1.0, "u"))
    return [one.error_code for one in answer.entries] == [0]


def looked(trace: NodeTrace, said: list[Log]) -> None:
    """Look, as if once a second, until something is said; then three times more."""
    seconds = count(1)

    def look() -> bool:
        trace.sample(next(seconds) * 1_000_000_000, None, gauges)
        return bool(said)

    wait_for("the end of the trace", look)
    for _ in range(3):
        look()


def test_without_a_folder_there_is_none() -> None:
    said: list[Log] = []
    trace = of("", said)
    trace.sample(1, None, no_gauges)
    trace.close()
    assert (trace.status, dict(trace.metrics), said) == (None, {metric.TRACE_ROWS: {}}, [])


def test_a_whole_one_says_nothing(tmp_path: Path) -> None:
    said: list[Log] = []
    trace = of(str(tmp_path), said)
    trace.sample(1, None, gauges)
    trace.close()
    assert trace.status == {"folder": str(tmp_path), "ended_because": "", "missing_s": 0}
    assert trace.metrics[metric.TRACE_MISSING_S] == 0
    assert trace.metrics[metric.TRACE_DELETED_BYTES] == 0
    assert trace._file._writer._target.limits.total_bytes == 1 << 30
    assert said == []


@pytest.mark.parametrize("fault", ["its folder", "pyarrow", "a gauge"])
def test_one_that_cannot_be_written_is_said_once_and_at_the_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fault: str
) -> None:
    said: list[Log] = []
    (tmp_path / "trace").write_text("no folder")
    folder = tmp_path / ("trace" if fault == "its folder" else "other")
    if fault == "pyarrow":
        monkeypatch.setitem(sys.modules, "pyarrow", None)
    trace = of(str(folder), said)
    if fault == "a gauge":
        trace.sample(1, None, no_gauges)
    looked(trace, said)
    (one,) = said
    assert (one.level, one.event) == ("error", "the trace has ended")
    status = trace.status
    assert status["ended_because"] == one.fields["why"] != ""
    assert status["missing_s"] >= 1
    assert float(str(trace.metrics[metric.TRACE_MISSING_S])) > 0
    trace.close()
    assert [each.event for each in said[1:]] == ["the trace is not whole"]


def test_one_that_can_be_written_again_is_said_once_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trace_file, "_AGAIN_S", 0.0)
    said: list[Log] = []
    folder = tmp_path / "trace"
    folder.write_text("no folder")
    trace = of(str(folder), said)
    looked(trace, said)
    assert "so does the trace" in str(said.pop().fields["remedy"])
    wait_for("a row that is missing", lambda: trace.metrics[metric.TRACE_MISSING_ROWS] != 0)
    folder.unlink()
    looked(trace, said)
    trace.close()
    (one,) = said
    assert (one.level, one.event) == ("info", "the trace goes on")
    assert int(str(one.fields["missing_s"])) >= 0
    assert one.fields["missing_rows"] == trace.metrics[metric.TRACE_MISSING_ROWS] > 0
    assert trace.status["ended_because"] == ""


def test_a_controller_goes_on_when_its_trace_cannot_be_written(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "trace").write_text("no folder")
    properties = {
        "kraftbridge.trace.dir": str(tmp_path / "trace"),
        "kraftbridge.metrics.port": "0",
    }
    with caplog.at_level(logging.ERROR), Cluster(properties=properties) as cluster:
        wait_for("the end of the trace", lambda: "the trace has ended" in caplog.text)
        trace = cluster.status()["trace"]
        assert trace["ended_because"].endswith("Not a directory")
        assert changes(cluster)
        with urllib.request.urlopen(f"{cluster.http()}/metrics") as page:
            assert b"kraft_bridge_trace_missing_seconds 0.0" not in page.read()


def test_a_controller_goes_on_when_its_pages_cannot_be_made(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(*_: object) -> None:
        raise ZeroDivisionError("a fault of this program")

    with Cluster(properties={"kraftbridge.metrics.port": "0"}) as cluster:
        url = cluster.http()
        with monkeypatch.context() as patched:
            for name, path in (("metrics", "metrics"), ("status", "status")):
                patched.setattr(introspection, name, broken)
                for _ in range(3):
                    with pytest.raises(urllib.error.HTTPError, match="500"):
                        urllib.request.urlopen(f"{url}/{path}")
        # The cluster itself looks at the status, to find the controller that leads.
        assert changes(cluster)
    assert caplog.text.count("a page cannot be made") == 2


def test_what_finds_the_gauges_is_part_of_what_only_observes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object) -> None:
        raise ZeroDivisionError("a fault of this program")

    monkeypatch.setattr(process.introspection, "gauges", broken)
    with Cluster(properties={"kraftbridge.trace.dir": str(tmp_path)}) as cluster:
        wait_for(
            "the end of the trace",
            lambda: "ZeroDivisionError" in cluster.status()["trace"]["ended_because"],
        )
        assert changes(cluster)


def test_the_cpu_of_the_process_its_loop_and_the_machine_is_in_the_trace() -> None:
    """So that a report can say what was full; what cannot be read is left out."""
    before = {row.gauge: row.value for row in cpu_rows(1)}
    while time.process_time() < before[CpuGauge.PROCESS] + 0.2:
        pass
    after = {row.gauge: row.value for row in cpu_rows(2)}
    used = {gauge: after[gauge] - before[gauge] for gauge in after}
    assert {*used} == {*CpuGauge}
    assert 0.1 < used[CpuGauge.EVENT_LOOP] <= used[CpuGauge.PROCESS] + 0.01
    assert used[CpuGauge.MACHINE] >= used[CpuGauge.PROCESS] - 0.05  # it counts ticks of 10 ms
    assert after[CpuGauge.MACHINE_CORES] == len(os.sched_getaffinity(0))
