"""The options of ``kraft-bridge fleet``."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from bench.verbs import before_a_fleet
from emulator.cli import app
from emulator.commands.json_forms import FORMS
from emulator.config.zookeeper import JAAS
from emulator.testing import Cluster, Fault
from tests.kit.certificates import Authority
from tests.kit.json_form import problems
from tests.kit.tls_server import HOST, TlsServer

PROTOCOLS = "listener.security.protocol.map"


def fleet(*arguments: str) -> Any:
    return CliRunner().invoke(app, ["fleet", *arguments])


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (["--brokers", "2"], "--controller (KRaft mode), --zookeeper"),
        (["--brokers", "0", "--controller", "h:1"], "0: at least 1"),
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
        (["--brokers", "2", "--controller", "h:1", "--cluster-id", "foo"], "'foo' is no uuid"),
        (["--brokers", "2", "--controller", "h:1", "--cluster-id", ""], "'' is no uuid"),
        (["--brokers", "2", "--zookeeper", "h:1", "--cluster-id", "A" * 21 + "B"], "is no uuid"),
        (["--brokers", "2", "--zookeeper", "h:1", "--listener", "ssl"], "ssl: the listeners of a"),
        (["--brokers", "2", "--zookeeper", "h:1", "--listener", "SASL_SSL"], "are PLAINTEXT"),
        (["--brokers", "2", "--zookeeper", "h:1", "-X", "ssl.keystore.location=x"], "PLAINTEXT"),
        (["--brokers", "2", "--zookeeper", "h:1", "-X", "listener.name.a.ssl.key=x"], "PLAINTEXT"),
        (
            ["--brokers", "2", "--zookeeper", "h:1", "-X", f"{PROTOCOLS}=PLAINTEXT:SSL"],
            "listener.security.protocol.map: the listeners of a fleet",
        ),
        (
            [
                *("--brokers", "2", "--controller", "h:1", "--cluster-id", "A" * 22),
                *("-X", f"{PROTOCOLS}=PLAINTEXT:PLAINTEXT,CONTROLLER:SSL"),
            ],
            "listener.security.protocol.map: the listeners of a fleet",
        ),
        (["--brokers", "2", "--zookeeper", ""], "--zookeeper: a connect string"),
        (["--brokers", "2", "--zookeeper", "h:1", "--host", ""], "--host: a name or an address"),
        (["--brokers", "2", "--zookeeper", "h:1", "--host", "192.0.2.1"], "--host 192.0.2.1: "),
        (["--brokers", "2", "--zookeeper", "h:1", "--first-id", "2147483647"], "=2147483648: must"),
        (["--brokers", "2", "--zookeeper", "h:1", "-X", "node.id=4"], "-X node.id: the fleet sets"),
        (["--brokers", "2", "--zookeeper", "h:1", "-X", "listeners=A://h:1"], "the fleet sets it"),
    ],
)
def test_a_mistake_is_one_sentence_and_code_2(arguments: list[str], why: str) -> None:
    result = fleet(*arguments)
    assert result.exit_code == (3 if arguments[2:] == ["--controller", "127.0.0.1:1"] else 2)
    assert why in result.output
    assert "Traceback" not in result.output


def test_a_property_that_nobody_knows_is_said_once() -> None:
    with Cluster(fsync=False) as cluster:
        result = fleet(
            *("--brokers", "2", "--controller", cluster.controllers, "--seconds", "0"),
            *("-X", "num.partitons=3"),
        )
    assert result.exit_code == 0
    assert result.output.count("unknown configuration key num.partitons") == 1


def test_a_broker_that_does_not_come_back_is_exit_code_1() -> None:
    refused = Fault(
        api="BrokerRegistration", error="DUPLICATE_BROKER_REGISTRATION", nth=3, times=1_000
    )
    with Cluster(fsync=False, controller_faults=[refused]) as cluster:
        result = fleet(
            *("--brokers", "2", "--controller", cluster.controllers, "--seconds", "0.3"),
            *("--wave", "restart@0.1:1", "--patience", "2"),
        )
    assert result.exit_code == 1
    assert "not running at the end: 1 brokers, " in result.stdout
    assert "DUPLICATE_BROKER_REGISTRATION" in result.stdout


@pytest.mark.parametrize("migrates", [[], ["--controller", "127.0.0.1:1"]])
def test_zookeeper_that_cannot_be_reached_is_exit_code_3_at_once(migrates: list[str]) -> None:
    begun = time.monotonic()
    result = fleet("--brokers", "2", "--zookeeper", "127.0.0.1:1", *migrates)
    assert result.exit_code == 3
    assert "--zookeeper 127.0.0.1:1: " in result.output
    assert "refused" in result.output
    assert time.monotonic() - begun < 15, "no broker waits for a session"


def test_zookeeper_is_prepared_by_tls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(before_a_fleet, "REACH_S", 1.0)
    authority = Authority(tmp_path)
    with closing(TlsServer(authority.issue("server", HOST))) as server:
        options = {
            "zookeeper.ssl.client.enable": "true",
            "zookeeper.clientCnxnSocket": "org.apache.zookeeper.ClientCnxnSocketNetty",
            "zookeeper.ssl.truststore.location": str(authority.pem),
            "zookeeper.ssl.truststore.type": "PEM",
        }
        extra = [word for key, value in options.items() for word in ("-X", f"{key}={value}")]
        zookeeper = f"{HOST}:{server.port}"
        result = fleet("--brokers", "1", "--zookeeper", zookeeper, "--controller", "h:1", *extra)
    assert server.read, "no handshake was completed"
    assert result.exit_code == 3, "it never answers"
    assert f"--zookeeper {zookeeper}: " in result.output
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
    assert ("Traceback" in result.output, "s are missing" in result.output) == (False, code == 1)
    assert ("heartbeats" in result.output) is (code == 1), "it went on without it"


def test_the_figures_are_json_and_the_cluster_is_asked_for_its_id() -> None:
    with Cluster(fsync=False) as cluster:
        result = fleet(
            *("--brokers", "2", "--controller", cluster.controllers, "--topics", "1"),
            *("--seconds", "0.2", "--json"),
        )
    assert result.exit_code == 0, result.output
    figures = json.loads(result.stdout)
    assert problems(FORMS["fleet"], figures) == []
    assert figures["brokers"] == 2
    assert figures["waits"]["registration"]["count"] == 2


def test_any_controller_that_answers_tells_the_cluster() -> None:
    with Cluster(fsync=False) as cluster:
        controllers = f"127.0.0.1:1,{cluster.controllers}"
        result = fleet("--brokers", "1", "--controller", controllers, "--seconds", "0")
    assert result.exit_code == 0, result.output


@pytest.mark.parametrize("listener", ["", "A:B", "CONTROLLER"])
def test_a_listener_that_cannot_be_is_a_sentence(listener: str) -> None:
    with Cluster(fsync=False) as cluster:
        address = ("--controller", cluster.controllers)
        result = fleet("--brokers", "1", *address, "--listener", listener, "--seconds", "0")
    assert result.exit_code == 2
    assert "listener" in result.output
    assert "Traceback" not in result.output


class StartedFleet:
    """``kraft-bridge fleet`` as a process whose two brokers run."""

    def __init__(self, cluster: Cluster) -> None:
        command = [sys.executable, "-c", "from emulator.cli import main; main()", "fleet"]
        command += ["--epochs", "--brokers", "2", "--controller", cluster.controllers]
        self.process = subprocess.Popen(
            [*command, "--seconds", "600"], stderr=subprocess.PIPE, text=True
        )
        self.said = ""
        self.read_to("all 2 brokers run")

    def read_to(self, words: str) -> None:
        assert self.process.stderr is not None
        while words not in self.said:
            line = self.process.stderr.readline()
            assert line, self.said
            self.said += line

    def end(self) -> int:
        """The exit code; all that it printed is read."""
        with self.process as started:
            self.said += started.stderr.read()
        return started.returncode


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_it_and_the_brokers_leave(number: signal.Signals) -> None:
    with Cluster(fsync=False) as cluster:
        started = StartedFleet(cluster)
        started.process.send_signal(number)
        assert started.end() == 1
        fenced = [one["fenced"] for one in cluster.status()["brokers"]]
    assert "stopping 2 brokers" in started.said
    assert started.said.splitlines()[-1] == "kraft-bridge: interrupted"
    assert fenced == [True, True], "they asked for it"


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_second_signal_ends_it_at_once_in_one_sentence(number: signal.Signals) -> None:
    with Cluster(fsync=False) as cluster:
        started = StartedFleet(cluster)
    # No controller is left to grant the shutdown.
    started.process.send_signal(number)
    started.read_to("stopping 2 brokers")
    started.process.send_signal(number)
    started.read_to("ending at once")
    started.process.send_signal(number)
    began_s = time.monotonic()
    assert started.end() == 1
    assert time.monotonic() - began_s < 60, "the patience is two minutes"
    assert "Traceback" not in started.said
    assert started.said.splitlines()[-1] == "kraft-bridge: interrupted"
