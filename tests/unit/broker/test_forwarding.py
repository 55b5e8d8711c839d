"""Envelopes: what goes to the controller, and what a client gets of each answer."""

from __future__ import annotations

from typing import Any

import pytest

from emulator.broker.serving.forwarding import WAITING_BYTES_MAX, Forwarded, Forwardee, Forwarding
from emulator.net.reply import PeerPrincipal
from tests.kit.requests import create_topics
from tests.unit.broker.controller_end import ControllerEnd, channel
from wire import messages as m
from wire.errors import ErrorCode
from wire.frame import RequestHeader, encode_request, encode_response, split_request

WHO = Forwardee(77, PeerPrincipal("User:alice"), b"\x0a\0\0\x07")
HEADER = RequestHeader(api_key=19, api_version=5, correlation_id=7, client_id="push")
GOLDEN = bytes.fromhex("0013 0005 00000007 0004 70757368 00 02 03 7431 00000001 0001 01 01 00")
TIMEOUT_MS = 30_000


class Caller:
    """Forwards requests and keeps the outcomes."""

    def __init__(self, at_once: Any = None) -> None:
        self.part = Forwarding(channel(give_up_ms=TIMEOUT_MS))
        self.end = ControllerEnd(self.part, at_once)
        self.outcomes: list[Forwarded] = []

    def forward(self, request: Any = None, header: RequestHeader = HEADER) -> bytes:
        data = encode_request(header, request or topics())
        self.part.forward(data, header, WHO, self.end.now_ms, self.outcomes.append)
        self.end.run()
        return data


def topics() -> m.CreateTopicsRequest:
    return create_topics("t1", timeout_ms=3_000)


def answer(error: int = 0, header: RequestHeader = HEADER, correlation_id: int = 7) -> bytes:
    kind = m.CreateTopicsResponse
    inner = kind(topics=[kind.CreatableTopicResult(name="t1", error_code=error)])
    return encode_response(header.api_key, header.api_version, correlation_id, inner)


def envelope(error: int = 0, data: bytes | None = None) -> m.EnvelopeResponse:
    return m.EnvelopeResponse(error_code=error, response_data=data)


def test_the_envelope_has_the_clients_header_body_principal_and_address() -> None:
    caller = Caller()
    data = caller.forward()
    assert data.startswith(GOLDEN)
    sent = caller.end.last
    assert sent.request_data == data
    assert sent.request_principal == bytes.fromhex("0000 05 55736572 06 616c696365 00 00")
    assert sent.client_host_address == b"\x0a\0\0\x07"


@pytest.mark.requirement("I13", "I16")
def test_an_inner_answer_goes_back_as_it_is_with_the_clients_correlation_id() -> None:
    caller = Caller()
    caller.forward()
    inner = answer(ErrorCode.TOPIC_ALREADY_EXISTS, correlation_id=999)
    caller.end.answer(envelope(data=inner))
    (found,) = caller.outcomes
    assert found.error is None
    assert found.payload == (7).to_bytes(4, "big") + inner[4:]


@pytest.mark.requirement("I15", "I21")
def test_a_broker_that_may_not_forward_is_an_unknown_server_error_and_counted() -> None:
    caller = Caller()
    caller.forward()
    caller.end.answer(envelope(ErrorCode.CLUSTER_AUTHORIZATION_FAILED))
    assert caller.outcomes == [Forwarded(error=ErrorCode.UNKNOWN_SERVER_ERROR)]
    assert caller.part.counts.refused_total == 1


@pytest.mark.parametrize(
    ("error", "data"),
    [
        (ErrorCode.INVALID_REQUEST, None),
        (ErrorCode.PRINCIPAL_DESERIALIZATION_FAILURE, None),
        (ErrorCode.UNKNOWN_SERVER_ERROR, answer()),
        (9_999, None),
        (0, None),
        (0, b""),
        (0, b"\0\0\0"),
        (0, answer()[:-1]),
        (0, answer() + b"\0"),
    ],
)
def test_any_other_error_and_what_cannot_be_read_is_an_unknown_server_error(
    error: int, data: bytes | None
) -> None:
    caller = Caller()
    caller.forward()
    caller.end.answer(envelope(error, data))
    assert caller.outcomes == [Forwarded(error=ErrorCode.UNKNOWN_SERVER_ERROR)]
    assert caller.part.counts.refused_total == 0


def test_an_unsupported_version_closes_the_clients_connection() -> None:
    caller = Caller()
    caller.forward()
    caller.end.answer(envelope(ErrorCode.UNSUPPORTED_VERSION))
    assert caller.outcomes == [Forwarded()]


@pytest.mark.requirement("I14")
def test_not_controller_is_asked_again_until_the_time_is_over() -> None:
    caller = Caller(lambda _header, _request: envelope(ErrorCode.NOT_CONTROLLER))
    caller.forward()
    caller.end.wait(TIMEOUT_MS - 1)
    assert not caller.outcomes
    assert len(caller.end.asked) > 100, "each after a pause of 50 ms"
    caller.end.wait(1)
    assert caller.outcomes == [Forwarded(error=ErrorCode.REQUEST_TIMED_OUT)]
    asked = len(caller.end.asked)
    caller.end.wait(10_000)
    assert len(caller.end.asked) == asked


@pytest.mark.requirement("I14")
def test_a_controller_that_moves_answers_after_all() -> None:
    left = [ErrorCode.NOT_CONTROLLER] * 2
    caller = Caller(lambda _h, _r: envelope(left.pop()) if left else envelope(data=answer()))
    caller.forward()
    caller.end.wait(1_000)
    (found,) = caller.outcomes
    assert found.payload == answer()
    assert len(caller.end.asked) == 3


@pytest.mark.requirement("I14", "I24")
def test_all_go_over_one_connection_in_order() -> None:
    caller = Caller()
    for number in range(3):
        header = RequestHeader(
            api_key=19, api_version=5, correlation_id=number, client_id=f"client-{number}"
        )
        caller.forward(header=header)
    conn = caller.end.conn
    for number in range(3):
        inner, _ = split_request(caller.end.last.request_data)
        assert inner.correlation_id == number, "one is in flight at a time"
        caller.end.answer(envelope(data=answer(correlation_id=number)))
    assert len(caller.outcomes) == 3
    assert caller.end.conn == conn


@pytest.mark.requirement("I19", "I20")
def test_envelopes_and_clients_that_wait_are_counted() -> None:
    caller = Caller()
    counts = caller.part.counts
    caller.forward()
    caller.forward()
    assert (counts.envelopes_total, dict(counts.waiting)) == (2, {77: 2})
    assert counts.envelopes_rate.per_second(0) == pytest.approx(2 / 30)
    assert counts.clients_rate.per_second(0) == pytest.approx(1 / 30), "one client"
    caller.end.answer(envelope(data=answer()))
    assert dict(counts.waiting) == {77: 1}
    caller.end.answer(envelope(ErrorCode.INVALID_REQUEST))
    assert not counts.waiting
    assert counts.envelopes_total == 2
    assert counts.envelopes_rate.per_second(31_000) == 0


def test_a_request_of_the_broker_itself_goes_without_an_envelope() -> None:
    caller = Caller()
    found: list[Any] = []
    caller.part.ask(topics(), lambda message, _now_ms: found.append(message), 0)
    caller.end.run()
    assert isinstance(caller.end.last, m.CreateTopicsRequest)
    caller.end.answer(m.CreateTopicsResponse())
    assert found == [m.CreateTopicsResponse()]
    assert caller.part.counts.envelopes_total == 0


def test_what_waits_for_the_controller_may_not_fill_the_memory() -> None:
    caller = Caller()
    large = topics()
    large.topics[0].configs = [
        m.CreateTopicsRequest.CreatableTopicConfig(name="x", value="y" * 32_000) for _ in range(30)
    ]
    size = len(caller.forward(large))
    for _ in range(WAITING_BYTES_MAX // size - 1):
        caller.forward(large)
    assert not caller.outcomes
    caller.forward(large)
    assert caller.outcomes == [Forwarded(error=ErrorCode.REQUEST_TIMED_OUT)]
    caller.end.answer(envelope(data=answer()))
    caller.forward(large)
    assert len(caller.outcomes) == 2, "there is room again"
