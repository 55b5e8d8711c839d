"""A fault of Spark is told apart from one of the analysis, and both say how to try again."""

from __future__ import annotations

import io
import shlex
import socket
import sys
from types import SimpleNamespace

import pytest
from py4j.java_gateway import GatewayConnection, GatewayParameters
from py4j.protocol import Py4JError, Py4JNetworkError
from pyspark import serializers, util
from pyspark.errors import AnalysisException, PySparkRuntimeError

from bench.analysis.reach import SparkUnavailableError
from bench.analysis.read import TraceError
from bench.demo import analysis
from emulator.servers.java import JavaNotFoundError
from emulator.servers.process import ProcessError


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
        OSError(28, "No space left on device"),
        JavaNotFoundError("No Java 17 to 22 found"),
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
        ConnectionRefusedError(111, "Connection refused"),
    ],
)
def test_what_the_analysis_did_wrong(error):
    assert not analysis.is_of_spark(error)


def raised(work):
    """What it raises, as somebody catches it who knows more."""
    try:
        try:
            work()
        except Exception as error:
            raise TraceError("x") from error
    except TraceError as told:
        return told


def without_java():
    """py4j has lost its Java."""
    with socket.socket() as nobody:  # bound, and listens to nobody
        nobody.bind(("127.0.0.1", 0))
        made = GatewayConnection(GatewayParameters(port=nobody.getsockname()[1]))
        with made.socket:
            made.start()


def planted(kind):
    def reader(*_):
        raise kind("of a reader of our own")

    return reader


@pytest.mark.parametrize(
    ("work", "of_spark"),
    [
        (without_java, True),
        (lambda: serializers.read_int(io.BytesIO()), True),
        (planted(EOFError), False),
        (planted(MemoryError), False),
        (planted(ConnectionResetError), False),
        (lambda: socket.create_connection(("127.0.0.1", 0)), False),
        # Called back by Spark, as by a stream.
        (util.fail_on_stopiteration(planted(EOFError)), False),
    ],
)
def test_whose_an_error_is_that_anybody_may_raise(work, of_spark):
    assert analysis.is_of_spark(raised(work)) is of_spark
    assert not analysis.is_of_spark(KeyError("after it was dealt with"))
    hidden = raised(work)
    hidden.__cause__ = None
    assert not analysis.is_of_spark(hidden), "raised from None"


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
        stage = SimpleNamespace(options=SimpleNamespace(out=tmp_path), trace=trace)
        narrator = SimpleNamespace(checks=[], events=[], end=None, print_line=lambda _: None)
        launch = analysis.ServerProcess.launch
        monkeypatch.setattr(
            analysis.ServerProcess,
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
    trace, out = str(tmp_path / "trace of all"), str(tmp_path / "report")
    assert command == [".venv/bin/kraft-bridge", "analyze", trace, "--out", out]
    assert sorted(one.name for one in tmp_path.iterdir()) == ["spark.out", "trace of all"]


def test_another_spark_of_this_machine_is_not_used(child, monkeypatch):
    for name in ("SPARK_HOME", "SPARK_REMOTE", "PYSPARK_SUBMIT_ARGS", "HADOOP_CONF_DIR"):
        monkeypatch.setenv(name, "/opt/another")
    program = (
        "import os; raise SystemExit([n for n in os.environ if 'SPARK' in n or 'HADOOP' in n])"
    )
    with pytest.raises(ProcessError) as raised:
        child(program)
    assert "failed: ['SPARK_LOCAL_DIRS', 'SPARK_SUBMIT_OPTS'] (all" in str(raised.value)


def test_an_interrupt_leaves_no_child_and_no_scratch(child, tmp_path, monkeypatch):
    def interrupted(_seconds):
        raise KeyboardInterrupt

    monkeypatch.setattr(analysis, "time", SimpleNamespace(sleep=interrupted, monotonic=lambda: 0))
    with pytest.raises(KeyboardInterrupt):
        child("import signal; signal.pause()")
    assert not (tmp_path / "spark-scratch").exists()
