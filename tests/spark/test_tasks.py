"""A load and a fleet as barrier tasks, on a standalone cluster and in one driver."""

from __future__ import annotations

import itertools
import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from emulator.servers.spark_cluster import SparkCluster
from emulator.testing import Cluster

pytestmark = [
    pytest.mark.spark,
    pytest.mark.jvm,
    pytest.mark.slow,
    pytest.mark.xdist_group("spark"),
]

START = "from emulator.cli import main; main()"
_WORK = """
import asyncio, os, sys
from bench.tasks.barrier import TasksFailedError, Work, run_together

HOW = sys.argv[1]

async def prepare(share):
    if HOW == "unprepared" and share.index == 1:
        raise RuntimeError("no room")

async def run(together):
    ended = asyncio.Event()
    together.watch(ended.set)
    await together.meet("begin")
    if together.share.index == 1:
        if HOW == "fails":
            raise RuntimeError("boom")
        if HOW == "dies":
            os._exit(9)
    await ended.wait()
    return together.share.index

try:
    run_together(sys.argv[2], 2, Work(prepare, run), print)
except TasksFailedError as error:
    print(f"said: {error}")
"""


@pytest.fixture(scope="module")
def ours() -> Iterator[Cluster]:
    with Cluster(brokers=2, fsync=False) as running:
        yield running


@pytest.fixture(scope="module")
def workers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, Mapping[str, str]]]:
    """A master with two workers: its URL, and the environment for its driver."""
    with SparkCluster(tmp_path_factory.mktemp("spark"), 2) as started:
        yield started.url, {**os.environ, **started.environment()}


def ended(environment: Mapping[str, str], *arguments: object) -> tuple[int, str, str]:
    done = subprocess.run(
        [sys.executable, "-c", START, *map(str, arguments)],
        capture_output=True,
        text=True,
        check=False,
        env=environment,
    )
    return done.returncode, done.stdout, done.stderr


def requests(trace: Path, run_id: str) -> list[dict[str, Any]]:
    return [
        row
        for row in pq.read_table(trace / "requests").to_pylist()
        if str(row["run_id"]) == run_id and row["intended_ns"] is not None
    ]


def test_a_load_of_two_tasks_is_the_load_of_one_process(
    ours: Cluster, workers: tuple[str, Mapping[str, str]], tmp_path: Path
) -> None:
    url, environment = workers
    plan = ("load", "--bootstrap-server", ours.bootstrap, "--rate", 41, "--duration", 3)
    plan += ("--topics", 6, "--json", "--client-id", "me")
    more = ("--spark-master", url, "--tasks", 2, "--prefix", "tasks", "--run-id", "two")
    place = (tmp_path / "trace").as_uri()
    code, out, err = ended(environment, *plan, *more, "--trace", place)
    assert code == 0, out + err
    two = json.loads(out)
    code, out, err = ended(environment, *plan, "--run-id", "one", "--trace", tmp_path / "trace")
    assert code == 0, out + err
    one = json.loads(out)
    for found in (one, two):
        assert (found["intended"], found["done"], found["failed"]) == (123, 123, 0)
        assert sum(each["count"] for each in found["waits"].values()) == 123
    rows = requests(tmp_path / "trace", "two")
    assert {row["process"] for row in rows} == {row["client_id"] for row in rows}
    assert {row["process"] for row in rows} == {"me-0", "me-1"}
    assert len(rows) == len(requests(tmp_path / "trace", "one")) == 123
    # One schedule: each change has its own instant, whichever task makes it.
    due = sorted(row["intended_ns"] for row in rows)
    for number, at_ns in enumerate(due):
        assert at_ns - due[0] == pytest.approx(number * 1e9 / 41, abs=8e6)
    of = [row["process"] for row in sorted(rows, key=lambda row: row["intended_ns"])]
    assert all(before != after for before, after in itertools.pairwise(of))
    # No task began late; a busy machine takes seconds.
    assert min(row["sent_ns"] - row["intended_ns"] for row in rows[:1]) < 30e9


def test_a_fleet_of_two_tasks_is_the_fleet_of_one_process(
    ours: Cluster, workers: tuple[str, Mapping[str, str]], tmp_path: Path
) -> None:
    url, environment = workers
    code, out, err = ended(
        environment,
        *("fleet", "--brokers", 6, "--first-id", 100, "--controller", ours.controllers),
        *("--topics", 2, "--partitions", 6, "--isr-churn", 20, "--seconds", 6, "--json"),
        # While one that died is not fenced, no other can end in order: it dies after the restarts.
        *("--wave", "restart@1:4/4", "--wave", "die@5:1", "--start-rate", 10),
        *("--spark-master", url, "--tasks", 2, "--trace", tmp_path / "trace"),
    )
    assert code == 0, out + err
    found = json.loads(out)
    assert (found["processes"], found["brokers"]) == (2, 6)
    assert found["waits"]["registration"]["count"] == 6 + 4
    assert found["waits"]["shutdown"]["count"] == 6 + 4 - 1
    assert found["isr"]["unfinished"] == 0
    assert found["isr"]["asked"] + found["isr"]["skipped"] == pytest.approx(120, abs=35)
    rows = pq.read_table(tmp_path / "trace" / "fleet").to_pylist()
    begun = [row for row in rows if row["event"] == "registration"]
    ids = {
        process: {row["broker_id"] for row in begun if row["process"] == process}
        for process in ("fleet-0", "fleet-1")
    }
    assert ids == {"fleet-0": {100, 102, 104}, "fleet-1": {101, 103, 105}}
    first = sorted(row["intended_ns"] for row in begun)[:6]
    for number, at_ns in enumerate(first):
        assert at_ns - first[0] == pytest.approx(number * 1e8, abs=8e6)


@pytest.mark.parametrize(
    ("how", "why"),
    [("fails", ": boom"), ("dies", ": it was lost"), ("unprepared", ": no room")],
)
def test_a_failure_of_one_task_ends_all_with_one_sentence(how: str, why: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", _WORK, how, "local[2]"],
        capture_output=True,
        text=True,
        check=False,
    )
    [said] = [line for line in done.stdout.splitlines() if line.startswith("said: ")]
    assert re.match(r"said: task 1 on [^ ]+", said)
    assert said.endswith(why)
    assert done.returncode == 0


def test_ctrl_c_ends_the_tasks_in_order_and_the_figures_are_shown(
    ours: Cluster, tmp_path: Path
) -> None:
    arguments = ["load", "--bootstrap-server", ours.bootstrap, "--rate", "20", "--json"]
    arguments += ["--spark-master", "local[2]", "--prefix", "endless", "--run-id", "r"]
    arguments += ["--trace", str(tmp_path)]
    load = subprocess.Popen(
        [sys.executable, "-c", START, *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    assert load.stderr is not None
    for line in load.stderr:
        if re.match(r"task \d: [1-9]\d* due", line):
            break
    # To the whole group, as a terminal sends it.
    os.killpg(load.pid, signal.SIGINT)
    out, err = load.communicate()
    assert load.returncode == 0, err
    assert "the tasks are asked to end" in err
    assert "Traceback" not in err
    found = json.loads(out)
    assert found["intended"] == found["done"] > 0
    assert len(requests(tmp_path, "r")) == found["intended"]


@pytest.mark.parametrize(
    ("more", "code", "why"),
    [
        (["--spark-master", "local[1]", "--tasks", "2"], 1, "2 tasks need a core each"),
        (["--spark-master", "spark://127.0.0.1:1"], 1, "spark://127.0.0.1:1 cannot be reached"),
        (["--spark-master", "local[2]", "--trace", "nonsense://x"], 1, "nonsense://x"),
        (["--spark-master", "local[2]", "--bootstrap-server", "127.0.0.1:1"], 3, "127.0.0.1:1"),
        (["--spark-master", "two of them"], 2, "--spark-master 'two of them'"),
        (["--tasks", "2"], 2, "--tasks needs --spark-master"),
        (["--spark-master", "local[2]", "--tasks", "0"], 2, "--tasks"),
    ],
)
def test_what_cannot_be_is_one_sentence(
    ours: Cluster, more: list[str], code: int, why: str
) -> None:
    given = ["load", "--rate", "10", "--duration", "1"]
    if "--bootstrap-server" not in more:
        given += ["--bootstrap-server", ours.bootstrap]
    done, out, err = ended(os.environ, *given, *more)
    assert done == code, out + err
    assert why in err
    assert "Traceback" not in err
