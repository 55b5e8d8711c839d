"""When a multi is sent and when changes gather first: each rule alone, over stand-ins."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from emulator.migration.dual_write.pipeline import Refused
from emulator.migration.dual_write.write_behind import (
    GATHER_CHANGES,
    GATHER_MS,
    LARGE_OPS,
    NO_OP_WRITE_MS,
    Sending,
)
from emulator.seam import Effect, Log, Row
from emulator.trace.rows import PipelineStage, RangeRow

T = 1_000_000
OPS_MAX = 400
SENT: list[Effect] = [Log("info", "sent", {})]
BARE: list[Effect] = [Log("info", "bare", {})]


class Lines:
    """A pipeline that takes one multi, and a backlog of so many operations or ISR changes."""

    def __init__(
        self, *, ops: int = 1, states: int = 0, changed: bool = True, room: int = 1
    ) -> None:
        self.units: list[Any] = []
        self.answer: Any = SENT
        self.ready = True
        self.pipeline = SimpleNamespace(
            flights=[],
            full=False,
            open_unit=None,
            ops_max=OPS_MAX,
            units=self.units,
            ready=lambda _: self.ready,
            plan=lambda _: True,
            send_bare=lambda _, __: BARE,
            send_part=self._send,
        )
        self.room = room
        self.backlog = SimpleNamespace(
            waiting=True,
            changed=changed,
            confirmed=None,
            fills=lambda count: ops >= count,
            many_states=lambda count: states >= count,
            delta_unit=self._unit,
        )
        pipeline: Any = self.pipeline
        backlog: Any = self.backlog
        self.sending = Sending(pipeline, backlog, lambda: 77)
        # The last multi was sent at T.
        assert self.sending.first(T) == BARE

    def _unit(self, _epoch: int, _now: int) -> Any:
        self.backlog.waiting = False
        return SimpleNamespace(first_offset=5, last_offset=9)

    def _send(self, _unit: Any, _now_ms: int) -> Any:
        self.pipeline.flights.append(self)
        self.pipeline.full = len(self.pipeline.flights) >= self.room
        return self.answer

    def fill(self, after_ms: int) -> list[Effect]:
        effects, refused = self.sending.fill(1, T + after_ms)
        assert refused is None
        return effects


def test_the_first_multi_of_a_chain_is_sent_once() -> None:
    lines = Lines()
    lines.pipeline.flights = [1]
    assert lines.sending.first(T) == []


@pytest.mark.parametrize(
    ("after_ms", "draining", "sent"),
    [
        (NO_OP_WRITE_MS - 1, False, False),
        (NO_OP_WRITE_MS, False, True),
        (0, True, True),
    ],
)
def test_progress_without_changes_is_written_rarely(
    after_ms: int, draining: bool, sent: bool
) -> None:
    lines = Lines(changed=False)
    lines.sending.draining = draining
    assert lines.sending.deadline_ms(T + 3) == T + NO_OP_WRITE_MS
    assert lines.sending.deadline_ms(T + 900) == T + 900
    assert lines.fill(after_ms) == (SENT if sent else [])
    assert len(lines.units) == sent


def test_without_anything_committed_nothing_is_due() -> None:
    lines = Lines()
    lines.backlog.waiting = False
    assert lines.sending.deadline_ms(T) is None
    assert lines.fill(0) == []


@pytest.mark.parametrize(
    ("ops", "in_flight", "sent"),
    [(1, 0, True), (1, 1, False), (OPS_MAX - 1, 1, False), (OPS_MAX, 1, True)],
)
def test_a_small_unit_waits_while_a_multi_is_in_flight(
    ops: int, in_flight: int, sent: bool
) -> None:
    lines = Lines(ops=ops, room=9)
    lines.pipeline.flights = [1] * in_flight
    assert lines.fill(0) == (SENT if sent else [])


@pytest.mark.parametrize(
    ("states", "after_ms", "gathers"),
    [
        (GATHER_CHANGES - 1, 0, False),
        (GATHER_CHANGES, 0, True),
        (GATHER_CHANGES, GATHER_MS - 1, True),
        (GATHER_CHANGES, GATHER_MS, False),
    ],
)
def test_many_changes_of_isrs_gather_for_a_moment(
    states: int, after_ms: int, gathers: bool
) -> None:
    lines = Lines(states=states)
    due_ms = T + GATHER_MS if gathers else T + after_ms
    assert lines.sending.deadline_ms(T + after_ms) == due_ms
    assert lines.fill(after_ms) == ([] if gathers else SENT)


@pytest.mark.parametrize("why", ["draining", "hurried", "in flight"])
def test_what_keeps_changes_from_gathering(why: str) -> None:
    lines = Lines(states=GATHER_CHANGES)
    lines.sending.draining = why == "draining"
    lines.sending.bound = SimpleNamespace(waits=why == "hurried")
    lines.pipeline.flights = [1] * (why == "in flight")
    waits = why == "in flight"
    assert lines.sending.deadline_ms(T) == (None if waits else T)
    assert lines.fill(0) == ([] if waits else SENT)


def test_what_fills_a_multi_does_not_gather() -> None:
    assert Lines(states=GATHER_CHANGES, ops=OPS_MAX).fill(0) == SENT


@pytest.mark.parametrize(("ops", "at_once"), [(LARGE_OPS - 1, True), (LARGE_OPS, False)])
def test_a_large_change_is_planned_in_the_next_step(ops: int, at_once: bool) -> None:
    lines = Lines(ops=ops)
    assert lines.fill(0) == (SENT if at_once else [])
    assert len(lines.units) == 1
    assert lines.sending.busy is not at_once


def test_a_full_pipeline_is_given_nothing_and_what_is_open_is_planned() -> None:
    lines = Lines()
    lines.pipeline.full, lines.ready = True, False
    assert lines.fill(0) == []
    assert not lines.sending.busy
    lines.pipeline.open_unit = SimpleNamespace(first_offset=5, last_offset=9)
    planned = [Row(RangeRow(PipelineStage.PLANNED, 5, 9, 77))]
    assert lines.sending.deadline_ms(T) is None
    assert lines.fill(0) == planned
    assert lines.sending.busy
    assert lines.fill(0) == [], "it goes on in the next step"


def test_what_is_not_planned_yet_goes_on_at_once() -> None:
    lines = Lines(room=9)
    lines.ready, lines.answer = False, None
    assert lines.fill(0) == [Row(RangeRow(PipelineStage.PLANNED, 5, 9, 77))]
    assert lines.sending.busy


@pytest.mark.parametrize(("in_flight", "told"), [(0, True), (1, False)])
def test_a_refusal_counts_once_nothing_is_in_flight(in_flight: int, told: bool) -> None:
    lines = Lines(ops=OPS_MAX, room=9)
    refusal = Refused(-1, None)
    lines.pipeline.send_part = lambda _, __: refusal
    lines.pipeline.flights = [1] * in_flight
    assert lines.sending.fill(1, T) == ([], refusal if told else None)
