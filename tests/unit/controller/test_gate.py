"""The bound on unwritten ZooKeeper work: who waits, in which order, and how it is counted."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from emulator.controller.queue.gate import BoundGate
from emulator.controller.queue.urgency import Urgency
from emulator.seam import OtherLimits
from emulator.trace.rows import BlockCause
from tests.kit.requests import delete_topics
from tests.unit.controller.world import World, call, create
from tests.unit.cost.cluster import Lines
from wire import messages as m
from wire.errors import ErrorCode


def joined(*broker_ids: int) -> World:
    return World().join(*broker_ids or (0,))


def test_held_calls_wait_in_order_and_go_in_order() -> None:
    world = joined()
    world.controller.hold(room=0, now_ms=world.now_ms)
    offset = world.log.log_end_offset
    for name in ("a", "b", "c"):
        assert world.send(create(name, timeout_ms=60_000), ticket=name) == []
    assert len(world.controller.gate) == 3
    assert world.log.log_end_offset == offset
    world.controller.hold(now_ms=world.now_ms)
    world.commit()
    assert [one.topics[0].name for one in world.answers()] == ["a", "b", "c"]


def test_the_sum_of_all_waits_is_not_added_up_again() -> None:
    gate = BoundGate()
    gate.hold(0, 0)
    for number in range(300):
        gate.wait(call(create(f"t{number}")), Urgency.ORDINARY, None, number)
    total, lines = Lines().of(lambda: gate.total_ms(1_000))
    assert total == sum(1_000 - number for number in range(300))
    assert lines < 20
    gate.hold(None, None)
    assert gate.next(500) is not None
    assert gate.total_ms(1_000) == total - 500


def test_reads_heartbeats_and_registrations_go_on() -> None:
    world = joined(0, 1)
    world.controller.hold(room=0, now_ms=world.now_ms)
    world.send(create("waits", timeout_ms=60_000))
    assert len(world.send(m.DescribeClusterRequest(endpoint_type=2))) == 1
    assert world.heartbeat(0).error_code == 0
    assert world.heartbeat(1, want_fence=True).is_fenced is True
    assert world.heartbeat(1).is_fenced is False
    assert world.register(7).error_code == 0
    assert len(world.controller.gate) == 1


def test_calls_that_would_append_nothing_are_answered() -> None:
    world = joined()
    world.ask(create("t"))
    world.controller.hold(room=0, now_ms=world.now_ms)
    (exists,) = world.send(create("t"))
    assert exists.topics[0].error_code == ErrorCode.TOPIC_ALREADY_EXISTS
    (would,) = world.send(create("u", validate_only=True))
    assert would.topics[0].error_code == 0


def test_what_a_caller_asked_for_before_he_hung_up_is_not_done() -> None:
    world = joined()
    world.controller.hold(room=0, now_ms=world.now_ms)
    for ticket in ("stays", "leaves"):
        world.send(create(ticket, timeout_ms=60_000), ticket=ticket)
    world.controller.left(lambda ticket: ticket == "leaves", world.now_ms)
    (refused,) = world.answers()
    assert refused.topics[0].error_code == ErrorCode.NETWORK_EXCEPTION
    assert len(world.controller.gate) == 1
    world.controller.hold(now_ms=world.now_ms)
    assert world.tip.topic("stays") is not None
    assert world.tip.topic("leaves") is None


def test_nobody_overtakes_while_anyone_waits() -> None:
    """Room came back, but only for one: the next one in line has it, not who comes last."""
    world = joined()
    world.controller.hold(room=0, now_ms=world.now_ms)
    for name in ("a", "b"):
        world.send(create(name, timeout_ms=60_000))
    world.controller.hold(now_ms=world.now_ms, room=1)
    assert world.tip.topic("a") is not None
    assert world.tip.topic("b") is None
    world.send(create("c", timeout_ms=60_000))
    world.controller.hold(now_ms=world.now_ms, room=1)
    assert world.tip.topic("b") is not None
    assert world.tip.topic("c") is None
    world.controller.hold(now_ms=world.now_ms)
    assert world.tip.topic("c") is not None


def test_room_bounds_what_is_appended_to_one_operation_more() -> None:
    """KIP-866 "Dual Metadata Writes": bounded write-behind."""
    world = joined()
    world.controller.hold(now_ms=world.now_ms, room=5)
    offset = world.log.log_end_offset
    for number in range(10):
        world.send(create(f"t{number}", 3, timeout_ms=60_000))
    assert world.log.log_end_offset - offset == 8
    assert len(world.controller.gate) == 8


def test_a_call_whose_deadline_passes_is_refused_and_counted() -> None:
    world = joined()
    world.controller.hold(room=0, now_ms=world.now_ms)
    world.send(create("t", timeout_ms=1_500))
    (answer,) = world.later(1_500)
    assert answer.topics[0].error_code == ErrorCode.REQUEST_TIMED_OUT
    assert world.tip.topic("t") is None
    (blocked,) = world.controller.gate.take_blocked()
    assert (blocked.api_key, blocked.end_ms - blocked.begin_ms, blocked.admitted) == (
        19,
        1_500,
        False,
    )
    assert world.controller.gate.union_ms(world.now_ms) == 1_500


@pytest.mark.requirement("M09")
def test_a_stall_of_known_length_is_measured_three_ways() -> None:
    """Per operation, their sum, and the wall-clock union; zero without a block."""
    world = joined()
    assert world.controller.gate.union_ms(world.now_ms) == 0
    world.ask(create("free"))
    assert world.controller.gate.total_ms(world.now_ms) == 0
    world.controller.hold(room=0, now_ms=world.now_ms)
    for number in range(10):
        world.send(create(f"t{number}", timeout_ms=60_000))
        world.later(100)
    assert world.controller.gate.union_ms(world.now_ms) == 1_000
    assert world.controller.gate.total_ms(world.now_ms) == 5_500
    world.controller.hold(now_ms=world.now_ms)
    world.later(5_000)
    assert world.controller.gate.union_ms(world.now_ms) == 1_000
    assert world.controller.gate.total_ms(world.now_ms) == 5_500
    spans = [one.end_ms - one.begin_ms for one in world.controller.gate.take_blocked()]
    assert spans == list(range(1_000, 0, -100))
    assert world.controller.gate.take_blocked() == []


@given(st.lists(st.tuples(st.integers(0, 5), st.sampled_from(["wait", "next", "expire"]))))
def test_union_is_never_more_than_the_time_and_total_never_less_than_the_union(
    steps: list[tuple[int, str]],
) -> None:
    gate, now = BoundGate(), 0
    gate.hold(0, 0)
    for delay, what in steps:
        now += delay
        if what == "wait":
            urgency = (Urgency.ORDINARY, Urgency.URGENT)[now % 2]
            gate.wait(call(m.CreateTopicsRequest()), urgency, now + 7, now)
        elif what == "next":
            gate.hold(None, None)
            gate.next(now)
            gate.hold(0, 0)
        else:
            gate.expired(now)
        assert 0 <= gate.union_ms(now) <= now
        assert gate.union_ms(now) <= gate.total_ms(now)
    waited = len(gate)
    assert len(list(gate.drain(now))) == waited
    spans = [one.end_ms - one.begin_ms for one in gate.take_blocked()]
    assert gate.total_ms(now) == sum(spans)
    assert len(gate) == 0
    assert gate.deadline_ms is None


def test_those_who_hung_up_are_not_kept_until_their_deadline() -> None:
    """One that waits long stands before their deadlines, which are later still."""
    gate = BoundGate()
    gate.hold(0, 0)
    first = call(create("first"))
    gate.wait(first, Urgency.ORDINARY, 1_000, 0)
    for _ in range(1_000):
        gate.wait(call(create("t")), Urgency.URGENT, 2_000, 0)
        assert len(gate.drop(lambda one: one is not first, 1)) == 1
    assert (len(gate), gate.deadline_ms) == (1, 1_000)
    assert len(gate._deadlines) < 200
    assert gate.expired(1_000) == [first]


def test_room_in_bytes_bounds_what_one_step_admits() -> None:
    """Calls that waited are admitted in one step: their bytes count one by one."""
    world = joined()
    world.controller.hold(room=0, now_ms=world.now_ms)
    for number in range(6):
        world.send(create(f"t{number}", timeout_ms=60_000))
    before = world.controller.appended_bytes
    world.controller.hold(now_ms=world.now_ms, others=OtherLimits(byte_room=200))
    appended = world.controller.appended_bytes - before
    admitted = 6 - len(world.controller.gate)
    assert 0 < admitted < 6
    assert appended - appended // admitted < 200 <= appended, "at most one operation beyond"
    world.send(create("later", timeout_ms=1_000))
    world.controller.gate.take_blocked()
    world.later(1_000)
    (blocked,) = world.controller.gate.take_blocked()
    assert (blocked.admitted, blocked.cause) == (False, BlockCause.LAG_BYTES)


def test_what_was_appended_before_takes_no_room() -> None:
    world = joined()
    world.ask(create("t"))
    room = world.controller.appended_bytes
    world.controller.hold(now_ms=world.now_ms, others=OtherLimits(byte_room=room))
    world.register(1)
    assert room < world.controller.appended_bytes < 2 * room
    assert not world.controller.gate.closed(Urgency.ORDINARY)


def test_an_old_change_holds_ordinary_calls_only() -> None:
    world = joined()
    world.ask(create("t"))
    world.controller.hold(now_ms=world.now_ms, room=9, hard_room=9, others=OtherLimits(aged=True))
    world.send(create("waits", timeout_ms=500))
    gone = world.ask(delete_topics("t", timeout_ms=500))
    assert gone.responses[0].error_code == 0
    world.later(500)
    (blocked,) = world.controller.gate.take_blocked()
    assert blocked.cause is BlockCause.LAG_MS


def test_who_waited_in_vain_is_told_when_to_come_back_and_brokers_are_not() -> None:
    """What a client's connection is throttled by would also keep back a broker's next request."""
    world = joined()
    others = OtherLimits(retry_ms=1_234)
    world.controller.hold(now_ms=world.now_ms, room=0, hard_room=0, others=others)
    world.send(create("t", timeout_ms=100))
    world.send(m.AllocateProducerIdsRequest(broker_id=0, broker_epoch=world.tip.brokers[0].epoch))
    assert len(world.controller.gate) == 2
    (refused,) = world.later(100)
    assert (refused.topics[0].error_code, refused.throttle_time_ms) == (
        ErrorCode.REQUEST_TIMED_OUT,
        1_234,
    )
    assert "Nothing was changed" in str(refused.topics[0].error_message)
    request = call(m.AllocateProducerIdsRequest())
    world.controller.answers.refuse_blocked(request, 1_234)
    (without,) = world.answers()
    assert without.throttle_time_ms == 0


def test_the_sums_of_a_process_stay_when_it_leads_again() -> None:
    """Prometheus takes a counter that falls for a new process, and what it grew by is lost."""
    world = joined()
    gate = world.controller.gate
    world.controller.hold(room=0, now_ms=world.now_ms)
    world.send(create("a", timeout_ms=60_000))
    world.now_ms += 2_000
    world.send(create("b", timeout_ms=60_000))
    world.now_ms += 3_000
    sums = (gate.union_ms(world.now_ms), gate.total_ms(world.now_ms))
    assert sums == (5_000, 8_000)
    world.controller.resign(world.now_ms, 2)
    world.now_ms += 7_000
    world.controller.activate(world.now_ms)
    gate = world.controller.gate
    assert (gate.union_ms(world.now_ms), gate.total_ms(world.now_ms)) == sums
    blocked = gate.take_blocked()
    waits = [one.end_ms - one.begin_ms for one in blocked]
    assert sum(waits) == 8_000, "the histogram gets what the sums have"
    assert not any(one.admitted for one in blocked)
    assert not gate.closed(Urgency.ORDINARY), "the limits of the last term are lifted"
    world.controller.hold(room=0, now_ms=world.now_ms)
    world.send(create("c", timeout_ms=60_000))
    world.now_ms += 1_000
    assert (gate.union_ms(world.now_ms), gate.total_ms(world.now_ms)) == (6_000, 9_000)
