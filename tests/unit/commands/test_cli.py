"""The command line: help without Java, exit codes, and words for what is wrong."""

from __future__ import annotations

import json
import socket
from pathlib import Path
from threading import Thread

import pytest
from kazoo.client import KazooClient
from typer.testing import CliRunner

from emulator.cli import app
from emulator.commands import status as status_client
from tests import data

RUNNER = CliRunner()
PROPERTIES = """
process.roles=controller
node.id=3000
controller.quorum.voters=3000@127.0.0.1:19093
listeners=CONTROLLER://127.0.0.1:19093
controller.listener.names=CONTROLLER
listener.security.protocol.map=CONTROLLER:PLAINTEXT
"""
CLUSTER = "MkU3OEVBNTcwNTJENDM2Qg"


@pytest.fixture
def properties(tmp_path: Path) -> Path:
    path = tmp_path / "server.properties"
    path.write_text(f"{PROPERTIES}log.dirs={tmp_path / 'data'}\n")
    return path


def run(*arguments: object) -> tuple[int, str, str]:
    result = RUNNER.invoke(app, [str(argument) for argument in arguments])
    return result.exit_code, result.stdout, result.stderr


@pytest.mark.parametrize(
    "verb", ["format", "controller", "status", "demo", "analyze", "zk", "log", "wire"]
)
def test_every_verb_explains_itself(verb: str) -> None:
    code, out, _ = run(verb, "--help")
    assert code == 0
    assert "Usage" in out


@pytest.mark.requirement("C13")
def test_no_verb_starts_or_ends_a_migration() -> None:
    _, out, _ = run("--help")
    verbs = {line.split()[0] for line in out.partition("Commands:")[2].splitlines() if line.strip()}
    known = {"format", "controller", "status", "preflight", "plan", "demo", "analyze"}
    assert verbs == known | {"elect-leaders", "zk", "log", "wire"}


@pytest.mark.requirement("V10")
def test_format_then_the_log_of_a_fresh_folder(properties: Path, tmp_path: Path) -> None:
    code, out, _ = run("format", "-c", properties, "-t", CLUSTER, "-r", "3.7-IV4")
    assert (code, "metadata.version 3.7-IV4" in out) == (0, True)
    again, _, complaint = run("format", "-c", properties, "-t", CLUSTER)
    assert (again, "already formatted" in complaint) == (1, True)
    ignored, out, _ = run("format", "-c", properties, "-t", CLUSTER, "-g")
    assert (ignored, "already formatted" in out) == (0, True)
    code, out, _ = run("log", "dump", "--log-dir", tmp_path / "data")
    assert (code, out) == (0, "")


@pytest.mark.parametrize(
    ("arguments", "code", "word"),
    [
        (("-t", "nonsense"), 1, "cluster id"),
        (("-t", CLUSTER, "-r", "2.8"), 1, "release version"),
        (("-t", CLUSTER, "-r", "3.9-IV0", "-X", "kraftbridge.release=3.4"), 1, "newer than"),
        (("-t", CLUSTER, "-X", "node.id=1"), 2, "not in controller.quorum.voters"),
        (("-t", CLUSTER, "-X", "nonsense"), 2, "not key=value"),
    ],
)
def test_format_says_what_is_wrong(
    properties: Path, arguments: tuple[str, ...], code: int, word: str
) -> None:
    found, _, complaint = run("format", "-c", properties, *arguments)
    assert (found, word in complaint) == (code, True), complaint


def test_a_folder_that_is_not_formatted_does_not_start(properties: Path) -> None:
    code, _, complaint = run("controller", "-c", properties)
    assert (code, "run kraft-bridge format first" in complaint) == (1, True)


def test_a_missing_configuration_is_named(tmp_path: Path) -> None:
    code, _, complaint = run("controller", "-c", tmp_path / "none")
    assert (code, "No such file" in complaint) == (2, True)


@pytest.mark.parametrize("verb", [("log", "dump"), ("zk", "diff", "--zookeeper", "127.0.0.1:1")])
def test_a_folder_that_is_none_is_named(verb: tuple[str, ...], tmp_path: Path) -> None:
    code, _, complaint = run(*verb, "--log-dir", tmp_path)
    assert (code, "not a formatted controller's folder" in complaint) == (2, True)


@pytest.mark.parametrize("hosts", ["127.0.0.1:1", "a:b"])
@pytest.mark.parametrize("verb", ["dump", "diff"])
def test_a_zookeeper_that_does_not_answer_is_named(
    verb: str, hosts: str, properties: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    start = KazooClient.start
    monkeypatch.setattr(KazooClient, "start", lambda client, timeout: start(client, timeout / 100))
    run("format", "-c", properties, "-t", CLUSTER)
    log_dir = () if verb == "dump" else ("--log-dir", tmp_path / "data")
    code, out, complaint = run("zk", verb, "--zookeeper", hosts, *log_dir)
    assert (code, out) == ({"dump": 1, "diff": 2}[verb], "")
    assert hosts in complaint


def test_status_of_nobody() -> None:
    code, _, complaint = run("status", "--url", "http://127.0.0.1:1")
    assert (code, "http://127.0.0.1:1/status" in complaint) == (1, True)
    code, _, complaint = run("status", "--url", "file:///etc/hostname")
    assert (code, "not an http address" in complaint) == (1, True)


STATUS = {
    "schema": 1,
    "node_id": 3000,
    "active": True,
    "leader_epoch": 2,
    "metadata_version": {"level": 21, "name": "3.9-IV0"},
    "topics": 3,
    "partitions": 9,
    "brokers": [{"id": 1, "kind": "zookeeper", "fenced": False, "endpoints": ["INTERNAL://h:1"]}],
    "migration": {
        "phase": "pre-migration",
        "driver_state": "WAIT_FOR_BROKERS",
        "records_copied": 0,
        "lag": {"records": 7, "records_without_no_ops": 2, "ms": 5, "bound_records": 0},
        "blocked": False,
        "may_roll_back": True,
        "poisoned": [{"znode": "/x", "cause": "NO_AUTH", "skipped": False}],
        "waiting": [{"since": "2026-01-01T00:00:00", "text": "broker 2 has not registered"}],
        "zookeeper": {"state": "CONNECTED", "server": "z:2181"},
    },
}


def test_status_shows_what_an_operator_asks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(status_client, "fetch", lambda _url: json.dumps(STATUS))
    code, out, _ = run("status")
    assert code == 0
    for word in ("pre-migration", "broker 2 has not registered", "7 records, 2 of them", "/x"):
        assert word in out
    code, out, _ = run("status", "--json")
    assert json.loads(out) == STATUS


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (b"HTTP/1.0 404 Not Found\r\n\r\n", "of a controller: 404 Not Found"),
        (b"HTTP/1.0 200 OK\r\n\r\n<html>", "of a controller: JSON is malformed"),
        (b"HTTP/1.0 200 OK\r\n\r\n{}", "not the kraftbridge.metrics.port of a controller"),
        (b"\0\0\0\4kafka\n", "of a controller: no HTTP"),
    ],
)
def test_status_of_something_else_is_one_sentence(answer: bytes, why: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        url = f"http://127.0.0.1:{server.getsockname()[1]}"
        asked = Thread(target=_answer, args=(server, answer))
        asked.start()
        code, out, err = run("status", "--url", url)
        asked.join()
    assert (code, out) == (1, "")
    assert err.startswith(f"kraft-bridge: {url}/status: ")
    assert why in err
    assert err.count("\n") == 1


def _answer(server: socket.socket, answer: bytes) -> None:
    connection, _ = server.accept()
    with connection:
        connection.recv(65_536)
        connection.sendall(answer)


@pytest.mark.parametrize("url", ["x", "http://127.0.0.1:abc", "http://127.0.0.1:1", "http://a b"])
def test_status_of_nothing_is_one_sentence(url: str) -> None:
    code, out, err = run("status", "--url", url)
    assert (code, out) == (1, "")
    assert err.startswith(f"kraft-bridge: {url}/status: ")
    assert "urlopen" not in err
    assert err.count("\n") == 1


def test_preflight_of_a_dump_says_what_it_found_by_exit_code(tmp_path: Path) -> None:
    folder = "3.9.2-rollback-and-stale-migration-znode"
    before = data.extract("3.9.2-full/tree-0-before.json", tmp_path)
    code, out, _ = run("preflight", "--dump", before)
    assert code == 0
    assert "W03 warning  /brokers/topics/moving" in out
    assert "B11: no server.properties given" in out
    assert run("preflight", "--dump", before, "--strict")[0] == 1
    rolled_back = data.extract(f"{folder}/tree-5-rolled-back.json", tmp_path)
    code, out, _ = run("preflight", "--dump", rolled_back, "--json")
    assert code == 2
    found = json.loads(out)
    assert found["counts"]["blocker"] == 1
    (blocker,) = (one for one in found["findings"] if one["severity"] == "blocker")
    assert (blocker["code"], blocker["znode"]) == ("B02", "/migration")
    assert blocker["fact"]
    assert blocker["remedy"]
    assert {one["code"] for one in found["not_run"]} >= {"B05", "I02"}


def test_preflight_reads_properties_and_the_folder_they_name(
    tmp_path: Path, properties: Path
) -> None:
    dump = data.extract("3.9.2-full/tree-0-before.json", tmp_path)
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "meta.properties").write_text("cluster.id=another\n")
    code, out, _ = run("preflight", "--dump", dump, "-c", properties, "--json")
    assert code == 2
    codes = {one["code"] for one in json.loads(out)["findings"]}
    assert {"B04", "B12"} <= codes


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        ((), "needs --zookeeper, --dump"),
        (("--dump", "a", "--zookeeper", "h:1"), "two ways to say the same"),
        (("-c", "no-such.properties"), "no-such.properties"),
        (("--dump", "no-such-file"), "no-such-file"),
        (("--dump", __file__), "test_cli.py"),
        (("--dump", "a", "--identity", "kafka"), "--identity kafka: not scheme:id"),
    ],
)
def test_preflight_that_cannot_look_exits_with_3(arguments: tuple[str, ...], why: str) -> None:
    code, out, err = run("preflight", *arguments)
    assert (code, out) == (3, "")
    assert why in err
