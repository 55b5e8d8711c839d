"""A controller with one planted fault for each API: `make fuzz` names each, and its frame."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from emulator.simulation.models.zookeeper_mode import CLUSTER_ID
from tools.fuzz import doors, judge
from tools.fuzz.frames import Cell, Frame, Known, drawn
from tools.fuzz.run import Fuzz
from tools.fuzz.servers import CONTROLLER, Stage
from tools.fuzz.state import State
from wire.frame import decode_request

pytestmark = pytest.mark.slow

CREATE, DELETE, QUOTAS, SCRAM, RENEW, ENVELOPE = 19, 20, 49, 51, 39, 58
PLANTED = f"""
import sys, time
from dataclasses import replace
from emulator.controller import registry
from emulator.node.machine import Node
from emulator.seam import Close

create = registry.handlers()[{CREATE}]
registry._HANDLERS[{CREATE}] = replace(create, function=lambda *_: {{}}[1])
answer = Node._answer

def planted(self, reply, now_ms):
    found, key = answer(self, reply, now_ms), reply.ticket.header.api_key
    if key == {DELETE}:
        return []
    if key == {QUOTAS}:
        return [Close(reply.ticket.conn)]
    if key == {RENEW}:
        sys.stderr.write("Traceback (most recent call last):\\n")
    end = time.thread_time() + 0.03 * (key == {SCRAM})
    while time.thread_time() < end:
        pass
    return found

Node._answer = planted
from emulator.cli import main; main()
"""


@pytest.fixture(scope="module")
def fuzz(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fuzz]:
    folder = tmp_path_factory.mktemp("plants")
    stage = Stage(folder, (CONTROLLER,))
    stage.bridge.command = PLANTED
    with stage:
        yield Fuzz(stage, State(folder / "state.json", 1), lambda _line: None, 100)


def valid(key: int, version: int) -> Iterator[Frame]:
    """To the listener where everybody may do everything."""
    cell = Cell(CONTROLLER, key, version)
    frames = (drawn(1, cell, number, Known(CLUSTER_ID)) for number in range(0, 10_000, 2))
    return (one for one in frames if one.door == "plain" and one.pieces == 1)


def found(fuzz: Fuzz, frame: Frame) -> str:
    """What is said of a frame; not of what an earlier one left in the log."""
    for server in fuzz.stage.servers.values():
        server.new_lines()
    fuzz.state.wrong.clear()
    fuzz.one(frame)
    return "\n".join(fuzz.state.wrong.values())


def test_a_lost_answer(fuzz: Fuzz, monkeypatch: pytest.MonkeyPatch) -> None:
    frame = next(valid(DELETE, 6))
    monkeypatch.setattr(doors, "PATIENCE_S", 0.5)
    assert found(fuzz, frame).startswith("no answer\n  DeleteTopicsRequest v6")


def test_a_connection_that_is_closed(fuzz: Fuzz) -> None:
    text = found(fuzz, next(valid(QUOTAS, 1)))
    assert text.startswith("the connection was closed\n  AlterClientQuotasRequest v1")


def test_a_long_step(fuzz: Fuzz) -> None:
    text = found(fuzz, next(valid(SCRAM, 0)))
    assert "ms of CPU at least, each time\n  AlterUserScramCredentialsRequest v0" in text


def test_a_traceback_in_the_log(fuzz: Fuzz) -> None:
    text = found(fuzz, next(valid(RENEW, 2)))
    assert text.startswith("log of controller: Traceback (most recent call last):\n  RenewDeleg")


def test_an_unknown_server_error_in_an_envelope(fuzz: Fuzz) -> None:
    begin = "UNKNOWN_SERVER_ERROR: CreateTopicsResponse("
    texts = (found(fuzz, one) for one in valid(ENVELOPE, 0) if creates(one))
    # A request without topics has an answer without error codes, and only the log says it.
    text = next((one for one in texts if one.startswith(begin)), "")
    assert "\n  EnvelopeRequest v0 to controller" in text


def creates(frame: Frame) -> bool:
    """Whether somebody creates topics, inside an Envelope."""
    inner = [decode_request(one)[1].request_data for one in judge.requests_of(frame)]
    return any(one[:2] == CREATE.to_bytes(2, "big") for one in inner)
