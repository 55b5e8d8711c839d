"""``preflight --connect``: each listener once; no password but over TLS that was verified."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from emulator.commands.preflight import connecting
from emulator.commands.preflight.connecting import connect_to, probe
from emulator.operations.preflight.node_file import Properties
from emulator.operations.preflight.reaching import addresses
from emulator.operations.preflight.survey import Address, ListenerTrouble, Survey
from emulator.testing.cluster import Cluster
from tests.kit.certificates import Authority
from tests.kit.tls_server import HOST, TlsServer
from tests.unit.commands.running import run
from tests.unit.operations.preflight.clean import clean

PLAIN_JAAS = (
    "org.apache.kafka.common.security.plain.PlainLoginModule required "
    'username="me" password="very-secret";'
)


def at(port: int, protocol: str = "PLAINTEXT", host: str = HOST, **values: str) -> Address:
    file = Properties("b1", {"listeners": f"X://:{port}", **values})
    return Address("broker 1", "X", host, port, protocol, file)


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path)


@pytest.fixture
def nobody() -> int:
    """A port at which nothing listens."""
    with closing(socket.create_server((HOST, 0))) as one:
        return int(one.getsockname()[1])


class Silent:
    """Takes connections; says ``answer`` to each, or nothing, and keeps what it was sent."""

    def __init__(self, answer: bytes | None = None) -> None:
        self.heard = b""
        self.answer = answer
        self.listener = socket.create_server((HOST, 0))
        self.port = int(self.listener.getsockname()[1])
        self.thread = threading.Thread(target=self._serve, daemon=True)
        self.thread.start()

    def _serve(self) -> None:
        while True:
            try:
                taken, _ = self.listener.accept()
            except OSError:
                return
            with taken:
                self.heard += taken.recv(1 << 16)
                if self.answer is None:
                    taken.recv(1 << 16)
                else:
                    taken.sendall(self.answer)

    def close(self) -> None:
        self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()


@pytest.fixture
def silent(monkeypatch: pytest.MonkeyPatch) -> Iterator[Silent]:
    monkeypatch.setattr(connecting, "STEP_S", 0.3)
    with closing(Silent()) as one:
        yield one


def test_a_node_answers_apiversions() -> None:
    with Cluster(brokers=1, fsync=False) as cluster:
        host, _, port = cluster.bootstrap.rpartition(":")
        found = probe(at(int(port), host=host), login=False)
    assert (found.trouble, found.unseen) == (None, ())
    assert found.ms > 0


def test_each_trouble_has_a_name(nobody: int, silent: Silent) -> None:
    assert probe(at(nobody), login=False).trouble is ListenerTrouble.REFUSED
    assert probe(at(1, host="no-such-host.invalid"), login=False).trouble is ListenerTrouble.NAME
    assert probe(at(silent.port), login=False).trouble is ListenerTrouble.SILENT
    with closing(Silent(b"HTTP/1.1 400 Bad Request\r\n\r\n")) as other:
        assert probe(at(other.port), login=False).trouble is ListenerTrouble.NO_KAFKA
    found = probe(at(nobody, ""), login=False)
    assert found.unseen == ("no file or registration says its security protocol",)


@pytest.mark.parametrize("said", ["has expired", "IP address mismatch", "unable to get local"])
def test_a_certificate_is_verified_with_its_name_its_end_and_its_issuer(
    said: str, authority: Authority, tmp_path: Path
) -> None:
    trust = Authority(tmp_path, "other").pem if said == "unable to get local" else authority.pem
    name = "elsewhere.example" if said == "IP address mismatch" else HOST
    with closing(TlsServer(authority.issue("server", name, expired="ex" in said))) as server:
        values = {"ssl.truststore.location": str(trust), "ssl.truststore.type": "PEM"}
        found = probe(at(server.port, "SSL", **values), login=False)
    assert found.trouble is ListenerTrouble.CERTIFICATE
    assert said in found.text


def test_without_the_truststore_only_the_end_of_the_certificate_is_read(
    authority: Authority,
) -> None:
    with closing(TlsServer(authority.issue("server", HOST))) as server:
        found = probe(
            at(server.port, "SSL", **{"ssl.truststore.location": "/not/here.pem"}), login=True
        )
    assert found.trouble is None
    assert found.ends is not None
    assert found.unseen[0] == "TLS is not verified: /not/here.pem is not on this machine"


def test_a_truststore_that_cannot_be_read_says_nothing_of_the_listener(
    authority: Authority, tmp_path: Path
) -> None:
    trust = tmp_path / "trust.pem"
    trust.write_text("no certificate")
    values = {"ssl.truststore.location": str(trust), "ssl.truststore.type": "PEM"}
    with closing(TlsServer(authority.issue("server", HOST))) as server:
        found = probe(at(server.port, "SSL", **values), login=True)
    assert (found.trouble, found.ends is None) == (None, False)
    assert found.unseen[0].startswith(f"TLS is not verified: ssl.truststore.location={trust}: ")


def test_a_password_is_never_sent_in_plain_text_nor_to_whom_is_not_verified(
    authority: Authority, silent: Silent, tmp_path: Path
) -> None:
    login = {
        "listener.name.x.plain.sasl.jaas.config": PLAIN_JAAS,
        "sasl.mechanism.inter.broker.protocol": "PLAIN",
    }
    found = probe(at(silent.port, "SASL_PLAINTEXT", **login), login=True)
    assert "the login: never sent in plain text" in found.unseen
    assert b"very-secret" not in silent.heard
    trust = {"ssl.truststore.location": str(Authority(tmp_path, "other").pem)}
    with closing(TlsServer(authority.issue("server", HOST))) as server:
        found = probe(at(server.port, "SASL_SSL", **login, **trust), login=True)
        assert found.trouble is ListenerTrouble.CERTIFICATE
        assert not server.read, "nothing was sent to it"
    assert probe(at(silent.port, "SASL_PLAINTEXT"), login=False).unseen == (
        "the login: give --login to try it",
    )


def test_all_together_have_a_limit_and_the_others_are_said_to_be_unseen(silent: Silent) -> None:
    many = [at(silent.port) for _ in range(40)]
    found = connect_to(many, login=False, all_s=0.5)
    assert len(found) == 40
    unseen = [one for one in found if one.unseen]
    assert unseen
    assert unseen[-1].unseen == ("not reached within the 0.5 s that all together have",)


def test_every_voter_and_every_listener_of_a_broker_is_connected_to() -> None:
    told = [str(one) for one in addresses(clean("operated"))]
    assert [one for one in told if one.startswith("controller")] == [
        f"controller {one}: CONTROLLER://c{one}.example.com:9093" for one in (3, 4, 5)
    ]
    assert "broker 0: REPLICATION-9091://kafka-0:9092" in told, "as it is registered"
    by_file = addresses(replace(clean("plain"), nodes={}))
    assert "broker 2: PLAINTEXT://kafka-2:9092" in [str(one) for one in by_file]
    assert addresses(Survey({})) == []
    guide = [str(one) for one in addresses(replace(clean("guide"), nodes={}))]
    assert "controller 3000: CONTROLLER://localhost:9093" in guide, "a bootstrap server"
    present, server = clean("guide").properties, "controller.quorum.bootstrap.servers"
    brokers = [one for one in present if not one.is_controller]
    values = {**brokers[0].values, server: "c1:9093,c2:9093"}
    alone = Survey({}, [replace(brokers[0], values=values)])
    told = [str(one) for one in addresses(alone) if one.node.startswith("controller")]
    assert told == ["controller: CONTROLLER://c1:9093", "controller: CONTROLLER://c2:9093"]


def test_the_verb_says_who_did_not_answer_and_writes_nothing(tmp_path: Path, nobody: int) -> None:
    registered = {
        "version": 5,
        "endpoints": [f"PLAINTEXT://{HOST}:{nobody}"],
        "listener_security_protocol_map": {"PLAINTEXT": "PLAINTEXT"},
    }
    dump = tmp_path / "tree.json"
    dump.write_text(json.dumps({"nodes": {"/brokers/ids/1": {"text": json.dumps(registered)}}}))
    code, out, _ = run("preflight", "--dump", dump, "--connect", "--json")
    assert code != 2
    found = json.loads(out)
    (one,) = (x for x in found["findings"] if x["znode"].startswith("broker 1"))
    assert (one["code"], one["severity"]) == ("PF-B26", "warning")
    assert one["remedy"].startswith("start it")
    assert sorted(x.name for x in tmp_path.iterdir()) == ["tree.json"]
    assert run("preflight", "--dump", dump, "--login")[0] == 2
    without = json.loads(run("preflight", "--dump", dump, "--json")[1])
    assert "use --connect" in next(x["why"] for x in without["not_run"] if x["code"] == "PF-B26")
