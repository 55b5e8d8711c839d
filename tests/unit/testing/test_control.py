"""``kraft-bridge cluster``: what it prints, its control over HTTP, and how it ends."""

from __future__ import annotations

import http.client
import json
import os
import signal
import socket
import stat
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Self

import pytest

from emulator.io.kafka_client import Connection
from emulator.servers.waiting import PATIENCE_S, wait_for
from emulator.testing.control import OPERATIONS, WAITING_MAX
from wire import messages as m

MAIN = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)\n"
MAIN += "from emulator.cli import main; main()"
VERB = [sys.executable, "-c", MAIN, "cluster"]


class Running:
    """The verb as a process, with a temporary folder of its own."""

    def __init__(self, folder: Path, *options: object, **settings: Any) -> None:
        self.temporary = folder / "temporary"
        self.temporary.mkdir(parents=True, exist_ok=True)
        self.process = subprocess.Popen(
            [*VERB, *map(str, options)],
            stdin=settings.pop("stdin", subprocess.PIPE),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, "TMPDIR": str(self.temporary)},
            **settings,
        )
        assert self.process.stdout is not None
        text = self.process.stdout.readline()
        self.line: dict[str, Any] = json.loads(text) if text else {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.communicate()

    @property
    def address(self) -> tuple[str, int]:
        host, _, port = str(self.line["control"]).removeprefix("http://").rpartition(":")
        return host, int(port)

    def ask(
        self,
        path: str,
        body: bytes | None = None,
        *,
        method: str = "POST",
        headers: Mapping[str, str] | None = None,
        **members: object,
    ) -> tuple[int, dict[str, Any]]:
        """Status and document of an answer; ``headers`` replace those that are right."""
        made = http.client.HTTPConnection(*self.address, timeout=PATIENCE_S)
        right = {"Authorization": f"Bearer {self.line.get('token')}"}
        made.putrequest(method, path, skip_host=headers is not None and "Host" in headers)
        data = json.dumps(members).encode() if body is None else body
        for name, value in {**right, "Content-Length": str(len(data)), **(headers or {})}.items():
            made.putheader(name, value)
        made.endheaders(data)
        answer = made.getresponse()
        assert answer.getheader("Content-Type") == "application/json"
        document = json.loads(answer.read())
        made.close()
        return answer.status, document

    def does(self, path: str, **members: object) -> dict[str, Any]:
        status, document = self.ask(path, **members)
        assert status == 200, document
        return document

    def ends(self, code: int = 0) -> str:
        """Wait for the end; returns standard error. Nothing is left of it."""
        self.process.wait(PATIENCE_S)
        rest, errors = self.process.communicate()
        assert (rest, self.process.returncode) == ("", code), errors
        assert list(self.temporary.iterdir()) == []
        for one in self.line.get("nodes", []):
            host, _, port = one["address"].rpartition(":")
            with pytest.raises(ConnectionRefusedError):
                socket.create_connection((host, int(port)), 5)
        return errors


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """One broker, one controller; requests that change nothing."""
    with Running(tmp_path_factory.mktemp("small"), "--brokers", 1) as running:
        yield running


def test_the_line_and_the_answers_show_the_whole_cluster(tmp_path: Path) -> None:
    with Running(tmp_path, "--brokers", 2, "--controllers", 3) as running:
        line = running.line
        assert line["schema"] == "cluster/1"
        assert [one["id"] for one in line["nodes"]] == [3000, 3001, 3002, 0, 1]
        assert {one["state"] for one in line["nodes"]} == {"running"}
        addresses = [one["address"] for one in line["nodes"]]
        assert line["controllers"].split(",") == addresses[:3]
        assert line["bootstrap"].split(",") == addresses[3:]
        assert running.does("/status") == {
            name: line[name] for name in line if name not in {"schema", "control", "token"}
        }
        host, _, port = line["bootstrap"].partition(",")[0].rpartition(":")
        kind = m.CreateTopicsRequest
        topic = kind.CreatableTopic(name="orders", num_partitions=1, replication_factor=2)
        client = Connection(host, int(port), 30)
        assert client.call(kind(topics=[topic], timeout_ms=10_000)).topics[0].error_code == 0

        def of(document: Mapping[str, Any], node_id: int) -> dict[str, Any]:
            return next(one for one in document["nodes"] if one["id"] == node_id)

        for wanted in (3000, 3002):
            moved = running.does("/move-controller", node=wanted)
            assert moved["active_controller"] == wanted
            assert of(moved, wanted)["active"] is True
        assert running.does("/resign", node=3002)["active_controller"] != 3002
        running.does("/move-leader", topic="orders", partition=0, node=1)
        found = client.call(
            m.MetadataRequest(topics=[m.MetadataRequest.MetadataRequestTopic(name="orders")])
        )
        assert found.topics[0].partitions[0].leader_id == 1
        assert of(running.does("/fence", node=1), 1)["fenced"] is True
        assert of(running.does("/unfence", node=1), 1)["fenced"] is False
        stopped = running.does("/stop", node=1)
        assert of(stopped, 1)["state"] == "stopped"
        assert running.ask("/stop", node=1)[0] == 409
        assert of(running.does("/start", node=1), 1)["state"] == "running"
        assert running.ask("/start", node=1)[0] == 409
        running.does("/stop", node=3000, at_once=True)
        running.does("/start", node=3000)
        faults = running.does("/add-faults", fault=[{"api": "Metadata", "drop": True}])["faults"]
        with pytest.raises(OSError, match="closed"):
            client.call(m.MetadataRequest(topics=[]))
        assert faults[0]["fired"] == 0
        (fired,) = running.does("/status")["faults"]
        assert fired["fired"] == 1
        assert running.does("/clear-faults")["faults"] == []
        client.close()
        assert running.process.stdin is not None
        running.process.stdin.close()
        running.process.stdin = None
        assert "its standard input has ended" in running.ends()


def bad_requests() -> Iterator[tuple[int, str, Callable[[Running], tuple[int, dict[str, Any]]]]]:
    yield 401, "token", lambda one: one.ask("/status", headers={"Authorization": "Bearer no"})
    yield 401, "token", lambda one: one.ask("/status", headers={"Authorization": ""})
    yield 403, "Host", lambda one: one.ask("/status", headers={"Host": "example.org"})
    yield 403, "Host", lambda one: one.ask("/status", headers={"Host": "127.0.0.1:1"})
    yield 403, "Host", lambda one: one.ask("/status", headers={"Host": ""})
    yield 404, "there are: /add-faults", lambda one: one.ask("/nothing")
    yield 404, "no node 99", lambda one: one.ask("/stop", node=99)
    yield 404, "no partition", lambda one: one.ask("/move-leader", topic="t", partition=0, node=0)
    yield 400, "not JSON", lambda one: one.ask("/stop", b"{")
    yield 400, "not JSON", lambda one: one.ask("/stop", b"\xff")
    yield 400, "not JSON", lambda one: one.ask("/stop", b"[" * 50_000)
    yield 400, "object", lambda one: one.ask("/stop", b"[]")
    yield 400, "missing: node", lambda one: one.ask("/stop")
    yield 400, "unknown: nodes", lambda one: one.ask("/stop", node=0, nodes=1)
    yield 400, "whole number", lambda one: one.ask("/stop", node="0")
    yield 400, "whole number", lambda one: one.ask("/stop", node=True)
    yield 400, "true or false", lambda one: one.ask("/stop", node=0, at_once=1)
    yield 400, "no API of that name", lambda one: one.ask("/add-faults", fault=[{"api": "X"}])
    yield 400, "at most 1000", lambda one: one.ask("/add-faults", fault=[{}] * 9_000)
    yield 400, "Content-Length", lambda one: one.ask("/stop", headers={"Content-Length": "x"})
    yield (
        411,
        "Content-Length",
        lambda one: one.ask("/stop", headers={"Transfer-Encoding": "chunked"}),
    )
    yield 413, "too large", lambda one: one.ask("/stop", b"x" * 2_000_000)
    yield 413, "too large", lambda one: one.ask("/status", headers={"X": "x" * 9_000})
    yield 409, "one controller", lambda one: one.ask("/resign")
    yield 409, "running already", lambda one: one.ask("/start", node=0)
    yield 409, "no controller", lambda one: one.ask("/move-controller", node=0)


@pytest.mark.parametrize(("status", "text", "ask"), list(bad_requests()))
def test_a_bad_request_is_answered_with_its_reason(
    small: Running,
    status: int,
    text: str,
    ask: Callable[[Running], tuple[int, dict[str, Any]]],
) -> None:
    found, document = ask(small)
    assert (found, list(document)) == (status, ["error"])
    assert text in document["error"]
    assert {one["state"] for one in small.does("/status")["nodes"]} == {"running"}


@pytest.mark.parametrize("path", OPERATIONS)
@pytest.mark.parametrize("method", ["GET", "HEAD", "PUT", "DELETE", "OPTIONS"])
def test_only_a_post_is_taken(small: Running, path: str, method: str) -> None:
    if method == "HEAD":
        made = http.client.HTTPConnection(*small.address, timeout=PATIENCE_S)
        made.request(method, path)
        assert made.getresponse().status == 405
        made.close()
    else:
        assert small.ask(path, method=method) == (405, {"error": "only POST"})


def test_it_listens_on_one_address_of_this_machine_only(small: Running) -> None:
    host, port = small.address
    assert host == "127.0.0.1"
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.2", port), 5)
    assert small.ask("/status", headers={"Host": f"localhost:{port}"})[0] == 200


def test_whoever_hangs_holds_nobody_up(tmp_path: Path) -> None:
    with Running(tmp_path, "--brokers", 0) as running:
        assert running.line["bootstrap"] == ""
        token = running.line["token"]
        half = (
            f"POST /stop HTTP/1.1\r\nAuthorization: Bearer {token}\r\nContent-Length: 9\r\n\r\n{{"
        )
        hanging = [socket.create_connection(running.address) for _ in range(40)]
        for one in hanging:
            with suppress(OSError):  # the oldest were closed
                one.sendall(half.encode())
        assert running.does("/status")["active_controller"] == 3000
        running.process.send_signal(signal.SIGTERM)
        assert "SIGTERM" in running.ends()
        for one in hanging:
            one.close()


def test_many_at_a_time_are_all_answered_one_after_the_other(tmp_path: Path) -> None:
    with Running(tmp_path, "--brokers", 1) as running:
        found: list[int] = []

        def ask(number: int) -> None:
            path = "/unfence" if number % 3 else "/fence"
            found.append(running.ask(path, node=0)[0])

        asking = [threading.Thread(target=ask, args=[number]) for number in range(WAITING_MAX)]
        for one in asking:
            one.start()
        for one in asking:
            one.join()
        assert found == [200] * WAITING_MAX
        assert running.does("/unfence", node=0)["nodes"][1]["fenced"] is False
        running.process.send_signal(signal.SIGINT)
        assert "SIGINT" in running.ends()


def test_it_ends_while_an_operation_waits_and_looks_do_not_wait(tmp_path: Path) -> None:
    with Running(tmp_path, "--brokers", 1) as running:
        running.does("/stop", node=0)
        never = {"api": "BrokerRegistration", "error": "UNSUPPORTED_VERSION"}
        running.does("/add-faults", fault=[never], controllers=True)
        answers: list[object] = []

        def start() -> None:
            with suppress(OSError, http.client.HTTPException):
                answers.append(running.ask("/start", node=0))

        starting = threading.Thread(target=start)
        starting.start()
        wait_for("a refusal", lambda: running.does("/status")["faults"][0]["fired"] > 0)
        running.process.send_signal(signal.SIGTERM)
        running.ends()
        starting.join()
        assert all(answer[0] == 409 for answer in answers)  # type: ignore[index]


def test_the_token_is_in_a_file_that_goes_with_the_cluster(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text("of an earlier one")
    file.chmod(0o644)
    with Running(tmp_path, "--token-file", file) as running:
        assert stat.S_IMODE(file.stat().st_mode) == 0o600
        assert running.line["token_file"] == str(file)
        assert "token" not in running.line
        token = file.read_text().strip()
        assert token not in json.dumps(running.line)
        assert running.ask("/status")[0] == 401
        assert running.ask("/status", headers={"Authorization": f"Bearer {token}"})[0] == 200
        running.process.send_signal(signal.SIGTERM)
        running.ends()
    assert not file.exists()


@pytest.mark.parametrize(
    ("options", "code", "why"),
    [
        (["-X", "num.partitions=many"], 2, "num.partitions"),
        (["-X", "node.id=7"], 2, "set by the cluster itself: node.id"),
        (["-X", "many"], 2, "KEY=VALUE"),
        (["--release", "2.8"], 2, "kraftbridge.release"),
        (["--controllers", "0"], 2, "at least 1"),
        (["--token-file", "FOLDER"], 2, "no file"),
        (["--token-file", "FOLDER/nothing/token"], 1, "No such file"),
        (["--control", "TAKEN"], 1, "address already in use"),
    ],
)
def test_what_cannot_be_started_is_said_and_leaves_nothing(
    options: list[str], code: int, why: str, tmp_path: Path
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        values = {"FOLDER": str(tmp_path), "TAKEN": str(taken.getsockname()[1])}
        for word, value in values.items():
            options = [one.replace(word, value) for one in options]
        with Running(tmp_path, *options) as running:
            assert running.line == {}
            assert why in running.ends(code)


PARENT = """
import subprocess, sys
subprocess.run(sys.argv[1:], stdin=subprocess.DEVNULL)
"""


def test_it_ends_when_its_parent_was_killed(tmp_path: Path) -> None:
    """Its standard input is /dev/null, as of what a shell starts in the background."""
    with subprocess.Popen(
        [sys.executable, "-c", PARENT, *VERB, "--brokers", "1"],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "TMPDIR": str(tmp_path)},
    ) as parent:
        assert parent.stdout is not None
        line = json.loads(parent.stdout.readline())
        assert len(list(tmp_path.iterdir())) == 1
        parent.kill()
        # The end of its output is the end of the last process that has it.
        assert parent.stdout.read() == ""
    assert list(tmp_path.iterdir()) == []
    host, _, port = line["control"].removeprefix("http://").rpartition(":")
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection((host, int(port)), 5)


def test_it_ends_during_its_start(tmp_path: Path) -> None:
    with subprocess.Popen(
        [*VERB, "--brokers", "3", "--controllers", "3"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "TMPDIR": str(tmp_path)},
    ) as starting:
        wait_for("a folder", lambda: bool(list(tmp_path.iterdir())))
        starting.send_signal(signal.SIGTERM)
        printed, _ = starting.communicate(timeout=PATIENCE_S)
        assert (printed, starting.returncode) == ("", 0)
    assert list(tmp_path.iterdir()) == []


def test_a_reader_that_has_gone_ends_it(tmp_path: Path) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    with subprocess.Popen(
        VERB,
        stdin=subprocess.PIPE,
        stdout=writer,
        stderr=subprocess.PIPE,
        env={**os.environ, "TMPDIR": str(tmp_path)},
    ) as running:
        os.close(writer)
        assert running.wait(PATIENCE_S) == 1
    assert list(tmp_path.iterdir()) == []
