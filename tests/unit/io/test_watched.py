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
