"""A node's token is sent to this machine alone."""

from __future__ import annotations

import importlib.util
import json
import threading
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from socketserver import StreamRequestHandler, ThreadingTCPServer
from typing import Any, cast

import pytest

from emulator.broker.introspection import STATUS_SCHEMA as BROKERS
from emulator.commands import asking, finalise
from emulator.commands.exits import ExitCode
from emulator.commands.preflight.inputs import read_properties
from emulator.commands.rollback.acting import LiveRollback
from emulator.commands.rollback.looking import Given, Looker
from emulator.commands.status import SCHEMAS, AddressError, check_local
from emulator.config.listeners import HostPort
from emulator.io.operator_route import TOKEN_FILE
from emulator.node.introspection import STATUS_SCHEMA as CONTROLLERS
from emulator.operations.preflight.node_file import Properties
from emulator.operations.preflight.survey import DumpedZnode, Survey
from emulator.operations.rollback.losses import losses
from emulator.operations.rollback.phases import RollbackPhase
from emulator.operations.rollback.situation import ControllerSeen, Situation
from tests.kit.status_document import document, ends
from tests.unit.commands.test_wrong_inputs import call

TOKEN = "a" * 64
HELD = json.dumps(
    document("finalising", finalisation=ends("held", "held", hold=True)) | {"migration": None}
).encode()


@contextmanager
def server(seen: list[str], redirect: str = "", says: bytes = HELD) -> Iterator[str]:
    """One that notes each path that a token came to; it may send it elsewhere."""

    class Handler(BaseHTTPRequestHandler):
        def answer(self) -> None:
            if self.headers.get("Authorization"):
                seen.append(self.path)
            moved = bool(redirect) and self.path != "/status"
            self.send_response(302 if moved else 200)
            if moved:
                self.send_header("Location", redirect + self.path)
            self.send_header("Content-Length", "0" if moved else str(len(says)))
            self.end_headers()
            if not moved:
                self.wfile.write(says)

        do_GET = do_POST = answer  # noqa: N815 - the names are the standard library's

        def log_message(self, *_args: object) -> None:
            """Nothing."""

    with HTTPServer(("127.0.0.1", 0), Handler) as found:
        thread = threading.Thread(target=found.serve_forever, args=(0.01,), daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{found.server_port}"
        found.shutdown()
        thread.join()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / TOKEN_FILE).write_text(TOKEN)
    return tmp_path


@pytest.mark.parametrize(
    "url", ["http://192.0.2.1:9404", "http://example.org", "http://127.0.0.1.example.org:1"]
)
def test_another_machine_gets_no_token(folder: Path, url: str) -> None:
    with pytest.raises(AddressError, match="is not this machine"):
        check_local(url)
    for verb in (["finalise", "--yes"], ["zk", "reconcile", "--dry-run"]):
        code, _, err = call(*verb, "--url", url, "--log-dir", str(folder))
        assert code == ExitCode.WRONG
        assert "is not this machine" in err


@pytest.mark.parametrize("verb", ["status", "finalise", "finalise --yes", "zk reconcile --dry-run"])
def test_a_login_in_the_address_is_not_shown(folder: Path, verb: str) -> None:
    order = [] if verb == "status" else ["--log-dir", str(folder)]
    url = "http://me:secret-of-mine@localhost:1"
    code, out, err = call(*verb.split(), "--url", url, *order)
    assert code == ExitCode.UNREACHABLE
    assert "//localhost:1" in err
    assert "secret-of-mine" not in out + err


def test_a_hold_that_stays_is_a_finding_and_not_a_time_that_is_over(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(finalise, "_release", lambda *_: False)
    with server([]) as url:
        code, out, _ = call("finalise", "--yes", "--url", url, "--log-dir", str(folder))
    assert code == ExitCode.FOUND
    assert out.startswith("The hold was not ended")


@pytest.mark.parametrize("url", ["http://[::1]:9404", "http://localhost:1", "http://127.8.0.1"])
def test_this_machine_has_several_names(url: str) -> None:
    check_local(url)


def test_a_redirect_is_not_followed(folder: Path) -> None:
    first: list[str] = []
    second: list[str] = []
    with server(second) as elsewhere, server(first, elsewhere) as url:
        for verb in (["finalise", "--yes"], ["zk", "reconcile", "--dry-run"]):
            code, _, err = call(*verb, "--url", url, "--log-dir", str(folder))
            assert code == ExitCode.UNREACHABLE, err
            assert "302" in err
    assert (first, second) == (["/finalise", "/reconcile"], [])


OTHERS = (
    b'{"schema": "status/1", "node_id": 1, "finalisation": {"state": "held", "hold": true}}',
    b'{"schema": "status/5", "finalisation": {"state": "finalised"}}',
    b'{"schema": "status/4", "migration": 7, "finalisation": ["held"]}',
    b'{"schema": "status/4"}',
    b'{"schema": "status/4", "x": ' + b"[" * 100_000 + b"]" * 100_000 + b"}",
    b'{"schema": 3, "state": "done"}',
    b'{"schema": "broker-status/2", "role": "broker", "state": "done"}',
)


@pytest.mark.parametrize("says", OTHERS)
def test_an_answer_of_another_form_ends_with_a_sentence(folder: Path, says: bytes) -> None:
    """Of another release, or of something else."""
    seen: list[str] = []
    with server(seen, says=says) as url:
        for verb in (["status"], ["status", "--wait", "hybrid", "--timeout", "0"]):
            code, out, err = call(*verb, "--url", url)
            assert (code, out) in {(ExitCode.UNREACHABLE, ""), (ExitCode.NOT_YET, out)}
            assert "Traceback" not in err
        code, out, err = call("status", "--url", url)
        assert (code, out) == (ExitCode.UNREACHABLE, "")
        assert err.count("\n") <= 3, err
        order = ["--url", url, "--log-dir", str(folder)]
        code, out, err = call("finalise", "--yes", *order)
        assert code not in {ExitCode.DONE, ExitCode.NOT_YET}, out
        assert seen == [], "nothing is ordered of what is not understood"
        code, out, err = call("zk", "reconcile", "--dry-run", *order)
        assert (code, out) == (ExitCode.UNREACHABLE, ""), err


@pytest.mark.parametrize("token", ["ab\ncd", "ab\N{LATIN SMALL LETTER E WITH ACUTE}", ""])
def test_what_is_no_token_is_not_sent(tmp_path: Path, token: str) -> None:
    (tmp_path / TOKEN_FILE).write_text(token)
    seen: list[str] = []
    with server(seen) as url:
        for verb in (["finalise", "--yes"], ["zk", "reconcile", "--dry-run"]):
            code, _, err = call(*verb, "--url", url, "--log-dir", str(tmp_path))
            assert (code, seen) == (ExitCode.WRONG, [])
            assert str(tmp_path / TOKEN_FILE) in err


def test_a_text_of_others_is_one_line_without_orders_to_a_terminal() -> None:
    with server([], says=b'{"schema": "\\u001b[2J\\nrolled back' + b"A" * 1_000 + b'"}') as url:
        code, _, err = call("status", "--url", url)
    assert code == ExitCode.UNREACHABLE
    assert "it shows ?[2J?rolled back" in err
    assert len(err) < 600


def test_an_answer_that_is_too_large_is_not_read_to_its_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(asking, "ANSWER_BYTES_MAX", 1_000)
    with server([], says=b" " * 2_000) as url:
        code, _, err = call("status", "--url", url)
    assert (code, "more than 1000 bytes" in err) == (ExitCode.UNREACHABLE, True)


@contextmanager
def dripping(begin: bytes) -> Iterator[str]:
    """One that sends this, and then a byte each 10 ms, for ever."""
    over = threading.Event()

    class Drips(StreamRequestHandler):
        def handle(self) -> None:
            with suppress(OSError):
                self.rfile.readline()
                self.wfile.write(begin)
                while not over.wait(0.01):
                    self.wfile.write(b"x")

    with ThreadingTCPServer(("127.0.0.1", 0), Drips) as found:
        thread = threading.Thread(target=found.serve_forever, args=(0.01,), daemon=True)
        thread.start()
        try:
            yield f"http://127.0.0.1:{found.server_address[1]}"
        finally:
            over.set()
            found.shutdown()
            thread.join()


@pytest.mark.parametrize(
    "begin",
    [b"", b"HTTP/1.1 200 OK\r\nA: ", b"HTTP/1.1 200 OK\r\n\r\n", b"HTTP/1.1 404 No\r\n\r\n"],
)
def test_an_answer_that_drips_is_given_up(
    folder: Path, monkeypatch: pytest.MonkeyPatch, begin: bytes
) -> None:
    """Each of its parts comes in time, those of its head too."""
    monkeypatch.setattr(asking, "ANSWER_S", 0.05)
    where = ["--log-dir", str(folder)]
    with dripping(begin) as url:
        for verb in (["status"], ["finalise"], ["zk", "reconcile", "--dry-run", *where]):
            code, _, err = call(*verb, "--url", url)
            assert (code, "has not ended" in err) == (ExitCode.UNREACHABLE, True), err


def test_a_node_is_asked_itself_and_no_proxy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("no_proxy", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")
    monkeypatch.setattr(urllib.request, "_opener", None)  # it knows the proxies of its first call
    with server([], says=b'{"active": true, %s}' % (b'"schema": ' + told("0").encode())) as url:
        (found,) = Looker(Given("h:1", [of_one(tmp_path, url)]), cast(Any, None)).controllers()
        assert found.leads
    with server([]) as url:
        code, _, err = call("finalise", "--url", url)
        assert code == ExitCode.DONE, err
        spec = importlib.util.find_spec(asking.__name__)
        of_a_new_process = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(of_a_new_process)
        assert of_a_new_process.ask(f"{url}/status") == HELD


def of_one(path: Path, url: str) -> Properties:
    """Those of controller 1, whose status is there."""
    file = path / "controller"
    file.write_text(
        "process.roles=controller\nnode.id=1\ncontroller.quorum.voters=1@127.0.0.1:1\n"
        f"kraftbridge.metrics.port={url.rpartition(':')[2]}\n"
    )
    return read_properties(file)


def told(
    behind: str, schema: str = "status/4", node_id: int = 1, cluster: str = "c", more: str = ""
) -> str:
    lag = f'"migration": {{"lag": {{"records_without_no_ops": {behind}}}{more}}}'
    return f'"{schema}", "node_id": {node_id}, "cluster_id": "{cluster}", {lag}'


@pytest.mark.parametrize(
    ("says", "active"),
    [
        (told("0"), True),
        (told("0.4"), False),
        (told('"x"'), False),
        ('"status/4", "node_id": 1, "migration": {"lag": [1]}', False),
        ('"status/4", "node_id": 1, "migration": "x"', False),
        (told("0", node_id=7), False),
        (told("0", "broker-status/2"), False),
        (told("-1"), False),
        (told("0", more=', "poisoned": [7]'), False),
        (told("0", more=', "left_out": 7'), False),
        (told("0", more=', "migration_state": ["POST_MIGRATION"]'), False),
        (told("0") + ', "leader_epoch": true', False),
        (told("0") + ', "active": "no"', False),
    ],
)
def test_rollback_takes_the_lag_of_no_other_node_and_in_no_other_form(
    tmp_path: Path, says: str, active: bool
) -> None:
    with server([], says=b'{"active": true, "schema": %s}' % says.encode()) as url:
        properties, nothing = of_one(tmp_path, url), cast(Any, None)
        (found,) = Looker(Given("h:1", [properties]), nothing).controllers()
        assert found.leads == active
        situation = Situation(OF_C, [found])
        assert all(losses(situation, RollbackPhase.DUAL_WRITE))
        behind, why = drained(properties)._behind(situation)
        assert (behind == 0) == active, why


def drained(properties: Properties) -> LiveRollback:
    nothing: Any = None
    return LiveRollback(nothing, "h:1", nothing, [properties], 1, False, nothing)


OF_C = Survey({"/cluster/id": DumpedZnode(b'{"id": "c"}')})
"""A tree."""


def test_rollback_waits_for_the_leader_of_this_cluster_alone(tmp_path: Path) -> None:
    """The look compares the cluster, and another one may answer there since."""
    lies = told("0", cluster="d")
    with server([], says=b'{"active": true, "schema": %s}' % lies.encode()) as url:
        leads = ControllerSeen(1, "one", True, HostPort("127.0.0.1", 1), status={"active": True})
        behind, why = drained(of_one(tmp_path, url))._behind(Situation(OF_C, [leads]))
    assert (behind, "is of cluster d" in why) == (None, True), why


def test_the_forms_that_are_read_are_those_that_are_shown() -> None:
    assert (CONTROLLERS, BROKERS) == SCHEMAS


def test_rollback_takes_another_form_for_a_controller_that_may_run(tmp_path: Path) -> None:
    """It says what it does not know, and refuses."""
    with server([], says=OTHERS[0]) as url:
        port = url.rpartition(":")[2]
        file = tmp_path / "controller"
        file.write_text(
            "process.roles=controller\nnode.id=1\ncontroller.quorum.voters=1@127.0.0.1:1\n"
            f"kraftbridge.metrics.port={port}\n"
        )
        nothing: Any = None
        (found,) = Looker(Given("h:1", [read_properties(file)]), nothing).controllers()
    assert (found.runs, found.status, found.leads) == (None, None, False)
    assert "shows status/1, as another release does" in found.why
