"""``kraft-bridge elect-leaders`` against brokers that follow a script."""

from __future__ import annotations

import json
import socket
import socketserver
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from emulator.cli import app
from emulator.commands.elect_leaders import by_brokers as work
from emulator.commands.elect_leaders import command
from emulator.commands.elect_leaders.by_brokers import read_partitions
from emulator.io import kafka_client
from wire import messages as m
from wire.frame import decode_request, encode_response, framed

RUNNER = CliRunner()
Answer = m.ElectLeadersResponse
Script = Callable[[m.ElectLeadersRequest], Answer]


def run(*arguments: object) -> tuple[int, str, str]:
    result = RUNNER.invoke(app, ["elect-leaders", *(str(one) for one in arguments)])
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result.exit_code, result.stdout, result.stderr


RFC_NONCE = "rOprNGfwEbeRWgbNEkqO"
RFC_FIRST = b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO"
RFC_CHALLENGE = (
    b"r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"
)
RFC_FINAL = (
    b"c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,"
    b"p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
)
RFC_PROOF = b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="


class Broker:
    """Names itself as the controller, and answers ElectLeaders as the script says."""

    def __init__(self, script: Script, version: int = 2, controller: int = 7) -> None:
        self.asked: list[tuple[int, m.ElectLeadersRequest]] = []
        self.address = ""
        self.mechanism = "PLAIN"
        self.logins: list[bytes] = []
        self.proof = RFC_PROOF
        self._script = script
        self._version = version
        self._controller = controller

    def answer(self, version: int, request: Any) -> Any:
        if isinstance(request, m.ApiVersionsRequest):
            kind = m.ApiVersionsResponse
            ranges = {3: (0, 12), 17: (0, 1), 18: (0, 3), 36: (0, 2), 43: (0, self._version)}
            return kind(
                api_keys=[
                    kind.ApiVersion(api_key=key, min_version=low, max_version=high)
                    for key, (low, high) in ranges.items()
                ]
            )
        if isinstance(request, m.MetadataRequest):
            host, _, port = self.address.rpartition(":")
            me = m.MetadataResponse.MetadataResponseBroker(node_id=7, host=host, port=int(port))
            return m.MetadataResponse(brokers=[me], controller_id=self._controller)
        if isinstance(request, m.SaslHandshakeRequest):
            known = request.mechanism == self.mechanism
            code = 0 if known else 33
            return m.SaslHandshakeResponse(error_code=code, mechanisms=(self.mechanism,))
        if isinstance(request, m.SaslAuthenticateRequest):
            return self._authenticate(bytes(request.auth_bytes))
        self.asked.append((version, request))
        return self._script(request)

    def _authenticate(self, token: bytes) -> m.SaslAuthenticateResponse:
        """PLAIN, or SCRAM with the exchange of RFC 7677 section 3, whose nonce the client has."""
        answers = {b"\0user\0pencil": b"", RFC_FIRST: RFC_CHALLENGE, RFC_FINAL: self.proof}
        self.logins.append(token)
        if token not in answers:
            return m.SaslAuthenticateResponse(error_code=58, error_message="Authentication failed")
        return m.SaslAuthenticateResponse(auth_bytes=answers[token])


@contextmanager
def serving(broker: Broker) -> Iterator[Broker]:
    class Handler(socketserver.StreamRequestHandler):
        def handle(self) -> None:
            while size := self.rfile.read(4):
                header, request = decode_request(self.rfile.read(int.from_bytes(size, "big")))
                answer = broker.answer(header.api_version, request)
                self.wfile.write(
                    framed(
                        encode_response(
                            header.api_key, header.api_version, header.correlation_id, answer
                        )
                    )
                )

    class Server(socketserver.ThreadingTCPServer):
        daemon_threads = True

    with Server(("127.0.0.1", 0), Handler) as server:
        broker.address = f"127.0.0.1:{server.server_address[1]}"
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield broker
        finally:
            server.shutdown()
            thread.join()


def told(*outcomes: tuple[str, int, int, str | None], code: int = 0) -> Answer:
    topics: dict[str, Any] = {}
    for topic, index, error, message in outcomes:
        one = topics.setdefault(topic, Answer.ReplicaElectionResult(topic=topic))
        one.partition_result.append(
            Answer.PartitionResult(partition_id=index, error_code=error, error_message=message)
        )
    return Answer(error_code=code, replica_election_results=list(topics.values()))


ASKED: list[tuple[list[str], int, list[tuple[str, list[int]]] | None]] = [
    ([], 0, None),
    (["--all-topic-partitions"], 0, None),
    (["--topic", "t", "--partition", "3"], 0, [("t", [3])]),
    (["--topic", "t", "--partition", "0", "--election-type", "unclean"], 1, [("t", [0])]),
    (["--path-to-json-file", "{file}"], 0, [("a", [1, 0]), ("b", [2])]),
]


@pytest.mark.parametrize(("options", "kind", "topics"), ASKED)
@pytest.mark.requirement("K09")
def test_what_is_asked(
    tmp_path: Path, options: list[str], kind: int, topics: list[tuple[str, list[int]]] | None
) -> None:
    file = tmp_path / "partitions.json"
    wanted = [{"topic": t, "partition": p} for t, p in [("a", 1), ("b", 2), ("a", 0)]]
    file.write_text(json.dumps({"partitions": wanted}))
    with serving(Broker(lambda _: told(("t", 0, 0, None)))) as broker:
        options = [one.format(file=file) for one in options]
        code, _, _ = run("--bootstrap-server", broker.address, "--timeout", 5, *options)
    assert code == 0
    ((version, request),) = broker.asked
    found = request.topic_partitions
    assert version == 2
    assert request.election_type == kind
    assert request.timeout_ms == 5_000
    listed = None if found is None else [(one.topic, list(one.partitions)) for one in found]
    assert listed == topics


def test_what_is_answered() -> None:
    outcomes = (
        ("t", 10, 0, None),
        ("t", 2, 0, None),
        ("s", 0, 84, "Leader election not needed for topic partition."),
        ("u", 0, 80, "The preferred leader was not available."),
        ("u", 1, 9999, None),
        ("u", 2, 80, "a\nb\x1b[2J"),
    )
    with serving(Broker(lambda _: told(*outcomes))) as broker:
        code, out, err = run("--bootstrap-server", broker.address)
    assert code == 1
    assert out.splitlines() == [
        "Successfully completed leader election (PREFERRED) for partitions t-2, t-10",
        "Valid replica already elected for partitions s-0",
    ]
    failed = "Error completing leader election (PREFERRED) for partition"
    why = "PREFERRED_LEADER_NOT_AVAILABLE: The preferred leader was not available."
    assert err.splitlines() == [
        f"{failed} u-0: {why}",
        f"{failed} u-1: error 9999",
        rf"{failed} u-2: PREFERRED_LEADER_NOT_AVAILABLE: a\nb\x1b[2J",
        "3 replica(s) could not be elected",
    ]


@pytest.mark.parametrize("answer", [told(), told(("s", 0, 84, None))])
def test_nothing_to_do_is_good(answer: Answer) -> None:
    with serving(Broker(lambda _: answer)) as broker:
        code, out, err = run("--bootstrap-server", f"127.0.0.1:1,{broker.address}")
    assert (code, err) == (0, "")
    assert out


@pytest.mark.parametrize("version", [0, 2])
def test_it_asks_again_until_it_has_found_the_controller(version: int) -> None:
    calls: list[int] = []

    def script(_request: m.ElectLeadersRequest) -> Answer:
        calls.append(1)
        if len(calls) < 3:
            return told(("t", 0, 41, "no"), code=41)
        return told(("t", 0, 0, None))

    with serving(Broker(script, version)) as broker:
        code, out, _ = run("--bootstrap-server", broker.address, "--topic", "t", "--partition", 0)
    assert (code, len(calls)) == (0, 3)
    assert "t-0" in out


def test_a_refusal_of_the_whole_is_told() -> None:
    with serving(Broker(lambda _: told(code=31))) as broker:
        code, _, err = run("--bootstrap-server", broker.address)
    assert (code, err) == (1, "kraft-bridge: CLUSTER_AUTHORIZATION_FAILED\n")


def test_an_old_broker_is_asked_for_what_it_understands() -> None:
    with serving(Broker(lambda _: told(("t", 0, 0, None)), version=0)) as broker:
        where = ("--bootstrap-server", broker.address, "--topic", "t", "--partition", 0)
        assert run(*where)[0] == 0
        code, _, err = run(*where, "--election-type", "unclean")
    assert [version for version, _ in broker.asked] == [0]
    assert code == 1
    assert "version 0" in err


def test_nobody_answers() -> None:
    with serving(Broker(lambda _: told(), controller=-1)) as broker:
        code, _, err = run("--bootstrap-server", broker.address, "--timeout", 0.3)
    assert code == 3
    assert "knows no controller" in err
    code, _, err = run("--bootstrap-server", broker.address, "--timeout", 0.3)
    assert code == 3
    assert broker.address in err


USAGE: list[tuple[list[str], str]] = [
    ([], "--bootstrap-server is missing"),
    (["--bootstrap-server", "h:1", "--zookeeper", "h:1"], "exclude each other"),
    (["--bootstrap-server", "nowhere"], "not host:port"),
    (["--bootstrap-server", "h:1", "--topic", "t"], "given together"),
    (["--bootstrap-server", "h:1", "--partition", "0"], "given together"),
    (["--bootstrap-server", "h:1", "--topic", "t", "--all-topic-partitions"], "exclude"),
    (["--bootstrap-server", "h:1", "--path-to-json-file", "/no/such"], "No such file"),
    (["--bootstrap-server", "h:1", "--election-type", "fair"], "preferred or unclean"),
    (["--zookeeper", "h:1", "--election-type", "unclean"], "preferred leaders only"),
    (["--zookeeper", "a:b:c"], "--zookeeper: a:b:c is not host:port"),
]


@pytest.mark.parametrize(("options", "why"), USAGE)
@pytest.mark.requirement("K04")
def test_the_command_line_is_wrong(options: list[str], why: str) -> None:
    """KIP-183 "Proposed Changes": both ways together are an error."""
    code, out, err = run(*options)
    assert (code, out) == (2, "")
    assert why in err


@pytest.mark.parametrize(
    ("content", "why"),
    [
        ("", "not a list of partitions"),
        ('{"partitions": [{"topic": "t"}]}', "partition"),
        ('{"partitions": []}', "names no partition"),
        ('{"partitions": [{"topic": "t", "partition": 1099511627776}]}', "1099511627776"),
        ('{"partitions": [{"topic": "t", "partition": -1}]}', "partition -1"),
        ('{"partitions": [{"topic": "a b", "partition": 0}]}', "Topic name is invalid"),
        ("[" * 100_000, "not a list of partitions"),
        ('{"partitions": [{"topic": "t", "partition": 1}, {"topic": "t", "partition": 1}]}', "t-1"),
    ],
)
def test_a_file_that_cannot_be_used(tmp_path: Path, content: str, why: str) -> None:
    path = tmp_path / "partitions.json"
    path.write_text(content)
    with pytest.raises(ValueError, match=why):
        read_partitions(path)


def test_a_long_list_is_read_in_a_time_that_grows_with_it(tmp_path: Path) -> None:
    """Each was counted in the whole list: for this one that takes minutes."""
    path = tmp_path / "partitions.json"
    wanted = [("t", number) for number in range(100_000)]
    path.write_text(
        json.dumps({"partitions": [{"topic": t, "partition": number} for t, number in wanted]})
    )
    assert read_partitions(path) == wanted


@pytest.mark.requirement("K19")
def test_help_says_what_a_preferred_replica_is_and_when_nobody_has_to_ask() -> None:
    """KIP-183 "Proposed Changes"."""
    code, out, _ = run("--help")
    text = " ".join(out.split())
    assert code == 0
    assert "The preferred replica of a partition is the first one in its list of replicas" in text
    assert "auto.leader.rebalance.enable=true" in text
    assert "this command is not needed" in text


# --- logging in


def client_properties(folder: Path, mechanism: str, password: str = "pencil", **more: str) -> Path:
    module = "Plain" if mechanism == "PLAIN" else "Scram"
    values = {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": mechanism,
        "sasl.jaas.config": f"org.apache.kafka.common.security.{module}LoginModule required "
        f'username="user" password="{password}";',
        **{key.replace("_", "."): value for key, value in more.items()},
    }
    path = folder / "client.properties"
    path.write_text("".join(f"{key}={value}\n" for key, value in values.items()))
    return path


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256"])
def test_it_logs_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mechanism: str) -> None:
    """SCRAM: the exchange of RFC 7677 section 3."""
    monkeypatch.setattr("emulator.net.login.secrets.token_hex", lambda _size: RFC_NONCE)
    path = client_properties(tmp_path, mechanism)
    with serving(Broker(lambda _: told(("t", 0, 0, None)))) as broker:
        broker.mechanism = mechanism
        code, _, err = run("--bootstrap-server", broker.address, "--admin.config", path)
    assert (code, err) == (0, "")
    logins = [b"\0user\0pencil"] if mechanism == "PLAIN" else [RFC_FIRST, RFC_FINAL]
    assert broker.logins == 2 * logins, "to the broker, then to the controller it named"


@pytest.mark.parametrize(
    ("mechanism", "fields", "why"),
    [
        ("PLAIN", {"password": "pen"}, "Authentication failed"),
        ("SCRAM-SHA-512", {}, "does not support SCRAM-SHA-512; it supports SCRAM-SHA-256"),
    ],
)
def test_a_login_that_is_refused_is_told(
    tmp_path: Path, mechanism: str, fields: dict[str, str], why: str
) -> None:
    path = client_properties(tmp_path, mechanism, **fields)
    with serving(Broker(lambda _: told())) as broker:
        broker.mechanism = "PLAIN" if mechanism == "PLAIN" else "SCRAM-SHA-256"
        code, _, err = run("--bootstrap-server", broker.address, "--admin.config", path)
    assert code == 1
    assert why in err
    assert broker.asked == []


def test_a_broker_that_does_not_know_the_password_is_not_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("emulator.net.login.secrets.token_hex", lambda _size: RFC_NONCE)
    path = client_properties(tmp_path, "SCRAM-SHA-256")
    with serving(Broker(lambda _: told())) as broker:
        broker.mechanism, broker.proof = "SCRAM-SHA-256", b"v=AAAA"
        code, _, err = run("--bootstrap-server", broker.address, "--admin.config", path)
    assert code == 1
    assert "did not prove" in err
    assert broker.asked == []


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        ({"security_protocol": "SASL_SSL"}, "SASL_PLAINTEXT are supported"),
        ({"sasl_mechanism": "GSSAPI"}, "PLAIN, SCRAM-SHA-256"),
        ({"sasl_jaas_config": "nonsense"}, "one module with username and password"),
    ],
)
def test_client_properties_that_cannot_be_used(
    tmp_path: Path, fields: dict[str, str], why: str
) -> None:
    path = client_properties(tmp_path, "PLAIN", **fields)
    code, _, err = run("--bootstrap-server", "h:1", "--admin.config", path)
    assert code == 2
    assert why in err
    assert "pencil" not in err


@contextmanager
def port(handle: Callable[[socket.socket], None]) -> Iterator[str]:
    """A server that is no broker; what it does with the first bytes of a connection."""

    class Handler(socketserver.BaseRequestHandler):
        def handle(self) -> None:
            if self.request.recv(1_000):
                handle(self.request)

    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield f"127.0.0.1:{server.server_address[1]}"
        server.shutdown()
        thread.join()


def page(connection: socket.socket) -> None:
    """As the metrics port: what is no HTTP is refused."""
    connection.sendall(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n")


def silence(connection: socket.socket) -> None:
    """It reads until the client has closed the connection."""
    while connection.recv(1_000):
        pass


@pytest.mark.parametrize("verb", ["elect-leaders", "load"])
@pytest.mark.parametrize(
    ("handle", "says"),
    [
        (socket.socket.close, "it closes the connection when it is asked; is it the address of a"),
        (page, "the server there is not a Kafka broker: "),
        (silence, "no answer within 0.6 s; is it the address of a broker?"),
    ],
    ids=["closes", "a page", "silent"],
)
def test_what_is_no_broker_is_told_at_once_by_both_verbs(
    verb: str,
    handle: Callable[[socket.socket], None],
    says: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It was asked again and again for as long as ``--timeout``."""
    for module in (kafka_client, command):
        monkeypatch.setattr(module, "BROKER_S", 0.6 if handle is silence else 30.0)
    calls: list[object] = []
    monkeypatch.setattr(work, "ask_controller", calls.append)
    with port(handle) as address:
        more = ["--rate", "1", "--duration", "1"] if verb == "load" else []
        result = RUNNER.invoke(app, [verb, "--bootstrap-server", address, *more])
    assert (result.exit_code, result.stdout, calls) == (3, "", [])
    assert f"kraft-bridge: --bootstrap-server: {address}: {says}" in result.stderr


def test_a_controllers_port_is_told_as_by_a_load() -> None:
    class Controller(Broker):
        def answer(self, version: int, request: Any) -> Any:
            found = super().answer(version, request)
            if isinstance(request, m.ApiVersionsRequest):
                found.api_keys = [one for one in found.api_keys if one.api_key != 3]
            return found

    with serving(Controller(lambda _: Answer())) as one:
        code, out, err = run("--bootstrap-server", one.address)
    assert (code, out) == (3, "")
    assert "this is no broker: it does not offer Metadata; a controller's port does not" in err
