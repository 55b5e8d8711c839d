"""Broker channels: one request in flight, reconnect for ever, errors of partitions not repeated."""

from __future__ import annotations

from itertools import count
from typing import Self

import pytest

from emulator.migration.propagation.channels import (
    RECONNECT_MS,
    REPLY_TIMEOUT_MS,
    Channels,
    Peer,
)
from emulator.migration.propagation.replies import (
    CODES_PER_SLICE,
    FAILED_AGAIN,
    FAILED_MS,
    KINDS_LOGGED_MAX,
    REPAIRS_MAX,
    RepairKind,
    Repairs,
)
from emulator.migration.taking_over.preconditions import Why
from emulator.net.control import TYPE_FULL, TYPE_INCREMENTAL
from emulator.seam import Close, Closed, Connect, Connected, Effect, Log, Received, Send
from tests.unit.migration.world import World
from tests.unit.node.test_copy_grows_in_line import Work, counted
from wire import messages as m
from wire.errors import ErrorCode
from wire.frame import FrameReader, decode_request, encode_response, framed

PEER = Peer(1, 36, "broker", 9092)


class Broker:
    """The far end of one channel."""

    def __init__(self) -> None:
        self.channels = Channels(3000, count(1).__next__)
        self.now_ms = 0
        self.conns: list[int] = []
        self.requests: list[tuple[int, str | None, object]] = []
        self.logs: list[Log] = []
        self.take(self.channels.set_peers({1: PEER}))

    def take(self, effects: list[Effect]) -> None:
        for effect in effects:
            match effect:
                case Connect(conn=conn, host=host, port=port):
                    assert (host, port) == ("broker", 9092)
                    self.conns.append(conn)
                case Send(conn=conn, data=data):
                    assert conn == self.conns[-1]
                    for frame in FrameReader().feed(data):
                        header, message = decode_request(frame)
                        self.requests.append((header.correlation_id, header.client_id, message))
                case Log():
                    self.logs.append(effect)

    def connect(self) -> Self:
        self.take(self.channels.handle(Connected(self.conns[-1]), self.now_ms))
        return self

    def put(self, marker: int) -> None:
        request = m.UpdateMetadataRequest(controller_id=3000, controller_epoch=marker)
        self.take(self.channels.put(1, request, self.now_ms))

    def answer(self, response: object, api_key: int = 6, version: int = 8) -> None:
        reply = framed(encode_response(api_key, version, self.requests[-1][0], response))
        for at in range(0, len(reply), 3):
            piece = reply[at : at + 3]
            self.take(self.channels.handle(Received(self.conns[-1], piece), self.now_ms))

    def answer_any(self) -> None:
        """Answer the last request, without an error."""
        kind = type(self.requests[-1][2])
        if kind is m.LeaderAndIsrRequest:
            self.answer(m.LeaderAndIsrResponse(), 4, 7)
        else:
            self.answer(m.UpdateMetadataResponse())

    @property
    def markers(self) -> list[int]:
        return [message.controller_epoch for _, _, message in self.requests]

    def advance(self, ms: int) -> None:
        self.now_ms += ms
        self.take(self.channels.tick(self.now_ms))


@pytest.mark.requirement("V04")
@pytest.mark.parametrize(
    ("request_class", "key", "version"),
    [
        (m.LeaderAndIsrRequest, 4, 7),
        (m.StopReplicaRequest, 5, 4),
        (m.UpdateMetadataRequest, 6, 8),
    ],
)
def test_versions_follow_metadata_version_not_a_handshake(
    request_class: type, key: int, version: int
) -> None:
    broker = Broker().connect()
    effects = broker.channels.put(1, request_class(controller_id=3000), 0)
    (sent,) = [effect for effect in effects if isinstance(effect, Send)]
    header, _ = decode_request(sent.data[4:])
    assert (header.api_key, header.api_version) == (key, version)


def test_the_first_frame_is_the_request_itself_with_the_node_id_as_client_id() -> None:
    broker = Broker().connect()
    broker.put(7)
    assert [(corr, client) for corr, client, _ in broker.requests] == [(0, "3000")]


def test_one_request_is_in_flight_and_order_is_kept() -> None:
    broker = Broker()
    for marker in range(3):
        broker.put(marker)
    assert broker.markers == []
    broker.connect()
    assert broker.markers == [0]
    broker.answer(m.UpdateMetadataResponse())
    assert broker.markers == [0, 1]
    broker.answer(m.UpdateMetadataResponse())
    assert broker.markers == [0, 1, 2]
    assert broker.channels.queued == 1


def test_at_most_one_request_of_a_kind_waits_as_it_is() -> None:
    broker = Broker().connect()
    request = m.UpdateMetadataRequest
    brokers = [request.UpdateMetadataBroker(id=number) for number in range(5)]
    for number in range(5):
        one = request(controller_id=3000, live_brokers=brokers[: number + 1])
        broker.take(broker.channels.put(1, one, 0))
    assert broker.channels.queued == 5
    for _ in range(2):
        broker.answer(m.UpdateMetadataResponse())
    assert [len(q.live_brokers) for _, _, q in broker.requests] == [1, 2, 5]  # type: ignore[attr-defined]
    assert broker.channels.queued == 1


@pytest.mark.parametrize("tries", [1, 5])
def test_a_lost_connection_is_tried_again_for_ever_and_the_request_with_it(tries: int) -> None:
    broker = Broker().connect()
    broker.put(1)
    broker.put(2)
    for _ in range(tries):
        broker.take(broker.channels.handle(Closed(broker.conns[-1], "reset"), broker.now_ms))
        assert broker.channels.deadline_ms == broker.now_ms + RECONNECT_MS
        broker.advance(RECONNECT_MS - 1)
        before = len(broker.conns)
        broker.advance(1)
        assert len(broker.conns) == before + 1
    broker.connect()
    assert broker.markers == [1, 1]
    broker.answer(m.UpdateMetadataResponse())
    assert broker.markers == [1, 1, 2]


def test_a_reply_that_does_not_come_ends_the_connection() -> None:
    broker = Broker().connect()
    broker.put(1)
    effects = broker.channels.tick(REPLY_TIMEOUT_MS)
    assert Close(broker.conns[-1]) in effects


def test_an_error_is_counted_logged_and_not_repeated() -> None:
    broker = Broker().connect()
    broker.put(1)
    broker.put(2)
    broker.answer(m.UpdateMetadataResponse(error_code=11))
    assert broker.markers == [1, 2]
    assert (broker.channels.sent_count, broker.channels.error_count) == (2, 1)
    assert broker.logs[-1].fields["error"] == "STALE_CONTROLLER_EPOCH"
    broker.answer(m.UpdateMetadataResponse())
    broker.put(3)
    broker.take(broker.channels.handle(Closed(broker.conns[-1], "reset"), broker.now_ms))
    assert broker.channels.outcomes == {
        ("UpdateMetadata", "error"): 1,
        ("UpdateMetadata", "answered"): 1,
        ("UpdateMetadata", "lost"): 1,
    }


def fails_full(broker: Broker) -> m.LeaderAndIsrRequest:
    """The broker fails a FULL LeaderAndIsr, behind which an UpdateMetadata with marker 7 waits."""
    broker.connect()
    kinds = m.LeaderAndIsrRequest
    state = kinds.LeaderAndIsrPartitionState(partition_index=3, leader=1, isr=(1,), replicas=(1,))
    topic = kinds.LeaderAndIsrTopicState(topic_id=b"t" * 16, partition_states=[state])
    request = kinds(controller_id=3000, type=TYPE_FULL, topic_states=[topic])
    broker.take(broker.channels.put(1, request, 0))
    broker.put(7)
    broker.answer(m.LeaderAndIsrResponse(error_code=-1), 4, 7)
    return request


def sent_again(broker: Broker, request: m.LeaderAndIsrRequest) -> list[int]:
    """The types with which the LeaderAndIsr was sent; it names the same each time."""
    sent = [one for _, _, one in broker.requests if isinstance(one, m.LeaderAndIsrRequest)]
    assert all(one.topic_states == request.topic_states for one in sent)
    return [one.type for one in sent]


def test_a_full_leader_and_isr_that_failed_is_sent_as_incremental_and_then_as_full_again() -> None:
    """With what the INCREMENTAL one has mended the broker finds its stray replicas."""
    broker = Broker()
    request = fails_full(broker)
    assert sent_again(broker, request) == [TYPE_FULL, TYPE_INCREMENTAL]
    broker.answer(m.LeaderAndIsrResponse(), 4, 7)
    assert sent_again(broker, request) == [TYPE_FULL, TYPE_INCREMENTAL, TYPE_FULL]
    broker.answer(m.LeaderAndIsrResponse(), 4, 7)
    assert broker.markers[-1] == 7
    assert len(broker.requests) == 4
    assert broker.channels.error_count == 1
    (told,) = broker.channels.repairs.known
    assert (told.kind, told.broker_id) == (RepairKind.FULL_AS_INCREMENTAL, 1)
    assert (told.request, told.error) == ("FULL LeaderAndIsr", "UNKNOWN_SERVER_ERROR")
    assert told.kind.kafka.startswith("would not go on"), "the operator rehearses Kafka's"


def test_a_full_leader_and_isr_that_fails_once_more_is_given_up_with_the_reason() -> None:
    broker = Broker()
    request = fails_full(broker)
    broker.answer(m.LeaderAndIsrResponse(), 4, 7)
    broker.answer(m.LeaderAndIsrResponse(error_code=-1), 4, 7)
    assert "may keep replicas of topics that were deleted" in broker.logs[-1].event
    assert sent_again(broker, request) == [TYPE_FULL, TYPE_INCREMENTAL, TYPE_FULL]
    assert broker.markers[-1] == 7
    assert broker.channels.error_count == 2
    told = [one.kind for one in broker.channels.repairs.known]
    assert told == [RepairKind.FULL_AS_INCREMENTAL, RepairKind.FULL_AGAIN]


def test_a_broker_without_zookeeper_gets_the_full_one_when_it_has_done_the_incremental() -> None:
    """It throws at first, whatever it is sent; connections may break meanwhile."""
    broker = Broker()
    request = fails_full(broker)
    broker.answer(m.LeaderAndIsrResponse(error_code=-1), 4, 7)
    broker.advance(FAILED_MS)
    broker.take(broker.channels.handle(Closed(broker.conns[-1], "reset"), broker.now_ms))
    broker.advance(RECONNECT_MS)
    broker.connect()
    assert sent_again(broker, request) == [TYPE_FULL, *[TYPE_INCREMENTAL] * 3]
    broker.answer(m.LeaderAndIsrResponse(), 4, 7)
    broker.take(broker.channels.handle(Closed(broker.conns[-1], "reset"), broker.now_ms))
    broker.advance(RECONNECT_MS)
    broker.connect()
    assert sent_again(broker, request)[4:] == [TYPE_FULL, TYPE_FULL], "it was not answered"
    broker.answer(m.LeaderAndIsrResponse(), 4, 7)
    assert broker.markers[-1] == 7


def test_a_request_that_a_broker_failed_as_a_whole_is_sent_again_before_those_behind_it() -> None:
    """A broker whose ZooKeeper session has ended throws, and loses all of what was merged."""
    broker = Broker().connect()
    for marker in (1, 2):
        broker.put(marker)
    failed = m.UpdateMetadataResponse(error_code=ErrorCode.UNKNOWN_SERVER_ERROR)
    for times in range(FAILED_AGAIN):
        assert broker.markers == [1] * (times + 1)
        broker.answer(failed)
        broker.advance((FAILED_MS << times) - 1)
        assert len(broker.requests) == times + 1, "not before the pause is over"
        assert broker.channels.deadline_ms == broker.now_ms + 1
        broker.advance(1)
    assert broker.markers == [1] * (FAILED_AGAIN + 1)
    broker.answer(failed)
    assert broker.markers[-1] == 2, "it is given up, as Kafka's controller does at once"
    broker.answer(failed)
    broker.advance(FAILED_MS)
    assert broker.markers[-2:] == [2, 2]
    broker.answer_any()
    assert broker.channels.queued == 0
    told = [(one.kind, one.times) for one in broker.channels.repairs.known]
    assert told == [(RepairKind.GIVEN_UP, 1), (RepairKind.SENT_AGAIN, FAILED_AGAIN + 1)]


def test_a_request_that_was_done_at_the_last_try_is_not_said_to_be_given_up() -> None:
    broker = Broker().connect()
    broker.put(1)
    for times in range(FAILED_AGAIN):
        broker.answer(m.UpdateMetadataResponse(error_code=ErrorCode.UNKNOWN_SERVER_ERROR))
        broker.advance(FAILED_MS << times)
    broker.answer_any()
    (told,) = broker.channels.repairs.known
    assert (told.kind, told.times) == (RepairKind.SENT_AGAIN, FAILED_AGAIN)


def test_of_many_kinds_of_failures_the_oldest_are_forgotten() -> None:
    repairs = Repairs()
    for broker_id in range(REPAIRS_MAX + 5):
        repairs.note(RepairKind.ERRORS, broker_id, "StopReplica", "UNKNOWN", broker_id)
    repairs.note(RepairKind.ERRORS, 5, "StopReplica", "UNKNOWN", 999)
    known = repairs.known
    assert len(known) == REPAIRS_MAX
    assert (known[0].broker_id, known[-1].broker_id, known[-1].times) == (6, 5, 2)
    assert (known[-1].first_ms, known[-1].last_ms) == (5, 999)


def test_a_request_that_failed_is_sent_again_on_the_next_connection_if_that_is_lost() -> None:
    broker = Broker().connect()
    broker.put(1)
    broker.answer(m.UpdateMetadataResponse(error_code=ErrorCode.UNKNOWN_SERVER_ERROR))
    broker.take(broker.channels.handle(Closed(broker.conns[-1], "gone"), broker.now_ms))
    broker.advance(RECONNECT_MS)
    broker.connect()
    assert broker.markers == [1, 1]


def test_errors_of_single_partitions_are_found() -> None:
    broker = Broker().connect()
    request = m.StopReplicaRequest(controller_id=3000)
    broker.take(broker.channels.put(1, request, 0))
    response = m.StopReplicaResponse(
        partition_errors=[
            m.StopReplicaResponse.StopReplicaPartitionError(
                topic_name="t", partition_index=3, error_code=74
            )
        ]
    )
    broker.answer(response, 5, 4)
    assert (broker.logs[-1].fields["topic"], broker.logs[-1].fields["partition"]) == ("t", 3)
    (told,) = broker.channels.repairs.known
    assert (told.kind, told.request) == (RepairKind.ERRORS, "StopReplica")
    assert told.error == broker.logs[-1].fields["error"]


def test_one_line_tells_of_all_partitions_with_one_error() -> None:
    """A broker whose disk fails refuses all of its replicas; one that lies, with any code."""
    broker = Broker().connect()
    broker.take(broker.channels.put(1, m.StopReplicaRequest(controller_id=3000), 0))
    errors = [
        m.StopReplicaResponse.StopReplicaPartitionError(
            topic_name="t", partition_index=number, error_code=56 if number < 900 else number
        )
        for number in range(1_000)
    ]
    broker.answer(m.StopReplicaResponse(partition_errors=errors), 5, 4)
    told = [line.fields for line in broker.logs if "with errors" in line.event]
    assert (told[0]["error"], told[0]["partition"], told[0]["times"]) == (
        "KAFKA_STORAGE_ERROR",
        0,
        900,
    )
    assert len(told) == KINDS_LOGGED_MAX
    assert broker.channels.error_count == 1_000


@pytest.mark.parametrize("others", [0, 9])
def test_leader_epochs_that_a_broker_has_already_are_no_failure(others: int) -> None:
    """Brokers before 3.6.2 answer so to each FULL request, for partitions that stay the same."""
    broker = Broker().connect()
    broker.take(broker.channels.put(1, m.LeaderAndIsrRequest(controller_id=3000), 0))
    kinds = m.LeaderAndIsrResponse
    codes = [ErrorCode.STALE_CONTROLLER_EPOCH, *range(50, 50 + others)]
    errors = [
        kinds.LeaderAndIsrPartitionError(partition_index=number, error_code=code)
        for number, code in enumerate(codes)
    ]
    topic = kinds.LeaderAndIsrTopicError(topic_id=b"t" * 16, partition_errors=errors)
    broker.answer(kinds(topics=[topic]), 4, 7)
    known = [line for line in broker.logs if "leader epochs already" in line.event]
    assert [(line.level, line.fields["times"]) for line in known] == [("info", 1)]
    assert broker.channels.error_count == others
    outcome = "error" if others else "answered"
    assert broker.channels.outcomes == {("LeaderAndIsr", outcome): 1}
    named = {one.error for one in broker.channels.repairs.known}
    assert "STALE_CONTROLLER_EPOCH" not in named
    assert bool(named) == bool(others)


def test_a_higher_leader_epoch_than_the_logs_is_a_failure() -> None:
    """Brokers from 3.6.2 on take the epoch that they have once more."""
    broker = Broker().connect()
    broker.channels.may_be_older = False
    broker.take(broker.channels.put(1, m.LeaderAndIsrRequest(controller_id=3000), 0))
    kinds = m.LeaderAndIsrResponse
    stale = kinds.LeaderAndIsrPartitionError(error_code=ErrorCode.STALE_CONTROLLER_EPOCH)
    topic = kinds.LeaderAndIsrTopicError(topic_id=b"t" * 16, partition_errors=[stale])
    broker.answer(kinds(topics=[topic]), 4, 7)
    (told,) = [line.fields for line in broker.logs if "with errors" in line.event]
    assert (told["error"], told["partition"]) == ("STALE_CONTROLLER_EPOCH", 0)
    assert broker.channels.error_count == 1
    assert [one.error for one in broker.channels.repairs.known] == ["STALE_CONTROLLER_EPOCH"]


@pytest.mark.parametrize(("level", "older"), [(8, True), (14, True), (15, False), (21, False)])
def test_from_metadata_version_3_7_on_no_broker_is_older(level: int, older: bool) -> None:
    world = World(metadata_version=level).dual_write(1, 2)
    assert world.driver.channels.may_be_older is older


def topics_answered(count: int) -> m.LeaderAndIsrResponse:
    """Of so many topics, the last of which has an error."""
    topic, entry = (
        m.LeaderAndIsrResponse.LeaderAndIsrTopicError,
        m.LeaderAndIsrResponse.LeaderAndIsrPartitionError,
    )
    return m.LeaderAndIsrResponse(
        topics=[
            topic(
                topic_id=number.to_bytes(16, "big"),
                partition_errors=[
                    entry(partition_index=0, error_code=56 if number == count - 1 else 0)
                ],
            )
            for number in range(count)
        ]
    )


def longest_look(count: int) -> int:
    """Lines and calls of C of the longest step with the answer about so many topics."""
    broker, longest = Broker().connect(), 0
    broker.take(broker.channels.put(1, m.LeaderAndIsrRequest(controller_id=3000), 0))
    reply = framed(encode_response(4, 7, broker.requests[-1][0], topics_answered(count)))
    steps = iter([lambda: broker.channels.handle(Received(broker.conns[-1], reply), 0)])
    while (step := next(steps, None)) or broker.channels.deadline_ms == 0:
        work = Work()
        broker.take(counted(work, step or (lambda: broker.channels.tick(broker.now_ms))))
        longest = max(longest, work.run)
    assert broker.channels.outcomes["LeaderAndIsr", "error"] == 1
    assert broker.channels.error_count == 1
    told = [line.fields for line in broker.logs if "with errors" in line.event]
    assert [each["topic"] for each in told] == [(count - 1).to_bytes(16, "big").hex()]
    return longest


def test_the_errors_of_a_long_answer_are_looked_for_in_slices() -> None:
    """An answer about 100,000 topics was looked at in one step, and freed in it."""
    longest_look(50)  # compiles what it needs
    assert longest_look(20_000) <= 1.2 * longest_look(7_000)


def test_what_is_put_meanwhile_is_sent() -> None:
    broker = Broker().connect()
    broker.take(broker.channels.put(1, m.LeaderAndIsrRequest(controller_id=3000), 0))
    reply = framed(encode_response(4, 7, 0, topics_answered(2 * CODES_PER_SLICE)))
    broker.take(broker.channels.handle(Received(broker.conns[-1], reply), 0))
    while not broker.channels._looking:
        broker.advance(0)
    broker.put(2)
    assert broker.markers[-1] == 2
    assert broker.channels.error_count == 0
    broker.answer_any()
    while broker.channels.deadline_ms == 0:
        broker.advance(0)
    assert broker.channels.error_count == 1
    kinds = {("LeaderAndIsr", "error"): 1, ("UpdateMetadata", "answered"): 1}
    assert broker.channels.outcomes == kinds


def test_a_connection_that_is_not_made_is_tried_anew() -> None:
    broker = Broker()
    broker.put(1)
    for tries in range(1, 4):
        assert len(broker.conns) == tries
        broker.advance(9_999)
        assert len(broker.conns) == tries
        broker.advance(1)
        broker.advance(100)
    assert {log.fields["why"] for log in broker.logs} == {"no connection in time"}
    broker.connect()
    assert broker.markers == [1]


def test_nonsense_ends_the_connection() -> None:
    broker = Broker().connect()
    broker.put(1)
    effects = broker.channels.handle(Received(broker.conns[-1], framed(b"\0\0")), 0)
    assert Close(broker.conns[-1]) in effects
    assert broker.channels.error_count == 1


def test_nothing_is_sent_to_a_broker_without_a_channel() -> None:
    broker = Broker()
    assert broker.channels.set_peers({}) == [Close(broker.conns[-1])]
    assert broker.channels.put(1, m.UpdateMetadataRequest(), 0) == []
    assert broker.channels.queued == 0


def with_two_requests() -> Broker:
    broker = Broker().connect()
    broker.put(1)
    broker.put(2)
    return broker


def fenced_with_a_request_under_way() -> Broker:
    broker = with_two_requests()
    assert broker.channels.set_peers({}) == []
    assert broker.channels.peers == {}
    return broker


def test_a_broker_that_is_unfenced_again_hears_nothing_new_before_it_has_answered() -> None:
    """On a second connection the request under way could be acted on last."""
    broker = fenced_with_a_request_under_way()
    assert broker.channels.set_peers({1: PEER}) == []
    broker.put(3)
    assert broker.markers == [1]
    broker.answer(m.UpdateMetadataResponse())
    assert broker.markers == [1, 3]
    assert len(broker.conns) == 1


def test_a_fenced_brokers_connection_ends_with_its_answer() -> None:
    broker = fenced_with_a_request_under_way()
    conn = broker.conns[-1]
    reply = framed(
        encode_response(6, 8, broker.requests[-1][0], m.UpdateMetadataResponse(error_code=11))
    )
    effects = broker.channels.handle(Received(conn, reply), 0)
    assert Close(conn) in effects
    assert not broker.channels.owns(conn)
    assert broker.channels.deadline_ms is None
    assert broker.channels.error_count == 1


def test_a_fenced_brokers_connection_ends_when_it_is_lost_or_silent() -> None:
    broker = fenced_with_a_request_under_way()
    broker.take(broker.channels.handle(Closed(broker.conns[-1], "reset"), 0))
    assert broker.channels.deadline_ms is None
    silent = fenced_with_a_request_under_way()
    assert silent.channels.deadline_ms == REPLY_TIMEOUT_MS
    assert Close(silent.conns[-1]) in silent.channels.tick(REPLY_TIMEOUT_MS)
    assert silent.channels.deadline_ms is None
    assert len(silent.conns) == 1


@pytest.mark.parametrize("fenced", [False, True])
def test_a_new_life_of_a_broker_gets_a_new_connection_and_an_empty_queue(fenced: bool) -> None:
    broker = fenced_with_a_request_under_way() if fenced else with_two_requests()
    effects = broker.channels.set_peers({1: Peer(1, 99, "broker", 9092)})
    assert isinstance(effects[0], Close)
    broker.take(effects)
    broker.connect()
    broker.put(3)
    assert broker.markers == [1, 3]


def test_leadership_lost_closes_a_fenced_brokers_connection_too() -> None:
    broker = fenced_with_a_request_under_way()
    assert broker.channels.close() == [Close(broker.conns[-1])]
    assert broker.channels.deadline_ms is None


def test_a_broker_that_cannot_be_told_anything_is_named_until_it_answers() -> None:
    """A firewall may let brokers reach the controllers, and not the other way round."""
    broker = Broker()
    said = broker.channels.unreached
    broker.take(broker.channels.handle(Closed(broker.conns[-1], "refused"), broker.now_ms))
    assert said.waiting == (), "nothing waits for it"
    broker.put(1)
    for _ in range(3):
        broker.advance(RECONNECT_MS)
        broker.take(broker.channels.handle(Closed(broker.conns[-1], "refused"), broker.now_ms))
    (one,) = said.waiting
    assert (one.reason.why, one.reason.subject, one.since_ms) == (
        Why.BROKER_UNREACHABLE,
        "1",
        RECONNECT_MS,
    )
    assert "broker 1 cannot be reached at broker:9092, and is told nothing" in one.reason.text
    assert [one.event for one in broker.logs if one.level == "warning"] == [
        "a broker cannot be told anything"
    ]
    broker.advance(RECONNECT_MS)
    broker.connect()
    assert said.waiting, "it may accept, and never answer"
    broker.answer(m.UpdateMetadataResponse())
    assert said.waiting == ()


def test_a_broker_that_is_reached_and_does_not_answer_is_slow() -> None:
    broker = Broker()
    said = broker.channels.unreached
    broker.connect()
    for marker in range(3):
        broker.put(marker)
    broker.advance(REPLY_TIMEOUT_MS)
    (one,) = said.waiting
    assert (one.reason.why, one.reason.subject, one.since_ms) == (Why.BROKER_SLOW, "1", 0)
    slow = "broker 1 is slow: no answer to UpdateMetadata for 30 s, 3 requests wait"
    assert one.reason.text == slow
    for _ in range(2):
        broker.advance(RECONNECT_MS)
        broker.connect()
        broker.advance(REPLY_TIMEOUT_MS)
    (one,) = said.waiting
    assert (one.since_ms, "for 90 s" in one.reason.text) == (0, True)
    (log,) = [one for one in broker.logs if one.level == "warning"]
    assert log.event == "a broker is slow to answer"
    assert (log.fields["request"], log.fields["requests_waiting"]) == ("UpdateMetadata", 3)
    broker.advance(RECONNECT_MS)
    broker.take(broker.channels.handle(Closed(broker.conns[-1], "refused"), broker.now_ms))
    (one,) = said.waiting
    assert one.reason.why is Why.BROKER_UNREACHABLE
    assert "cannot be reached" in one.reason.text


def test_a_broker_that_closes_the_connection_was_reached() -> None:
    broker = Broker().connect()
    broker.put(1)
    broker.take(broker.channels.handle(Closed(broker.conns[-1], "reset"), broker.now_ms))
    (one,) = broker.channels.unreached.waiting
    assert one.reason.text == (
        "broker 1 closed the connection before it answered UpdateMetadata: reset; 1 request waits"
    )


@pytest.mark.parametrize("answers", [False, True])
def test_a_broker_that_is_fenced_need_not_be_told_anything(answers: bool) -> None:
    broker = Broker()
    broker.put(1)
    if answers:
        broker.connect()
        broker.put(2)
    broker.take(broker.channels.handle(Closed(broker.conns[-1], "reset"), broker.now_ms))
    assert broker.channels.unreached.waiting
    broker.take(broker.channels.set_peers({}))
    assert broker.channels.unreached.waiting == ()
