"""Scripted faults on a running controller: what clients see, and what the metadata holds after."""

from __future__ import annotations

import json
import socket
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from emulator.io.operator_route import FAULTS_TOKEN_FILE
from emulator.testing import Cluster, ClusterError, Fault, FaultMissedError, ScriptError
from wire import messages as m
from wire.errors import ErrorCode

SETTINGS = {"kraftbridge.metrics.port": "0", "kraftbridge.faults.enable": "true"}


def topics(*names: str) -> m.CreateTopicsRequest:
    topic = m.CreateTopicsRequest.CreatableTopic
    made = [topic(name=name, num_partitions=1, replication_factor=1) for name in names]
    return m.CreateTopicsRequest(topics=made, timeout_ms=1_000)


def scram(user: str = "ann") -> m.AlterUserScramCredentialsRequest:
    upsert = m.AlterUserScramCredentialsRequest.ScramCredentialUpsertion
    return m.AlterUserScramCredentialsRequest(
        upsertions=[
            upsert(name=user, mechanism=1, iterations=4096, salt=b"salt", salted_password=b"p" * 32)
        ]
    )


def offset(cluster: Cluster) -> int:
    """Records of the log; NoOps are off in these clusters."""
    return int(cluster.status()["offsets"]["log_end"])


QUIET = {"metadata.max.idle.interval.ms": "0"}


def test_not_controller_n_times_and_then_the_request_is_executed() -> None:
    fault = Fault(api="AlterUserScramCredentials", error="NOT_CONTROLLER", times=2)
    with Cluster(properties=QUIET, faults=[fault]) as cluster:
        before = offset(cluster)
        codes = []
        for _ in range(3):
            codes.append(cluster.request(scram()).results[0].error_code)
            if len(codes) < 3:
                assert offset(cluster) == before
        assert codes == [41, 41, 0]
        assert offset(cluster) == before + 1
        assert cluster.faults[0]["fired"] == 2


def test_a_lost_request_has_no_effect_and_a_lost_answer_has_it() -> None:
    with Cluster(properties=QUIET) as cluster:
        before = offset(cluster)
        cluster.add_faults(Fault(api="AlterUserScramCredentials", drop=True, times=1))
        with pytest.raises(OSError, match="closed"):
            cluster.request(scram())
        assert offset(cluster) == before
        lost = Fault(api="AlterUserScramCredentials", drop=True, executed=True, times=1)
        cluster.add_faults(lost)
        with pytest.raises(OSError, match="closed"):
            cluster.request(scram())
        assert offset(cluster) == before + 1


def test_an_answer_is_late_or_never_comes() -> None:
    late = Fault(api="DescribeCluster", delay_ms=300, times=1)
    silent = Fault(api="DescribeCluster", silent=True, client_id="patient")
    with Cluster(faults=[late, silent]) as cluster:
        with pytest.raises(TimeoutError):
            cluster.request(m.DescribeClusterRequest(endpoint_type=2), timeout_s=0.2)
        with pytest.raises(TimeoutError):
            cluster.request(
                m.DescribeClusterRequest(endpoint_type=2), timeout_s=0.2, client_id="patient"
            )
        assert cluster.request(m.DescribeClusterRequest(endpoint_type=2)).error_code == 0


def test_a_fault_by_topic_leaves_the_others() -> None:
    with Cluster(
        faults=[Fault(api="CreateTopics", topic="b", error="POLICY_VIOLATION")]
    ) as cluster:
        answer = cluster.request(topics("a", "b"))
    found = {one.name: ErrorCode(one.error_code) for one in answer.topics}
    # There is no broker that could hold the other.
    assert found == {"a": ErrorCode.INVALID_REPLICATION_FACTOR, "b": ErrorCode.POLICY_VIOLATION}


def test_a_fault_that_never_fired_is_an_error_at_the_end(tmp_path: Path) -> None:
    script = tmp_path / "faults.toml"
    script.write_text('[[fault]]\napi = "DeleteTopics"\nerror = "NOT_CONTROLLER"\n')
    with (
        pytest.raises(FaultMissedError, match="DeleteTopics: NOT_CONTROLLER"),
        Cluster(faults=script),
    ):
        pass
    with pytest.raises(KeyError), Cluster(faults=script):
        raise KeyError
    with pytest.raises(FaultMissedError), Cluster(faults=script) as cluster:
        cluster.clear_faults()
    with Cluster(faults=[Fault(api="DeleteTopics", drop=True, may_miss=True)]):
        pass


def test_a_script_that_cannot_be_read_is_refused_before_the_start() -> None:
    with pytest.raises(ScriptError, match="no API"):
        Cluster(faults='[[fault]]\napi = "CreateTopic"\ndrop = true\n')


# ---------------------------------------------------------------- over HTTP
@pytest.fixture
def node() -> Iterator[Cluster]:
    with Cluster(properties=SETTINGS) as made:
        yield made


def token_of(cluster: Cluster) -> str:
    return (cluster.folder / "controller-3000" / FAULTS_TOKEN_FILE).read_text().strip()


def ask(
    cluster: Cluster,
    method: str = "GET",
    body: bytes | None = None,
    token: str | None = None,
    kind: str = "application/toml",
) -> tuple[int, Any]:
    token = token_of(cluster) if token is None else token
    headers = {"Content-Type": kind}
    if token:
        headers["Authorization"] = f"Bearer {token}"
    request = urllib.request.Request(
        f"{cluster.http()}/faults", data=body, method=method, headers=headers
    )
    try:
        with urllib.request.urlopen(request, timeout=300) as answer:
            return answer.status, json.loads(answer.read())["fault"]
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode()


def test_faults_are_set_shown_and_removed_over_http(node: Cluster) -> None:
    assert ask(node) == (200, [])
    text = b'[[fault]]\napi = "DescribeCluster"\nerror = "UNKNOWN_SERVER_ERROR"\ntimes = 1\n'
    written = {"api": "DescribeCluster", "error": "UNKNOWN_SERVER_ERROR", "times": 1}
    shown = {**written, "calls": 0, "fired": 0, "unfit": ""}
    assert ask(node, "POST", text) == (200, [shown])
    assert node.request(m.DescribeClusterRequest(endpoint_type=2)).error_code == -1
    shown["calls"] = shown["fired"] = 1
    assert ask(node) == (200, [shown])
    body = json.dumps({"fault": [{**written, "may_miss": True}]}).encode()
    assert len(ask(node, "POST", body, kind="application/json; charset=utf-8")[1]) == 2
    assert ask(node, "DELETE") == (200, [])
    assert node.request(m.DescribeClusterRequest(endpoint_type=2)).error_code == 0
    assert ask(node, "PUT", b"")[0] == 405


@pytest.mark.parametrize("token", ["", "wrong", "ä"])
@pytest.mark.parametrize("method", ["GET", "POST", "DELETE"])
def test_without_the_token_nothing_is_told_or_changed(
    node: Cluster, token: str, method: str
) -> None:
    given = token.encode().decode("latin-1") if token else ""
    code, said = ask(node, method, b'[[fault]]\napi = "Fetch"\ndrop = true\n', token=given)
    assert code == 403
    assert token_of(node) not in said
    assert node.faults == []


def test_the_token_is_for_its_user_only_and_goes_with_the_node(tmp_path: Path) -> None:
    stale = tmp_path / "controller-3000" / FAULTS_TOKEN_FILE
    stale.parent.mkdir()
    tokens = set()
    for _ in range(2):
        stale.write_text("stale\n")
        stale.chmod(0o644)
        with stale.open() as held, Cluster(properties=SETTINGS, folder=tmp_path) as cluster:
            assert stale.stat().st_mode & 0o777 == 0o600
            tokens.add(token_of(cluster))
            # Whoever has the old file open does not see the token in it.
            assert held.read() == "stale\n"
        assert not stale.exists()
    assert len(tokens) == 2
    assert {len(one) for one in tokens} == {64}


def test_a_broker_has_the_page_too_and_a_token_of_its_own() -> None:
    text = b'[[fault]]\napi = "Metadata"\ndrop = true\ntimes = 1\n'
    with Cluster(brokers=1, broker_properties=SETTINGS) as cluster:
        path = next(cluster.folder.rglob(FAULTS_TOKEN_FILE))
        assert path.stat().st_mode & 0o777 == 0o600
        token = path.read_text().strip()
        assert ask(cluster, "POST", text, token="wrong")[0] == 403
        assert ask(cluster, "POST", text, token)[0] == 200
        with pytest.raises(OSError, match="connection"):
            cluster.request(m.MetadataRequest())
        code, (fault,) = ask(cluster, token=token)
        assert (code, fault["fired"]) == (200, 1)
        assert cluster.request(m.MetadataRequest()).brokers
    assert not path.exists()


@pytest.mark.parametrize("method", ["GET", "POST", "DELETE"])
def test_where_faults_are_off_there_is_no_such_page(method: str) -> None:
    with Cluster(properties={"kraftbridge.metrics.port": "0"}) as cluster:
        assert not (cluster.folder / "controller-3000" / FAULTS_TOKEN_FILE).exists()
        assert ask(cluster, method, b"", token="x")[0] == 404


def test_faults_need_the_metrics_port() -> None:
    with (
        pytest.raises(ClusterError, match=r"needs kraftbridge\.metrics\.port"),
        Cluster(properties={"kraftbridge.faults.enable": "true"}),
    ):
        raise AssertionError("started")


BODIES = [
    (b"\xff\xfe", 400, "cannot be read"),
    (b"x = " + b"[" * 60_000, 400, "cannot be read"),
    (b'[[fault]]\napi = "Nothing"\ndrop = true\n', 400, "no API of that name"),
    (b"# " + b"x" * 70_000, 413, "too large"),
    # Reading a key of so many parts would take most of a minute.
    (b"a" + b".a" * 32_000 + b" = 1", 400, "dots"),
]


@pytest.mark.parametrize(
    ("body", "code", "said"), BODIES, ids=["bytes", "deep", "api", "long", "dots"]
)
def test_a_hostile_body_is_refused_and_changes_nothing(
    node: Cluster, body: bytes, code: int, said: str
) -> None:
    found, why = ask(node, "POST", body)
    assert (found, said in why) == (code, True)
    assert node.faults == []


@pytest.mark.parametrize(
    ("head", "code"),
    [
        ("Content-Length: -1", 400),
        ("Content-Length: x", 400),
        ("Content-Length: ²", 400),
        ("Content-Length: 99999999999999999999", 413),
        ("Transfer-Encoding: chunked", 411),
        ("X: " + "x" * 9_000, 413),
        ("Content-Length: 3", 403),
    ],
)
def test_a_hostile_head_is_refused(node: Cluster, head: str, code: int) -> None:
    host, _, port = node.http().removeprefix("http://").rpartition(":")
    with socket.create_connection((host, int(port)), 300) as peer:
        peer.sendall(
            f"POST /faults HTTP/1.1\r\nHost: localhost\r\n{head}\r\n\r\nabc".encode("latin-1")
        )
        answer = b""
        while data := peer.recv(4096):
            answer += data
    assert answer.startswith(f"HTTP/1.1 {code} ".encode())
    assert ask(node) == (200, [])


def test_a_body_that_comes_in_pieces_is_taken_once(node: Cluster) -> None:
    host, _, port = node.http().removeprefix("http://").rpartition(":")
    body = b'[[fault]]\napi = "DescribeCluster"\ndrop = true\nmay_miss = true\n'
    head = (
        f"POST /faults HTTP/1.1\r\nHost: {host}\r\nAuthorization: Bearer {token_of(node)}\r\n"
        f"Content-Length: {len(body)}\r\n\r\n"
    ).encode()
    with socket.create_connection((host, int(port)), 300) as peer:
        peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for part in (head[:9], head[9:], body[:20], body[20:], body):
            peer.sendall(part)
        assert peer.recv(4096).startswith(b"HTTP/1.1 200 ")
    assert len(node.faults) == 1
