"""The options of ``kraft-bridge fleet``."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from emulator.cli import app
from emulator.config.zookeeper import JAAS
from emulator.testing import Cluster


def fleet(*arguments: str) -> Any:
    return CliRunner().invoke(app, ["fleet", *arguments])


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (["--brokers", "2"], "--controller (KRaft mode), --zookeeper"),
        (["--brokers", "0", "--controller", "h:1"], "greater than or equal to 1"),
        (["--brokers", "2", "--controller", "h:1", "--release", "4.0"], "--release is one of"),
        (["--brokers", "2", "--controller", "h:1", "--wave", "burn@1"], "KIND is restart, roll"),
        (["--brokers", "2", "--controller", "nonsense"], "--controller nonsense:"),
        (["--brokers", "2", "--controller", "127.0.0.1:1"], "--controller 127.0.0.1:1:"),
        (["--brokers", "2", "--controller", "h:1", "--start-rate", "0"], "--start-rate"),
        (["--brokers", "2", "--controller", "h:1", "--start-rate", "nan"], "--start-rate"),
        (["--brokers", "2", "--controller", "h:1", "--start-rate", "1e-300"], "--start-rate"),
        (["--brokers", "2", "--controller", "h:1", "--seconds", "inf"], "--seconds"),
        (["--brokers", "2", "--controller", "h:1", "--patience", "inf"], "--patience"),
        (["--brokers", "2", "--controller", "h:1", "--isr-churn", "1e300"], "--isr-churn"),
        (["--brokers", "2", "--controller", "h:1", "--topics", "99999999999"], "--topics"),
        (["--brokers", "2", "--controller", "h:1", "--partitions", "99999999999"], "--partitions"),
        (["--brokers", "2", "--controller", "h:1", "--isr", "never"], "--isr"),
        (
            ["--brokers", "2", "--controller", "h:1", "--isr", "manual", "--isr-churn", "1"],
            "--isr manual: then --isr-churn",
        ),
        (
            ["--brokers", "2", "--zookeeper", "h:1", "-X", f"{JAAS}=/nowhere/at/all"],
            "/nowhere/at/all",
        ),
        (["--brokers", "2", "--controller", "h:1", "-X", "nothing"], "key=value"),
        (["--brokers", "2", "--controller", "h:1", "-X", "=value"], "key=value"),
        (
            ["--brokers", "2", "--controller", "h:1", "--wave", "restart@100", "--seconds", "1"],
            "--wave restart@100 is after --seconds 1",
        ),
        (
            ["--brokers", "2", "--zookeeper", "127.0.0.1:1", "--wave", "roll@1"],
            "needs --controller",
        ),
    ],
)
def test_a_mistake_is_one_sentence_and_code_2(arguments: list[str], why: str) -> None:
    result = fleet(*arguments)
    assert result.exit_code == 2
    assert why in result.output
    assert "Traceback" not in result.output


def test_more_brokers_than_descriptors_are_refused_before_the_first() -> None:
    result = fleet("--brokers", "10000", "--controller", "127.0.0.1:1", "--cluster-id", "x")
    assert result.exit_code in {1, 2}
    assert "Traceback" not in result.output


def test_a_property_that_is_wrong_is_named() -> None:
    with Cluster(fsync=False) as cluster:
        result = fleet(
            "--brokers", "1", "--controller", cluster.controllers, "-X", "num.partitions=none"
        )
    assert result.exit_code == 2
    assert "num.partitions" in result.output


@pytest.mark.parametrize(("in_the_way", "code"), [("trace", 2), ("trace/requests", 1)])
def test_a_trace_that_cannot_be_written_is_one_sentence(
    tmp_path: Path, in_the_way: str, code: int
) -> None:
    taken = tmp_path / in_the_way
    taken.parent.mkdir(exist_ok=True)
    taken.touch()
    with Cluster(fsync=False) as cluster:
        result = fleet(
            *("--brokers", "1", "--controller", cluster.controllers, "--seconds", "0"),
            *("--trace", str(tmp_path / "trace")),
        )
    assert result.exit_code == code
    assert f"--trace {tmp_path / 'trace'}: " in result.output


def test_the_figures_are_json_and_the_cluster_is_asked_for_its_id() -> None:
    with Cluster(fsync=False) as cluster:
        result = fleet(
            *("--brokers", "2", "--controller", cluster.controllers, "--topics", "1"),
            *("--seconds", "0.2", "--json"),
        )
    assert result.exit_code == 0, result.output
    figures = json.loads(result.stdout)
    assert figures["brokers"] == 2
    assert figures["waits"]["registration"]["count"] == 2


@pytest.mark.parametrize("listener", ["", "A:B", "CONTROLLER"])
def test_a_listener_that_cannot_be_is_a_sentence(listener: str) -> None:
    with Cluster(fsync=False) as cluster:
        address = ("--controller", cluster.controllers)
        result = fleet("--brokers", "1", *address, "--listener", listener, "--seconds", "0")
    assert result.exit_code == 2
    assert "listener" in result.output
    assert "Traceback" not in result.output


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_it_and_the_brokers_leave(number: signal.Signals) -> None:
    command = [sys.executable, "-c", "from emulator.cli import main; main()", "fleet", "--epochs"]
    with Cluster(fsync=False) as cluster:
        command += ["--brokers", "2", "--controller", cluster.controllers, "--seconds", "600"]
        with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as started:
            assert started.stderr is not None
            said = ""
            while "all 2 brokers run" not in said:
                line = started.stderr.readline()
                assert line, said
                said += line
            started.send_signal(number)
            said += started.stderr.read()
        assert started.returncode == 1
        fenced = [one["fenced"] for one in cluster.status()["brokers"]]
    assert "stopping 2 brokers" in said
    assert said.splitlines()[-1] == "kraft-bridge: interrupted"
    assert fenced == [True, True], "they asked for it"
