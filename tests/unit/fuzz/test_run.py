"""A run goes on where it was interrupted, and says what is wrong with the frame that did it."""

from __future__ import annotations

import itertools
import json
import time
from pathlib import Path
from threading import Barrier
from types import SimpleNamespace
from typing import Any

import pytest

from bench import record
from tools.fuzz import __main__ as fuzz
from tools.fuzz import judge
from tools.fuzz import run as sending
from tools.fuzz.frames import Cell, Frame, Known, drawn
from tools.fuzz.run import TRIES, Fuzz
from tools.fuzz.servers import Server
from tools.fuzz.state import State
from wire import messages as m
from wire.frame import decode_request, encode_response
from wire.schema import layout, lookup

CELLS = [Cell("controller", key, version) for key in (18, 19, 60) for version in (0, 1)]


class FakeServer:
    """Answers each valid frame with the defaults of its answer, or as a test plants it."""

    name = "controller"
    longest_ms = 0.0

    def __init__(self) -> None:
        self.sent: list[tuple[Cell, int, bytes]] = []
        self.readings: list[tuple[int, int]] = []
        self.lines: list[str] = []
        self.code = 0
        self.bytes = 100 << 20
        self.grows_bytes = 0
        self.took_ns = 0
        self.cpu = 0
        self.dies_at = -1
        self.process = SimpleNamespace(alive=True, tail=lambda: "its last lines")

    def cells(self) -> list[Cell]:
        return CELLS

    def door(self, *_: Any) -> FakeServer:
        return self

    def send(self, frame: Frame, *_: Any) -> tuple[list[bytes], bool]:
        self.sent.append((frame.cell, frame.number, frame.data))
        self.process.alive = len(self.sent) != self.dies_at
        self.cpu += self.took_ns
        if frame.spoilt:
            return [], True
        return [self.answer(one) for one in judge.requests_of(frame)], False

    def answer(self, asked: bytes) -> bytes:
        header, _ = decode_request(asked)
        kind = lookup("response", header.api_key)
        assert kind is not None
        message = layout(kind, header.api_version).cls()
        if isinstance(message, m.CreateTopicsResponse):
            one = m.CreateTopicsResponse.CreatableTopicResult(error_code=self.code)
            message.topics.append(one)
        return encode_response(header.api_key, header.api_version, header.correlation_id, message)

    def cpu_ns(self) -> int:
        return self.cpu

    def rests(self) -> bool:
        return True

    def new_lines(self) -> list[str]:
        lines, self.lines = self.lines, []
        return lines

    def page(self, _path: str) -> str:
        return ""

    def look(self, frames: int) -> None:
        self.readings.append((frames, self.bytes))
        self.bytes += self.grows_bytes


class FakeStage:
    def __init__(self) -> None:
        self.known = Known("c")
        self.server = FakeServer()
        self.servers = {"controller": self.server}
        self.swept = 0

    def sweep(self) -> None:
        self.swept += 1


def run(stage: FakeStage, path: Path, frames: int, end_s: float = 1e18, *, lanes: int = 1) -> State:
    state = State(path, 5)
    stage_: Any = stage
    Fuzz(stage_, state, lambda _line: None, 30, lanes).run(frames, end_s)
    return state


def test_each_api_and_version_gets_as_many(tmp_path: Path) -> None:
    stage = FakeStage()
    state = run(stage, tmp_path / "s.json", 62)
    assert sorted(state.done.values()) == [10] * 4 + [11] * 2
    assert not state.wrong
    assert {(cell, number) for cell, number, _ in stage.server.sent} >= {
        (cell, number) for cell in CELLS for number in range(10)
    }


@pytest.mark.parametrize("cut", [1, 7, 30, 61])
def test_a_run_in_pieces_sends_what_one_run_does(tmp_path: Path, cut: int) -> None:
    whole, pieces = FakeStage(), FakeStage()
    run(whole, tmp_path / "whole.json", 62)
    run(pieces, tmp_path / "pieces.json", cut)
    state = run(pieces, tmp_path / "pieces.json", 62)
    assert state.frames == 62
    assert sorted(pieces.server.sent) == sorted(whole.server.sent)


def test_lanes_send_together_what_one_does(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Four frames are under way at once, none while the cluster is cleaned up."""
    monkeypatch.setattr(sending, "SWEEP_FRAMES", 20)
    one, four = FakeStage(), FakeStage()
    together = Barrier(4)
    under_way: list[int] = []

    def send(frame: Frame, *_: Any) -> tuple[list[bytes], bool]:
        under_way.append(1)
        together.wait()
        answers = FakeServer.send(four.server, frame)
        under_way.pop()
        return answers

    def sweep() -> None:
        four.swept += 1
        assert not under_way

    four.server.send = send  # type: ignore[method-assign]
    four.sweep = sweep  # type: ignore[method-assign]
    run(one, tmp_path / "one.json", 60)
    state = run(four, tmp_path / "four.json", 60, lanes=4)
    assert not state.wrong
    assert sorted(four.server.sent) == sorted(one.server.sent)
    assert four.swept == one.swept == 4


def test_a_line_of_the_log_is_of_the_frame_that_writes_it_again(tmp_path: Path) -> None:
    stage = FakeStage()
    together, calls = Barrier(3), itertools.count()

    def send(frame: Frame, *_: Any) -> tuple[list[bytes], bool]:
        if next(calls) < 3:
            together.wait()
        if frame.cell == Cell("controller", 19, 1):
            stage.server.lines = ["Traceback (most recent call last):"]
        return FakeServer.send(stage.server, frame)

    stage.server.send = send  # type: ignore[method-assign]
    state = run(stage, tmp_path / "s.json", 12, lanes=3)
    assert len(state.wrong) == 2, "one that is valid, and one that is spoilt"
    assert all("CreateTopicsRequest v1" in text for text in state.wrong.values())


def test_a_bug_of_a_lane_is_not_silent(tmp_path: Path) -> None:
    stage = FakeStage()

    def send(frame: Frame, *_: Any) -> tuple[list[bytes], bool]:
        raise KeyError(f"a bug of ours: {frame.number}")

    stage.server.send = send  # type: ignore[method-assign]
    with pytest.raises(RuntimeError, match="a bug of ours"):
        run(stage, tmp_path / "s.json", 12, lanes=3)


def test_a_run_that_is_interrupted_keeps_what_it_did(tmp_path: Path) -> None:
    stage = FakeStage()

    def interrupt(frame: Frame, *_: Any) -> tuple[list[bytes], bool]:
        if len(stage.server.sent) == 9:
            raise KeyboardInterrupt
        return FakeServer.send(stage.server, frame)

    stage.server.send = interrupt  # type: ignore[method-assign]
    with pytest.raises(KeyboardInterrupt):
        run(stage, tmp_path / "s.json", 62)
    kept = json.loads((tmp_path / "s.json").read_text())
    assert (kept["seed"], sum(kept["done"].values())) == (5, 10)
    assert State(tmp_path / "s.json", 77).seed == 5, "its own, not a new one"


def test_no_frame_is_sent_when_the_time_is_over(tmp_path: Path) -> None:
    stage = FakeStage()
    assert run(stage, tmp_path / "s.json", 62, time.monotonic() - 1).frames == 0
    assert not stage.server.sent


def test_a_planted_error_code_is_named_with_its_frame(tmp_path: Path) -> None:
    stage = FakeStage()
    stage.server.code = -1
    state = run(stage, tmp_path / "s.json", 12)
    (kind,) = {one.split(" UNKNOWN")[0] for one in state.wrong if "19 0" in one}
    text = next(text for one, text in state.wrong.items() if one.startswith(kind))
    assert "UNKNOWN_SERVER_ERROR" in text
    assert "CreateTopicsRequest v0 to controller" in text
    frame = drawn(5, Cell("controller", 19, 0), 0, stage.known)
    assert "--seed 5 --again 'controller 19 0 0'" in text
    assert f"--hex {frame.data.hex()}" in text


def test_a_planted_line_of_the_log_is_named(tmp_path: Path) -> None:
    stage = FakeStage()
    stage.server.lines = ["Traceback (most recent call last):"]
    state = run(stage, tmp_path / "s.json", 12)
    (text,) = state.wrong.values()
    assert text.startswith("log of controller: Traceback")
    assert "--hex" in text


def test_a_planted_leak_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sending, "SWEEP_FRAMES", 10)
    stage = FakeStage()
    stage.server.grows_bytes = 5 << 20
    state = run(stage, tmp_path / "s.json", 62)
    assert list(state.wrong.values()) == [
        "controller: 115.0 MiB at most in the first 30 frames, then 130.0 MiB"
    ]
    assert state.judged_frames == 62


def test_a_frame_that_takes_long_is_sent_again_and_named(tmp_path: Path) -> None:
    stage = FakeStage()
    stage.server.took_ns = 21_000_000
    state = run(stage, tmp_path / "s.json", 1)
    (text,) = state.wrong.values()
    assert text.startswith("21.0 ms of CPU at least, each time")
    assert len(stage.server.sent) == TRIES


def test_what_others_cost_is_not_of_a_frame(tmp_path: Path) -> None:
    stage = FakeStage()

    def send(frame: Frame, *_: Any) -> tuple[list[bytes], bool]:
        stage.server.took_ns = 21_000_000 if not stage.server.sent else 1_000_000
        return FakeServer.send(stage.server, frame)

    stage.server.send = send  # type: ignore[method-assign]
    state = run(stage, tmp_path / "s.json", 1)
    assert not state.wrong
    assert len(stage.server.sent) == 2, "once more, alone"
    assert stage.server.longest_ms == 1.0


def test_a_server_that_ends_is_named_and_the_next_run_goes_on(tmp_path: Path) -> None:
    stage = FakeStage()
    stage.server.dies_at = 4
    state = run(stage, tmp_path / "s.json", 62)
    (text,) = state.wrong.values()
    assert "controller ended:\nits last lines" in text
    assert state.frames == 4
    again = run(FakeStage(), tmp_path / "s.json", 62)
    assert again.frames == 62
    assert again.wrong == state.wrong, "it stays wrong on this code"


def test_the_record_is_complete_with_enough_frames_and_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(record.VARIABLE, str(tmp_path / "record.json"))
    state = State(tmp_path / "none.json", 5)

    def left() -> tuple[bool, str]:
        fuzz.leave_record(state)
        found = json.loads((tmp_path / "record.json").read_text())
        return found["complete"], found["tests"][0]["outcome"]

    state.done = {str(cell): 200_000 for cell in CELLS}
    assert left() == (False, "passed")
    state.judged_frames = 1_200_000
    assert left() == (True, "passed")
    state.wrong["x"] = "y"
    assert left() == (True, "failed")
    state.done["controller 1 1"] = 1_999
    assert left() == (False, "failed")


def test_new_lines_of_a_log_are_read_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tools.fuzz.servers._LOG_BYTES_MAX", 20)
    out = tmp_path / "out"
    process: Any = SimpleNamespace(out=out)
    server = Server("controller", process, 1, 2, 3)
    out.write_text("one\ntwo\nthr")
    assert server.new_lines() == ["one", "two"]
    with out.open("a") as file:
        file.write("ee\n")
    assert server.new_lines() == ["three"]
    assert server.new_lines() == []
    with out.open("a") as file:
        file.write("and four and five\n")
        file.flush()
        assert server.new_lines() == ["and four and five"]
        assert out.stat().st_size == 0
        file.write("six\n")
    assert server.new_lines() == ["six"]
