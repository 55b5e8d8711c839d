"""A fault of Spark is told apart from one of the analysis, and both say how to try again."""

from __future__ import annotations

import shlex
import sys
from types import SimpleNamespace

import pytest
from py4j.protocol import Py4JError, Py4JNetworkError
from pyspark.errors import AnalysisException, PySparkRuntimeError

from bench.analysis.reach import SparkUnavailableError
from bench.analysis.read import TraceError
from bench.demo import analysis
from bench.rig.process import ProcessError


def caused(error, cause):
    """An error as ``raise error from cause`` leaves it."""
    error.__cause__ = cause
    return error


@pytest.mark.parametrize(
    "error",
    [
        SparkUnavailableError("Spark does not start: [JAVA_GATEWAY_EXITED]"),
        caused(TraceError("Answer from Java side is empty"), Py4JNetworkError("Answer is empty")),
        caused(TraceError("x"), Py4JError("java.lang.OutOfMemoryError: Java heap space")),
        caused(
            TraceError("x"), PySparkRuntimeError("java.io.IOException: No space left on device")
        ),
        caused(TraceError("x"), ConnectionRefusedError(111, "Connection refused")),
        OSError(28, "No space left on device"),
        MemoryError(),
    ],
)
def test_what_spark_did_not_do(error):
    assert analysis.is_of_spark(error)


@pytest.mark.parametrize(
    "error",
    [
        KeyError("surprise"),
        TraceError("there is no row in this trace"),
        caused(TraceError("x"), AnalysisException("cannot resolve column lag")),
        caused(TraceError("x"), Py4JError("java.lang.ArithmeticException: / by zero")),
        FileNotFoundError(2, "No such file or directory", "report"),
    ],
)
def test_what_the_analysis_did_wrong(error):
    assert not analysis.is_of_spark(error)


@pytest.mark.parametrize(
    ("code", "printed", "kind", "text"),
    [
        (3, "INFO\nSpark does not start\n", analysis.SparkFailedError, "Spark does not start"),
        (-9, "", analysis.SparkFailedError, "SIGKILL"),
        (None, "", analysis.SparkFailedError, "within 15 minutes"),
        (1, "Traceback\n  at\n'surprise' (KeyError)\n", ProcessError, "'surprise' (KeyError)"),
        (1, "", ProcessError, "ended with 1"),
    ],
)
def test_the_end_of_the_child_is_one_sentence(code, printed, kind, text):
    found = analysis.fault(code, printed)
    assert type(found) is kind
    assert text in str(found)
    assert "\n" not in str(found)


def test_an_end_in_order_is_no_fault():
    assert analysis.fault(0, "warnings\n") is None


@pytest.fixture
def child(monkeypatch, tmp_path):
    """Run step 5 with another child than Spark's."""

    def run(program):
        trace = tmp_path / "trace of all"
        (trace / "runs").mkdir(parents=True)
        stage = SimpleNamespace(
            options=SimpleNamespace(out=tmp_path),
            trace=trace,
            controllers=SimpleNamespace(leader=1, nodes={1: SimpleNamespace(pid=7)}),
        )
        narrator = SimpleNamespace(checks=[], say=lambda _: None)
        launch = analysis.Process.launch
        monkeypatch.setattr(
            analysis.Process,
            "launch",
            lambda self, _, kept: launch(self, [sys.executable, "-c", program], kept),
        )
        monkeypatch.setattr(sys, "argv", [".venv/bin/kraft-bridge", "demo"])
        analysis.analyse(stage, narrator)

    return run


@pytest.mark.parametrize(
    ("program", "kind"),
    [
        ("import os; os.kill(os.getpid(), 9)", analysis.SparkFailedError),
        ("import tempfile, sys; tempfile.mkdtemp(); sys.exit('it is 7')", ProcessError),
    ],
)
def test_the_command_that_analyses_is_printed_and_no_scratch_is_left(
    child, tmp_path, program, kind
):
    with pytest.raises(kind) as raised:
        child(program)
    assert type(raised.value) is kind
    command = shlex.split(str(raised.value).rpartition("to try again: ")[2])
    trace, out = str(tmp_path / "trace-of-leader"), str(tmp_path / "report")
    assert command == [".venv/bin/kraft-bridge", "analyze", trace, "--out", out]
    assert sorted(one.name for one in tmp_path.iterdir()) == [
        "report",
        "spark.out",
        "trace of all",
    ]


def test_an_interrupt_leaves_no_child_and_no_scratch(child, tmp_path, monkeypatch):
    def interrupted(_seconds):
        raise KeyboardInterrupt

    monkeypatch.setattr(analysis, "time", SimpleNamespace(sleep=interrupted, monotonic=lambda: 0))
    with pytest.raises(KeyboardInterrupt):
        child("import signal; signal.pause()")
    assert not (tmp_path / "spark-scratch").exists()
