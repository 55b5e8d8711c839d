"""``status``: what an operator asks first, and one sentence where nothing answers."""

from __future__ import annotations

import json
import re
import socket
from threading import Thread
from types import SimpleNamespace
from typing import Any

import pytest

from emulator.commands import status as status_client
from emulator.commands.status_next import ORDER, STUCK
from emulator.commands.status_shown import BACK_TO_DUAL_WRITE
from emulator.migration.side import BEHIND
from emulator.operations.rollback.phases import NOT_NOW
from tests.kit.status_document import broker, document, ends, phase, quorum, reason, refusal, voter
from tests.unit.commands.running import run


def test_status_of_nobody() -> None:
    code, _, complaint = run("status", "--url", "http://127.0.0.1:1")
    assert (code, "http://127.0.0.1:1/status" in complaint) == (3, True)
    assert "is the controller running" in complaint
    code, _, complaint = run("status", "--url", "127.0.0.1:1")
    assert (code, "write http://127.0.0.1:1" in complaint) == (2, True)
    code, _, complaint = run("status", "--url", "file:///etc/hostname")
    assert (code, "not an http address" in complaint) == (2, True)


STATUS = document(
    "pre-migration",
    waiting=[reason("broker_not_registered", "2") | {"text": "broker 2 has not registered"}],
    migration={
        "poisoned": [{"znode": "/x", "cause": "NO_AUTH", "skipped": True, "remedy": "x"}],
        "left_out": [{"znode": "/kafka-acl/Topic/a/b", "reason": "the name contains '/'"}],
    },
)


def shown_in(older: str, **more: Any) -> dict[str, Any]:
    """What a controller in a phase shows of the migration."""
    waits = bool(more.get("waiting", STATUS["migration"]["waiting"]))
    return {
        "migration": STATUS["migration"] | {"phase": older} | more,
        "phase": phase(older, waits=waits),
    }


def test_status_shows_what_an_operator_asks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(status_client, "fetch", lambda _url: json.dumps(STATUS))
    code, out, _ = run("status")
    assert code == 0
    assert out.startswith(
        "OK: waiting [WAIT_FOR_BROKERS]\nnext: restart broker 2 in ZooKeeper mode"
    )
    for word in (
        "broker 2 has not registered",
        "7 records, 2 of them",
        "3 counted",
        "/x",
        "contains '/'",
    ):
        assert word in out
    code, out, _ = run("status", "--json")
    found = json.loads(out)
    (step,) = found.pop("next")
    assert (step["action"], step["node"], step["now"]) == ("restart_broker", 2, True)
    assert found == STATUS


CONTROLS = "".join(map(chr, (0x1B, 0x7F, 0x85, 0x9B, 0x2028, 0x202E, 0x2066, 0xFEFF, 0xE0001)))


def test_no_text_of_others_commands_the_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    told = json.loads(json.dumps(STATUS).replace("broker 2 has", f"a{CONTROLS[1:]}"))
    told["migration"]["zookeeper"]["server"] = f"z{CONTROLS}:2181"
    told["brokers"][0]["endpoints"] = [f"A{CONTROLS}://h:1"]
    monkeypatch.setattr(status_client, "fetch", lambda _url: json.dumps(told, ensure_ascii=False))
    code, out, _ = run("status")
    assert code == 0
    assert "".join(out.split("\n")).isprintable()
    assert out.count("x1b") == out.count("u202e") - 2 == 2
    code, out, _ = run("status", "--json")
    assert json.loads(out) == told | {"next": json.loads(out)["next"]}
    assert out.rstrip("\n").isprintable()


def test_what_is_not_observed_is_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    trace = {"folder": "trace", "ended_because": "No space left on device", "missing_s": 41}
    told = STATUS | {"trace": trace, "log_lines_lost": 7}
    monkeypatch.setattr(status_client, "fetch", lambda _url: json.dumps(told))
    _, out, _ = run("status")
    said = " ".join(out.split())
    assert "trace is not written, its last 41 s are missing: No space left on device" in said
    assert "7 lines could not be written" in said
    whole = trace | {"ended_because": "", "missing_s": 0}
    monkeypatch.setattr(status_client, "fetch", lambda _url: json.dumps(STATUS | {"trace": whole}))
    assert "missing:" not in run("status")[1]


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
    waiting = [reason("other_cluster") | {"text": "cluster ID [/bold] :smile:"}]
    brokers = [broker(1, "kraft", endpoints=["[red]://h:1"])]
    told = {**STATUS, "brokers": brokers, "migration": {**STATUS["migration"], "waiting": waiting}}
    monkeypatch.setattr(status_client, "fetch", lambda _url: json.dumps(told))
    code, out, _ = run("status")
    assert code == 0
    assert "cluster ID [/bold] :smile:" in out
    assert "[red]://h:1" in out


def test_a_text_that_must_be_typed_is_wrapped_and_never_cut(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """At 80 columns the end of a znode's text was a sign for "more"."""
    text = '{"version":2,"brokerid":3000,"timestamp":"0","kraftControllerEpoch":0}' * 2
    waiting = [reason("other_log") | {"text": f"replace it by {text}, start"}]
    poisoned = [{"znode": "/z" + text, "cause": "c", "remedy": text, "skipped": True}]
    brokers = [broker(1, "kraft", endpoints=[f"A://{'b' * 90}:1"])]
    voters = voter(3000, endpoint=f"{'h' * 50}:9093"), voter(3001)
    shown = STATUS | shown_in("refused", waiting=waiting, poisoned=poisoned)
    shown |= {"quorum": quorum(*voters), "brokers": brokers}
    shown |= {"refusals": [REFUSAL | {"offered": text}]}
    monkeypatch.setattr(status_client, "fetch", lambda _url: json.dumps(shown))
    out = run("status")[1]
    assert "…" not in out
    assert "".join(out.split()).count(text) >= 2, "in a list: the znode, and its remedy"
    assert re.search(re.escape(text) + ",start", "".join(_last_cells(out))), "in a table"


def _last_cells(out: str) -> list[str]:
    """The last cell of each line of a table, without its padding."""
    cells = [line.split("│") for line in out.splitlines() if line.endswith("│")]
    return [one[-2].replace(" ", "") for one in cells]


LEADER_DOWN = voter(3002, answers=False, ready=False, why_not="Connection refused")


@pytest.mark.parametrize(
    ("more", "told"),
    [
        ({"active": True, "leader_id": 3000}, "node 3000, epoch 2, active metadata"),
        ({"active": False, "leader_id": 3000}, "not active although it leads the log metadata"),
        ({"active": False, "leader_id": 3002}, "not active: ask node 3002, which leads metadata"),
        ({"active": False, "leader_id": None}, "not active: no leader is known metadata"),
        (
            {"active": False, "leader_id": 3002, "quorum": quorum(voter(3000), LEADER_DOWN)},
            "not active: first start controller 3002 metadata",
        ),
    ],
)
def test_a_controller_that_is_not_active_says_whom_to_ask(
    more: dict[str, Any], told: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(status_client, "fetch", lambda _url: json.dumps(STATUS | more))
    assert told in " ".join(run("status")[1].split())


MAJORITY = (
    "repair: no leader is known: see that a majority of the controllers runs and that they reach "
    "each other; the status of each of the others says whether it was formatted without "
    "--new-quorum: then it votes for nobody\ntype: kraft-bridge status -c FILE"
)


@pytest.mark.parametrize(
    ("leader", "step"),
    [
        (
            3000,
            (
                "restart broker 2 in ZooKeeper mode with the migration on: broker 2 has not "
                "registered\nthen look again: kraft-bridge status"
            ),
        ),
        (
            3002,
            (
                "ask controller 3002: it leads, and it alone knows what the migration waits for\n"
                "type: kraft-bridge status -c FILE"
            ),
        ),
        (None, MAJORITY),
    ],
)
def test_the_next_step_at_a_controller_that_follows_is_to_ask_the_leader(
    leader: int | None, step: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It said to wait for hybrid, while the leader waited for the operator."""
    waiting = STATUS["migration"]["waiting"] if leader == 3000 else []
    shown = STATUS | {"leader_id": leader, "active": leader == 3000}
    shown |= shown_in("pre-migration", waiting=waiting)
    shown |= {"quorum": quorum(voter(3000), voter(3002), leader=leader)}
    monkeypatch.setattr(status_client, "fetch", lambda _url: json.dumps(shown))
    assert f"next: {step}\n" in run("status")[1]


def test_status_names_what_a_broker_failed_and_what_kafka_would_do(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    one = {
        "kind": "full_as_incremental",
        "broker": 1,
        "request": "FULL LeaderAndIsr",
        "error": "UNKNOWN_SERVER_ERROR",
        "times": 2,
        "first_at": "10:00:00",
        "at": "10:00:09",
        "done": "sent again as INCREMENTAL",
        "kafka": "would not go on",
    }
    told = STATUS | {"migration": STATUS["migration"] | {"repairs": [one]}}
    monkeypatch.setattr(status_client, "fetch", lambda _url: json.dumps(told))
    monkeypatch.setenv("COLUMNS", "150")
    out = " ".join(run("status")[1].split())
    assert "FULL LeaderAndIsr of broker 1 failed: UNKNOWN_SERVER_ERROR, at 10:00:09" in out
    assert "2 times since 10:00:00" in out
    assert "sent again as INCREMENTAL" in out
    assert "would not go on" in out


def test_status_names_what_zookeeper_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    one = dict.fromkeys(("kind", "error", "first_at", "at", "done", "kafka"), "x")
    found = {**one, "broker": -1, "request": "/config/topics/a", "times": 1}
    told = STATUS | {"migration": STATUS["migration"] | {"repairs": [found]}}
    monkeypatch.setattr(status_client, "fetch", lambda _url: json.dumps(told))
    monkeypatch.setenv("COLUMNS", "150")
    assert "ZooKeeper refused /config/topics/a: x" in " ".join(run("status")[1].split())


def test_status_shows_the_voters_and_who_is_not_ready(monkeypatch: pytest.MonkeyPatch) -> None:
    found = quorum(
        voter(3000),
        voter(3001, last_fetch=None),
        voter(3002, lag=None, release=None, metadata_versions="1-25", ready=False, why_not="[why]"),
        leader=3001,
        leader_epoch=7,
    )

    def shown(**more: Any) -> str:
        told = STATUS | {"quorum": found | more}
        monkeypatch.setattr(status_client, "fetch", lambda _url: json.dumps(told))
        monkeypatch.setenv("COLUMNS", "150")
        return run("status")[1]

    out = shown()
    assert "Quorum: 3001 leads epoch 7, as of 10:00:03" in out
    assert "voter 3002 is not ready: [why]" in out
    cells = [[cell.strip() for cell in line.split("│")[1:-1]] for line in out.splitlines()]
    assert ["3000", "host-3000:9093", "0", "10:00:01", "10:00:02", "3.9", "yes"] in cells
    assert ["3001", "host-3001:9093", "0", "leads", "10:00:02", "3.9", "yes"] in cells
    assert ["3002", "host-3002:9093", "unknown", "10:00:01", "10:00:02", "1-25", "no"] in cells
    away = shown(as_of=None, not_told_because="no answer in time")
    assert "3001 leads epoch 7; the rest is not known yet: no answer in time" in away
    assert "Quorum: no leader is known in epoch 7" in shown(leader_id=None)
    assert "Quorum" not in shown(voters=[voter(3000)]), "a quorum of one is no table"


@pytest.mark.parametrize("migrating", [True, False])
def test_three_that_were_formatted_without_new_quorum_say_what_to_type(
    migrating: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It said to see that a majority runs, and all three ran; their log was shown as of 3.0-IV1."""
    found = quorum(
        voter(3000, ready=False, why_not="not a candidate: [why]"),
        voter(3001),
        leader=None,
        voter_state="unknown",
    )
    shown = STATUS | {"leader_id": None, "quorum": found, "cluster_id": "abc"}
    shown |= {"active": False, "offsets": {"log_end": 0}}
    if not migrating:
        shown["migration"] = None
    monkeypatch.setattr(status_client, "fetch", lambda _url: json.dumps(shown))
    monkeypatch.setenv("COLUMNS", "150")
    out = run("status")[1]
    assert "voter 3000 is not ready: not a candidate: [why]" in out
    assert (
        "next: repair: no leader is known: if no controller of this quorum has ever led, stop each "
        "of them, format it and start it; if this one's disk was replaced or emptied, start the "
        "others, which hold the log\ntype: kraft-bridge format -c FILE -t abc --new-quorum "
        "--ignore-formatted\n"
    ) in out
    said = " ".join(out.split())
    assert "metadata.version unknown: the metadata log is empty here" in said
    assert said.startswith("PROBLEM: phase unknown: the metadata log is empty here")
    cells = [[cell.strip() for cell in line.split("│")[1:-1]] for line in out.splitlines()]
    assert [one[-1] for one in cells if one[:1] == ["3001"]] == ["unknown"]


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


REFUSAL = refusal()


def test_status_says_who_is_refused_why_and_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        status_client, "fetch", lambda _url: json.dumps({**STATUS, "refusals": [REFUSAL]})
    )
    said = run("status")[1]
    assert "Broker 2 is refused, 4 times, last 2026-01-01T00:00:01.000" in said
    for key in ("peer", "offered", "needed", "remedy", "error"):
        assert REFUSAL[key] in said
    assert "next: repair broker 2: it is refused (UNSUPPORTED_VERSION): Restart it with" in said


def test_status_shows_claim_comparison_and_the_way_back(monkeypatch: pytest.MonkeyPatch) -> None:
    more = {
        "claimed_at": "2026-01-01T00:00:02.000+00:00",
        "compared_at": "2026-01-01T00:00:03.000+00:00",
        "controller_epoch": 4,
        "epoch_headroom": -2,
        "going_back": {"text": "Then stop the controller."},
    }
    shown = STATUS | shown_in("dual write", waiting=[], poisoned=[], **more)
    shown |= {"finalisation": ends("migrating"), "brokers": [broker(1, "kraft")]}
    monkeypatch.setattr(status_client, "fetch", lambda _url: json.dumps(shown))
    said = " ".join(run("status")[1].split())
    assert (
        "last claim 2026-01-01T00:00:02.000+00:00, /controller_epoch 4, epoch headroom -2, too l"
        in said
    )
    assert "stores compared 2026-01-01T00:00:03.000+00:00" in said
    assert f"going back {NOT_NOW}: Then stop the controller." in said
    assert "3 counted for the bounds 10 and none (30% of the first)" in said
    assert (
        "first check, it must print EQUAL: kraft-bridge zk diff --zookeeper z:2181/kafka --log-dir "
        "/var/lib/kraft-bridge next: restart controller 3000 without "
        "zookeeper.metadata.migration.enable, by SIGTERM: this is the last restart. Hold is off at "
        "controller 3000, so it is final and cannot be undone"
    ) in said


@pytest.mark.parametrize("state", ["held", "waiting"])
def test_before_the_end_it_says_how_to_go_back(state: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both lines were missing in the very phase before the step that cannot be undone."""
    shown = STATUS | {"migration": None, "phase": phase("finalising"), "finalisation": ends(state)}
    monkeypatch.setattr(status_client, "fetch", lambda _url: json.dumps(shown))
    said = " ".join(run("status", "--plain")[1].split())
    assert f"going back {NOT_NOW}: {BACK_TO_DUAL_WRITE}" in said
    shown |= {"finalisation": ends("finalised"), "phase": phase("finalised")}
    assert "going back" not in run("status", "--plain")[1]


def test_brokers_that_have_not_registered_are_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each was named three times, with 250 characters that were not all that it needs."""
    text = "broker {} (known from /brokers/ids) has not registered: restart it with the flag"
    reasons = [
        reason("broker_not_registered", str(one)) | {"text": text.format(one)} for one in (1, 2, 3)
    ]
    down = reasons[0] | {
        "subject": "8",
        "text": "broker 8 (known from replica assignments) has not",
    }
    shown = STATUS | shown_in("pre-migration", waiting=[*reasons, down, reason("no_session")])
    monkeypatch.setattr(status_client, "fetch", lambda _url: json.dumps(shown))
    said = run("status", "--plain")[1]
    assert "broker 8: it does not run: it is absent from /brokers/ids; if it is gone" in said
    assert "brokers 1, 2, 3 to register: with the lines that kraft-bridge format printed" in said
    assert "text of no_session" in said
    assert "known from" not in said


@pytest.mark.parametrize("refused", [False, True])
@pytest.mark.parametrize("older", [*ORDER, *STUCK, "claiming", "new in a later version"])
def test_what_is_to_be_typed_next_asks_the_node_that_was_asked(
    older: str, refused: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It named no address, so the default was asked, where nobody listens."""
    more = {"refusals": [REFUSAL] if refused else []}
    shown = STATUS | more | shown_in(older) | {"finalisation": ends("migrating")}
    monkeypatch.setattr(status_client, "fetch", lambda _url: json.dumps(shown))

    def typed(*options: str) -> list[str]:
        said = run("status", *options)[1].partition("controller  node 3000")[0]
        return re.findall(r"kraft-bridge (?:status|finalise)(?: --url \S+)?", said)

    for given, url in (("http://h:29404", "http://h:29404"), ("http://me:pw@h:1", "http://h:1")):
        assert all(one.endswith(f" --url {url}") for one in typed("--url", given))
    assert not any("--url" in one for one in typed())
    assert len(typed("--url", "http://h:1")) == len(typed())


@pytest.mark.parametrize("older", [*ORDER, *STUCK, "claiming", "new in a later version"])
def test_every_phase_has_a_next_step(older: str, monkeypatch: pytest.MonkeyPatch) -> None:
    shown = STATUS | shown_in(older)
    monkeypatch.setattr(status_client, "fetch", lambda _url: json.dumps(shown))
    code, out, _ = run("status")
    assert code == 0
    assert "next: " in out


def answering(told: list[Any], monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """A node that shows one after the other, and the last one again; the time of the command."""
    now = [0.0]
    left = list(told)

    def fetch(_url: str) -> str:
        more = left.pop(0) if len(left) > 1 else left[0]
        if not more:
            raise OSError("Connection refused")
        return json.dumps(STATUS | more)

    monkeypatch.setattr(status_client, "fetch", fetch)
    # Only the command's own clock: a thread that another test left sleeps on the module's.
    clock = SimpleNamespace(
        monotonic=lambda: now[0], sleep=lambda s: now.__setitem__(0, now[0] + s)
    )
    monkeypatch.setattr(status_client, "time", clock)
    return now


def test_what_is_missing_at_the_end_is_no_list_while_brokers_are_in_zookeeper_mode(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """First in it was to restart the controllers without the flag, which ends dual write."""
    text = "controller 3000 has the flag"
    missing = [{"why": "controller_with_flag", "subject": "3000", "text": text}]
    broker = {"why": "zookeeper_broker", "subject": "1", "text": "broker 1 is in ZooKeeper mode"}
    found = ends("migrating") | {"missing": missing}

    def said(**more: Any) -> str:
        shown = STATUS | {"finalisation": found | more} | shown_in("hybrid")
        monkeypatch.setattr(status_client, "fetch", lambda _url: json.dumps(shown))
        return " ".join(run("status")[1].split())

    early = said(missing=[*missing, broker])
    assert "Finalising: not now: brokers are in ZooKeeper mode. Once each is in KRaft mode" in early
    assert text not in early
    assert f"missing │ {text}" in said()
    assert f"missing │ {text}" in said(state="waiting", missing=[*missing, broker])


def test_a_record_that_is_on_its_way_to_zookeeper_is_no_reason_to_wait(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A NoOp record is, about once a second: it said then that no mark would be left."""

    def said(why: str) -> str:
        found = ends("migrating", no_mark_because=why)
        shown = STATUS | {"finalisation": found} | shown_in("dual write")
        monkeypatch.setattr(status_client, "fetch", lambda _url: json.dumps(shown))
        return run("status", "--plain")[1]

    assert said(BEHIND) == said("")
    assert "would leave none because ZooKeeper refuses /x" in said("ZooKeeper refuses /x")


@pytest.mark.parametrize(
    ("phases", "wanted", "code"),
    [
        (["pre-migration", "copying", "hybrid"], "hybrid", 0),
        (["dual write"], "HYBRID", 0),
        (["pre-migration", "copying", "hybrid"], "dual-write-begun", 0),
        (["hybrid"], "all-brokers-in-kraft", 5),
        (["hybrid", "dual write"], "all-brokers-in-kraft", 0),
        (["finalising", "finalised"], "final", 0),
        (["pre-migration", "", "hybrid"], "hybrid", 0),
        (["pre-migration", "refused"], "hybrid", 1),
        (["hybrid", "deposed"], "dual-write", 1),
        (["hybrid"], "dual-write", 5),
        (["claiming"], "pre-migration", 5),
        ([""], "hybrid", 3),
        (["hybrid", ""], "dual-write", 3),
    ],
)
def test_a_script_waits_for_a_phase(
    phases: list[str], wanted: str, code: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An empty phase is a controller that does not answer; the last one stays."""
    told = [older and shown_in(older) for older in phases]
    now = answering(told, monkeypatch)
    found, out, err = run("status", "--wait", wanted, "--timeout", 10, "--json")
    assert found == code, err
    assert now[0] <= 10.0
    assert (out == "") == (code == 3)
    silent = "http://127.0.0.1:9404/status: Connection refused; asked again, for"
    assert (silent in err) == ("" in phases), "who is not there yet is waited for, and said to be"


def fatal(why: str, older: str = "pre-migration", *, is_fatal: bool = True) -> dict[str, Any]:
    """A migration that waits for one thing."""
    return shown_in(older, waiting=[reason(why, fatal=is_fatal)])


OTHER_CLUSTER = fatal("other_cluster")


def following(epoch: int) -> dict[str, Any]:
    return OTHER_CLUSTER | {"leader_id": 3001, "leader_epoch": epoch}


@pytest.mark.parametrize(
    ("told", "code", "after_s"),
    [
        ([OTHER_CLUSTER], 1, 1),
        ([{}, OTHER_CLUSTER], 1, 2),
        ([OTHER_CLUSTER, fatal("x", "hybrid")], 0, 1),
        ([OTHER_CLUSTER, fatal("malformed_znode"), {}, OTHER_CLUSTER, {}], 5, 10),
        ([{}] * 10 + [OTHER_CLUSTER], 1, 10),
        ([fatal("no_brokers", is_fatal=False)], 5, 10),
        ([OTHER_CLUSTER | {"leader_id": 3001}], 5, 10),
        ([OTHER_CLUSTER | {"leader_id": None}], 5, 10),
        ([fatal("other_cluster", "claiming")], 1, 1),
        ([following(each) for each in (2, 3, 4, 5, 6, 7)], 1, 4),
        ([following(2), following(6)], 1, 1),
        ([following(2), {"leader_id": 3001}, following(6), following(9)], 5, 10),
        ([following(2), following(5)], 5, 10),
    ],
)
def test_a_script_does_not_wait_for_what_only_an_operator_removes(
    told: list[dict[str, Any]], code: int, after_s: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With a wrong cluster id it waited until the time was over; twice in a row it is no moment."""
    shown = [{"leader_id": 3000} | one for one in told]
    now = answering(shown, monkeypatch)
    found, out, err = run("status", "--wait", "hybrid", "--timeout", 10, "--json")
    assert (found, now[0]) == (code, after_s), err
    assert json.loads(out)["schema"] == "status/4"


def test_a_stale_broker_does_not_end_the_wait_for_the_restarts_that_repair_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    answering([fatal("stale_controller_epoch", "hybrid")], monkeypatch)
    assert run("status", "--wait", "dual-write", "--timeout", 10)[0] == 5


def test_what_cannot_be_waited_for_is_said() -> None:
    for line, why in (
        (("--wait", "noon"), "--wait noon: one of copying, dual-write-begun"),
        (("--timeout", "5"), "--timeout needs --wait"),
        (("--wait", "hybrid", "--url", "x"), "is not an http address"),
    ):
        code, out, err = run("status", *line)
        assert (code, out) == (2, "")
        assert why in err
