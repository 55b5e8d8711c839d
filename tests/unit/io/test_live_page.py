"""The live page and its data, without a browser; ``make look`` opens it in one."""

from __future__ import annotations

import asyncio
import json
import re
import sys
import tracemalloc
import urllib.request
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, Final

import msgspec
import pytest
import typer

from emulator.commands import controller
from emulator.io import http, live_page
from emulator.io.live_page import FIGURES, KEPT, Series
from emulator.metadata.brokers import Broker
from emulator.metadata.pmap import PMap
from emulator.migration.taking_over.preconditions import Why
from emulator.node import introspection
from emulator.node.introspection import Moment
from emulator.operations.next_steps import next_steps
from emulator.servers.waiting import wait_for
from emulator.testing import Cluster
from emulator.trace.distribution import Distribution
from tests.kit.contrast import TEXT, contrast, papers
from tests.kit.dual_writing import Stage
from tests.unit.node.test_authority import deposed, with_broker
from wire.records import TopicRecord

URL: Final = "http://127.0.0.1:9404"
HOSTILE: Final = "<img src=x onerror=alert(1)>\u202egnp\u2028\x00\U000e0041" + "x" * 249


def moment(**more: Any) -> Moment:
    """One look at a node in dual write, on which nothing happens."""
    figures: dict[str, float | None] = dict.fromkeys(FIGURES, 0)
    plain = Moment(figures, "dual write", 3000, 1, "CONNECTED", "", {}, {}, 0, {})
    figures |= more.pop("figures", {})
    return replace(plain, **more)


def filled(looks: int, each: Callable[[int], Mapping[str, float]] = lambda _i: {}) -> Series:
    """A ring with one look a second, from second 1 on."""
    series, sync = Series(0), Distribution()
    for i in range(1, looks + 1):
        sync.observe(float(i))
        series.add(moment(figures=each(i)), (i, sync.total, 0), {"log_sync": sync}, i * 1_000)
    return series


@pytest.fixture(scope="module")
def status() -> dict[str, Any]:
    """Of a node in dual write with two brokers in ZooKeeper mode."""
    stage = Stage(zookeeper_mode=True)
    stage.joined.wait(2_000)
    return introspection.status(stage.node, stage.joined.now_ms)


def altered(status: dict[str, Any], migration: dict[str, Any], **more: Any) -> dict[str, Any]:
    """The same status with other members."""
    return {**status, "migration": {**status["migration"], **migration}, **more}


def pages(status: dict[str, Any], series: Series | None = None) -> http.Routes:
    return live_page.routes(series or filled(3), lambda: status, None, lambda: URL)


def answered(status: dict[str, Any], request: bytes) -> bytes:
    """What the server sends."""

    async def ask() -> bytes:
        server, port = await http.serve(pages(status), "127.0.0.1", 0)
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(request)
        answer = await reader.read()
        writer.close()
        server.close()
        return answer

    return asyncio.run(ask())


def series_of(status: dict[str, Any], query: str, series: Series | None = None) -> Any:
    route = pages(status, series)["/series"]
    assert isinstance(route, http.ByQuery)
    return json.loads(route.answer(query).body)


@pytest.mark.parametrize(
    ("request_bytes", "code"),
    [
        (b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n", 200),
        (b"GET /series?since=2 HTTP/1.1\r\nHost: localhost\r\n\r\n", 200),
        (b"GET /series?since=-2 HTTP/1.1\r\nHost: localhost\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nHost: evil.example\r\n\r\n", 403),
        (b"GET /series HTTP/1.1\r\nHost: evil.example\r\n\r\n", 403),
        (b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n", 405),
        (b"POST /series HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n", 405),
    ],
)
def test_it_is_read_by_get_alone_and_by_a_known_name(
    status: dict[str, Any], request_bytes: bytes, code: int
) -> None:
    assert answered(status, request_bytes).startswith(f"HTTP/1.1 {code} ".encode())


def test_the_page_may_run_its_own_script_and_ask_its_own_node_and_nothing_else(
    status: dict[str, Any],
) -> None:
    found = [answered(status, b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n") for _ in range(2)]
    nonces = set()
    for head, body in (one.decode().split("\r\n\r\n", 1) for one in found):
        policy = re.search(r"Content-Security-Policy: (.*)\r\n", head)
        assert policy is not None
        rules = dict(rule.split(" ", 1) for rule in policy[1].split("; "))
        nonce = rules["script-src"].removeprefix("'nonce-").removesuffix("'")
        assert rules == {
            "default-src": "'none'",
            "style-src": f"'nonce-{nonce}'",
            "script-src": f"'nonce-{nonce}'",
            "connect-src": "'self'",
            "base-uri": "'none'",
            "form-action": "'none'",
            "frame-ancestors": "'none'",
        }
        assert re.findall(r"<(script|style) (.*?)>", body) == [
            ("style", f'nonce="{nonce}"'),
            ("script", f'nonce="{nonce}"'),
        ]
        assert "{{" not in body
        assert "X-Content-Type-Options: nosniff" in head
        nonces.add(nonce)
    assert len(nonces) == 2
    assert all(len(one) >= 16 for one in nonces)


def test_the_page_has_no_markup_of_others_no_form_and_no_other_address(
    status: dict[str, Any],
) -> None:
    route = pages(status)["/"]
    assert not isinstance(route, http.ByQuery)
    text = route().body.decode()
    markup = "innerHTML outerHTML insertAdjacent document.write eval( Function( srcdoc DOMParser"
    markup += " createContextualFragment setHTML javascript: <form <iframe <img POST method:"
    assert not [one for one in markup.split() if one in text]
    assert not re.findall(r"\s(?:style|on\w+)=", text)  # the policy would refuse them
    assert set(re.findall(r"\w+://[^\"'` ]*", text)) == {"http://www.w3.org/2000/svg"}
    assert set(re.findall(r"fetch\(`([^`?]*)", text)) == {"/series"}
    assert set(re.findall(r'(?:href|src)="([^"]*)"', text)) == {"/status"}


def test_what_a_part_of_the_page_shows_is_what_makes_it_anew(status: dict[str, Any]) -> None:
    """Or it stays as it was, when only that changes."""
    route = pages(status)["/"]
    assert not isinstance(route, http.ByQuery)
    text = route().body.decode()
    of_waits = re.search(r'put\("waits", waits, (\[.*)\);', text)
    of_brokers = re.search(r'put\("brokers", brokers, (\[.*)\);', text)
    assert of_waits is not None
    assert of_brokers is not None
    body = text.partition("function waits() {")[2].partition("\n}")[0]
    shown = set(re.findall(r"(?:last\.status|migration)\.(\w+)", body)) - {"migration", "shown_at"}
    assert shown == {"waiting", "poisoned", "left_out", "finalisation", "snapshot_failure"}
    assert shown <= set(re.findall(r"\w+", of_waits[1]))
    assert "before.brokers" in of_brokers[1]


def test_a_controller_that_keeps_the_connection_and_is_silent_is_no_answer(
    status: dict[str, Any],
) -> None:
    route = pages(status)["/"]
    assert not isinstance(route, http.ByQuery)
    text = route().body.decode()
    asked = re.search(r"await fetch\((.*)\);", text)
    assert asked is not None
    assert "signal: AbortSignal.timeout(10000)" in asked[1]
    # 10 s without an answer are no reason to wait 200 s with the next question.
    answered, failed = text.partition("async function ask()")[2].split("} catch (error) {", 1)
    assert "wait = Math.min(5000, " in answered
    assert "wait =" not in failed
    assert "setTimeout(ask, wait);" in failed


def test_a_name_stays_text_and_what_is_not_seen_becomes_an_escape(status: dict[str, Any]) -> None:
    reason = {"why": "x", "subject": HOSTILE, "text": HOSTILE, "fatal": True, "since": ""}
    refused = {"broker": 3, "error": "E", "text": HOSTILE, "remedy": HOSTILE, "times": 1, "at": ""}
    series = filled(1)
    series.add(moment(refused={3: ("E", HOSTILE)}), (0, 0, 0), {}, 2_000)
    shown = altered(status, {"waiting": [reason]}, refusals=[refused])
    found = series_of(shown, "", series)
    seen = r"<img src=x onerror=alert(1)>\u202egnp\u2028\x00\U000e0041" + "x" * 249
    assert found["status"]["migration"]["waiting"][0]["text"] == seen
    assert found["status"]["refusals"][0]["remedy"] == seen
    assert found["events"][-1]["text"] == f"broker 3 is refused: E: {seen}"
    assert found["answers"][1]["text"].endswith("x" * 249)


@pytest.mark.parametrize(
    ("query", "numbers"),
    [
        ("", range(101, 1_001)),
        ("since=997", range(998, 1_001)),
        ("since=1000", range(0)),
        ("since=5000", range(101, 1_001)),  # it is of an earlier process
        ("since=1", range(101, 1_001)),
    ],
)
def test_looks_after_one_are_sent_and_15_minutes_are_kept(
    status: dict[str, Any], query: str, numbers: range
) -> None:
    found = series_of(status, query, filled(1_000))
    assert [row[0] for row in found["samples"]] == list(numbers)
    assert len(numbers) <= KEPT
    assert found["columns"] == list(live_page.COLUMNS)
    assert all(len(row) == len(found["columns"]) for row in found["samples"])


def broker(number: int, **more: Any) -> Broker:
    return Broker(number, 1, bytes(16), fenced=False, **more)


CHANGES: Final = {
    "phase": ({"phase": "final"}, [(False, "phase: dual write → final")]),
    "refused": ({"phase": "refused"}, [(True, "phase: dual write → refused")]),
    "leader": ({"leader": 3001, "epoch": 2}, [(False, "controller 3001 leads")]),
    "none": ({"leader": -1}, [(True, "no leader is known")]),
    "session": ({"session": "CONNECTING"}, [(True, "the session with ZooKeeper is lost")]),
    "blocked": (
        {"blocked_by": "records"},
        [(True, "ZooKeeper blocks KRaft: the bound of records is reached")],
    ),
    "poisoned": ({"poisoned": 2}, [(True, "ZooKeeper refuses znodes: 2")]),
    "refusal": ({"refused": {3: ("E", "why")}}, [(True, "broker 3 is refused: E: why")]),
    "waits": ({"waits": {("a", "1"): ("text", True)}}, [(True, "waits: text")]),
    "fenced": (
        {"brokers": {1: broker(1)}},
        [(False, "broker 1: registered in KRaft mode"), (False, "broker 1: active")],
    ),
    "many": (
        {"brokers": {i: broker(i, is_migrating_zk_broker=True) for i in range(12)}},
        [
            (False, "brokers 0, 1, 2, 3, 4, 5, 6, 7 and 4 more: registered in ZooKeeper mode"),
            (False, "brokers 0, 1, 2, 3, 4, 5, 6, 7 and 4 more: active"),
        ],
    ),
}


@pytest.mark.parametrize("kind", CHANGES)
def test_what_changed_from_one_look_to_the_next_is_an_event(kind: str) -> None:
    more, expected = CHANGES[kind]
    before = moment()
    assert list(live_page.changes(before, replace(before, **more))) == expected


def test_events_are_those_of_an_hour_and_not_too_many_at_once() -> None:
    series = Series(0)
    series.add(moment(), (0, 0, 0), {}, 0)
    series.add(moment(refused=dict.fromkeys(range(1000), ("E", "x"))), (0, 0, 0), {}, 1_000)
    assert [one.text for one in series.changes][-1] == "980 more changes"
    assert len(series.changes) == 22
    series.add(moment(refused=dict.fromkeys(range(1000), ("E", "x"))), (0, 0, 0), {}, 3_601_001)
    assert not series.changes


def test_a_text_of_a_reason_that_counts_on_is_no_new_event() -> None:
    before = moment(waits={("broker_slow", "1"): ("for 30 s", False)})
    now = moment(waits={("broker_slow", "1"): ("for 31 s", False)})
    assert not list(live_page.changes(before, replace(now, brokers=before.brokers)))


def test_the_ring_stays_below_5_mb_whatever_the_number_of_brokers() -> None:
    many = PMap({i: broker(i) for i in range(1_000)})
    sync = Distribution()
    for i in range(1_000):
        sync.observe(1.02**i)
    looks = [moment(brokers=many), moment(refused=dict.fromkeys(range(1000), ("E", "x" * 900)))]
    tracemalloc.start()
    try:
        series = Series(0)
        for i in range(950):
            of_process = (i + 0.5, i + 0.7, i)
            series.add(looks[i % 36 == 0], of_process, {"multi": sync, "log_sync": sync}, i)
        kept = tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()
    assert kept < 5_000_000
    assert len(series.changes) == live_page.EVENTS_MAX


def calls_of(work: Callable[[], object]) -> int:
    """Calls of Python functions and built-ins."""
    found = 0

    def count(_frame: object, what: str, _about: object) -> None:
        nonlocal found
        found += what in {"call", "c_call"}

    sys.setprofile(count)
    try:
        work()
    finally:
        sys.setprofile(None)
    return found


def test_a_look_costs_two_calls_a_broker_and_none_a_topic_or_partition(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    stage = Stage()
    node, series = stage.node, Series(0)

    def look() -> None:
        series.add(introspection.moment(node, stage.joined.now_ms), (0, 0, 0), {}, 1)

    look()
    few = calls_of(look)
    image = node.controller.stable
    topic = image.topic("first-topic")
    assert topic is not None
    parts = dict.fromkeys(range(10_000), topic.partitions[0])
    brokers = {i: broker(i, is_migrating_zk_broker=True) for i in range(1_000)}
    more = replace_image(image, brokers, topic, parts)
    monkeypatch.setattr(type(node.controller), "stable", property(lambda _self: more))
    look()  # the brokers have changed: once it goes through them
    assert calls_of(look) <= few + 2 * len(brokers)
    assert few < 400


def replace_image(image: Any, brokers: Any, topic: Any, parts: Any) -> Any:
    larger = msgspec.structs.replace(topic, partitions=PMap(parts))
    topics = PMap({i.to_bytes(16, "big"): larger for i in range(3_000)})
    return msgspec.structs.replace(image, brokers=PMap(brokers), topics=topics)


def answers(status: dict[str, Any], series: Series | None = None, verdict: str = "OK: x") -> Any:
    def advice(_status: object, _asked: str) -> tuple[str, list[dict[str, Any]]]:
        return verdict, [{"what": "start broker 1", "why": ""}]

    found = live_page.document(series or filled(3), status, advice, URL, 0)
    return [(one["level"], one["answer"]) for one in found["answers"]]


def test_the_first_screen_says_whether_it_is_safe_what_limits_it_and_how_long_it_was_blocked(
    status: dict[str, Any],
) -> None:
    every = "Yes: ZooKeeper has every change"
    keeps_up = ("ok", "Nothing: ZooKeeper keeps up")
    assert answers(status) == [("ok", every), keeps_up, ("ok", "0 ms in the last 3 s")]
    assert answers(status, verdict="PROBLEM: x")[0] == ("bad", f"{every}, but act")

    going = {**status["migration"]["going_back"], "changes_not_in_zookeeper": 1_200}
    assert answers(altered(status, {"going_back": going}))[0] == (
        "ok",
        "Yes: no change can be lost",
    )
    unknown = {**going, "changes_not_in_zookeeper": None}
    assert answers(altered(status, {"going_back": unknown}))[0] == ("wait", "Not known yet")
    poisoned = altered(status, {"poisoned": [{"znode": "/x"}]})
    assert answers(poisoned)[0] == ("bad", "No: ZooKeeper lacks some of it")
    assert answers(poisoned, verdict="PROBLEM: x")[0] == answers(poisoned)[0]
    assert answers({**status, "leader_id": 3001})[0] == ("wait", "Ask the leader")
    assert answers({**status, "leader_id": None})[0] == ("wait", "Not known")
    final = {**status, "migration": None, "phase": {**status["phase"], "name": "final"}}
    assert answers(final)[:2] == [("ok", "Yes, it is done"), ("ok", "Nothing")]

    blocked = altered(status, {"blocked": True, "blocked_by": "records"})
    now = filled(20, lambda i: {"blocked_ms": 500 * i, "blocked_operations": 3})
    assert answers(blocked, now)[1:] == [
        ("bad", "ZooKeeper blocks KRaft"),
        ("bad", "Now; 10 s in the last 20 s"),
    ]
    over = filled(1_000, lambda i: {"blocked_ms": min(500 * i, 4_200)})
    assert answers(status, over)[2] == ("ok", "0 ms in the last 15 min")


FOLLOWS: Final = "Ask the leader"
REFUSED_ZNODE: Final = {"znode": "/x", "cause": "", "skipped": False, "remedy": ""}
STATES: Final = {
    # phase, members of the migration, others -> level and answer of the first two questions
    "deposed": ("deposed", {}, {"active": False}, ("bad", "Not known"), ("bad", "It is deposed")),
    "refused": ("refused", {}, {"active": False}, ("bad", "Not known"), ("bad", "It is refused")),
    "rolled-back": (
        "rolled back",
        {},
        {"active": False},
        ("bad", "It was rolled back"),
        ("bad", "It is rolled back"),
    ),
    "claiming": (
        "claiming",
        {},
        {"active": False},
        ("wait", "Not known yet"),
        ("ok", "Nothing: ZooKeeper keeps up"),
    ),
    "not-begun": (
        "not migrating",
        {},
        {},
        ("ok", "In phase: not migrating"),
        ("ok", "Nothing: ZooKeeper keeps up"),
    ),
    "not-begun-inactive": (
        "not migrating",
        {},
        {"active": False},
        ("wait", "In phase: not migrating"),
        ("ok", "Nothing: ZooKeeper keeps up"),
    ),
    "final-with-flag": ("final", {}, {}, ("ok", "Yes, it is done"), ("ok", "Nothing")),
    "held": (
        "finalising",
        None,
        {},
        ("wait", "Not final yet"),
        ("ok", "Nothing"),
    ),
    "left-out": (
        "dual write",
        {"left_out": [{"znode": "/x", "reason": ""}]},
        {},
        ("wait", "All but some ACLs"),
        ("ok", "Nothing: ZooKeeper keeps up"),
    ),
    "refuses-a-znode": (
        "dual write",
        {"poisoned": [REFUSED_ZNODE], "poisoned_since": "2026"},
        {},
        ("bad", "No: ZooKeeper lacks some of it"),
        ("bad", "ZooKeeper refuses a znode"),
    ),
    "follower": ("dual write", {}, {"leader_id": 3001}, ("wait", FOLLOWS), ("wait", FOLLOWS)),
    "follower-of-final": ("final", None, {"leader_id": 3001}, ("wait", FOLLOWS), ("wait", FOLLOWS)),
    "no-leader": (
        "dual write",
        {},
        {"leader_id": None},
        ("wait", "Not known"),
        ("wait", "Not known"),
    ),
}


@pytest.mark.parametrize("state", STATES)
def test_nothing_is_called_safe_that_is_not_known_to_be_so(
    status: dict[str, Any], state: str
) -> None:
    name, migration, others, *expected = STATES[state]
    phase = {**status["phase"], "name": name, "text": name}
    shown = {**status, **others, "phase": phase}
    shown = shown | {"migration": None} if migration is None else altered(shown, migration)
    assert answers(shown)[:2] == expected
    if shown["leader_id"] != shown["node_id"]:  # it would show zeros
        assert answers(shown)[2] == expected[0]
        assert live_page.bounds(shown, filled(3)) == []


def test_while_finalising_it_says_whether_it_is_on_hold(status: dict[str, Any]) -> None:
    phase = {**status["phase"], "name": "finalising"}
    end = {"state": "held", "hold": True}
    shown = {**status, "phase": phase, "migration": None, "finalisation": end}
    found = live_page.is_safe(shown, "OK: x")
    assert (found["level"], found["answer"]) == ("wait", "Not final yet; on hold")
    assert "none is lost" in found["text"]
    assert live_page.is_safe(shown, "PROBLEM: x")["answer"].endswith("; act")


def test_a_deposed_leader_promises_nothing_about_what_it_had_not_written() -> None:
    world = with_broker()
    world.held = []
    topic = TopicRecord(name="t", topic_id=b"t" * 16)
    world.node.controller.append([topic], world.now_ms)
    world.perform(world.node.step([], world.now_ms))
    shown = introspection.status(world.node, world.now_ms)
    assert answers(shown)[0] == ("ok", "Yes: no change can be lost")
    deposed(world)
    world.release()
    world.advance(100)
    shown = introspection.status(world.node, world.now_ms)
    assert shown["migration"]["going_back"]["changes_not_in_zookeeper"] == 1
    assert answers(shown, verdict="PROBLEM: deposed")[0] == ("bad", "Not known")


def test_of_several_reasons_to_wait_the_one_that_waiting_does_not_remove_is_named(
    status: dict[str, Any],
) -> None:
    waits = [
        {"why": "broker_slow", "subject": "1", "text": "soon", "fatal": False},
        {"why": "no_listener", "subject": "2", "text": "never", "fatal": True},
        {"why": "no_listener", "subject": "3", "text": "nor this", "fatal": True},
    ]
    found = live_page.what_limits(altered(status, {"waiting": waits}), [])
    assert (found["level"], found["text"]) == ("bad", "Never (and 2 more, below)")
    assert found["answer"] == "Broker 2 lacks a listener"


def test_what_it_waits_for_is_said_in_few_words_whatever_it_is() -> None:
    assert live_page.WAITS_FOR.keys() == {one.value for one in Why}


def test_while_it_copies_it_does_not_say_that_nothing_was_copied(status: dict[str, Any]) -> None:
    copying = altered(status, {}, phase={**status["phase"], "name": "copying"})
    back = live_page.going_back(copying)
    assert back["text"].startswith("ZooKeeper still has everything: the copy only reads it. To go")


def test_before_dual_write_it_says_how_far_the_copy_is_and_that_nothing_can_wait_yet(
    status: dict[str, Any],
) -> None:
    lag = {**status["migration"]["lag"], "records": None}
    copying = altered(status, {"lag": lag}, phase={**status["phase"], "name": "copying"})
    assert answers(copying)[1:] == [("wait", "Copying"), ("wait", "Does not apply yet")]
    copying["migration"]["copy"] = {"topics_copied": 1_200, "topics": 3_000}
    assert answers(copying)[1] == ("wait", "Copying: 1,200 of 3,000 topics done")
    waited = filled(20, lambda _i: {"blocked_ms": 500})
    assert answers(copying, waited)[2] == ("wait", "500 ms in the last 20 s"), "it did wait"


def test_a_command_of_the_page_is_broken_between_words_and_copied_as_it_is(
    status: dict[str, Any],
) -> None:
    route = pages(status)["/"]
    assert not isinstance(route, http.ByQuery)
    text = route().body.decode()
    made = text.partition("function command(text) {")[2].partition("\n}")[0]
    assert 'text.split(" ")' in made
    assert "copyButton(text)" in made
    assert ".cmd code span{display:inline-block" in text
    assert "command(last.back.command)" in text


def test_every_text_stands_out_from_what_is_below_it_on_light_and_dark_paper() -> None:
    """A line of a chart is no text; it is on these two papers alone."""
    for colours in papers(live_page._FILE.read_text()):
        for below in ("bg", "soft"):
            for name in ("fg", "mut", "ok", "bad", "warn", "acc", "two"):
                assert contrast(colours[name], colours[below]) >= TEXT, (name, below)
        for level, below in (("ok", "okb"), ("bad", "badb"), ("warn", "warnb")):
            for name in ("fg", "mut", level):
                assert contrast(colours[name], colours[below]) >= TEXT, (name, below)


def test_before_the_first_look_it_is_not_known_whether_anybody_was_blocked(
    status: dict[str, Any],
) -> None:
    assert answers(status, Series(0))[2] == ("wait", "Not known")


def test_the_time_left_to_a_bound_is_that_at_the_rate_of_the_last_minute(
    status: dict[str, Any],
) -> None:
    lag = {**status["migration"]["lag"], "counted_records": 4_000, "bound_records": 10_000}
    shown = altered(status, {"lag": {**lag, "bound_bytes": 0, "hard_bound_records": 0}})
    grows = filled(300, lambda i: {"counted_records": max(0, 100 * (i - 260))})
    # 40 s of 100 records in the last minute, of which 59 s are seen.
    expected = {"name": "records", "count": 4_000, "bound": 10_000, "share": 0.4}
    assert live_page.bounds(shown, grows) == [expected | {"left_s": 88.5}]
    assert live_page.bounds(shown, filled(300)) == [expected | {"left_s": None}]
    assert live_page.what_limits(shown, live_page.bounds(shown, grows)) == {
        "question": "What limits it?",
        "level": "wait",
        "answer": "Soon ZooKeeper: 40% of the bound of records",
        "text": "Reached in 88.5 s at the last minute's rate; it is 0 records, 0 ms behind",
    }
    assert live_page.bounds({**status, "migration": None}, grows) == []


def test_how_long_it_was_blocked_says_since_when_that_is_counted(status: dict[str, Any]) -> None:
    """Another process of the controller may have been blocked before."""
    never = live_page.how_long_blocked(status, filled(3))
    was = live_page.how_long_blocked(status, filled(20, lambda _i: {"blocked_ms": 500}))
    now = live_page.how_long_blocked(status, filled(20, lambda _i: {"blocked_operations": 3}))
    for one in (never, was, now):
        assert "since 00:00:00 UTC" in one["answer"] + one["text"]
        assert "this process of controller 3000 began" in one["text"].lower()
    assert never["answer"].startswith("0 ms in the last ")
    assert was["answer"] == "500 ms in the last 20 s"
    assert was["text"].startswith("500 ms in total since 00:00:00 UTC, when this process")


KRAFT: Final = {"brokers_in_kraft_mode": 2, "changes_not_in_zookeeper": 7}
BACK: Final = {
    # phase, members of the migration (None: none), others -> level, answer, a part of the text
    "waiting": (
        "waiting",
        {},
        {},
        "ok",
        "Yes; no change is lost",
        "still has everything: nothing was copied yet. To go back run the rollback with the FILES",
    ),
    "dual-write": (
        "dual write",
        {},
        {},
        "ok",
        "Yes, with 2 restarts of brokers; no change is lost",
        "run the rollback",
    ),
    "in-kraft": (
        "dual write",
        {"going_back": KRAFT},
        {},
        "ok",
        "Yes, with 4 restarts",
        "first restart 2 of 2 brokers in ZooKeeper mode; then run the rollback with",
    ),
    "not-compared": (
        "dual write",
        {"going_back": {"changes_not_in_zookeeper": None}},
        {},
        "wait",
        "Yes, with 2 restarts of brokers; what ZooKeeper lacks is not known yet",
        "run the rollback",
    ),
    "refused-znode": (
        "dual write",
        {"poisoned": [{"znode": "/x"}]},
        {},
        "bad",
        "Yes, with 2 restarts of brokers; znodes that ZooKeeper refuses keep old content",
        "run the rollback",
    ),
    "left-out": (
        "dual write",
        {"left_out": [{"znode": "/x", "reason": ""}]},
        {},
        "wait",
        "Yes, with 2 restarts of brokers; 1 access control entry is lost",
        "run the rollback",
    ),
    "finalising": (
        "finalising",
        None,
        {},
        "wait",
        "Yes, with a restart of a controller and 4 restarts of brokers",
        "if anything. Then restart 2 of 2 brokers in ZooKeeper mode; then run",
    ),
    "final": ("final", None, {}, "none", "No", "the migration is final"),
    "never-begun": ("not migrating", None, {}, "ok", "Nothing to go back from", "no migration"),
    "refused": ("refused", {}, {"active": False}, "wait", "Not known to this", "see below"),
    "follower": ("dual write", {}, {"leader_id": 3001}, "wait", "Ask the leader", "3001 leads"),
}


@pytest.mark.parametrize("state", BACK)
def test_in_each_phase_a_line_says_what_going_back_costs(
    status: dict[str, Any], state: str
) -> None:
    name, members, others, level, answer, text = BACK[state]
    phase = {**status["phase"], "name": name, "brokers": 2}
    phase["kraft_brokers"] = 2 if name == "finalising" else 0
    shown: dict[str, Any] = {**status, **others, "phase": phase}
    if members is None:
        shown["migration"] = None
    else:
        back = {**status["migration"]["going_back"], **members.get("going_back", {})}
        shown = altered(shown, members | {"going_back": back})
    found = live_page.document(filled(3), shown, None, URL, 0)["back"]
    assert found["level"] == level
    assert found["answer"].startswith(answer)
    assert text in found["text"]
    runs = "run the rollback" in found["text"]
    assert found["command"] == (live_page.ROLLBACK if runs else "")


def test_the_page_shows_the_point_of_no_return_and_a_check_before_what_it_is_for(
    status: dict[str, Any],
) -> None:
    route = pages(status)["/"]
    assert not isinstance(route, http.ByQuery)
    text = route().body.decode()
    step = text.partition("function nextStep() {")[2].partition("\n}")[0]
    assert "first.no_way_back" in step
    assert "command(dry)" in step  # what is copied does not end the hold
    assert step.index("check.command") < step.index('make("li", "", ...does)')
    stepper = text.partition("function steps() {")[2].partition("\n}")[0]
    assert "no way back" in stepper
    assert "end.hold === false" in stepper  # then finalising is no place to stop


LAST: Final = {"action": "restart_controller", "no_way_back": True}
DIFF: Final = {"action": "diff", "no_way_back": False}
END: Final = {"action": "finalise", "no_way_back": True}


RETURNS: Final = {
    # phase, hold, steps -> a part of the text, the beginning of the line
    "on": (("dual write", True, [DIFF, LAST]), ("unless hold is on", "Step 2 below is final")),
    "off": (("dual write", False, [DIFF, LAST]), ("hold is off", "Step 2 below cannot")),
    "unknown": (("dual write", None, [LAST]), ("not known whether hold", "The next step")),
    "later": (("dual write", False, [DIFF, DIFF, LAST]), ("", "")),
    "end": (("finalising", True, [END]), ("ends the hold. Afterwards you cannot", "The")),
    "none": (("waiting", False, []), ("", "")),
}


@pytest.mark.parametrize("case", RETURNS)
def test_the_point_of_no_return_is_said_by_the_hold_that_is_set(
    status: dict[str, Any], case: str
) -> None:
    (name, hold, steps), (text, short) = RETURNS[case]
    shown = {**status, "phase": {**status["phase"], "name": name}, "finalisation": {"hold": hold}}
    found = live_page.no_return(shown, steps)
    assert found["before"] == "final", "one place in every phase: the final record"
    assert text in found["text"]
    assert bool(found["text"]) is bool(text)
    assert found["short"].startswith(short)
    assert ("unless" in found["text"]) is (case == "on")


def test_no_two_charts_of_the_page_have_one_title(status: dict[str, Any]) -> None:
    route = pages(status)["/"]
    assert not isinstance(route, http.ByQuery)
    table = route().body.decode().partition("const CHARTS = [")[2].partition("\n];")[0]
    titles = re.findall(r'^  \["([^"]+)"', table, re.MULTILINE)
    assert len(titles) == len(set(titles)) == 8


@pytest.mark.parametrize(
    ("name", "states"),
    [
        ("waiting", "now ahead ahead ahead ahead"),
        ("copy paused", "done now ahead ahead ahead"),
        ("dual write", "done done now ahead ahead"),
        ("mixed quorum", "done done done now ahead"),
        ("final", "done done done done done"),
        ("rolled back", "ahead ahead ahead ahead ahead"),
    ],
)
def test_the_stepper_shows_what_is_done_and_where_it_is(name: str, states: str) -> None:
    found = live_page.phases({"phase": {"name": name}})
    assert [one["state"] for one in found] == states.split()


def test_percentiles_are_those_of_the_last_minute() -> None:
    found = filled(200).last_minute()["log_sync"]
    # Copies are made at looks 1, 11, … 191; the oldest of six is of look 141, which it holds.
    assert found["count"] == 59
    assert 170 <= found["p50_ms"] <= 171 * (1 + 1 / 16)
    assert 199 <= found["max_ms"] <= 200


@pytest.mark.parametrize(
    ("measured", "shown"),
    [
        (1, {"max_ms"}),
        (19, {"max_ms"}),
        (20, {"p50_ms", "max_ms"}),
        (999, {"p50_ms", "max_ms"}),
        (1_000, {"p50_ms", "p99_ms", "max_ms"}),
    ],
)
def test_a_percentile_is_given_if_ten_lie_beyond_it(measured: int, shown: set[str]) -> None:
    series, sync = Series(0), Distribution()
    series.add(moment(), (0, 0, 0), {"log_sync": sync}, 1_000)
    for _ in range(measured):
        sync.observe(5.0)
    assert series.last_minute()["log_sync"].keys() == {"count", *shown}


def test_a_controller_is_started_with_the_advice_of_the_verb(
    monkeypatch: pytest.MonkeyPatch, status: dict[str, Any]
) -> None:
    given: dict[str, Any] = {}

    def run(partial: Any) -> int:
        given.update(partial.keywords)
        return 0

    monkeypatch.setattr(controller.in_use, "run", run)
    monkeypatch.setattr(controller, "load_config", lambda *_: None)
    monkeypatch.setattr(controller, "one_file", lambda *_: None)
    with pytest.raises(typer.Exit):
        controller.controller(None)
    verdict, steps = given["advice"](status, " --url http://h:1")
    expected = next_steps(status, asked=" --url http://h:1")
    assert [one["what"] for one in steps] == [one.what for one in expected]
    assert verdict.partition(":")[0] in {"OK", "WAIT", "PROBLEM"}


def test_what_a_broker_sends_on_for_its_clients_is_counted_by_broker() -> None:
    stage = Stage()
    stage.asker._client_id = "1"  # as a broker names itself
    for name in ("third", "fourth"):
        assert not stage.envelope(f"{name}-topic")
    assert not stage.create("fifth-topic")  # not in an Envelope
    found = introspection.status(stage.node, stage.joined.now_ms)
    assert {one["id"]: one["requests_forwarded"] for one in found["brokers"]} == {1: 2, 2: 0}


def read(url: str) -> Any:
    with urllib.request.urlopen(url, timeout=60) as answer:
        return answer.read().decode()


def test_a_running_controller_looks_at_itself_and_serves_the_page() -> None:
    with Cluster(properties={"kraftbridge.metrics.port": "0"}) as cluster:
        url = cluster.http()
        found = wait_for(
            "two looks",
            lambda: each if len((each := json.loads(read(f"{url}/series")))["samples"]) > 1 else {},
        )
        page = read(f"{url}/")
    newest = dict(zip(found["columns"], found["samples"][-1], strict=True))
    assert newest["log_syncs"] > 0
    assert newest["committed_offset"] > 0
    assert newest["lag_records"] is None  # without a migration nothing is behind
    assert found["events"][0]["text"] == "begun in phase: not migrating"
    assert "<title>kraft-bridge</title>" in page
    assert found["status"]["node_id"] == 3000


def test_a_look_that_fails_ends_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    with Cluster(properties={"kraftbridge.metrics.port": "0"}) as cluster:
        url = cluster.http()
        tries: list[int] = []

        def fails(_node: object, now_ms: int) -> Moment:
            tries.append(now_ms)
            raise RuntimeError("a fault")

        monkeypatch.setattr(introspection, "moment", fails)
        wait_for("two looks", lambda: len(tries) > 1)
        assert json.loads(read(f"{url}/series"))["schema"] == live_page.SCHEMA
