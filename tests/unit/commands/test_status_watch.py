"""``status --watch``: what a line says, when it ends, and whom it follows."""

from __future__ import annotations

import json
import re
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from emulator.commands import status as status_client
from emulator.commands import status_watch
from emulator.commands.status_nodes import DEFAULT_URL
from emulator.commands.status_watch import Eta, StatusWatch, WatchLine
from emulator.config.words import folded
from tests.kit import status_document
from tests.kit.screen import terminal, unfolded
from tests.kit.status_document import LAG, reason, voter
from tests.unit.commands.running import run


def document(older: str, **more: Any) -> dict[str, Any]:
    """A leader's status with other members in ``migration``."""
    return status_document.document(older, migration=more)


UNREGISTERED = [reason("broker_not_registered", str(number)) for number in range(1, 10)]


REFUSED = reason("broker_not_registered", "2") | {
    "text": "broker 2 tries to register and is refused: INVALID_REQUEST: why"
}


def lag(counted: int, **more: Any) -> dict[str, Any]:
    return {"lag": LAG | {"counted_records": counted} | more}


@pytest.mark.parametrize(
    ("found", "line"),
    [
        (
            document("hybrid", **lag(3, ms=210)),
            ("12:00:00 dual write; KRaft brokers 0/1; lag 3/10 (30%) 0.2 s; blocked no; ETA "
            "unknown; leader 3000"),
        ),
        (
            document("copying", copy={"topics_copied": 120, "topics": 2_915}, **lag(0)),
            ("12:00:00 copying; copied 120/2915 topics (4%); KRaft brokers 0/1; blocked no; ETA "
            "unknown; leader 3000"),
        ),
        (
            document(
                "dual write", blocked=True, hard_blocked=True, blocked_operations=12,
                **lag(30, bound_records=0, ms=61_000),
            ),
            ("12:00:00 dual write; KRaft brokers 1/1; lag 30 61.0 s; BLOCKED, 12 wait, deletions "
            "too; ETA unknown; leader 3000"),
        ),
        (
            document("claiming", **lag(0, records=None)) | {"leader_id": 3001},
            ("12:00:00 claiming; KRaft brokers 0/1; lag not known yet; blocked no; leader 3001, as "
            "3000 knows"),
        ),
        (
            document("waiting", **lag(0, records=None)) | {"brokers": []},
            "12:00:00 waiting; no broker is registered yet; blocked no; leader 3000",
        ),
        (
            document("waiting", **lag(0, records=None), waiting=[UNREGISTERED[0]])
            | {"brokers": []},
            ("12:00:00 waiting; waits for broker 1 to register (0 of 1 have); blocked no; leader "
            "3000"),
        ),
        (
            document("waiting", **lag(0, records=None), waiting=UNREGISTERED),
            ("12:00:00 waiting; waits for brokers 1, 2, 3, 4, 5, 6, 7, 8 and 1 more to register (1 "
            "of 10 have); blocked no; leader 3000"),
        ),
        (
            document(
                "waiting",
                **lag(0, records=None),
                waiting=[reason("no_session"), reason("other_cluster", fatal=True)],
            ),
            "12:00:00 waiting; waits: text of other_cluster; blocked no; leader 3000",
        ),
        (
            document(
                "waiting",
                **lag(0, records=None),
                waiting=[UNREGISTERED[0], reason("malformed_znode", fatal=True)],
            ),
            "12:00:00 waiting; waits: text of malformed_znode; blocked no; leader 3000",
        ),
        (
            document(
                "waiting",
                **lag(0, records=None),
                waiting=[UNREGISTERED[0], REFUSED],
            ),
            f"12:00:00 waiting; waits: {REFUSED['text']}; blocked no; leader 3000",
        ),
        (
            document("not migrating") | {"migration": None, "leader_id": None},
            "12:00:00 not migrating; no leader is known to 3000",
        ),
        (
            {"role": "broker", "node_id": 1, "state": "running"},
            "12:00:00 broker 1 running",
        ),
    ],
)  # fmt: skip
def test_a_line_says_how_far_it_is(found: dict[str, Any], line: str) -> None:
    assert WatchLine(styled=False).of(found, "12:00:00", 0.0) == line


def test_a_colour_only_repeats_what_the_words_say() -> None:
    found = document("deposed", blocked=True, blocked_operations=1)
    plain = WatchLine(styled=False).of(found, "12:00:00", 0.0)
    styled = WatchLine(styled=True).of(found, "12:00:00", 0.0)
    assert "\x1b[31m" in styled, "deposed"
    assert "\x1b[33m" in styled, "blocked"
    for code in ("\x1b[31m", "\x1b[33m", "\x1b[1m", "\x1b[0m"):
        styled = styled.replace(code, "")
    assert styled == plain


def test_colours_take_no_columns() -> None:
    found = document("deposed", blocked=True, blocked_operations=1, hard_blocked=True)
    plain = WatchLine(styled=False).of(found, "12:00:00", 0.0)
    styled = WatchLine(styled=True).of(found, "12:00:00", 0.0)
    for width in (len(plain), 60, 40):
        shown = re.sub(r"\x1b\[[0-9;]*m", "", folded(styled, width))
        assert shown == folded(plain, width)


def test_the_eta_goes_by_the_rate_of_the_last_seconds() -> None:
    eta = Eta()
    looks = [(0, 1_000), (1, 990), (2, 980), (3, 980), (14, 200), (15, 190), (16, 0), (17, 5)]
    found = [eta.text("lag", left, float(at)) for at, left in looks]
    # At 14 s only what was seen since 4 s counts: one look, no rate.
    assert found == [
        "unknown", "99 s", "98 s", "2 min 27 s", "unknown", "19 s", "0 s", "0 s",
    ]  # fmt: skip
    assert eta.text("copy", 7, 17.5) == "unknown", "the rate of the lag says nothing about a copy"
    assert eta.text("copy", None, 18.0) == "unknown"


@pytest.fixture
def looked(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The clock of the watch: only its own waits make time pass."""
    now = [0.0]
    clock = SimpleNamespace(
        monotonic=lambda: now[0],
        sleep=lambda s: now.__setitem__(0, now[0] + s),
        strftime=lambda _form: "12:00:00",
    )
    for module in (status_client, status_watch):
        monkeypatch.setattr(module, "time", clock)
    return now


def answers(monkeypatch: pytest.MonkeyPatch, told: list[Any]) -> None:
    """A node that shows one after the other, and the last one again; empty: it does not answer."""
    left = list(told)

    def fetch(url: str) -> str:
        if url != DEFAULT_URL:
            raise OSError("no other voter answers")
        found = left.pop(0) if len(left) > 1 else left[0]
        if not found:
            raise OSError("Connection refused")
        return json.dumps(found)

    monkeypatch.setattr(status_client, "fetch", fetch)


@pytest.mark.parametrize(
    ("told", "code", "lines"),
    [
        ([document("copying"), document("hybrid")], 0, 2),
        ([document("dual write")], 0, 1),
        ([{}, document("refused"), {}, document("hybrid")], 0, 4),
        ([document("copying")], 5, 4),
        ([document("copying"), {}], 3, 4),
    ],
)
def test_it_goes_on_until_the_phase_is_there_or_the_time_is_over(
    told: list[Any], code: int, lines: int, looked: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    answers(monkeypatch, told)
    found, out, err = run("status", "--watch", "--exit-when", "Dual-Write-Begun", "--timeout", 3)
    assert (found, err, out.count("\n")) == (code, "", lines)
    assert looked == [lines - 1]
    assert all(line.startswith("12:00:00 ") for line in out.splitlines())
    silent = "no answer: http://127.0.0.1:9404/status: Connection refused"
    assert (silent in out) == ({} in told)


def test_a_line_of_json_is_the_whole_document(
    looked: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    shown = [document("copying", deposed_because="a\x1bb"), document("hybrid")]
    answers(monkeypatch, [shown[0], {}, shown[1]])
    code, out, err = run("status", "--watch", "--json", "--exit-when", "dual-write-begun")
    assert code == 0
    found = [json.loads(line) for line in out.splitlines()]
    assert all(one.pop("next") for one in found), "as --json without --watch"
    assert found == shown
    assert out.replace("\n", "").isprintable()
    assert err.startswith("12:00:00 no answer: ")


def test_one_that_was_asked_alone_is_left_for_the_leader_that_it_names(
    looked: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The host is the voter's, the port the one that was asked; who answers must be the leader."""
    voters = [voter(3000, endpoint="a:9093"), voter(3001, endpoint="b:9093")]
    quorum = {"voters": [*voters, voter(3002, endpoint="[::1]:9093")]}
    led = {"leader_id": 3001, "quorum": quorum, "cluster_id": "abc"}
    follower = document("copying") | led
    leader = document("hybrid") | led | {"node_id": 3001}
    next_leader = leader | {"node_id": 3002, "leader_id": 3002, "leader_epoch": 9}
    asked: list[str] = []
    up = {
        "http://a:29404": [follower, {}],
        "http://b:29404": [leader, leader, {}],
        "http://[::1]:29404": [{}, next_leader],
    }

    def fetch(url: str) -> str:
        asked.append(url)
        left = up[url]
        found = left.pop(0) if len(left) > 1 else left[0]
        if not found:
            raise OSError("Connection refused")
        return json.dumps(found)

    monkeypatch.setattr(status_client, "fetch", fetch)
    line = ("status", "--url", "http://a:29404", "--watch", "--exit-when", "all-brokers-in-kraft")
    code, out, _ = run(*line, "--timeout", 3)
    assert code == 5
    ends = [line.rpartition("; ")[2] for line in out.splitlines()]
    assert ends == ["leader 3001", "leader 3001", "leader 3002", "leader 3002"]
    assert set(asked) == set(up)


def test_what_does_not_fit_together_is_refused() -> None:
    for line, why in (
        (("--watch", "--wait", "hybrid"), "--watch and --wait exclude each other"),
        (("--exit-when", "final"), "--exit-when needs --watch"),
        (("--watch", "--timeout", "5"), "--timeout needs --wait, or --exit-when"),
        (("--watch", "--exit-when", "noon"), "--exit-when noon: one of copying, dual-write-begun"),
    ):
        code, out, err = run("status", *line)
        assert (code, out) == (2, "")
        assert why in err


@pytest.mark.parametrize(
    ("until_s", "how"),
    [(None, "the phase is there after 2 s: dual write"), (1.0, "the phase is not there after 1 s")],
)
@pytest.mark.parametrize("width", [40, 60, 80])
def test_a_terminal_is_told_how_it_ended(
    until_s: float | None,
    how: str,
    width: int,
    looked: list[float],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    told = [document("copying"), document("copying"), document("hybrid")]
    source = SimpleNamespace(leading=lambda: SimpleNamespace(found=told.pop(0)))
    with terminal(width) as shown, redirect_stdout(shown.stream), redirect_stderr(shown.stream):
        watch = StatusWatch(source, str, reached=lambda _phase: not told)
        replace(watch, until_s=until_s).run()
        *lines, last = shown.settle()
    assert last.startswith(f"watch: {how}")
    assert all(line.startswith("12:00:00 ") for line in unfolded(lines))
    assert max(map(len, lines)) <= width
    assert not [line for line in lines if line.lstrip()[:1] == ";"]


def test_an_interrupted_watch_ends_with_a_line_of_its_own(looked: list[float]) -> None:
    def leading() -> Any:
        raise KeyboardInterrupt

    source = SimpleNamespace(leading=leading)
    with terminal(90) as shown, redirect_stdout(shown.stream), redirect_stderr(shown.stream):
        shown.stream.write("^C")
        with pytest.raises(KeyboardInterrupt):
            StatusWatch(source, str).run()
        assert shown.settle() == [
            "^C",
            "watch: stopped after 0 ms; nothing else was stopped",
        ]


@pytest.mark.parametrize(
    ("older", "left"),
    [("copying", "the migration goes on"), ("refused", "nothing else was stopped")],
)
def test_who_stops_a_watch_is_told_what_goes_on(older: str, left: str) -> None:
    line = WatchLine(styled=False)
    line.of(document(older), "12:00:00", 0.0)
    assert line.left == left
