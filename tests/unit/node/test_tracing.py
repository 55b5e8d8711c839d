"""Rows of the trace made from what the node saw: errors found, envelopes opened, causes kept."""

from __future__ import annotations

import pytest

from emulator.controller.context import Call
from emulator.controller.queue.answers import EncodedReply
from emulator.controller.queue.gate import Blocked
from emulator.migration.dual_write.modes import Mode
from emulator.net.reply import finding, first_error
from emulator.node import tracing
from emulator.node.tracing import Causes, block_row
from emulator.seam import Pace, Ticket
from emulator.trace.rows import BlockCause, BlockEnd, RequestRow
from wire import messages as m
from wire.frame import RequestHeader, encode_request
from wire.schema import api_name

MS = 1_000_000
CREATE_TOPICS, ENVELOPE, HEARTBEAT = 19, 58, 63


def header(key: int, version: int, correlation_id: int, client_id: str) -> RequestHeader:
    return RequestHeader(
        api_key=key, api_version=version, correlation_id=correlation_id, client_id=client_id
    )


def request_row(reply: EncodedReply, answered_ns: int) -> RequestRow:
    # As the answers are made: an Envelope's own error first.
    error = first_error(reply.message) or first_error(reply.answer)
    return tracing.request_row(reply, error, answered_ns)


def ticket(key: int, version: int) -> Ticket:
    return Ticket(1, 77, header(key, version, 5, "broker-1"), 1_000)


def plain(asked: Ticket, answer: object) -> EncodedReply:
    return EncodedReply(Call(asked, asked.header, object()), answer, answer, b"")


def in_envelope(inner: RequestHeader, answer: object, envelope: m.EnvelopeResponse) -> EncodedReply:
    asked = ticket(ENVELOPE, 0)
    outer = Call(asked, asked.header, m.EnvelopeRequest())
    return EncodedReply(Call(asked, inner, object(), outer=outer), answer, envelope, b"")


def topics(*errors: int) -> m.CreateTopicsResponse:
    kind = m.CreateTopicsResponse.CreatableTopicResult
    found = [kind(name=f"t{number}", error_code=error) for number, error in enumerate(errors)]
    return m.CreateTopicsResponse(topics=found)


@pytest.mark.parametrize(
    ("message", "error"),
    [
        (topics(0, 36, 7), 36),
        (topics(0, 0), 0),
        (topics(), 0),
        (m.BrokerHeartbeatResponse(error_code=77), 77),
        (m.BrokerHeartbeatResponse(), 0),
    ],
)
def test_the_first_error_of_an_answer(message: object, error: int) -> None:
    assert first_error(message) == error


def test_an_error_two_levels_down_is_found() -> None:
    kinds = m.AlterPartitionResponse
    partitions = [kinds.PartitionData(), kinds.PartitionData(partition_index=1, error_code=6)]
    assert first_error(kinds(topics=[kinds.TopicData(partitions=partitions)])) == 6


def test_an_answer_is_looked_through_only_where_errors_can_be() -> None:
    kind = m.CreateTopicsResponse
    configs = [kind.CreatableTopicConfigs(name=f"c{number}") for number in range(37)]
    topic = kind.CreatableTopicResult(name="t", configs=configs)
    found = finding(kind(topics=[topic] * 4), None, Pace(4))
    assert sum(1 for _ in found) == 1, "the four topics are one slice, and their configs nothing"


def test_a_plain_request_is_a_row() -> None:
    asked = ticket(CREATE_TOPICS, 7)
    asked.offsets = (10, 12)
    row = request_row(plain(asked, topics(0)), 9_000)
    assert (row.request_id, row.api, row.api_version) == (77, "CreateTopics", 7)
    assert (row.client_id, row.correlation_id) == ("broker-1", 5)
    assert (row.received_ns, row.answered_ns) == (1_000, 9_000)
    assert (row.first_offset, row.last_offset, row.error_code) == (10, 12, 0)
    assert (row.inner_api, row.forwarded_by) == (None, None)


def test_a_read_appends_nothing() -> None:
    asked = ticket(HEARTBEAT, 1)
    row = request_row(plain(asked, m.BrokerHeartbeatResponse()), 9_000)
    assert (row.first_offset, row.last_offset) == (None, None)


def test_an_envelope_is_named_after_its_client_and_shows_the_error_inside() -> None:
    inner = header(CREATE_TOPICS, 7, 42, "admin")
    row = request_row(in_envelope(inner, topics(36), m.EnvelopeResponse()), 9_000)
    assert (row.api, row.inner_api) == ("Envelope", "CreateTopics")
    assert row.forwarded_by == "broker-1"
    assert (row.client_id, row.correlation_id, row.error_code) == ("admin", 42, 36)
    refused = m.EnvelopeResponse(error_code=31)
    assert request_row(in_envelope(inner, topics(36), refused), 9_000).error_code == 31


@pytest.mark.parametrize("readable", [True, False])
def test_an_envelope_that_was_not_opened_shows_what_can_be_read(readable: bool) -> None:
    data = encode_request(header(CREATE_TOPICS, 7, 42, "admin"), m.CreateTopicsRequest())
    asked = ticket(ENVELOPE, 0)
    request = m.EnvelopeRequest(request_data=data if readable else b"\x00")
    refused = m.EnvelopeResponse(error_code=31)
    row = request_row(
        EncodedReply(Call(asked, asked.header, request), refused, refused, b""), 9_000
    )
    named = ("admin", "CreateTopics") if readable else ("broker-1", None)
    assert (row.error_code, (row.client_id, row.inner_api)) == (31, named)


def test_a_wait_takes_the_cause_that_held_when_it_began() -> None:
    causes = Causes()
    causes.note(Mode.RUNNING, 100)
    causes.note(Mode.DOUBT, 200)
    causes.note(Mode.SETTLING, 300)
    causes.note(Mode.POISONED, 400)
    causes.note(Mode.RUNNING, 500)
    found = {at: causes.at(at) for at in (0, 150, 200, 299, 300, 450, 500, 9_999)}
    assert found == {
        0: None,
        150: None,
        200: BlockCause.SESSION_LOST,
        299: BlockCause.SESSION_LOST,
        300: BlockCause.FENCING,
        450: BlockCause.POISONED,
        500: None,
        9_999: None,
    }


@pytest.mark.parametrize(
    ("admitted", "end"), [(True, BlockEnd.RELEASED), (False, BlockEnd.TIMED_OUT)]
)
def test_a_wait_is_a_row_as_long_as_it_was(admitted: bool, end: BlockEnd) -> None:
    causes = Causes()
    causes.note(Mode.DOUBT, 1_000)
    blocked = Blocked(ticket(ENVELOPE, 0), CREATE_TOPICS, 1_200, 1_950, admitted)
    row = block_row(blocked, causes, 5_000 * MS)
    assert (row.begin_ns, row.end_ns) == (4_250 * MS, 5_000 * MS)
    assert (row.api, row.request_id, row.end) == ("CreateTopics", 77, end)
    assert row.cause == BlockCause.SESSION_LOST


def test_an_api_that_kafka_does_not_have_is_shown_by_its_key() -> None:
    assert (api_name(CREATE_TOPICS), api_name(999)) == ("CreateTopics", "key 999")
