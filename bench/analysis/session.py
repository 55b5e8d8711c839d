"""The Spark session: local by default, a cluster or a Connect server when asked."""

from __future__ import annotations

import os
import sys
import tempfile
from importlib import resources
from pathlib import Path

from pyspark.sql import SparkSession

from bench.cluster.java import find_java, spark_java_home

_QUIET = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.session.timeZone": "UTC",
}
_LOCAL = {
    "spark.sql.shuffle.partitions": "4",
    "spark.default.parallelism": "4",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
}


def session(
    master: str | None = None, remote: str | None = None, app: str = "kraft-bridge analyze"
) -> SparkSession:
    """Start or join a Spark session.

    Args:
        master: ``local[*]``, ``spark://host:7077``, …; if neither is given, what ``spark-submit``
            or ``SPARK_REMOTE`` says, else ``local[*]``.
        remote: a Connect server, ``sc://host:15002``.
        app: the name Spark shows.

    Raises:
        JavaNotFoundError: a local session needs Java 17 or later and there is none.
    """
    builder: SparkSession.Builder = SparkSession.builder.appName(app)
    remote = remote or os.environ.get("SPARK_REMOTE")
    if remote is not None and master is None and not remote.startswith("local"):
        return builder.remote(remote).getOrCreate()
    _find_java()
    logging = resources.files("bench.analysis") / "log4j2.properties"
    options = f"-Dlog4j2.configurationFile=file:{logging} -XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
    builder = builder.config("spark.driver.extraJavaOptions", options).config(map=dict(_QUIET))
    if remote is not None and master is None:
        return builder.remote(remote).getOrCreate()
    if master is None and "PYSPARK_GATEWAY_PORT" not in os.environ:
        master = "local[*]"
    if master is not None:
        builder = builder.master(master)
        if master.startswith("local"):
            os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
            builder = builder.config(map=dict(_LOCAL))
    return builder.getOrCreate()


def _find_java() -> None:
    """Point Spark's launcher at the Java this project chose, and its workers at this Python."""
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    shims = Path(tempfile.gettempdir()) / f"kraft-bridge-{os.getuid()}"
    shims.mkdir(mode=0o700, exist_ok=True)
    os.environ["JAVA_HOME"] = str(spark_java_home(find_java(), shims))
