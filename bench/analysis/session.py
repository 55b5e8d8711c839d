"""The Spark session: local by default, a cluster or a Connect server when asked."""

from __future__ import annotations

import contextlib
import logging
import os
import shlex
import signal
import subprocess
import sys
import threading
import warnings
from collections.abc import Callable, Iterator, Mapping
from importlib import resources
from pathlib import Path
from typing import Final

from py4j.protocol import Py4JError
from pyspark import SparkContext
from pyspark.sql import SparkSession

from bench.analysis.reach import SparkUnavailableError, check_master, check_remote
from emulator.servers.java import QUICK_START, find_java, spark_java_home
from emulator.servers.own_folder import private_folder

_QUIET = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.session.timeZone": "UTC",
    # Who asks for a column is looked up in Java four times for each one; errors name it anyway.
    "spark.python.sql.dataFrameDebugging.enabled": "false",
    # The text of each plan, which nobody sees.
    "spark.sql.ui.explainMode": "simple",
}
_PLANS = {
    # Tables are joined with aggregates of themselves: all runs are in both, nothing can be pruned.
    "spark.sql.optimizer.dynamicPartitionPruning.enabled": "false",
}
_LOCAL = {
    # Small ones are put together again by adaptive execution.
    "spark.sql.shuffle.partitions": "16",
    "spark.default.parallelism": "4",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
}

SMALL: Final = {
    # Of a few thousand rows a query takes longer to be compiled than to be interpreted, and each
    # of its stages and tasks longer to start than to run.
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.shuffle.partitions": "1",
    "spark.sql.files.minPartitionNum": "1",
    "spark.sql.files.openCostInBytes": "0",
}
"""Settings for traces of at most ``SMALL_BYTES``."""
SMALL_BYTES: Final = 4 * 2**20

_JAVA_OPTIONS: Final = "spark.driver.extraJavaOptions"
_OWNERS = (
    (SparkContext, ("_gateway", "_jvm", "_active_spark_context")),
    (SparkSession, ("_instantiatedSession", "_activeSession")),
)
"""Attributes in which pyspark keeps its objects of the Java process."""


def session(
    master: str | None = None,
    remote: str | None = None,
    app: str = "kraft-bridge analyze",
    settings: Mapping[str, str] | None = None,
) -> SparkSession:
    """Start or join a Spark session.

    Args:
        master: ``local[*]``, ``spark://host:7077``, …; if neither is given, what ``spark-submit``
            or ``SPARK_REMOTE`` says, else ``local[*]``.
        remote: a Connect server, ``sc://host:15002``; ``local[2]`` starts one of our own.
        app: the name Spark shows.
        settings: more of Spark's own; they win over ours.

    Raises:
        JavaNotFoundError: a local session needs Java 17 or later and there is none.
        SparkUnavailableError: nothing answers where the master or the Connect server should be.
    """
    wanted = dict(settings or {})
    builder: SparkSession.Builder = SparkSession.builder.appName(app).config(
        map={**_PLANS, **wanted}
    )
    if master is None:
        remote = remote or os.environ.get("SPARK_REMOTE")
    else:
        check_master(master)
    if remote is not None and not remote.startswith("local"):
        check_remote(remote)
        return builder.remote(remote).getOrCreate()
    _choose_java()
    logging = resources.files("bench.analysis") / "log4j2.properties"
    # Spark compiles each query to code of its own: a sweep of runs fills the 48 MiB that the quick
    # compiler alone has, and from then on all is interpreted.
    flags = [
        "-XX:ReservedCodeCacheSize=128m",
        "-XX:MetaspaceSize=256m",  # up to there no collection for its classes
        f"-Dlog4j2.configurationFile=file:{logging}",
        *QUICK_START,
    ]
    more = wanted.pop(_JAVA_OPTIONS, "")
    builder = builder.config(_JAVA_OPTIONS, f"{shlex.join(flags)} {more}".rstrip())
    builder = builder.config(map={**_QUIET, **wanted})
    if remote is not None:
        with warnings.catch_warnings():
            # The settings reach the server at its start; the warning that they cannot be set again
            # is expected.
            warnings.filterwarnings("ignore", "Failed to set spark", UserWarning)
            return builder.remote(remote).getOrCreate()
    if master is None and "PYSPARK_GATEWAY_PORT" not in os.environ:
        master = "local[*]"
    if master is not None:
        builder = builder.master(master)
        if master.startswith("local"):
            os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
            builder = builder.config(map={**_LOCAL, **wanted})
    try:
        return builder.getOrCreate()
    except Py4JError as error:
        # What was not taken within Spark's own minute is stopped while it is being made.
        if master is None or "stopped SparkContext" not in str(error):
            raise
        raise SparkUnavailableError(f"{master} takes no application: is it a Spark master?") from (
            error
        )


class _NotOfPy4j(logging.Filter):
    """py4j reports each broken conversation with a traceback, to the root logger."""

    def filter(self, record: logging.LogRecord) -> bool:
        return "py4j" not in Path(record.pathname).parts


@contextlib.contextmanager
def interruptible() -> Iterator[Callable[[], None]]:
    """Inside, an interrupt (SIGINT) is a KeyboardInterrupt and nothing else.

    pyspark's own handler calls Java even while another call to Java is under way, and py4j logs
    a traceback of each. What is yielded is to be called when there is a session: it takes the place
    of that handler.
    """
    root, py4j, quiet = logging.getLogger(), logging.getLogger("py4j"), _NotOfPy4j()
    mine = threading.current_thread() is threading.main_thread()
    before, propagate = signal.getsignal(signal.SIGINT), py4j.propagate

    def take() -> None:
        if mine:
            signal.signal(signal.SIGINT, signal.default_int_handler)

    take()
    root.addFilter(quiet)
    py4j.propagate = False
    try:
        yield take
    finally:
        py4j.propagate = propagate
        root.removeFilter(quiet)
        if mine:
            signal.signal(signal.SIGINT, before)


def end(spark: SparkSession, timeout_s: float = 120.0) -> None:
    """Stop a session and, where it was ours, wait until its Java process is gone.

    An interrupt may have left the caller in the middle of an answer: what it asks then is answered
    with the rest of that one, or when an endless job ends. So another thread asks, as py4j gives
    each a connection of its own.

    Args:
        spark: the session.
        timeout_s: after it the process is killed.
    """
    gateway = getattr(SparkContext, "_gateway", None)
    process = getattr(gateway, "proc", None)
    classic = isinstance(spark, SparkSession)
    if not classic or process is None:
        spark.stop()
    if gateway is None or process is None:
        return
    failed: list[Exception] = []

    def stop() -> None:
        try:
            if classic:
                spark.stop()
            gateway.shutdown()
        except Exception as error:  # noqa: BLE001 - the caller raises it
            failed.append(error)

    stopping = threading.Thread(target=stop, name="end of Spark", daemon=True)
    try:
        stopping.start()
        stopping.join(timeout_s)
        if not stopping.is_alive():
            # The driver ends when its input does; Spark leaves that to the end of this process.
            process.stdin.close()
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(timeout_s)
    finally:
        abandon()
        stopping.join()  # the socket closed when the process ended
    if failed:
        raise failed[0]


def abandon() -> None:
    """Kill the Java process of a session that was ours, if there is one, so that one can follow."""
    process = getattr(getattr(SparkContext, "_gateway", None), "proc", None)
    if process is not None:
        process.kill()
        process.wait()
        process.stdin.close()
    for owner, names in _OWNERS:
        for name in names:
            setattr(owner, name, None)


def _choose_java() -> None:
    """Point Spark's launcher at the Java this project chose, and its workers at this Python."""
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    shims = private_folder(os.getpid())
    os.environ["JAVA_HOME"] = str(spark_java_home(find_java(), shims))
