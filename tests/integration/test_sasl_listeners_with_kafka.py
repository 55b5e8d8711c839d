"""SASL_PLAINTEXT between Kafka 3.9.2 and us: who logs in where, and whose rights decide."""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path

import pytest

from emulator.net.distinguished_name import subject_of
from emulator.servers.bridge import Bridge
from emulator.servers.kafka import KafkaBroker, KraftController
from emulator.servers.ports import HOST
from emulator.servers.tool_host import ToolHost
from emulator.servers.waiting import wait_for
from emulator.servers.zookeeper import ZooKeeper
from tests.integration.broker_stage import FormattedBridgeBroker, FormattedBroker
from tests.kit.certificates import Authority
from tests.kit.sasl_properties import ACLS, USERS, log_in_file, sasl

pytestmark = [pytest.mark.jvm, pytest.mark.slow]

RELEASE = "3.9.2"
CLUSTER = "5L6g3nShT-eMCtK--X86sw"
PLAIN = {"listener.security.protocol.map": "CONTROLLER:SASL_PLAINTEXT,INTERNAL:PLAINTEXT"}
OF_CONTROLLERS: dict[str, object] = {**sasl("CONTROLLER"), **PLAIN, **ACLS}
OF_BROKERS: dict[str, object] = {
    **sasl("CONTROLLER", "SASL", mechanisms="PLAIN,SCRAM-SHA-256"),
    **ACLS,
    "listener.security.protocol.map": (
        "CONTROLLER:SASL_PLAINTEXT,SASL:SASL_PLAINTEXT,INTERNAL:PLAINTEXT,CLIENT:PLAINTEXT"
    ),
}
TOPICS = "org.apache.kafka.tools.TopicCommand"
CONFIGS = "kafka.admin.ConfigCommand"
ACL_COMMAND = "kafka.admin.AclCommand"


@pytest.fixture(scope="module")
def tools() -> Iterator[ToolHost]:
    with ToolHost(RELEASE) as host:
        yield host


class Clients:
    """Kafka's tools at the SASL listener of a broker, each logged in as somebody."""

    def __init__(self, tools: ToolHost, broker: KafkaBroker, authority: Path | None = None) -> None:
        self.tools = tools
        self.authority = authority
        self.broker = broker

    def run(self, user: str, main: str, *arguments: str, mechanism: str = "PLAIN") -> str:
        """What it printed, with its error if it failed."""
        path = log_in_file(self.broker.folder, user, mechanism, self.authority)
        at = f"{HOST}:{self.broker.sasl_port}"
        login = ("--command-config", str(path))
        told = self.tools.run(main, "--bootstrap-server", at, *login, *arguments)
        return f"{told.out}{told.err}"

    def create(self, user: str, topic: str, mechanism: str = "PLAIN") -> str:
        return self.run(user, TOPICS, "--create", "--topic", topic, mechanism=mechanism)

    def judged_by_the_principal(self) -> None:
        """Alice may what an ACL says, by PLAIN; a user of SCRAM logs in and may nothing."""
        assert "Created topic admins" in self.create("admin", "admins")
        assert "TopicAuthorizationException" in self.create("alice", "alices")
        allow = ("--add", "--allow-principal", "User:alice", "--operation", "All")
        told = self.run("admin", ACL_COMMAND, *allow, "--topic", "alices")
        assert "Adding ACLs" in told
        assert "Created topic alices" in self.create("alice", "alices")
        assert "TopicAuthorizationException" in self.create("alice", "others")
        change = ("--alter", "--entity-type", "topics", "--add-config", "retention.ms=1000")

        def altered() -> str:
            """Empty while the broker, which judges this itself, has not fetched the ACL yet."""
            told = self.run("alice", CONFIGS, *change, "--entity-name", "alices")
            return "" if "TopicAuthorizationException" in told else told

        assert "Completed updating config for topic alices" in wait_for("the ACL", altered)
        told = self.run("alice", CONFIGS, *change, "--entity-name", "admins")
        assert "TopicAuthorizationException" in told
        password = f"SCRAM-SHA-256=[password={USERS['scram']}]"
        user = ("--entity-type", "users", "--entity-name", "scram")
        told = self.run("admin", CONFIGS, "--alter", "--add-config", password, *user)
        assert "Completed updating config for user scram" in told
        assert "TopicAuthorizationException" in wait_for("log-in", self.scram_logs_in)
        wrong = self.create("stranger", "strangers")
        assert "SaslAuthenticationException" in wrong
        assert "Invalid username or password" in wrong

    def scram_logs_in(self) -> str:
        """What the user of SCRAM is told; empty while the broker does not know it yet.

        The controller answers when the user is committed, before the brokers have fetched it.
        """
        told = self.create("scram", "scrams", "SCRAM-SHA-256")
        return "" if "due to invalid credentials" in told else told


@pytest.mark.requirement("I10", "I11")
def test_a_kafka_broker_and_its_clients_log_in_under_our_controller(
    tmp_path: Path, tools: ToolHost, real_brokers: Callable[[KafkaBroker], KafkaBroker]
) -> None:
    with ExitStack() as stack:
        ours = Bridge(tmp_path / "controller", None, properties=OF_CONTROLLERS)
        stack.callback(ours.kill)
        ours.format(CLUSTER).start().wait_started()
        kafka = FormattedBroker(
            RELEASE, 1, tmp_path, None, controller_port=ours.port, sasl=True, properties=OF_BROKERS
        )
        real_brokers(kafka)
        kafka.format(CLUSTER).start().wait_started()
        Clients(tools, kafka).judged_by_the_principal()
        assert USERS["node"] not in "".join(ours.lines())


@pytest.mark.requirement("I10", "I11")
def test_our_broker_and_its_clients_log_in_under_a_kafka_controller(
    tmp_path: Path, tools: ToolHost
) -> None:
    with ExitStack() as stack:
        kafka = KraftController(RELEASE, tmp_path, None, CLUSTER, properties=OF_CONTROLLERS)
        stack.callback(kafka.kill)
        kafka.start().wait_started()
        ours = FormattedBridgeBroker(
            RELEASE, 1, tmp_path, None, controller_port=kafka.port, sasl=True, properties=OF_BROKERS
        )
        stack.callback(ours.kill)
        ours.format(CLUSTER).start().wait_line("state=running")
        Clients(tools, ours).judged_by_the_principal()
        shown = "".join(ours.lines())
        assert "a login failed" in shown
        assert not [password for password in USERS.values() if password in shown]


def test_a_migrating_kafka_broker_and_our_controller_log_in_to_each_other(
    tmp_path: Path, tools: ToolHost, zookeeper: ZooKeeper
) -> None:
    both: dict[str, object] = {**sasl("CONTROLLER", "INTERNAL", "SASL")}
    both["listener.security.protocol.map"] = (
        f"{both['listener.security.protocol.map']},CLIENT:PLAINTEXT"
    )
    with ExitStack() as stack:
        kafka = KafkaBroker(RELEASE, 1, tmp_path, zookeeper, sasl=True, properties=both)
        stack.callback(kafka.kill)
        kafka.start().wait_started()
        clients = Clients(tools, kafka)
        assert "Created topic before" in clients.create("admin", "before")
        kafka.stop()
        ours = Bridge(tmp_path / "controller", zookeeper.hosts, properties=both)
        stack.callback(ours.kill)
        ours.format(kafka_cluster_id(kafka)).start().wait_started()
        kafka.migrate(ours.port).start().wait_started()
        ours.wait_dual_write()
        assert "Created topic after" in clients.create("admin", "after")
        kafka.wait_until("both topics with a leader", lambda: told_of_both(clients))


def told_of_both(clients: Clients) -> bool:
    """The broker learns the new topic from our requests, on its listener with a login."""
    described = clients.run("admin", TOPICS, "--describe")
    return all(
        f"Topic: {name}\tPartition: 0\tLeader: 1" in described for name in ("before", "after")
    )


def test_by_tls_the_certificate_or_the_login_says_who_it_is(
    tmp_path: Path, tools: ToolHost
) -> None:
    """A Kafka broker under our controller by its certificate, clients of both brokers by SASL."""
    authority = Authority(tmp_path)
    stores: dict[str, dict[str, object]] = {
        name: {
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": authority.issue(name, HOST),
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": authority.pem,
        }
        for name in ("controller", "broker-1", "broker-2")
    }
    protocols = {
        "listener.security.protocol.map": (
            "CONTROLLER:SSL,SASL:SASL_SSL,INTERNAL:PLAINTEXT,CLIENT:PLAINTEXT"
        ),
        "listener.name.controller.ssl.client.auth": "required",
    }
    bearers = ";".join(bearer(stores[f"broker-{id_}"]["ssl.keystore.location"]) for id_ in (1, 2))
    with ExitStack() as stack:
        properties = {
            **protocols,
            **ACLS,
            **stores["controller"],
            "super.users": f"{bearers};User:admin",
        }
        ours = Bridge(tmp_path / "controller", None, properties=properties)
        stack.callback(ours.kill)
        ours.format(CLUSTER).start().wait_started()
        for id_, kind in ((1, FormattedBroker), (2, FormattedBridgeBroker)):
            told = {**OF_BROKERS, **protocols, **stores[f"broker-{id_}"]}
            broker = kind(
                RELEASE, id_, tmp_path, None, controller_port=ours.port, sasl=True, properties=told
            )
            stack.callback(broker.kill)
            broker.format(CLUSTER).start().wait_started()
            clients = Clients(tools, broker, authority.pem)
            wait_for("a topic", partial(created, clients, f"of-{id_}"))
            assert "TopicAuthorizationException" in clients.create("alice", "alices")


def bearer(certificate: object) -> str:
    """Its principal, as the text of a properties file."""
    _, _, text = Path(str(certificate)).read_text().partition("-----BEGIN CERTIFICATE-----")
    text = text.partition("-----END CERTIFICATE-----")[0]
    return f"User:{subject_of(base64.b64decode(text))}".replace("\\", "\\\\")


def created(clients: Clients, topic: str) -> bool:
    told = clients.create("admin", topic)
    return "Created topic" in told or "already exists" in told


def kafka_cluster_id(broker: KafkaBroker) -> str:
    """From its ``meta.properties``."""
    lines = (broker.data / "meta.properties").read_text().splitlines()
    return next(line.partition("=")[2] for line in lines if line.startswith("cluster.id="))
