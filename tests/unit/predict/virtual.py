"""The real gate and write-behind in virtual time, on a ZooKeeper that serves in turn."""

from __future__ import annotations

import math
from dataclasses import dataclass

from bench.predict import model
from bench.predict.model import Blocked, Speed, Stall
from emulator.seam import Accepted, Effect, Event, Received, Row, Send
from emulator.trace.rows import Row as TraceRow
from tests.kit.requests import create_topics
from tests.unit.node.test_blocking_example import BROKER, CREATE, Example
from tests.unit.node.test_machine import CALLER
from wire.frame import RequestHeader, encode_request, framed

ONE = model.creation(1)
PING_BYTES = 40


def create(number: int, partitions: int = 1) -> list[Event]:
    """A caller of its own asks for a topic."""
    message = create_topics(f"t{number}", assigned=[[BROKER]] * partitions, timeout_ms=600_000)
    header = RequestHeader(api_key=CREATE[0], api_version=CREATE[1], correlation_id=1, client_id="")
    conn = CALLER + 1 + number
    return [
        Accepted(conn, "CONTROLLER", b"\x7f\x00\x00\x01"),
        Received(conn, framed(encode_request(header, message))),
    ]


@dataclass
class Serial:
    """A ZooKeeper that serves one request after the other, and none in a stall. Times in ms."""

    run: Example
    speed: Speed
    stall: Stall | None = None
    free_ms: float = 0.0

    def __post_init__(self) -> None:
        self.pending: list[tuple[float, Send]] = []
        self.multis = 0

    def take(self, now_ms: float) -> None:
        """What the node has sent is served in turn."""
        held, self.run.world.held = self.run.world.held or [], []
        driver = self.run.world.node.driver
        assert driver is not None
        for one in held:
            work_ms = 0.0
            if len(one.data) > PING_BYTES:
                flight = driver.write_behind.pipeline.flights[self.multis]
                self.multis += 1
                operations = len(flight.multi.ops)
                work_ms = (self.speed.request_s + self.speed.operation_s * operations) * 1e3
            begin_ms = max(self.free_ms, now_ms)
            end_ms = begin_ms + work_ms
            if (
                self.stall
                and self.stall.begin_s * 1e3 < end_ms
                and begin_ms < self.stall.end_s * 1e3
            ):
                end_ms += self.stall.end_s * 1e3 - max(begin_ms, self.stall.begin_s * 1e3)
            self.free_ms = end_ms
            self.pending.append((end_ms, one))

    def answers(self, now_ms: float) -> list[Event]:
        """What it has done by now."""
        found: list[Event] = []
        while self.pending and self.pending[0][0] <= now_ms:
            one = self.pending.pop(0)[1]
            self.multis -= len(one.data) > PING_BYTES
            found += self.run.world.arrived(one)
        return found


def measured(  # noqa: PLR0917 - what a run is
    rate: float,
    bound_records: int,
    speed: Speed,
    seconds: float,
    stall: Stall | None = None,
    rows: list[TraceRow] | None = None,
) -> Blocked:
    """The real node: its own sums, and the waits of its trace, whose rows are appended."""
    run = Example(bound_records)
    world = run.world
    step = world.node.step

    def watched(events: list[Event], now_ms: int) -> list[Effect]:
        effects = step(events, now_ms)
        if rows is not None:
            rows.extend(each.row for each in effects if isinstance(each, Row))
        return effects

    world.node.step = watched  # type: ignore[method-assign]
    world.held = []
    zookeeper = Serial(run, speed, stall)
    due = [int(number * 1000 / rate) for number in range(int(rate * seconds))]
    begin_ms, answered = world.now_ms, 0
    for now in range(int(seconds * 1000) + 60_000):
        world.now_ms = begin_ms + now
        events: list[Event] = []
        while due and due[0] <= now:
            events += create(answered)
            answered += 1
            due.pop(0)
        events += zookeeper.answers(now)
        if events or (world.node.deadline_ms or math.inf) <= world.now_ms:
            world.perform(world.node.step(events, world.now_ms))
        zookeeper.take(now)
        if not due and len(run.answers) == answered:
            break
    gate, waits = world.node.controller.gate, [row.end_ns - row.begin_ns for row in run.waits]
    return Blocked(
        min((row.begin_ns / 1e9 - begin_ms / 1e3 for row in run.waits), default=None),
        gate.union_ms(world.now_ms) / 1e3,
        gate.total_ms(world.now_ms) / 1e3,
        len(waits),
        max(waits, default=0) / 1e9,
    )
