"""``format`` asks brokers over TLS and with a login: those of the controller's file."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import pytest

from emulator.commands.format.deciding import IBP
from emulator.config.broker import load_broker
from emulator.config.java_text import INT_MAX
from emulator.io.broker_process import BrokerFolders, BrokerProcess
from emulator.io.clock import Clock
from emulator.io.formatting import format_broker
from emulator.metadata.brokers import Endpoint
from emulator.testing import Cluster
from emulator.testing.local_node import NodeThread
from emulator.znodes import brokers, cluster
from emulator.zookeeper.ops import Create
from tests.kit.certificates import Authority
from tests.kit.joined_zookeeper import ZooKeeperMachine
from tests.kit.sasl_properties import USERS, module
from tests.unit.commands.running import CLUSTER, PROPERTIES, run
from tests.unit.commands.socketed_zookeeper import on_a_socket

HOST, NAME = "127.0.0.1", "SECURED"
MAP = "CONTROLLER:PLAINTEXT"
SASL_SSL = 3
"""As a znode's endpoint has it."""
JAAS = f"listener.name.{NAME.lower()}.plain.sasl.jaas.config"


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("authority"))


@pytest.fixture(scope="module")
def port(tmp_path_factory: pytest.TempPathFactory, authority: Authority) -> Iterator[int]:
    """Of a broker with this listener alone."""
    with ExitStack() as stack:
        controller = stack.enter_context(Cluster(fsync=False))
        bound = stack.enter_context(closing(socket.socket()))
        bound.bind((HOST, 0))
        config, _ = load_broker(
            {
                "process.roles": "broker",
                "node.id": "1",
                "controller.quorum.bootstrap.servers": controller.controllers,
                "controller.listener.names": "CONTROLLER",
                "listeners": f"{NAME}://{HOST}:{bound.getsockname()[1]}",
                "inter.broker.listener.name": NAME,
                "listener.security.protocol.map": f"{MAP},{NAME}:SASL_SSL",
                "sasl.enabled.mechanisms": "PLAIN",
                "sasl.mechanism.inter.broker.protocol": "PLAIN",
                JAAS: module(),
                "ssl.keystore.type": "PEM",
                "ssl.keystore.location": str(authority.issue("broker", HOST)),
                "ssl.truststore.type": "PEM",
                "ssl.truststore.location": str(authority.pem),
                IBP: "3.6",
                "log.dirs": str(tmp_path_factory.mktemp("broker")),
            },
            HOST,
        )
        format_broker(config, controller.cluster_id, ignore_formatted=False)
        folders = stack.enter_context(closing(BrokerFolders(config)))
        logs: list[Any] = []
        thread = NodeThread(
            "broker",
            lambda: BrokerProcess(config, folders, Clock(), logs.append, connections_max=INT_MAX),
            {NAME: bound},
        )

        def end() -> None:
            thread.request_stop()
            thread.ended.result()
            thread.join()

        stack.callback(end)
        thread.ready.result()
        yield bound.getsockname()[1]


@pytest.fixture
def file(port: int, authority: Authority, tmp_path: Path) -> Iterator[Path]:
    """A controller's file, of a cluster in whose ZooKeeper the broker is registered."""
    machine = ZooKeeperMachine()
    znode = brokers.encode([Endpoint(NAME, HOST, port, SASL_SSL)], None, 1)
    for path, data in (
        ("/cluster", None),
        (cluster.PATH, cluster.encode(CLUSTER)),
        ("/brokers", None),
        (brokers.ROOT, None),
        (f"{brokers.ROOT}/1", znode),
    ):
        machine.model.tree.write(Create(path, data), 1, 0)
    path = tmp_path / "server.properties"
    path.with_name("port").write_text(str(port))
    with on_a_socket(machine) as hosts:
        path.write_text(
            f"{PROPERTIES.replace(MAP, f'{MAP},{NAME}:SASL_SSL')}log.dirs={tmp_path}/data\n"
            f"zookeeper.connect={hosts}\n"
            f"zookeeper.metadata.migration.enable=true\ninter.broker.listener.name={NAME}\n"
            f"sasl.mechanism.inter.broker.protocol=PLAIN\n{JAAS}={module()}\n"
            f"ssl.truststore.type=PEM\nssl.truststore.location={authority.pem}\n"
        )
        yield path


def test_a_secured_broker_is_asked_with_the_logins_of_the_file(file: Path) -> None:
    code, out, err = run("format", "-c", file)
    assert (code, err) == (0, "")
    assert f"metadata.version 3.6-IV2, the {IBP} of broker 1" in out.splitlines()


def test_a_wrong_password_and_a_strange_authority_are_said_and_not_shown(
    file: Path, tmp_path: Path
) -> None:
    wrong = module().replace(f'password="{USERS["node"]}"', 'password="planted"')
    stranger = Authority(tmp_path, "stranger").pem
    for given, said in (
        (f"{JAAS}={wrong}", "broker 1: Authentication failed: Invalid username or password"),
        (f"ssl.truststore.location={stranger}", "broker 1: TLS"),
    ):
        code, out, err = run("format", "-c", file, "-X", given)
        assert (code, out, said in err) == (3, "", True), err
        assert "planted" not in err


def connected(file: Path, *options: str) -> tuple[list[str], list[str]]:
    """What ``preflight --connect`` says of the broker, and what it did not look at."""
    port = file.with_name("port").read_text()
    znode = brokers.encode([Endpoint(NAME, HOST, int(port), SASL_SSL)], None, 1)
    dump = file.with_name("tree.json")
    dump.write_text(json.dumps({"nodes": {f"{brokers.ROOT}/1": {"text": znode.decode()}}}))
    given = ("-c", file, "--dump", dump, "--connect", "--json")
    found = json.loads(run("preflight", *given, *options)[1])
    said = [f"{x['severity']} {x['znode']}: {x['fact']}" for x in found["findings"]]
    return (
        [one for one in said if "broker 1" in one or "listeners answered" in one],
        [x["why"] for x in found["not_run"] if x["why"].startswith("broker 1")],
    )


def test_preflight_connects_to_the_broker_and_logs_in_only_if_told(file: Path, port: int) -> None:
    where = f"broker 1: {NAME}://{HOST}:{port}: "
    said, unseen = connected(file)
    assert any(one.startswith(f"warning {where}its certificate ends at ") for one in said), said
    assert "1 of 2 listeners answered ApiVersions" in " ".join(said)
    assert unseen == [f"{where}the login: give --login to try it"]
    assert connected(file, "--login")[1] == []


def test_preflight_names_a_login_that_is_refused(file: Path) -> None:
    wrong = module().replace(f'password="{USERS["node"]}"', 'password="planted"')
    file.write_text(file.read_text().replace(module(), wrong))
    said, _ = connected(file, "--login")
    assert any("Invalid username or password" in one for one in said), said
    assert "planted" not in str(said)
    assert not any("Invalid" in one for one in connected(file)[0]), "nobody logged in"
