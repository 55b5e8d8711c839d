"""``python -m bench.cluster``: analyses on Spark workers that share no disk with this machine.

A standalone master and two workers, and an S3-compatible store (moto's server): all are child
processes here, so folders that are not shared are paths that name another folder in each process.
The figures must be those of an analysis here. Exit code 1: something is not as it should be.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pyarrow.parquet as pq
from pyarrow import fs

from bench.analysis.synthetic import generate
from bench.lines import print_line
from emulator.servers.jars import JarsMissingError, cache_dir, s3_jars
from emulator.servers.java import JavaNotFoundError
from emulator.servers.ports import HOST, free_port
from emulator.servers.process import ServerProcess, interrupt_on_terminate, kill_all
from emulator.servers.spark_cluster import SparkCluster
from emulator.servers.waiting import wait_for

ROWS: Final = 20_000
BUCKET: Final = "rehearsal"
_CLI: Final = ("-c", "from emulator.cli import main; main()", "analyze")
_KEY: Final = "none"
"""Of the store, which asks nobody who they are."""
_UNSHARED: Final = "/proc/self/cwd/report"
_QUICK: Final = {
    "spark.sql.shuffle.partitions": "4",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
}
"""Of few rows, plans and their code would take most of the time."""


@dataclass(frozen=True, slots=True)
class Stage:
    """What runs, and where things are."""

    folder: Path
    cluster: SparkCluster
    store: fs.S3FileSystem
    endpoint: str

    def options(self) -> list[str]:
        """Of an analysis on the cluster that reaches the store."""
        settings = {
            **_QUICK,
            "spark.jars": ",".join(str(jar) for jar in s3_jars()),
            "spark.hadoop.fs.s3a.endpoint": self.endpoint,
            "spark.hadoop.fs.s3a.endpoint.region": "us-east-1",
            "spark.hadoop.fs.s3a.path.style.access": "true",
            "spark.hadoop.fs.s3a.connection.ssl.enabled": "false",
            "spark.hadoop.fs.s3a.access.key": _KEY,
            "spark.hadoop.fs.s3a.secret.key": _KEY,
        }
        return ["--master", self.cluster.url, *_confs(settings)]

    def analyze(self, *arguments: str) -> subprocess.Popen[str]:
        """Begin an analysis, in a folder of its own."""
        return subprocess.Popen(
            [sys.executable, *_CLI, *arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            cwd=self.folder,
            env={**os.environ, **self.cluster.environment()},
        )


def _confs(settings: Mapping[str, str]) -> list[str]:
    return [word for name, value in settings.items() for word in ("--conf", f"{name}={value}")]


def rows_of(table: str, store: fs.FileSystem) -> list[str]:
    """The rows of a table in an order of their own, as text.

    Sums differ in their last digits by the order in which their parts came.
    """
    found = pq.read_table(table, filesystem=store, partitioning=None).to_pylist()
    return sorted(
        str({key: f"{value:.9g}" if isinstance(value, float) else value for key, value in row})
        for row in (each.items() for each in found)
    )


def differences(here: Path, there: str, store: fs.FileSystem) -> list[str]:
    """Names of tables that are not the same in both."""
    local = fs.LocalFileSystem()
    names = sorted(path.name for path in here.iterdir())
    return [
        name
        for name in names
        if rows_of(str(here / name), local) != rows_of(f"{there}/{name}", store)
    ]


def _nothing(_: subprocess.Popen[str]) -> None:
    """Wait for its end alone."""


def _analyzed(
    stage: Stage,
    here: Path,
    tables: str,
    *more: str,
    meanwhile: Callable[[subprocess.Popen[str]], None] = _nothing,
) -> str:
    """What is wrong with an analysis whose trace and tables are in the store."""
    places = [f"s3a://{BUCKET}/the trace", "--tables", f"s3a://{BUCKET}/{tables}"]
    with stage.analyze(*places, "--out", _UNSHARED, *more, *stage.options()) as analysis:
        meanwhile(analysis)
        printed, _ = analysis.communicate()
    if analysis.returncode:
        return f"exit code {analysis.returncode}: {printed.strip().splitlines()[-1]}"
    wrong = differences(here, f"{BUCKET}/{tables}", stage.store)
    return f"other rows in {', '.join(wrong)}" if wrong else ""


def _same(stage: Stage, here: Path) -> str:
    """A trace and tables in the store; blanks in all names."""
    return _analyzed(stage, here, "the tables")


def _killed(stage: Stage, here: Path) -> str:
    """One of two workers is killed after the first table was written."""

    def kill(analysis: subprocess.Popen[str]) -> None:
        first = fs.FileSelector(f"{BUCKET}/after a kill/files", allow_not_found=True)
        wait_for(
            "the first table",
            lambda: stage.store.get_file_info(first) or analysis.poll() is not None,
        )
        stage.cluster.kill_worker(0)

    return _analyzed(stage, here, "after a kill", meanwhile=kill)


def _followed(stage: Stage, here: Path) -> str:
    """``--follow`` of the same trace."""
    more = ("--follow", "--every", "1", "--until-idle", "2")
    return _analyzed(stage, here, "followed tables", *more)


def _refused(stage: Stage, here: Path) -> str:
    """Without a place that all see: one sentence that says what to do."""
    del here  # no tables are left to be compared
    places = [f"s3a://{BUCKET}/the trace", "--out", _UNSHARED]
    with stage.analyze(*places, *stage.options()) as analysis:
        printed, _ = analysis.communicate()
    said = printed.strip().splitlines()[-1:]
    good = analysis.returncode == 1 and re.search("rows that workers wrote to .* --tables", printed)
    return "" if good and "Traceback" not in printed else f"exit code {analysis.returncode}: {said}"


CHECKS: Final[dict[str, tuple[str, Callable[[Stage, Path], str]]]] = {
    "same": ("workers without this machine's disk, trace and tables in a store", _same),
    "followed": ("the same trace followed", _followed),
    "refused": ("tables where workers do not share a folder: refused", _refused),
    "killed": ("one of two workers killed meanwhile", _killed),
}
"""Word of the command line -> what is tried, and how."""


def moto() -> Path:
    """The interpreter that has moto."""
    return cache_dir() / "cluster" / "bin" / "python"


def _stage(folder: Path, ending: ExitStack) -> Stage:
    port = free_port()
    store = ServerProcess("moto", folder)
    ending.callback(store.stop)
    store.launch([str(moto()), "-m", "moto.server", "-H", HOST, "-p", str(port)], {})
    endpoint = f"http://{HOST}:{port}"
    reached = fs.S3FileSystem(
        access_key=_KEY,
        secret_key=_KEY,
        endpoint_override=endpoint,
        region="us-east-1",
        allow_bucket_creation=True,
    )

    def ready() -> bool:
        try:
            reached.create_dir(BUCKET)
        except OSError:
            return False
        return True

    wait_for("the store", ready)
    cluster = ending.enter_context(SparkCluster(folder / "the cluster"))
    return Stage(folder, cluster, reached, endpoint)


def checks(folder: Path, wanted: Sequence[str]) -> Iterator[tuple[str, str]]:
    """What is tried, and what is wrong with it; empty if nothing is.

    Args:
        folder: of all files, which are removed first.
        wanted: keys of ``CHECKS``.
    """
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    generate(folder / "the trace", ROWS, rate=40.0)
    out = folder / "here"
    command = [sys.executable, *_CLI, str(folder / "the trace"), "--out", str(out), *_confs(_QUICK)]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    with ExitStack() as ending:
        stage = _stage(folder, ending)
        fs.copy_files(
            str(folder / "the trace"),
            f"{BUCKET}/the trace",
            fs.LocalFileSystem(),
            destination_filesystem=stage.store,
        )
        for name, check in map(CHECKS.__getitem__, wanted):
            yield name, check(stage, out / "tables")


def main(given: Sequence[str] | None = None) -> int:
    """Try everything."""
    parser = argparse.ArgumentParser(prog="python -m bench.cluster", description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("out/cluster"), help="folder of all files")
    parser.add_argument("--only", choices=CHECKS, action="append", help="what is tried; all")
    asked: Any = parser.parse_args(given)
    interrupt_on_terminate()
    wrong = 0
    try:
        for name, what in checks(asked.out.absolute(), asked.only or [*CHECKS]):
            print_line(f"{'NO' if what else 'OK':<4}{name}{f': {what}' if what else ''}")
            wrong += bool(what)
    except (JarsMissingError, JavaNotFoundError) as error:
        sys.stderr.write(f"{error}\n")
        return 1
    except KeyboardInterrupt:
        return 130
    finally:
        kill_all()
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
