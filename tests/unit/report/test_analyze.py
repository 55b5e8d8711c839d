"""What ``analyze`` refuses before, or because, Spark does not start."""

from __future__ import annotations

from pathlib import Path

import pytest
from py4j.protocol import Py4JError
from pyspark.errors import PySparkRuntimeError

from bench.report import analyze
from tests.unit.commands.running import run


@pytest.fixture
def no_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    def started(*_: object) -> None:
        raise AssertionError("Spark was started")

    monkeypatch.setattr(analyze, "session", started)


@pytest.mark.usefixtures("no_spark")
def test_a_folder_that_is_not_there_or_no_trace_is_named_without_spark(tmp_path: Path) -> None:
    out = str(tmp_path / "out")
    code, _, complaint = run("analyze", str(tmp_path / "none"), "--out", out)
    assert (code, complaint) == (1, f"kraft-bridge: {tmp_path}/none: there is no such folder\n")
    code, _, complaint = run("analyze", str(tmp_path), "--out", out)
    assert code == 1
    assert complaint.startswith(f"kraft-bridge: {tmp_path} is no trace (it has no folder runs)")
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("error", "says"),
    [
        (
            Py4JError(
                "An error occurred while calling None.x.\n"
                ": org.apache.spark.SparkException: Could not parse Master URL: 'foo'\n\tat x.Y"
            ),
            "org.apache.spark.SparkException: Could not parse Master URL: 'foo'",
        ),
        (PySparkRuntimeError("Java gateway exited\nmore"), "Java gateway exited"),
    ],
)
def test_a_spark_that_does_not_start_is_one_sentence(
    error: Exception, says: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def started(*_: object) -> None:
        raise error

    monkeypatch.setattr(analyze, "session", started)
    (tmp_path / "runs").mkdir()
    code, _, complaint = run("analyze", str(tmp_path), "--out", str(tmp_path / "out"))
    assert (code, complaint) == (1, f"kraft-bridge: Spark does not start: {says}\n")
