"""``status -c FILE``: whom it asks, whose answer counts, and how the screen fits its width."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from rich.cells import cell_len

from emulator.commands import status as status_client
from emulator.commands import status_shown
from emulator.commands.status_shown import ago
from tests.kit.status_document import reason, refusal, voter
from tests.unit.commands.running import run
from tests.unit.commands.test_status import STATUS

AFTER_ROLLBACK = "after kraft-bridge rollback leave them stopped"
USUAL = "http://127.0.0.1:9404"


def shown(node_id: int, **more: Any) -> dict[str, Any]:
    led: dict[str, Any] = {"leader_id": 3000, "cluster_id": "abc", "node_id": node_id}
    return STATUS | led | more


@pytest.fixture
def up(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """Addresses, and the document that each shows."""
    found: dict[str, Any] = {}

    def fetch(url: str) -> str:
        if url not in found:
            raise OSError("Connection refused")
        return json.dumps(found[url])

    monkeypatch.setattr(status_client, "fetch", fetch)
    return found


def file_of(tmp_path: Path, node_id: int = 3000, name: str = "", **more: str) -> Path:
    """A controller's file; its folder is formatted."""
    folder = tmp_path / f"data-{node_id}"
    folder.mkdir(exist_ok=True)
    (folder / "meta.properties").write_text(f"version=1\nnode.id={node_id}\ncluster.id=abc\n")
    values = {
        "process.roles": "controller",
        "node.id": str(node_id),
        "controller.quorum.voters": "3000@a:9093,3001@b:9093,3002@[::1]:9093",
        "listeners": "CONTROLLER://:9093",
        "controller.listener.names": "CONTROLLER",
        "log.dirs": str(folder),
    } | {key.replace("_", "."): value for key, value in more.items()}
    path = tmp_path / f"{name or node_id}.properties"
    path.write_text("".join(f"{key}={value}\n" for key, value in values.items()))
    return path


def status_url(tmp_path: Path, url: str, node_id: int = 3000) -> None:
    (tmp_path / f"data-{node_id}" / "status.url").write_text(f"{url}\n")


def test_the_leader_is_shown_and_who_is_not_reached(up: dict[str, Any], tmp_path: Path) -> None:
    """Other voters: at their hosts, with the port of the file that was given."""
    file = file_of(tmp_path, kraftbridge_metrics_port="29404")
    up["http://127.0.0.1:29404"] = shown(3000, leader_id=3001, leader_epoch=4)
    up["http://b:29404"] = shown(3001, leader_id=3001, leader_epoch=4)
    code, out, _ = run("status", "-c", file)
    assert code == 0
    assert "node 3001, epoch 4, active" in out
    assert out.splitlines()[-1] == (
        "controller 3002 is not reached: http://[::1]:29404: Connection refused"
    )
    assert f"kraft-bridge status -c {file}" in out, "the leader may be the next that is restarted"
    assert "--url" not in out
    code, out, err = run("status", file, "--json")
    assert (code, json.loads(out)["node_id"]) == (0, 3001)
    assert err.startswith("controller 3002 is not reached: ")


def test_of_two_that_lead_the_newer_one_is_shown(up: dict[str, Any], tmp_path: Path) -> None:
    up["http://a:1"] = shown(3000, leader_epoch=4)
    up["http://b:1"] = shown(3001, leader_id=3001, leader_epoch=5)
    line = ("status", "--url", "http://a:1", "--url", "http://b:1", "--json")
    assert json.loads(run(*line)[1])["node_id"] == 3001
    up["http://b:1"] = shown(3001, leader_epoch=5)
    assert json.loads(run(*line)[1])["node_id"] == 3000, "one that follows is behind it"


@pytest.mark.parametrize(
    ("port", "at"),
    [
        ({}, USUAL),
        ({"kraftbridge_metrics_port": "29404"}, "http://127.0.0.1:29404"),
        ({"kraftbridge_metrics_port": "29404"}, "http://a:29404"),
        ({"kraftbridge_metrics_port": "29404", "listeners": "CONTROLLER://[::1]:9093"},
         "http://[::1]:29404"),
        ({"kraftbridge_metrics_port": "0"}, "http://127.0.0.1:40000"),
        ({}, "http://127.0.0.1:40000"),
    ],
)  # fmt: skip
def test_where_a_controller_of_a_file_is_asked(
    port: dict[str, str], at: str, up: dict[str, Any], tmp_path: Path
) -> None:
    file = file_of(tmp_path, **port)
    if at.endswith(":40000"):
        status_url(tmp_path, at)
    up[at] = shown(3000)
    code, out, _ = run("status", "-c", file, "--json")
    assert (code, json.loads(out)["node_id"]) == (0, 3000)


def test_an_address_that_is_old_does_not_hide_the_configured_one(
    up: dict[str, Any], tmp_path: Path
) -> None:
    file = file_of(tmp_path, kraftbridge_metrics_port="29404")
    status_url(tmp_path, "http://127.0.0.1:40000")
    up["http://127.0.0.1:40000"] = shown(3001)
    up["http://127.0.0.1:29404"] = shown(3000)
    assert json.loads(run("status", "-c", file, "--json")[1])["node_id"] == 3000


def test_an_address_that_changes_while_it_is_waited_for_is_seen(
    up: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A restart may end at another free port."""
    file = file_of(tmp_path, kraftbridge_metrics_port="0", controller_quorum_voters="3000@a:9093")
    now = [0.0]

    def pass_time(seconds: float) -> None:
        now[0] += seconds
        status_url(tmp_path, "http://127.0.0.1:40000")

    clock = SimpleNamespace(monotonic=lambda: now[0], sleep=pass_time)
    monkeypatch.setattr(status_client, "time", clock)
    up["http://127.0.0.1:40000"] = shown(3000)
    line = ("status", "-c", file, "--wait", "pre-migration", "--timeout", 9, "--json")
    code, out, err = run(*line)
    assert (code, json.loads(out)["node_id"], now) == (0, 3000, [1.0])
    assert "has no status.url" in err


@pytest.mark.parametrize(
    ("found", "why"),
    [
        (shown(3001), f"{USUAL}: controller 3001 answers there"),
        (shown(3000, cluster_id="xyz"), f"{USUAL}: a controller of another cluster, xyz, answers"),
        ({"schema": "broker-status/2", "role": "broker", "node_id": 3000},
         f"{USUAL}: broker 3000 answers there"),
        (None, f"{USUAL}: Connection refused; "),
    ],
)  # fmt: skip
def test_who_else_answers_at_the_address_is_not_taken_for_it(
    found: dict[str, Any] | None, why: str, up: dict[str, Any], tmp_path: Path
) -> None:
    if found is not None:
        up[USUAL] = found
    code, out, err = run("status", "-c", file_of(tmp_path))
    assert (code, out) == (3, "")
    _verdict, _step, _command, *lines = err.splitlines()
    assert lines[0].startswith(f"controller 3000 is not reached: {why}")
    assert "has no status.url, as a running controller's has" in lines[0]
    assert lines[1] == (
        "controller 3001 is not reached: http://b:9404: Connection refused; without "
        "kraftbridge.metrics.port it is asked on its own machine only"
    )


def test_a_file_that_turns_it_off_says_so(up: dict[str, Any], tmp_path: Path) -> None:
    file = file_of(tmp_path, kraftbridge_metrics_port="-1")
    status_url(tmp_path, USUAL)
    up[USUAL] = shown(3000)
    code, _, err = run("status", "-c", file)
    assert code == 3
    assert f"kraftbridge.metrics.port is -1 in {file}: it serves no status" in err


def test_files_of_brokers_are_left_out_and_wrong_ones_named(
    up: dict[str, Any], tmp_path: Path
) -> None:
    up[USUAL] = shown(3000)
    good = file_of(tmp_path)
    broker = file_of(tmp_path, name="broker", process_roles="broker")
    assert run("status", "-c", good, "-c", broker)[0] == 0
    twin = file_of(tmp_path, name="twin", log_dirs=str(tmp_path), kraftbridge_metrics_port="1")
    for files, why in (
        ((broker,), "broker.properties: not of a controller, which has process.roles=controller"),
        ((tmp_path / "none",), "none: No such file"),
        ((file_of(tmp_path, name="x", node_id=3000, kraftbridge_metrics_port="x"),), "port: not a"),
        ((good, twin), "twin.properties: node.id=3000 is in another file too"),
    ):
        code, out, err = run("status", *(part for one in files for part in ("-c", one)))
        assert (code, out) == (2, "")
        assert why in err


def test_a_follower_names_the_leader_and_where_it_answers(up: dict[str, Any]) -> None:
    quorum = {"leader_id": 3001, "leader_epoch": 1, "as_of": "now", "not_told_because": ""}
    quorum |= {"voters": [voter(3000, endpoint="a:9093"), voter(3001, endpoint="[::1]:9093")]}
    up["http://a:29404"] = shown(3000, leader_id=3001, quorum=quorum, active=False)
    alone = run("status", "--url", "http://a:29404")[1]
    assert "HOST:PORT" not in alone
    assert "\ntype: kraft-bridge status -c FILE\n" in alone
    up["http://[::1]:29404"] = shown(3002)
    assert run("status", "--url", "http://a:29404")[1] == alone, "another node answers there"
    up["http://[::1]:29404"] = shown(3001, leader_id=3001)
    found = run("status", "--url", "http://a:29404")[1]
    assert "\ntype: kraft-bridge status --url http://[::1]:29404\n" in found
    (step,) = json.loads(run("status", "--url", "http://a:29404", "--json")[1])["next"]
    assert step["command"] == "kraft-bridge status --url http://[::1]:29404"


def test_all_are_waited_for_and_the_leader_decides(
    up: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    migration = STATUS["migration"]
    up["http://127.0.0.1:29404"] = shown(3000, leader_id=3001)
    up["http://b:29404"] = shown(3001, leader_id=3001, migration=migration | {"phase": "hybrid"})
    file = file_of(tmp_path, kraftbridge_metrics_port="29404")
    assert run("status", "-c", file, "--wait", "dual-write-begun", "--timeout", 0)[0] == 0
    up.clear()
    code, out, err = run("status", "-c", file, "--wait", "dual-write-begun", "--timeout", 0)
    assert (code, out) == (3, "")
    assert err.count("is not reached: ") == 3
    assert err.splitlines()[:3] == [
        "kraft-bridge: NOT REACHED: none of these controllers answers",
        f"next: start each controller that does not run, on its machine; {AFTER_ROLLBACK}",
        f"type: kraft-bridge controller -c {file}",
    ], "before any controller ran there was no verdict and no step"


AT = "2026-01-01T00:10:00.000+00:00"


def screen(monkeypatch: pytest.MonkeyPatch, columns: int, *more: str) -> str:
    """What is printed about a document with each kind of table."""
    waiting = [reason("broker_slow", "3") | {"since": "2026-01-01T00:09:48.000+00:00"}]
    waiting[0]["text"] = "broker 3 is unreachable"
    fetches = {"last_fetch": "2026-01-01T00:09:59.800+00:00", "last_caught_up": AT}
    quorum = {"leader_id": 3000, "leader_epoch": 7, "as_of": AT, "not_told_because": ""}
    quorum |= {"voters": [voter(each, endpoint="10.0.0.5:29093", **fetches) for each in (3000, 1)]}
    found = shown(
        3000,
        shown_at=AT,
        quorum=quorum,
        refusals=[refusal() | {"at": "2026-01-01T00:08:00.000+00:00"}],
        migration=STATUS["migration"] | {"waiting": waiting, "compared_at": AT},
    )
    monkeypatch.setattr(status_client, "fetch", lambda _url: json.dumps(found))
    monkeypatch.setenv("COLUMNS", str(columns))
    code, out, _ = run("status", *more)
    assert code == 0
    return out


@pytest.mark.parametrize("columns", [40, 80, 200])
def test_a_screen_fits_and_says_how_long_ago(columns: int, monkeypatch: pytest.MonkeyPatch) -> None:
    out = screen(monkeypatch, columns)
    for text in ("12 s ago", "0.2 s ago", "10:00", "last 2 min ago"):
        assert (text in " ".join(out.split())) != (text == "10:00"), text
    assert "2026" not in out
    # What is to be typed is never wrapped here, as the terminal does that.
    rest = [one for one in out.splitlines() if not one.startswith("next: ")]
    assert max(map(cell_len, rest)) <= columns
    assert all(one == one.rstrip() for one in out.splitlines())
    assert ("│" in out) == (columns >= 60)
    row = "│ 3000 │ 10.0.0.5:29093 │ 0   │ leads      │ 0.0 s ago │ 3.9     │ yes   │"
    assert (row in out) == (columns >= 80), "a voter is one line"


def test_on_a_terminal_the_step_is_wrapped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(status_shown, "columns", lambda: 60)
    out = screen(monkeypatch, 60)
    assert max(map(cell_len, out.partition("controller ")[0].splitlines())) <= 60
    assert max(map(cell_len, screen(monkeypatch, 60, "--plain").splitlines())) > 60


def test_plain_has_no_lines_and_wraps_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    out = screen(monkeypatch, 40, "--plain")
    assert out == screen(monkeypatch, 200, "--plain")
    assert out.isascii()
    assert "3000  10.0.0.5:29093  0    leads       0.0 s ago  3.9      yes\n" in out
    assert "12 s ago  broker 3 is unreachable\n" in out


def test_times_stay_as_they_are_where_the_time_of_the_answer_is_not_known(
    up: dict[str, Any],
) -> None:
    at = "2026-01-01T00:00:02.000+00:00"
    up[USUAL] = shown(3000, migration=STATUS["migration"] | {"compared_at": at})
    assert f"stores compared       {at}" in run("status")[1]
    up[USUAL] |= {"shown_at": AT}
    assert "stores compared       9 min ago" in run("status")[1]
    assert json.loads(run("status", "--json")[1])["migration"]["compared_at"] == at


def test_the_units_of_an_age_change_where_they_become_long() -> None:
    found = [ago(each) for each in (0.04, 9.94, 10, 119, 120, 7_199, 7_200, 172_799, 172_800, -7)]
    assert found == [
        "0.0 s ago", "9.9 s ago", "10 s ago", "119 s ago", "2 min ago", "119 min ago", "2 h ago",
        "47 h ago", "2 days ago", "in 7.0 s",
    ]  # fmt: skip
