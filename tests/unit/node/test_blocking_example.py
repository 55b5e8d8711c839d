"""An example of docs/blocking.md, on a node and a model of ZooKeeper that does not answer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import pytest

from emulator.seam import Accepted, Effect, Event, Received, Row, Send
from emulator.trace.rows import BlockCause, BlockRow
from tests.kit.requests import create_topics, delete_topics
from tests.unit.node.test_machine import CALLER, World, dual_writing
from wire import records as r
from wire.errors import ErrorCode
from wire.frame import RequestHeader, decode_response, encode_request, framed

BROKER: Final = 1
CREATE: Final = (19, 7)
DELETE: Final = (20, 6)


@dataclass(frozen=True)
class Line:
    """A request, and what happens to it; times in ms from the beginning of the example."""

    at: int
    request: str
    timeout: int
    counted: int
    waits: int
    answered: int
    answer: str


BOUND: Final = 8
QUIET_UNTIL: Final = 1_000
"""ZooKeeper answers nothing before it; a topic is two records, its deletion is one."""
LINES: Final = (
    Line(100, "create a", 600, 0, 0, 100, "NONE"),
    Line(200, "create b", 600, 2, 0, 200, "NONE"),
    Line(300, "create c", 600, 4, 0, 300, "NONE"),
    Line(400, "create d", 600, 6, 0, 400, "NONE"),
    Line(500, "create e", 600, 8, 500, 1000, "NONE"),
    Line(600, "create f", 600, 8, 400, 1000, "NONE"),
    Line(700, "create g", 200, 8, 200, 900, "REQUEST_TIMED_OUT"),
    Line(800, "delete a", 600, 8, 0, 800, "NONE"),
    Line(950, "create h", 600, 9, 50, 1000, "NONE"),
    Line(1100, "create i", 600, 0, 0, 1100, "NONE"),
)
"""`e` is the first that waits. `h` waits although `g` has gone: 9 are counted, and waiting ends
below 6. At last all that was counted is confirmed; `e`, `f` and `h` are appended in this order."""


class Example:
    """A node in dual write, callers on connections of their own, and what they were answered."""

    def __init__(self, bound: int, **more: str) -> None:
        given = {
            "kraftbridge_zk_write_behind_max_records": str(bound),
            "kraftbridge_trace_dir": "trace",
        }
        self.world: World = dual_writing(**{**given, **more})
        self.answers: dict[int, tuple[int, bytes]] = {}
        self.waits: list[BlockRow] = []
        node = self.world.node
        step = node.step

        def watched(events: list[Event], now_ms: int) -> list[Effect]:
            effects = step(events, now_ms)
            for effect in effects:
                if isinstance(effect, Send) and effect.conn > CALLER:
                    self.answers[effect.conn] = (now_ms, effect.data)
                if isinstance(effect, Row) and isinstance(effect.row, BlockRow):
                    self.waits.append(effect.row)
            return [e for e in effects if not (isinstance(e, Send) and e.conn > CALLER)]

        node.step = watched  # type: ignore[method-assign]
        known = r.RegisterBrokerRecord(
            broker_id=BROKER, broker_epoch=5, fenced=False, is_migrating_zk_broker=False
        )
        node.controller.append([known], self.world.now_ms)
        node.controller.heartbeats.register(BROKER, self.world.now_ms)
        self.world.perform(node.step([], self.world.now_ms))
        self.world.advance(1_000)
        self.begin_ms = self.world.now_ms

    def until(self, at: int) -> None:
        self.world.advance(self.begin_ms + at - self.world.now_ms)
        self.world.perform(self.world.node.step([], self.world.now_ms))

    @property
    def counted(self) -> int:
        driver = self.world.node.driver
        return driver.status(self.world.now_ms).bound.counted_records

    def send(self, number: int, line: Line) -> None:
        verb, name = line.request.split()
        message: object
        if verb == "create":
            message = create_topics(name, assigned=[[BROKER]], timeout_ms=line.timeout)
        else:
            message = delete_topics(name, timeout_ms=line.timeout)
        key, version = CREATE if verb == "create" else DELETE
        header = RequestHeader(
            api_key=key, api_version=version, correlation_id=1, client_id="example"
        )
        conn = CALLER + 1 + number
        events: list[Event] = [
            Accepted(conn, "CONTROLLER", b"\x7f\x00\x00\x01"),
            Received(conn, framed(encode_request(header, message))),
        ]
        self.world.perform(self.world.node.step(events, self.world.now_ms))

    def answer(self, number: int, line: Line) -> tuple[int, Any]:
        """When it came, from the beginning of the example, and the response."""
        at_ms, data = self.answers[CALLER + 1 + number]
        key, version = CREATE if line.request.startswith("create") else DELETE
        return at_ms - self.begin_ms, decode_response(key, version, data[4:])[1]


@pytest.mark.requirement("M09", "W02")
def test_who_waits_and_for_how_long() -> None:
    lines, answers_again = LINES, QUIET_UNTIL
    run = Example(BOUND)
    run.world.held = []
    for number, line in enumerate(lines):
        if run.world.held is not None and line.at >= answers_again:
            run.until(answers_again)
            run.world.release()
        run.until(line.at)
        assert run.counted == line.counted, line
        run.send(number, line)
    run.until(3_000)
    hints = set()
    for number, line in enumerate(lines):
        at, response = run.answer(number, line)
        results = getattr(response, "topics", None) or response.responses
        assert (at, ErrorCode(results[0].error_code).name) == (line.answered, line.answer), line
        hints.add((line.answer, response.throttle_time_ms))
    assert hints == {("NONE", 0), ("REQUEST_TIMED_OUT", 5_000)}

    waits = [line.waits for line in lines if line.waits]
    rows = {(row.begin_ns // 10**6 - run.begin_ms, (row.end_ns - row.begin_ns) // 10**6): row.cause
            for row in run.waits}  # fmt: skip
    assert rows == {(line.at, line.waits): BlockCause.LAG_RECORDS for line in lines if line.waits}
    gate, now_ms = run.world.node.controller.gate, run.world.now_ms
    assert gate.total_ms(now_ms) == sum(waits) == 1_150
    # Somebody waits from 500 to 1000 ms.
    assert gate.union_ms(now_ms) == 500
    assert run.world.node.blocking_ms.count == len(waits)
