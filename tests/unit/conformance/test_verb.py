"""``kraft-bridge conformance``: options, outputs, exit codes, and what is left behind."""

from __future__ import annotations

import copy
import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest

from bench.conformance import connection, judge, patience, runner
from bench.conformance.case import CASES, Facts, Violation, Where
from bench.conformance.choosing import GROUPS, chosen
from bench.conformance.connection import decoded
from bench.conformance.judge import known
from bench.conformance.output import program
from bench.conformance.settings import security
from emulator.commands.json_forms import FORMS
from emulator.testing import Cluster
from tests.kit.json_form import problems
from tests.unit.commands.running import run
from tests.unit.conformance.faulty import Plant, Proxy
from tests.unit.conformance.plants import answering, setting
from tests.unit.conformance.test_conformance import ROOT, address
from tests.unit.conformance.test_conformance import run as run_cases
from tools import requirements
from wire import messages as m
from wire.frame import encode_response

OUTPUTS = ("--json", "--junit", "--html")


@pytest.fixture(scope="module")
def ours() -> Iterator[Cluster]:
    with Cluster(brokers=1, fsync=False) as made:
        yield made


def broker(ours: Cluster) -> str:
    return ours.bootstrap.partition(",")[0]


def topics(ours: Cluster) -> list[str]:
    message = ours.request(m.MetadataRequest(topics=None, allow_auto_topic_creation=False))
    return [one.name for one in message.topics]


def test_it_ends_with_0_and_writes_three_files(ours: Cluster, tmp_path: Path) -> None:
    files = [tmp_path / name for name in ("a.json", "a.xml", "a.html")]
    options = [f"{option}={file}" for option, file in zip(OUTPUTS, files, strict=True)]
    where = ("--bootstrap-server", broker(ours), "--bootstrap-controller", ours.controllers)
    code, out, err = run("conformance", *where, "--only", "scram,quotas", "--seed", "3", *options)
    assert code == 0, out
    lines = out.splitlines()
    assert lines[0].startswith("conformance OK: ")
    assert not lines[1].startswith("next: "), "nothing is to be done"
    assert all(f"written: {one}\n" in err for one in files)
    assert [line.split()[0] for line in lines if line.startswith(("scram", "quotas"))] == [
        "quotas",
        "scram",
    ]
    assert "what is made begins with conformance-" in err
    document = json.loads(files[0].read_text())
    assert problems(FORMS["conformance"], document) == []
    assert {one["outcome"] for one in document["cases"]} <= {"passed", "not judged"}
    suites = ET.fromstring(files[1].read_text())
    assert [one.get("name") for one in suites] == ["quotas", "scram"]
    assert {one.get("failures") for one in suites} == {"0"}
    assert "<h1>conformance OK" in files[2].read_text()
    assert topics(ours) == []


def test_a_fault_ends_with_1_and_is_told_in_each_output(ours: Cluster, tmp_path: Path) -> None:
    plant = answering(m.MetadataRequest, setting(controller_id=77))
    proxy = Proxy(broker(ours), plant)
    try:
        code, out, _ = run(
            "conformance",
            *("--bootstrap-server", proxy.address, "--only", "metadata.brokers"),
            *("--html", tmp_path / "a.html", "--junit", tmp_path / "a.xml"),
        )
        relaxed = run(
            "conformance",
            *("--bootstrap-server", proxy.address, "--only", "metadata.brokers"),
            *("--fail-on", "habit"),
        )
    finally:
        proxy.close()
    assert code == 1
    assert out.startswith("conformance FAILED: 1 of 1 cases failed (1 must)")
    assert out.splitlines()[1].startswith("next: mend the first that FAILED")
    assert "the controller: expected a broker, or -1, got 77" in out
    assert "--only metadata.brokers" in out
    assert relaxed[0] == 0, "only habits make it fail"
    page = (tmp_path / "a.html").read_text()
    assert "0000  " in page, "bytes by offset"
    (program,) = re.findall(r"<pre>(import socket.+?)</pre>", page, re.DOTALL)
    assert "# Metadata v12 to broker" in program
    failure = ET.fromstring((tmp_path / "a.xml").read_text()).find(".//failure")
    assert failure is not None
    assert failure.get("type") == "must"


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (("--only", "nothing-of-that-name", "--list"), "no case has it"),
        ((), "--bootstrap-server HOST:PORT"),
        (("--bootstrap-server", "h"), "--bootstrap-server h"),
        (("--bootstrap-server", "h:1", "--release", "2.8"), "--release is one of"),
        (("--bootstrap-server", "h:1", "--fail-on", "never"), "must, should, habit"),
        (("--bootstrap-server", "h:1", "--fail-on", ""), "must, should, habit"),
        (("--bootstrap-server", "h:1", "--command-config", "/no/such/file"), "--command-config"),
        (("--bootstrap-server", "h:1", "--json", "/no/such/file"), "--json /no/such/file"),
        (("--bootstrap-server", "h:1", "--clean", "orders"), "begin with conformance-"),
    ],
)
def test_a_wrong_line_ends_with_2(options: tuple[str, ...], told: str) -> None:
    code, _, err = run("conformance", *options)
    assert code == 2
    assert told in err


def test_a_server_that_is_not_there_ends_with_3() -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    code, _, err = run("conformance", "--bootstrap-server", f"127.0.0.1:{port}")
    assert code == 3
    assert f"no server answers at 127.0.0.1:{port}: Connection refused" in err


def test_the_other_kind_of_listener_ends_with_3(ours: Cluster) -> None:
    for option, place, told in (
        ("--bootstrap-server", ours.controllers, "--bootstrap-controller"),
        ("--bootstrap-controller", broker(ours), "--bootstrap-server"),
    ):
        code, _, err = run("conformance", option, place)
        assert code == 3
        assert f"name it by {told}" in err


def test_a_broker_in_zookeeper_mode_that_is_not_the_controller_names_it(ours: Cluster) -> None:
    def change(message: Any, version: int) -> None:
        if isinstance(message, m.ApiVersionsResponse):
            kind = m.ApiVersionsResponse.ApiVersion
            message.api_keys = [*message.api_keys, kind(api_key=4, max_version=7)]
        elif isinstance(message, m.CreateTopicsResponse):
            for one in message.topics:
                one.error_code = 41

    proxy = Proxy(broker(ours), Plant(response=change))
    try:
        code, _, err = run("conformance", "--bootstrap-server", proxy.address)
    finally:
        proxy.close()
    assert code == 3
    assert "in ZooKeeper mode, and not the controller: name broker 0 at 127.0.0.1:" in err


def test_a_server_of_another_protocol_ends_with_3() -> None:
    def serve(listener: socket.socket) -> None:
        client, _ = listener.accept()
        with client:
            client.recv(100)
            client.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=serve, args=(listener,))
        thread.start()
        code, _, err = run(
            "conformance", "--bootstrap-server", f"127.0.0.1:{listener.getsockname()[1]}"
        )
        thread.join()
    assert code == 3
    assert "an HTTP server answers" in err


def test_the_bytes_of_an_answer_that_cannot_be_read_are_shown(ours: Cluster) -> None:
    plant = Plant(60, response_bytes=lambda whole, *_: whole + b"\xbb")
    proxy = Proxy(broker(ours), plant)
    try:
        report = run_cases({Where.BROKER: address(proxy.address)}, "metadata.agree")
        (failed,) = report.failed
        shown = program(failed)
        ran = subprocess.run(
            [sys.executable, "-c", shown], capture_output=True, text=True, check=True
        )
    finally:
        proxy.close()
    assert "1 bytes left over" in failed.got
    assert failed.exchanges[-1].got.endswith(b"\xbb")
    assert ran.stdout.strip().endswith("bb"), "the program shows the same"
    failed.plain = None
    assert program(failed) == "", "not of a listener that wants a login"


def test_a_silent_server_ends_with_3_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    assert judge.FIRST_S <= 10
    monkeypatch.setattr(judge, "FIRST_S", 0.3)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        place = f"127.0.0.1:{listener.getsockname()[1]}"
        code, out, err = run("conformance", "--bootstrap-server", place)
    assert (code, out) == (3, "")
    assert f"{place}: the answer to ApiVersions v0: expected a frame, got nothing came" in err
    assert "is it a listener of Kafka's" in err


def test_a_server_that_answers_nothing_more_is_not_judged_on(
    ours: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module, name, value in (
        (judge, "FIRST_S", 0.2),
        (patience, "ANSWER_S", (0.2, 0.1, 0.1)),
        (runner, "DEAF", 4),
    ):
        monkeypatch.setattr(module, name, value)

    def unknown(whole: bytes, key: int, version: int) -> bytes:
        return whole if key == 18 else (9_999).to_bytes(2, "big")

    proxy = Proxy(broker(ours), Plant(request_bytes=unknown, stays=True))
    try:
        where = ("--bootstrap-server", proxy.address)
        code, out, _ = run("conformance", *where, "--only", "topics,configs,quotas")
    finally:
        proxy.close()
    assert code == 1
    assert "the broker left 4 requests in a row without an answer" in out


@pytest.mark.parametrize("hangs", [False, True])
@pytest.mark.parametrize("faulty", [False, True])
def test_a_server_that_ends_is_not_judged_on(
    ours: Cluster, monkeypatch: pytest.MonkeyPatch, *, hangs: bool, faulty: bool
) -> None:
    monkeypatch.setattr(runner, "BACK_S", 0.0)
    monkeypatch.setattr(patience, "ANSWER_S", (1.0, 1.0, 1.0))
    created = 0

    def end(whole: bytes, key: int, version: int) -> bytes | None:
        nonlocal created
        created += key == 19
        if created < 2:
            return whole
        if not hangs:
            proxy.close(within_s=0)
            return None
        proxy.hang()
        return b""

    def longer(whole: bytes, key: int, version: int) -> bytes:
        return whole + b"x" * (faulty and key == 60)

    proxy = Proxy(broker(ours), Plant(request_bytes=end, response_bytes=longer))
    try:
        where = ("--bootstrap-server", proxy.address)
        only = "metadata.agree,topics.ids,topics.many"
        code, out, err = run("conformance", *where, "--only", only)
    finally:
        proxy.close()
    assert code == 3, "whatever failed before"
    first, *_ = out.splitlines()
    assert first.startswith("conformance NOT JUDGED to its end: the broker cannot be reached any")
    assert "since topics.many@broker: " in first
    before = "1 of 2 cases failed (1 must) before;" if faulty else "; 2 cases before;"
    assert before in first
    assert ("FAILED must metadata.agree" in out) is faulty
    assert "Traceback" not in out + err
    (prefix,) = re.findall(r"left on the server: what .+; remove it with --clean (\S+)", out)
    code, out, _ = run("conformance", "--bootstrap-server", broker(ours), "--clean", prefix)
    assert (code, out.strip()) == (0, f"nothing with the prefix {prefix} is left")
    assert topics(ours) == []


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_what_was_made_is_removed_when_it_is_stopped(ours: Cluster, number: signal.Signals) -> None:
    command = "from emulator.cli import main; main()"
    where = ("--bootstrap-server", broker(ours))
    process = subprocess.Popen(
        [*(sys.executable, "-c", command, "conformance"), *where, "--only", "topics"],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stderr is not None
    for line in process.stderr:
        if line.startswith("topics"):
            break
    process.send_signal(number)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "what was made is removed" in err
    assert topics(ours) == []


def test_a_second_ctrl_c_says_what_is_left(ours: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    def stop(*_: Any) -> None:
        raise KeyboardInterrupt

    facts = known({Where.BROKER: address(broker(ours))})
    monkeypatch.setattr(judge, "known", lambda _: facts)
    monkeypatch.setattr(runner.Run, "one", stop)
    monkeypatch.setattr(runner.Performer, "run", stop)
    code, _, err = run("conformance", "--bootstrap-server", broker(ours), "--only", "tokens")
    assert code == 130
    assert re.search(r"left: what was made .+: stopped again; remove it with --clean conf", err)
    assert "is removed" not in err


def test_at_most_20_connections_are_open(ours: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    now: set[int] = set()
    most = 0
    begin, close = connection.Line.__init__, connection.Line.close

    def counted(self: connection.Line, *more: Any) -> None:
        nonlocal most
        begin(self, *more)
        now.add(id(self))
        most = max(most, len(now))

    def ended(self: connection.Line) -> None:
        close(self)
        now.discard(id(self))

    monkeypatch.setattr(connection.Line, "__init__", counted)
    monkeypatch.setattr(connection.Line, "close", ended)
    where = {Where.BROKER: address(broker(ours)), Where.CONTROLLER: address(ours.controllers)}
    run_cases(where, "framing.connections", "framing.short_header", "topics.ids", "quorum")
    assert 15 <= most <= runner.CONNECTIONS_MAX
    assert not now, "each is closed"


def test_no_output_has_a_secret(ours: Cluster, tmp_path: Path) -> None:
    secret = "correct-horse-battery"

    def leaks(message: Any, version: int) -> None:
        for one in message.results:
            for config in one.configs[:1]:
                config.name, config.value, config.is_sensitive = "ssl.key.password", secret, True
        others = copy.deepcopy(message.results)
        for one in others:
            one.resource_name += "x"
        message.results = [*message.results, *others]

    proxy = Proxy(broker(ours), answering(m.DescribeConfigsRequest, leaks))
    files = [tmp_path / name for name in ("a.json", "a.xml", "a.html")]
    options = [f"{option}={file}" for option, file in zip(OUTPUTS, files, strict=True)]
    try:
        where = ("--bootstrap-server", proxy.address, "--only", "configs,apis.DescribeConfigs")
        code, out, err = run("conformance", *where, *options)
    finally:
        proxy.close()
    assert code == 1
    assert "not shown: it holds a secret" in out
    shown = [out, err, *(one.read_text() for one in files)]
    assert not [one for one in shown if secret in one or secret.encode().hex(" ")[:30] in one]


def test_what_a_killed_run_has_left_is_removed_by_its_prefix(ours: Cluster) -> None:
    kind = m.CreateTopicsRequest
    names = ["conformance-dead-1", "conformance-alive-1"]
    made = [kind.CreatableTopic(name=one, num_partitions=1, replication_factor=1) for one in names]
    ours.request(kind(topics=made, timeout_ms=10_000))
    where = ("--bootstrap-server", broker(ours))
    code, out, _ = run("conformance", *where, "--clean", "conformance-dead")
    assert (code, out.strip()) == (0, "nothing with the prefix conformance-dead is left")
    assert topics(ours) == ["conformance-alive-1"]
    assert run("conformance", *where, "--clean", "conf")[0] == 2
    assert run("conformance", *where, "--clean", "conformance-alive")[0] == 0


def test_znodes_that_no_request_removes_are_named(
    ours: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Facts, "zookeeper", property(lambda _: True))
    where = ("--bootstrap-server", broker(ours))
    code, out, _ = run("conformance", *where, "--clean", "conformance-dead")
    assert code == 0
    assert out.strip().endswith("is left, but for znodes /consumers/conformance-dead-…, if any")


def test_other_topics_make_it_ask_twice(ours: Cluster) -> None:
    kind = m.CreateTopicsRequest
    topic = kind.CreatableTopic(name="orders", num_partitions=1, replication_factor=1)
    ours.request(kind(topics=[topic], timeout_ms=10_000))
    where = ("--bootstrap-server", broker(ours), "--only", "tokens", "--allow-disruptive")
    try:
        code, _, err = run("conformance", *where)
        assert code == 2
        assert "orders" in err
        assert run("conformance", *where, "--yes")[0] == 0
    finally:
        state = m.DeleteTopicsRequest.DeleteTopicState(name="orders")
        ours.request(m.DeleteTopicsRequest(topics=[state], timeout_ms=10_000))


def test_topics_that_are_not_told_are_no_leave(ours: Cluster) -> None:
    def longer(whole: bytes, key: int, version: int) -> bytes:
        return whole + b"x" * (key == 3)

    proxy = Proxy(broker(ours), Plant(response_bytes=longer))
    try:
        where = ("--bootstrap-server", proxy.address, "--only", "tokens", "--allow-disruptive")
        code, out, err = run("conformance", *where)
    finally:
        proxy.close()
    assert (code, out) == (3, "")
    assert f"{where[1]}: the answer to Metadata v" in err


def test_without_leave_nothing_disruptive_runs(ours: Cluster) -> None:
    code, out, _ = run(
        "conformance", "--bootstrap-controller", ours.controllers, "--only", "brokers"
    )
    assert code == 3, "no case could be run"
    assert "needs --allow-disruptive" in out


# ------------------------------------------------------------------ the catalogue
def test_the_list_names_every_case_once() -> None:
    code, out, _ = run("conformance", "--list")
    assert code == 0
    ids = [line.split()[0] for line in out.splitlines()]
    assert ids == [one.id for one in chosen([])]
    assert sorted(ids) == sorted(CASES)
    assert len(ids) > 400


def test_every_case_says_where_it_comes_from() -> None:
    rows = {one.id for one in requirements.rows()}
    for one in CASES.values():
        assert one.sources, one.id
        assert one.title[0] != " ", one.id
        assert {*one.rows} <= rows, one.id


def test_every_api_that_is_declared_is_asked() -> None:
    asked = {request for one in CASES.values() for request in one.asks}
    declared = {each for name, each in vars(m).items() if name.endswith("Request")}
    left_out = {one.__name__.removesuffix("Request") for one in declared - asked}
    assert left_out == {
        *("ControlledShutdown", "LeaderAndIsr", "StopReplica", "UpdateMetadata"),  # ZooKeeper mode
        *("ControllerRegistration", "AssignReplicasToDirs"),  # would change the quorum, directories
        *("AddRaftVoter", "RemoveRaftVoter", "UpdateRaftVoter"),
        *("ConsumerGroupHeartbeat", "ConsumerGroupDescribe"),
        *("GetTelemetrySubscriptions", "PushTelemetry"),
    }


@pytest.mark.parametrize(
    ("words", "groups"),
    [
        (["KIP-590"], {"envelope"}),
        (["K14"], {"elections"}),
        (["scram", "topics.create@broker"], {"scram", "topics"}),
        (["KIP-290"], {"acls", "envelope"}),
    ],
)
def test_cases_are_chosen_by_word(words: list[str], groups: set[str]) -> None:
    assert {one.group for one in chosen(words)} == groups
    assert [*GROUPS].index(chosen(words)[0].group) >= 0


# ------------------------------------------------------------------ parts
def test_an_answer_is_read_to_its_last_byte() -> None:
    good = encode_response(60, 1, 7, m.DescribeClusterResponse(cluster_id="c"))
    assert decoded(60, 1, 7, good).cluster_id == "c"
    wrong: list[Any] = [
        good + b"\0",
        good[:-1],
        good[:3],
        encode_response(60, 1, 8, decoded(60, 1, 7, good)),
    ]
    for one in wrong:
        with pytest.raises(Violation):
            decoded(60, 1, 7, one)


def test_client_properties() -> None:
    module = "org.apache.kafka.common.security.plain.PlainLoginModule required"
    login = {
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "PLAIN",
        "sasl.jaas.config": f'{module} username="u" password="p";',
        "ssl.truststore.location": "/x/ca.pem",
    }
    tls, user = security(login)
    assert tls is not None
    assert tls.truststore is not None
    assert user is not None
    assert (user.username, tls.truststore.location) == ("u", "/x/ca.pem")
    assert security({}) == (None, None)
    with pytest.raises(ValueError, match="GSSAPI"):
        security({"security.protocol": "SASL_PLAINTEXT"})
    with pytest.raises(ValueError, match="KERBEROS: one of"):
        security({"security.protocol": "kerberos"})


def test_the_release_is_recognised() -> None:
    with Cluster(brokers=1, release="3.6", fsync=False) as old:
        places = {Where.BROKER: address(broker(old)), Where.CONTROLLER: address(old.controllers)}
        assert known(places).release == "3.6"
