"""What Java is told reaches it whole, whatever the name of the checkout's folder."""

from __future__ import annotations

import os
import shlex
import tempfile
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from bench.analysis import session
from emulator.servers.java import Java
from emulator.servers.own_folder import private_folder


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


def test_no_program_of_a_folder_that_others_can_write_is_run(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A Java without a module that Spark asks for is started by a script, which is made first."""
    plain = tmp_path / "java"
    plain.write_text("#!/bin/sh\necho java.base\n")
    plain.chmod(0o755)
    monkeypatch.setattr(session, "find_java", lambda: Java("PATH", plain, tmp_path, 17))
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    private_folder.cache_clear()
    opened = tmp_path / f"kraft-bridge-{os.getuid()}"
    planted = opened / "java-shim" / "bin" / "java"
    planted.parent.mkdir(parents=True)
    planted.write_text("theirs")
    opened.chmod(0o777)
    for name in ("JAVA_HOME", "PYSPARK_PYTHON"):
        monkeypatch.setenv(name, "")
    session._choose_java()
    home = Path(os.environ["JAVA_HOME"])
    assert opened not in home.parents
    assert home.parent.stat().st_mode & 0o077 == 0
    assert (home / "bin" / "java").exists()
    assert planted.read_text() == "theirs"
    private_folder.cache_clear()
