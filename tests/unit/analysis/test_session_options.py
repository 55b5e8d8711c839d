"""What Java is told reaches it whole, whatever the name of the checkout's folder."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from bench.analysis import session


def test_a_flag_with_a_blank_is_one(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Spark reads these flags as a shell does."""
    told: list[str] = []

    def get(self: SparkSession.Builder) -> None:
        told.append(str(self._options["spark.driver.extraJavaOptions"]))

    monkeypatch.setattr(session, "_choose_java", lambda: None)
    monkeypatch.setattr(session.resources, "files", lambda _: tmp_path / "größe mit blank")
    monkeypatch.setattr(SparkSession.Builder, "getOrCreate", get)
    monkeypatch.setenv("SPARK_LOCAL_IP", "127.0.0.1")
    session.session("local[1]")
    folder = tmp_path / "größe mit blank"
    wanted = f"-Dlog4j2.configurationFile=file:{folder}/log4j2.properties"
    assert wanted in shlex.split(told[0])
