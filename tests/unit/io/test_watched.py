"""Events and effects of a machine as log lines."""

from __future__ import annotations

import pytest

from emulator.io.log_output import logger
from emulator.io.watched import Watched
from emulator.seam import Accepted, Close, Effect, Event, Halt, Log, Received, Row, Send

API_VERSIONS = bytes.fromhex("0000000b 0012 0000 00000007 0001 61")
SECRET = b"hunter2 " * 30


class Echo:
    """Answers each event with the effects it was given."""

    deadline_ms = 5

    def __init__(self, *effects: Effect) -> None:
        self.effects = [*effects]
        self.taken: list[Event] = []

    def start(self, _now_ms: int) -> list[Effect]:
        return self.effects

    def step(self, events: list[Event], _now_ms: int) -> list[Effect]:
        self.taken += events
        return self.effects

    def shutdown(self, _now_ms: int) -> list[Effect]:
        return [Halt(0, "stopped")]


def test_a_watched_machine_does_what_it_does_alone_and_each_event_and_effect_is_a_line() -> None:
    lines: list[Log] = []
    effects: list[Effect] = [Send(1, SECRET), Log("info", "own", {}), Row(None), Close(1)]
    machine = Echo(*effects)
    watched = Watched(machine, lines.append)
    events: list[Event] = [Accepted(1, "C", b"\x7f\0\0\1"), Received(1, API_VERSIONS)]
    assert watched.step(events, 3) == effects
    assert machine.taken == events
    assert watched.deadline_ms == 5
    shown = [(line.event, line.fields.get("request"), line.fields.get("data")) for line in lines]
    assert shown == [
        (">> Accepted", None, None),
        (">> Received", "ApiVersions v0 #7", "15 bytes"),
        ("<< Send", None, "240 bytes"),
        ("<< Close", None, None),
    ]
    assert "hunter2" not in str(lines)
    assert {line.level for line in lines} == {"trace"}


def test_of_an_answer_no_request_is_read() -> None:
    lines: list[Log] = []
    Watched(Echo(), lines.append).step([Received(9, API_VERSIONS)], 0)
    assert lines[0].fields == {"conn": 9, "data": "15 bytes"}


def test_an_end_is_a_line() -> None:
    lines: list[Log] = []
    watched = Watched(Echo(Send(1, b"")), lines.append)
    watched.start(0)
    watched.shutdown(1)
    assert [line.event for line in lines] == ["<< Send", "<< Halt"]


@pytest.mark.parametrize("json", [False, True])
@pytest.mark.parametrize(("level", "shown"), [("trace", True), ("debug", False)])
def test_lines_of_events_are_written_at_level_trace_only(
    capsys: pytest.CaptureFixture[str], level: str, *, shown: bool, json: bool
) -> None:
    write = logger("1", json=json, level=level)
    Watched(Echo(Send(1, SECRET)), write).start(0)
    assert ("<< Send" in capsys.readouterr().err) == shown


def requests_of(*chunks: bytes) -> list[str | None]:
    """The request that is named for each chunk that one accepted connection receives."""
    lines: list[Log] = []
    watched = Watched(Echo(), lines.append)
    watched.step([Accepted(1, "C", b"\x7f\0\0\1")], 0)
    for chunk in chunks:
        watched.step([Received(1, chunk)], 0)
    assert not any(one in str(lines) for one in ("hunter2", str(int.from_bytes(b"hunt")), "117"))
    return [line.fields.get("request") for line in lines[1:]]


def framed(data: bytes) -> bytes:
    return len(data).to_bytes(4) + data


def request(key: int, version: int, body: bytes = b"") -> bytes:
    header = key.to_bytes(2) + version.to_bytes(2) + bytes(3) + b"\7"
    return framed(header + body)


HANDSHAKE = request(17, 0, b"\0\1a\0\5PLAIN")
PLAIN = framed(b"\0A\0\0hunter2")
"""As a header: DescribeTransactions v0, with a correlation id of the password."""


@pytest.mark.parametrize("split", [1, 5, 11, 12, 13, len(HANDSHAKE)])
def test_no_byte_of_a_token_without_a_header_is_shown(split: int) -> None:
    named = requests_of(API_VERSIONS + HANDSHAKE[:split], HANDSHAKE[split:] + PLAIN, PLAIN)
    assert (named[0], named[2]) == ("ApiVersions v0 #7", None)
    assert named[1] in {None, "SaslHandshake v0 #7"}


def test_a_request_is_named_where_it_begins_only() -> None:
    inside = request(3, 9, request(18, 3) * 3)
    assert requests_of(inside[:20], inside[20:], request(18, 3)) == [
        "Metadata v9 #7",
        None,
        "ApiVersions v3 #7",
    ]


@pytest.mark.parametrize("other", [b"GET / HTTP/1.1\r\n\r\n", PLAIN, framed(b"\x60\x48token")])
def test_after_what_is_no_request_nothing_is_named(other: bytes) -> None:
    if other is PLAIN:
        other = framed(b"\x00\x75er\0hunter2")
    assert requests_of(other, API_VERSIONS) == [None, None]


def test_a_version_that_does_not_exist_is_not_named_and_the_next_request_is() -> None:
    assert requests_of(request(18, 99), API_VERSIONS) == [None, "ApiVersions v0 #7"]
