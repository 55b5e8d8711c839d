"""What ``analyze`` refuses before, or because, Spark does not start."""

from __future__ import annotations

import logging
import signal
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest
from py4j.protocol import Py4JError
from pyspark.errors import PySparkRuntimeError
from pyspark.sql import SparkSession

from bench.analysis import reach
from bench.analysis.session import interruptible
from bench.report import analyze
from emulator.servers import java
from tests.unit.commands.running import CLUSTER, run


@pytest.fixture
def no_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    def started(*_: object, **__: object) -> None:
        raise AssertionError("Spark was started")

    monkeypatch.setattr(analyze, "session", started)


@pytest.fixture
def no_java(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(java, "_candidates", lambda: iter(()))
    java.find_java.cache_clear()
    yield
    java.find_java.cache_clear()


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    (tmp_path / "trace" / "runs").mkdir(parents=True)
    return tmp_path / "trace"


@pytest.mark.usefixtures("no_spark")
def test_a_folder_that_is_not_there_or_no_trace_is_named_without_spark(tmp_path: Path) -> None:
    out = str(tmp_path / "out")
    code, _, complaint = run("analyze", str(tmp_path / "none"), "--out", out)
    assert (code, complaint) == (2, f"kraft-bridge: {tmp_path}/none: there is no such folder\n")
    (tmp_path / "file").touch()
    for place in (tmp_path, tmp_path / "file"):
        code, _, complaint = run("analyze", place, "--out", out)
        assert code == 2
        assert complaint.startswith(f"kraft-bridge: {place} is no trace (it has no folder runs)")
    assert not (tmp_path / "out").exists()


@pytest.mark.usefixtures("no_spark")
def test_a_trace_that_is_given_twice_is_refused(trace: Path, tmp_path: Path) -> None:
    code, _, complaint = run("analyze", trace, trace, "--out", tmp_path / "out")
    assert code == 2
    assert complaint.startswith(f"kraft-bridge: {trace} is given twice")


@pytest.mark.usefixtures("no_spark")
def test_a_report_that_cannot_be_written_is_refused_before_spark_is_started(
    trace: Path, tmp_path: Path
) -> None:
    """It was said after the whole analysis, with a number of Python's."""
    taken = tmp_path / "file"
    taken.touch()
    code, _, complaint = run("analyze", trace, "--out", taken)
    assert (code, complaint) == (1, f"kraft-bridge: {taken}: not a folder\n")


def test_an_interrupt_is_one_and_not_the_tracebacks_of_others(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """py4j logged one for each conversation with Java that was cut."""
    before = signal.getsignal(signal.SIGINT)
    theirs = compile("log('cut', exc_info=True)", "/x/py4j/java_gateway.py", "exec")

    def cut() -> None:
        exec(theirs, {"log": logging.error})
        logging.getLogger("py4j.clientserver").error("cut")
        logging.getLogger("mine").error("kept")
        signal.raise_signal(signal.SIGINT)

    with interruptible() as again:
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # as Spark puts its own there
        again()
        with pytest.raises(KeyboardInterrupt):
            cut()
    assert [one.getMessage() for one in caplog.records] == ["kept"]
    assert signal.getsignal(signal.SIGINT) is before


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
    def started(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr(analyze, "session", started)
    (tmp_path / "runs").mkdir()
    code, _, complaint = run("analyze", str(tmp_path), "--out", str(tmp_path / "out"))
    assert (code, complaint) == (1, f"kraft-bridge: Spark does not start: {says}\n")


@pytest.mark.parametrize("small", [True, False])
def test_small_traces_have_settings_of_their_own_and_those_given_win(
    trace: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, small: bool
) -> None:
    (trace / "runs" / "one.parquet").write_bytes(bytes(analyze.SMALL_BYTES + (not small)))
    (trace / "runs" / "one.log").write_bytes(bytes(analyze.SMALL_BYTES))
    seen: list[dict[str, str]] = []

    def started(*_: object, settings: dict[str, str]) -> None:
        seen.append(settings)
        raise PySparkRuntimeError("enough")

    monkeypatch.setattr(analyze, "session", started)
    given = ("--conf", "spark.sql.shuffle.partitions=7", "--conf", "spark.a=b=c d")
    run("analyze", trace, "--out", tmp_path / "out", *given)
    expected = {"spark.sql.shuffle.partitions": "7", "spark.a": "b=c d"}
    assert seen == [{**(analyze.SMALL if small else {}), **expected}]


@pytest.mark.usefixtures("no_spark")
@pytest.mark.parametrize("setting", ["spark.a", "a=b", "=b", ""])
def test_a_setting_that_is_none_of_spark_is_refused(
    trace: Path, tmp_path: Path, setting: str
) -> None:
    code, _, complaint = run("analyze", trace, "--out", tmp_path / "out", "--conf", setting)
    assert (code, complaint) == (2, f"kraft-bridge: --conf {setting!r}: spark.KEY=VALUE\n")


@pytest.mark.usefixtures("no_java")
@pytest.mark.parametrize(
    "arguments",
    [
        ("analyze", "TRACE", "--out", "OUT"),
        ("analyze", "TRACE", "--out", "OUT", "--follow"),
        ("analyze", "TRACE", "--out", "OUT", "--remote", "local[1]"),
        ("load", "--bootstrap-server", "127.0.0.1:1", "--rate", 1, "--spark-master", "local[1]"),
        (
            *("fleet", "--brokers", 2, "--controller", "127.0.0.1:1", "--cluster-id", CLUSTER),
            *("--spark-master", "local[2]"),
        ),
    ],
    ids=["analyze", "follow", "connect", "load", "fleet"],
)
def test_without_a_java_it_says_where_it_looked(
    trace: Path, tmp_path: Path, arguments: tuple[object, ...]
) -> None:
    places = {"TRACE": trace, "OUT": tmp_path / "out"}
    code, _, complaint = run(*(places.get(str(one), one) for one in arguments))
    said = (
        "kraft-bridge: No Java 17 to 22 found (no JAVA_HOME, no java on PATH); set JAVA_HOME, or "
        "install the extra 'java' of this package\n"
    )
    assert (code, complaint) == (1, said)


@pytest.mark.usefixtures("no_spark")
@pytest.mark.parametrize(
    "master",
    ["nonsense", "local[0]", "local[x]", "local[2", "http://x:1", "spark://", "two of them", ""],
)
def test_a_master_that_spark_does_not_know_is_refused(
    trace: Path, tmp_path: Path, master: str
) -> None:
    code, _, complaint = run("analyze", trace, "--out", tmp_path / "out", "--master", master)
    assert (code, complaint) == (
        2,
        f"kraft-bridge: --master {master!r}: local[2], local[*], spark://HOST:PORT, yarn, k8s://…\n",
    )


@pytest.mark.usefixtures("no_spark")
@pytest.mark.parametrize(
    ("more", "says"),
    [
        (("--remote", "spark://x:1"), "--remote 'spark://x:1': sc://HOST:15002, or local[2] to"),
        (("--remote", "sc://"), "--remote 'sc://': sc://HOST:15002, or local[2] to start one"),
        (
            ("--remote", "sc://x", "--master", "local[1]"),
            "--master and --remote exclude each other",
        ),
    ],
)
def test_a_remote_that_is_none_is_refused(
    trace: Path, tmp_path: Path, more: tuple[str, ...], says: str
) -> None:
    code, _, complaint = run("analyze", trace, "--out", tmp_path / "out", *more)
    assert code == 2
    assert complaint.startswith(f"kraft-bridge: {says}")


@pytest.fixture
def deaf() -> Iterator[int]:
    """A port where nobody listens, that nobody else gets."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        yield taken.getsockname()[1]


@pytest.fixture
def mute() -> Iterator[int]:
    """A port that takes connections and says nothing."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        yield silent.getsockname()[1]


@pytest.mark.parametrize("port", ["deaf", "mute"])
def test_a_connect_server_that_does_not_answer_is_said_soon(
    trace: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    request: pytest.FixtureRequest,
    port: str,
) -> None:
    monkeypatch.setattr(reach, "CONNECT_S", 0.5)
    address = f"sc://127.0.0.1:{request.getfixturevalue(port)}"
    remote = f"{address}/;token=secret;use_ssl=false"
    code, _, complaint = run("analyze", trace, "--out", tmp_path / "out", "--remote", remote)
    says = f"{address} cannot be reached: no Spark Connect server answers within 0.5 s"
    assert (code, complaint) == (1, f"kraft-bridge: {says}\n")


@pytest.mark.parametrize("remote", ["sc://x:port", "sc://x/path", "sc://x/;token"])
def test_a_connect_url_that_is_none_is_one_sentence(
    trace: Path, tmp_path: Path, remote: str
) -> None:
    code, _, complaint = run("analyze", trace, "--out", tmp_path / "out", "--remote", remote)
    assert code == 1
    assert complaint.startswith("kraft-bridge: no Spark Connect server has this URL: ")
    assert complaint.count("\n") == 1


@pytest.mark.parametrize(
    "remote", ["sc://x/;token=secret==", "sc:///;token=secret", "sc://x/;secret"]
)
def test_a_token_in_a_connect_url_that_is_none_is_not_shown(
    trace: Path, tmp_path: Path, remote: str
) -> None:
    """Spark quotes what it cannot read, such as a token in base64 with its end."""
    code, _, complaint = run("analyze", trace, "--out", tmp_path / "out", "--remote", remote)
    assert code in {1, 2}
    assert "sc://HOST" in complaint
    assert "secret" not in complaint


def test_a_master_that_does_not_listen_is_said_at_once(
    trace: Path, tmp_path: Path, deaf: int
) -> None:
    master = f"spark://127.0.0.1:{deaf}"
    code, _, complaint = run("analyze", trace, "--out", tmp_path / "out", "--master", master)
    assert code == 1
    assert complaint.startswith(f"kraft-bridge: {master} cannot be reached: ")
    assert "Connection refused" in complaint


@pytest.mark.jvm
def test_what_listens_and_is_no_master_is_asked_about(
    trace: Path, tmp_path: Path, mute: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(_: object) -> None:
        raise Py4JError(
            "An error occurred while calling None.x.\n: java.lang.IllegalStateException: Cannot "
            "call methods on a stopped SparkContext.\nThis stopped SparkContext was created at:"
        )

    monkeypatch.setattr(SparkSession.Builder, "getOrCreate", refused)
    master = f"spark://127.0.0.1:{mute}"
    code, _, complaint = run("analyze", trace, "--out", tmp_path / "out", "--master", master)
    says = f"kraft-bridge: {master} takes no application: is it a Spark master?\n"
    assert (code, complaint) == (1, says)


@pytest.mark.usefixtures("no_spark")
def test_a_trace_to_follow_that_is_not_there_is_named(tmp_path: Path) -> None:
    out = tmp_path / "out"
    code, _, complaint = run("analyze", tmp_path / "none", "--out", out, "--follow")
    assert (code, complaint) == (2, f"kraft-bridge: {tmp_path}/none: there is no such folder\n")
    (tmp_path / "rows.parquet").touch()
    code, _, complaint = run("analyze", tmp_path, "--out", out, "--follow")
    said = f"kraft-bridge: {tmp_path} is no trace (it has no folder runs)\n"
    assert (code, complaint) == (2, said)
    assert not out.exists()


@pytest.mark.parametrize(
    ("master", "tables", "kept", "shared"),
    [
        ("local[1]", "OUT/tables", "OUT/followed", None),
        ("spark://x:1", None, "OUT/followed", None),
        ("spark://x:1", "/shared/tables/", "/shared/tables/followed", None),
        ("spark://x:1", "s3a://b/tables", "OUT/followed", "s3a://b/tables/followed"),
    ],
)
def test_rows_that_are_followed_are_kept_where_all_workers_see_them(
    trace: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    *,
    master: str,
    tables: str | None,
    kept: str,
    shared: str | None,
) -> None:
    seen: list[object] = []

    def follower(_: object, *given: object) -> None:
        seen.extend(given)
        raise PySparkRuntimeError("enough")

    monkeypatch.setattr(analyze, "session", lambda *_, **__: None)
    monkeypatch.setattr(analyze, "_end", lambda _: None)
    monkeypatch.setattr(analyze, "Follower", follower)
    out = tmp_path / "out"
    named = None if tables is None else tables.replace("OUT", str(out))
    with pytest.raises(analyze.TraceUnreadableError, match="enough"):
        analyze.follow(trace, out, master, tables=named, on_state=lambda _: None)
    assert seen == [str(trace), kept.replace("OUT", str(out)), shared]
