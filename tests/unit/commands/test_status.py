"""``status``: what an operator asks first, and one sentence where nothing answers."""

from __future__ import annotations

import json
import socket
from threading import Thread
from typing import Any

import pytest

from emulator.commands import status as status_client
from tests.unit.commands.running import run


def test_status_of_nobody() -> None:
    code, _, complaint = run("status", "--url", "http://127.0.0.1:1")
    assert (code, "http://127.0.0.1:1/status" in complaint) == (3, True)
    code, _, complaint = run("status", "--url", "file:///etc/hostname")
    assert (code, "not an http address" in complaint) == (2, True)


STATUS: dict[str, Any] = {
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
        "lag": {
            "records": 7,
            "records_without_no_ops": 2,
            "ms": 5,
            "counted_records": 3,
            "bound_records": 10,
            "hard_bound_records": 0,
        },
        "blocked": False,
        "may_roll_back": True,
        "poisoned": [{"znode": "/x", "cause": "NO_AUTH", "skipped": False, "remedy": "x"}],
        "left_out": [{"znode": "/kafka-acl/Topic/a/b", "reason": "the name contains '/'"}],
        "waiting": [{"since": "2026-01-01T00:00:00", "text": "broker 2 has not registered"}],
        "zookeeper": {"state": "CONNECTED", "server": "z:2181"},
    },
}


def test_status_shows_what_an_operator_asks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(status_client, "fetch", lambda _url: json.dumps(STATUS))
    code, out, _ = run("status")
    assert code == 0
    for word in (
        "pre-migration",
        "broker 2 has not registered",
        "7 records, 2 of them",
        "3 counted",
        "/x",
        "contains '/'",
    ):
        assert word in out
    code, out, _ = run("status", "--json")
    assert json.loads(out) == STATUS


def test_a_lag_that_nobody_knows_is_not_shown_as_none(monkeypatch: pytest.MonkeyPatch) -> None:
    lag = STATUS["migration"]["lag"] | {"records": None, "records_without_no_ops": None, "ms": 0}
    shown = STATUS | {"migration": STATUS["migration"] | {"lag": lag}}
    monkeypatch.setattr(status_client, "fetch", lambda _url: json.dumps(shown))
    said = " ".join(run("status")[1].split())
    assert "lag unknown until ZooKeeper has been claimed and compared with the log; 3 coun" in said


def test_status_says_when_isr_changes_will_wait_too(monkeypatch: pytest.MonkeyPatch) -> None:
    lag = STATUS["migration"]["lag"] | {"hard_bound_records": 20_000}
    since = {"poisoned_since": "2026-01-01T00:00:00.000+00:00"}
    for soon_ms, told in (
        (7_500_000, "second bound ZooKeeper takes nothing: in about 2 h 5 min at this rate, at"),
        (59_000, "in about 0 min at this rate, at 20000 records, ISR changes and deletions wait"),
        (0, "second bound reached: 20000 records"),
    ):
        more = since | {"lag": lag | {"hard_bound_in_ms": soon_ms}}
        shown = STATUS | {"migration": STATUS["migration"] | more}
        monkeypatch.setattr(status_client, "fetch", lambda _url, it=shown: json.dumps(it))
        said = " ".join(run("status")[1].split())
        assert told in said
        assert "nothing written since 2026-01-01T00:00:00.000+00:00, behind what" in said


def test_status_says_who_waits_at_which_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    lag = STATUS["migration"]["lag"]
    more = {"counted_bytes": 12, "bound_bytes": 10, "bound_ms": 0}
    waits = {"blocked": True, "blocked_by": "records, bytes", "blocked_operations": 1}
    migration = STATUS["migration"] | waits | {"lag": lag | more}
    for hard, told in ((False, "do not wait"), (True, "wait too")):
        shown = STATUS | {"migration": migration | {"hard_blocked": hard}}
        monkeypatch.setattr(status_client, "fetch", lambda _url, it=shown: json.dumps(it))
        said = " ".join(run("status")[1].split())
        assert (
            "callers wait yes, ZooKeeper is behind by 3 of 10 records, 12 of 10 bytes: "
            f"1 operation waits now; deletions and ISR changes {told} " in said
        )


def test_what_others_wrote_is_shown_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    """A broker's text in square brackets was taken for a style, and ended the command."""
    waiting = [{"since": "now", "text": "cluster ID [/bold] :smile:"}]
    brokers = [{"id": 1, "kind": "kraft", "fenced": False, "endpoints": ["[red]://h:1"]}]
    told = {**STATUS, "brokers": brokers, "migration": {**STATUS["migration"], "waiting": waiting}}
    monkeypatch.setattr(status_client, "fetch", lambda _url: json.dumps(told))
    code, out, _ = run("status")
    assert code == 0
    assert "cluster ID [/bold] :smile:" in out
    assert "[red]://h:1" in out


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (b"HTTP/1.0 404 Not Found\r\n\r\n", "of a controller or broker: 404 Not Found"),
        (b"HTTP/1.0 200 OK\r\n\r\n<html>", "of a controller or broker: JSON is malformed"),
        (b"HTTP/1.0 200 OK\r\n\r\n{}", "this is not the kraftbridge.metrics.port of a controller"),
        (b"\0\0\0\4kafka\n", "of a controller or broker: no HTTP"),
    ],
)
def test_status_of_something_else_is_one_sentence(answer: bytes, why: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        url = f"http://127.0.0.1:{server.getsockname()[1]}"
        asked = Thread(target=_answer, args=(server, answer))
        asked.start()
        code, out, err = run("status", "--url", url)
        asked.join()
    assert (code, out) == (3, "")
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
    closed = url.endswith(":1")
    assert (code, out) == (3 if closed else 2, "")
    assert err.startswith(f"kraft-bridge: {url}/status: " if closed else "kraft-bridge: --url ")
    assert "urlopen" not in err
    assert err.count("\n") == 1
