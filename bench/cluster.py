"""``python -m bench.cluster``: analyses on Spark workers that share no disk with this machine.

A standalone master and two workers, and an S3-compatible store (moto's server): all are child
processes here, so folders that are not shared are paths that name another folder in each process.
The figures must be those of an analysis here. Exit code 1: something is not as it should be.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
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
_MOTO: Final = """from moto import server
server.MotoRequestHandler.handle_expect_100 = lambda self: True
server.main()"""
"""Moto, which answers ``Expect: 100-continue`` once.

Moto 5.2.5 answers it twice: Python's server does, and Werkzeug's. Amazon's asynchronous client, by
which S3A copies a file of this machine, takes the second for the end (getmoto/moto#9975).
"""
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

    @contextmanager
    def analyze(self, *arguments: str) -> Iterator[tuple[subprocess.Popen[bytes], Path]]:
        """An analysis that has begun, and the file of what it prints; it is ended with the block.

        A pipe that nobody reads would fill up.
        """
        printed = self.folder / "printed"
        with printed.open("wb") as file:
            analysis = subprocess.Popen(
                [sys.executable, *_CLI, *arguments],
                stdout=file,
                stderr=subprocess.STDOUT,
                cwd=self.folder,
                env={**os.environ, **self.cluster.environment()},
            )
        try:
            yield analysis, printed
        finally:
            analysis.kill()
            analysis.wait()


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
    """Names of tables that are not the same in both, or in one of them only.

    What ``--follow`` keeps beside its tables is none.

    Raises:
        ValueError: there is none here.
    """
    local = fs.LocalFileSystem()
    ours = {path.name for path in here.iterdir()}
    if not ours:
        raise ValueError(f"no table in {here}")
    theirs = {Path(one.path).name for one in store.get_file_info(fs.FileSelector(there))}
    theirs.discard("followed")
    return [
        name
        for name in sorted(ours | theirs)
        if name not in ours & theirs
        or rows_of(str(here / name), local) != rows_of(f"{there}/{name}", store)
    ]


def _nothing(_: subprocess.Popen[bytes]) -> str:
    """Wait for its end alone."""
    return ""


def _last(printed: Path) -> str:
    return (printed.read_text(errors="replace").strip().splitlines() or ["nothing printed"])[-1]


def _analyzed(
    stage: Stage,
    here: Path,
    tables: str,
    *more: str,
    meanwhile: Callable[[subprocess.Popen[bytes]], str] = _nothing,
) -> str:
    """What is wrong with an analysis whose trace and tables are in the store."""
    places = [f"s3a://{BUCKET}/the trace", "--tables", f"s3a://{BUCKET}/{tables}"]
    given = [*places, "--out", _UNSHARED, *more, *stage.options()]
    with stage.analyze(*given) as (analysis, printed):
        why_not = meanwhile(analysis)
        if analysis.wait():
            return f"exit code {analysis.returncode}: {_last(printed)}"
    if why_not:
        return why_not
    wrong = differences(here, f"{BUCKET}/{tables}", stage.store)
    return f"other rows in {', '.join(wrong)}" if wrong else ""


def _same(stage: Stage, here: Path) -> str:
    """A trace and tables in the store; blanks in all names."""
    return _analyzed(stage, here, "the tables")


def _killed(stage: Stage, here: Path) -> str:
    """One of two workers is killed after the first table was written."""

    def kill(analysis: subprocess.Popen[bytes]) -> str:
        first = fs.FileSelector(f"{BUCKET}/after a kill/files", allow_not_found=True)
        wait_for(
            "the first table",
            lambda: stage.store.get_file_info(first) or analysis.poll() is not None,
        )
        if analysis.poll() is not None:
            return "the analysis ended before the kill"
        stage.cluster.kill_worker(0)
        return ""

    return _analyzed(stage, here, "after a kill", meanwhile=kill)


def _followed(stage: Stage, here: Path) -> str:
    """``--follow`` of the same trace."""
    more = ("--follow", "--every", "1", "--until-idle", "2")
    return _analyzed(stage, here, "followed tables", *more)


def _refused(stage: Stage, here: Path) -> str:
    """Without a place that all see: one sentence that says what to do."""
    del here  # no tables are left to be compared
    places = [f"s3a://{BUCKET}/the trace", "--out", _UNSHARED]
    with stage.analyze(*places, *stage.options()) as (analysis, printed):
        code = analysis.wait()
    said = printed.read_text(errors="replace")
    good = code == 1 and re.search("rows that workers wrote to .* --tables", said)
    return "" if good and "Traceback" not in said else f"exit code {code}: {_last(printed)}"


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
    store.launch([str(moto()), "-c", _MOTO, "-H", HOST, "-p", str(port)], {})
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
        folder: of all files; a new one.
        wanted: keys of ``CHECKS``.

    Raises:
        OSError: the folder is there, or cannot be made; or there is no moto.
        CalledProcessError: the analysis here failed.
    """
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
    parser.add_argument("--out", type=Path, help="a new folder, of all files; out/cluster-TIME")
    parser.add_argument("--only", choices=CHECKS, action="append", help="what is tried; all")
    asked: Any = parser.parse_args(given)
    interrupt_on_terminate()
    out: Path = asked.out or Path(f"out/cluster-{time.strftime('%Y%m%d-%H%M%S')}")
    wrong = 0
    try:
        for name, what in checks(out.absolute(), asked.only or [*CHECKS]):
            print_line(f"{'NO' if what else 'OK':<4}{name}{f': {what}' if what else ''}")
            wrong += bool(what)
    except (
        JarsMissingError,
        JavaNotFoundError,
        OSError,
        ValueError,
        subprocess.CalledProcessError,
    ) as error:
        sys.stderr.write(f"{error}\n")
        return 1
    except KeyboardInterrupt:
        return 130
    finally:
        kill_all()
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
