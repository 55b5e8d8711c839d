"""Accepted connections: order of answers, and what closes a connection."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count

import pytest

from emulator.net.accepted import QUEUED_MAX, TAKEN_MAX, UNANSWERED_MAX, Connections
from emulator.net.reply import Request
from emulator.seam import Accepted, Close, Effect, Log, Send, Ticket
from tests.unit.cost.cluster import Lines
from wire import messages as m
from wire.frame import RequestHeader, decode_response, encode_request, encode_response, framed

ADVERTISED = {18: (0, 4), 63: (0, 1), 58: (0, 0)}
HEARTBEAT, API_VERSIONS, DESCRIBE_CONFIGS, NOW = 63, 18, 32, 5


@pytest.fixture
def connections() -> Connections:
    clock = count()
    made = Connections(ADVERTISED, 10_000, stamp=lambda: next(clock))
    made.accepted(Accepted(1, "CONTROLLER", b"\x7f\x00\x00\x01"), NOW)
    return made


def frame(key: int, version: int, correlation_id: int, message: object) -> bytes:
    return framed(encode_request(RequestHeader(key, version, correlation_id, "me"), message))


def sent(effects: list[Effect]) -> bytes:
    return b"".join(effect.data for effect in effects if isinstance(effect, Send))


def reply(
    connections: Connections,
    ticket: Ticket,
    message: object,
    version: int = 1,
    now_ms: int = NOW,
) -> list[Effect]:
    header = ticket.header
    payload = encode_response(header.api_key, version, header.correlation_id, message)
    return connections.reply(ticket, payload, now_ms)


def heartbeats(connections: Connections, numbers: range) -> list[Request]:
    data = b"".join(frame(HEARTBEAT, 1, n, m.BrokerHeartbeatRequest()) for n in numbers)
    requests, effects = connections.received(1, data, NOW)
    while connections.deadline_ms == 0:
        more, also = connections.received(1, b"", NOW)
        assert 0 < len(more) <= TAKEN_MAX
        requests, effects = requests + more, effects + also
    assert not effects
    return requests


def test_answers_leave_in_the_order_of_the_requests(connections: Connections) -> None:
    first, second = heartbeats(connections, range(2))
    assert reply(connections, second.ticket, m.BrokerHeartbeatResponse()) == []
    both = sent(reply(connections, first.ticket, m.BrokerHeartbeatResponse(error_code=77)))
    size = int.from_bytes(both[:4], "big")
    correlation_id, answer = decode_response(HEARTBEAT, 1, both[4 : 4 + size])
    assert (correlation_id, answer.error_code) == (0, 77)
    correlation_id, _ = decode_response(HEARTBEAT, 1, both[8 + size :])
    assert correlation_id == 1


def test_a_peer_that_asks_on_without_an_answer_is_closed(connections: Connections) -> None:
    waiting = heartbeats(connections, range(UNANSWERED_MAX))
    reply(connections, waiting[0].ticket, m.BrokerHeartbeatResponse())
    heartbeats(connections, range(1))
    one_more = frame(HEARTBEAT, 1, 1, m.BrokerHeartbeatRequest())
    requests, effects = connections.received(1, one_more, NOW)
    assert requests == []
    assert Close(1) in effects
    (log,) = [effect for effect in effects if isinstance(effect, Log)]
    assert f"{UNANSWERED_MAX} requests" in str(log.fields["why"])
    assert reply(connections, waiting[1].ticket, m.BrokerHeartbeatResponse()) == []


def test_some_requests_are_taken_at_once_and_the_rest_after_them(connections: Connections) -> None:
    """Those of one packet, as their answers may be long."""
    data = b"".join(frame(HEARTBEAT, 1, n, m.BrokerHeartbeatRequest()) for n in range(100))
    assert len(connections.received(1, data, NOW)[0]) == TAKEN_MAX
    assert connections.deadline_ms == 0
    numbers = [one.ticket.header.correlation_id for one in connections.received(1, b"", NOW)[0]]
    assert numbers == list(range(TAKEN_MAX, 2 * TAKEN_MAX))
    connections.closed(1)
    assert not [*connections.turns()]


def test_what_has_no_place_in_a_step_comes_in_the_next_one_in_order(
    connections: Connections,
) -> None:
    """Of each connection, and the connections themselves; what is urgent is taken besides."""
    connections.urgent = {HEARTBEAT}
    for conn in range(2, 6):
        connections.accepted(Accepted(conn, "CONTROLLER", b"\x7f\x00\x00\x01"), NOW)
    connections.budget.renew()
    connections.budget.left = 1
    offer = frame(API_VERSIONS, 3, 1, m.ApiVersionsRequest())
    taken = [len(connections.received(conn, 2 * offer, NOW)[0]) for conn in range(1, 5)]
    assert taken == [1, 0, 0, 0]
    beat = frame(HEARTBEAT, 1, 2, m.BrokerHeartbeatRequest())
    assert connections.received(2, beat, NOW)[0] == [], "its own requests come first"
    assert len(connections.received(5, beat, NOW)[0]) == 1
    assert connections.deadline_ms == 0
    found = []
    while connections.deadline_ms == 0:
        connections.budget.renew()
        connections.budget.left = 60
        for conn in connections.turns():
            found += connections.received(conn, b"", NOW)[0]
    assert [one.ticket.conn for one in found] == [1, 2, 3, 3, 4, 4, 2, 2]
    assert [one.ticket.header.api_key for one in found] == [18] * 7 + [63]


@pytest.mark.parametrize("paused", [False, True])
def test_no_step_looks_at_all_that_wait(paused: bool) -> None:
    """Nor at those that are paused, or whose long requests have to wait for another one."""
    many = range(2, 2_000)
    long = m.DescribeConfigsRequest(
        resources=[m.DescribeConfigsRequest.DescribeConfigsResource(resource_name="x" * 20_000)]
    )
    data = frame(DESCRIBE_CONFIGS, 4, 1, long)
    connections = Connections({DESCRIBE_CONFIGS: (4, 4)}, 100_000, stamp=lambda: 0)
    connections.budget.renew()
    for conn in many:
        connections.accepted(Accepted(conn, "CONTROLLER", b"\x7f\x00\x00\x01"), NOW)
        connections.received(conn, data, NOW)
        if paused:
            connections.pause(conn)
    connections.budget.renew()

    def step() -> list[int]:
        assert (connections.deadline_ms == 0) is not paused
        return [conn for conn in connections.turns() if connections.received(conn, b"", NOW)]

    taken, lines = Lines().of(step)
    assert taken == ([] if paused else [many[0]])
    assert lines < len(many)


def test_one_that_is_closed_is_not_paused(connections: Connections) -> None:
    connections.closed(1)
    connections.pause(1)
    assert not connections._paused


def test_too_many_requests_that_were_not_taken_close_the_connection(
    connections: Connections,
) -> None:
    data = frame(HEARTBEAT, 1, 0, m.BrokerHeartbeatRequest()) * QUEUED_MAX
    assert connections.received(1, data, NOW)[1] == []
    assert Close(1) in connections.received(1, data, NOW)[1]


def test_requests_that_are_not_answered_may_not_fill_the_memory() -> None:
    connections = Connections({HEARTBEAT: (0, 1)}, 10**9, lambda: 0)
    connections.accepted(Accepted(1, "CONTROLLER", b"\x7f\0\0\1"), NOW)
    large = frame(HEARTBEAT, 1, 1, m.BrokerHeartbeatRequest())
    connections._held_bytes_max = 3 * len(large)
    for _ in range(3):
        assert connections.received(1, large, NOW)[1] == []
    _, effects = connections.received(1, large, NOW)
    assert Close(1) in effects


def test_answers_that_wait_for_an_earlier_one_may_not_fill_the_memory(
    connections: Connections,
) -> None:
    first, *others = heartbeats(connections, range(10))
    connections._held_bytes_max = 10_000
    effects: list[Effect] = []
    for one in others[:4]:
        assert connections.owns(1)
        effects = connections.reply(one.ticket, b"x" * 2_500, NOW)
    assert Close(1) in effects
    assert connections.reply(first.ticket, b"x", NOW) == []


def test_an_answer_in_its_turn_may_have_any_length(connections: Connections) -> None:
    connections._held_bytes_max = 10_000
    for number in range(10):
        (one,) = heartbeats(connections, range(number, number + 1))
        assert sent(connections.reply(one.ticket, b"x" * 20_000, NOW))
    assert connections.owns(1)


def test_a_frame_may_arrive_cut_anywhere(connections: Connections) -> None:
    data = frame(HEARTBEAT, 1, 5, m.BrokerHeartbeatRequest(broker_id=2))
    found: list[Request] = []
    for byte in data:
        found += connections.received(1, bytes([byte]), NOW)[0]
    assert [request.message.broker_id for request in found] == [2]  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(lambda: frame(3, 12, 1, m.MetadataRequest()), id="api not offered"),
        pytest.param(lambda: b"\xff\xff\xff\xff", id="negative length"),
        pytest.param(lambda: (20_000).to_bytes(4, "big"), id="too long"),
        pytest.param(
            lambda: frame(HEARTBEAT, 1, 1, m.BrokerHeartbeatRequest())[:-1] + b"\x05",
            id="body that does not parse",
        ),
    ],
)
def test_nonsense_closes_the_connection(
    connections: Connections, data: Callable[[], bytes]
) -> None:
    requests, effects = connections.received(1, data(), NOW)
    assert requests == []
    assert Close(1) in effects
    assert not connections.owns(1)
    assert connections.refused_total == 1


def test_api_versions_is_taken_in_any_version_and_answered_in_version_0(
    connections: Connections,
) -> None:
    header = (API_VERSIONS).to_bytes(2, "big") + (99).to_bytes(2, "big") + b"\0\0\0\x09\0\2me"
    (request,), effects = connections.received(1, framed(header + b"\0whatever comes"), NOW)
    assert not effects
    answer = m.ApiVersionsResponse(error_code=35)
    data = sent(reply(connections, request.ticket, answer, version=0))
    correlation_id, decoded = decode_response(API_VERSIONS, 0, data[4:])
    assert (correlation_id, decoded.error_code) == (9, 35)


def test_an_answer_for_a_peer_that_left_is_dropped(connections: Connections) -> None:
    (request,) = heartbeats(connections, range(1))
    connections.closed(1)
    assert reply(connections, request.ticket, m.BrokerHeartbeatResponse()) == []
