"""The broker's machine: registration, heartbeats, control requests, the log, clients."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from typing import Any

import pytest

from emulator.broker.stand_in.machine import FAR_AHEAD, BrokerMachine
from emulator.broker.stand_in.notices import (
    BrokerNotice,
    ClientAnswered,
    ControllerLost,
    Diverged,
    LifecycleRefused,
    RecordFetched,
    RegisteredAs,
    SentNonsense,
    ToldByController,
)
from emulator.broker.stand_in.observer import FollowedLog
from emulator.broker.stand_in.settings import BrokerListener, BrokerPace, BrokerSettings
from emulator.seam import Accepted, Close, Closed, Connect, Connected, Event, Halt, Received, Send
from wire import messages as m
from wire.batch import Batch, encode_batch
from wire.errors import ErrorCode
from wire.frame import (
    FrameReader,
    RequestHeader,
    decode_request,
    decode_response,
    encode_request,
    encode_response,
    framed,
)
from wire.releases import broker_ranges
from wire.schema import spec

PACE = BrokerPace(
    heartbeat_ms=700, hasty_ms=100, register_ms=150, retry_ms=50, connect_ms=10_000, reply_ms=8_000
)
SETTINGS = BrokerSettings(
    broker_id=1,
    cluster_id="a-cluster",
    incarnation_id=b"i" * 16,
    directory=b"d" * 16,
    client_id="broker-1",
    controller=("controller", 9093),
    listener=BrokerListener("INTERNAL", "here", 9092),
    metadata_versions=(1, 25),
    pace=PACE,
)
CONTROL = 900


class Stage:
    """A broker and a controller that answers with what ``answers`` says; None: not at all."""

    def __init__(self, log: FollowedLog | None = None) -> None:
        self.broker = BrokerMachine(SETTINGS, count(1).__next__, log)
        self.now_ms = 0
        self.notices: list[BrokerNotice] = []
        self.asked: list[Any] = []
        self.replies: list[Any] = []
        self.open: set[int] = set()
        self.closed: list[int] = []
        self.reachable = True
        self.answers: Callable[[Any], Any] = answers

    def begin(self) -> Stage:
        self.after(self.broker.start(self.now_ms))
        return self

    def event(self, event: Event) -> None:
        self.after(self.broker.step([event], self.now_ms))

    def after(self, effects: list[Any]) -> None:
        self.notices += self.broker.take_notices()
        for effect in effects:
            match effect:
                case Connect(conn, "controller", 9093):
                    if self.reachable:
                        self.open.add(conn)
                        self.event(Connected(conn))
                    else:
                        self.event(Closed(conn, "refused"))
                case Send(conn=conn, data=data) if conn == CONTROL:
                    self.replies.append(data)
                case Send(conn, data):
                    for frame in FrameReader().feed(data):
                        self.answer(conn, frame)
                case Close(conn):
                    self.closed.append(conn)
                    self.open.discard(conn)

    def answer(self, conn: int, frame: bytes) -> None:
        header, request = decode_request(frame)
        self.asked.append(request)
        answer = self.answers(request)
        if answer is not None:
            payload = encode_response(
                header.api_key, header.api_version, header.correlation_id, answer
            )
            self.event(Received(conn, framed(payload)))

    def wait(self, ms: int) -> None:
        """Let time pass, waking the broker when it asked to be woken."""
        end_ms = self.now_ms + ms
        while (deadline_ms := self.broker.deadline_ms) is not None and deadline_ms <= end_ms:
            self.now_ms = max(self.now_ms, deadline_ms)
            self.after(self.broker.step([], self.now_ms))
        self.now_ms = end_ms

    def tell(self, *requests: Any) -> list[Any]:
        """Send control requests, cut anywhere; returns the answers."""
        if not self.replies:
            self.event(Accepted(CONTROL, "INTERNAL", b"\x7f\0\0\1"))
        before = len(self.replies)
        for request in requests:
            frame = framed(encode_request(header_of(request), request))
            self.event(Received(CONTROL, frame[:7]))
            self.event(Received(CONTROL, frame[7:]))
        return [
            decode_response(header_of(request).api_key, header_of(request).api_version, reply[4:])[
                1
            ]
            for request, reply in zip(requests, self.replies[before:], strict=True)
        ]

    def of(self, kind: type) -> list[Any]:
        return [each for each in (*self.asked, *self.notices) if isinstance(each, kind)]


def header_of(request: Any) -> RequestHeader:
    declared = spec(type(request))
    assert declared.key is not None
    version = broker_ranges("3.9", mode="zk")[declared.key][1]
    return RequestHeader(
        api_key=declared.key, api_version=version, correlation_id=5, client_id="3000"
    )


def answers(request: Any) -> Any:
    match request:
        case m.BrokerRegistrationRequest():
            return m.BrokerRegistrationResponse(broker_epoch=40)
        case m.BrokerHeartbeatRequest():
            return m.BrokerHeartbeatResponse(is_fenced=False)
    return None


# ---------------------------------------------------------------- lifecycle
def test_it_registers_as_a_migrating_broker_and_then_sends_heartbeats() -> None:
    stage = Stage().begin()
    (registration,) = stage.of(m.BrokerRegistrationRequest)
    assert registration.is_migrating_zk_broker
    assert [(one.name, one.host, one.port) for one in registration.listeners] == [
        ("INTERNAL", "here", 9092)
    ]
    assert stage.of(RegisteredAs) == [RegisteredAs(40)]
    (beat,) = stage.of(m.BrokerHeartbeatRequest)
    assert (beat.broker_epoch, beat.current_metadata_offset) == (40, FAR_AHEAD)
    assert not stage.broker.lifecycle.fenced
    stage.wait(699)
    assert len(stage.of(m.BrokerHeartbeatRequest)) == 1
    stage.wait(1)
    assert len(stage.of(m.BrokerHeartbeatRequest)) == 2


def test_while_it_is_fenced_it_makes_haste() -> None:
    stage = Stage()
    fenced = m.BrokerHeartbeatResponse(is_fenced=True)
    stage.answers = lambda r: fenced if isinstance(r, m.BrokerHeartbeatRequest) else answers(r)
    stage.begin().wait(1_000)
    assert len(stage.of(m.BrokerHeartbeatRequest)) == 11


@pytest.mark.parametrize(
    ("code", "again"),
    [
        (ErrorCode.STALE_BROKER_EPOCH, True),
        (ErrorCode.BROKER_ID_NOT_REGISTERED, True),
        (ErrorCode.NOT_CONTROLLER, False),
    ],
)
def test_it_registers_again_only_when_its_registration_was_forgotten(
    code: ErrorCode, again: bool
) -> None:
    stage = Stage()
    refusals = iter([m.BrokerHeartbeatResponse(error_code=code)])
    stage.answers = lambda r: (
        next(refusals, answers(r)) if isinstance(r, m.BrokerHeartbeatRequest) else answers(r)
    )
    stage.begin().wait(300)
    assert stage.of(LifecycleRefused) == [LifecycleRefused("heartbeat", code)]
    assert len(stage.of(m.BrokerRegistrationRequest)) == 1 + again
    assert len(stage.of(m.BrokerHeartbeatRequest)) == 2


def test_a_refused_registration_is_sent_again_for_ever() -> None:
    stage = Stage()
    refused = m.BrokerRegistrationResponse(error_code=ErrorCode.INVALID_REGISTRATION)
    stage.answers = lambda _: refused
    stage.begin().wait(PACE.register_ms * 3)
    assert len(stage.of(m.BrokerRegistrationRequest)) == 4
    assert stage.broker.epoch == -1


def test_a_controller_that_is_not_there_is_tried_until_it_is() -> None:
    stage = Stage()
    stage.reachable = False
    stage.begin().wait(1_000)
    assert stage.of(ControllerLost)[0] == ControllerLost("refused")
    assert stage.asked == []
    stage.reachable = True
    stage.wait(100)
    assert stage.broker.epoch == 40


def test_a_lost_connection_costs_a_heartbeat_and_no_registration() -> None:
    stage = Stage().begin()
    (conn,) = stage.open
    stage.event(Closed(conn, "cut"))
    stage.wait(2_000)
    assert len(stage.of(m.BrokerRegistrationRequest)) == 1
    assert len(stage.of(m.BrokerHeartbeatRequest)) == 3


def test_an_event_of_a_connection_that_is_over_changes_nothing() -> None:
    """Several faults at once: an answer is too late, and its connection was cut as well."""
    stage = Stage(FollowedLog())
    stage.answers = lambda _: None
    stage.begin().wait(PACE.reply_ms)
    assert stage.closed
    before = len(stage.notices)
    for conn in (*stage.closed, 77):
        for late in (Closed(conn, "cut"), Connected(conn), Received(conn, b"\0\0\0\5late!")):
            stage.event(late)
    assert len(stage.notices) == before
    stage.answers = answers
    stage.wait(PACE.reply_ms)
    assert stage.broker.epoch == 40


# ---------------------------------------------------------------- control requests
def leaders(topic_id: int = 1, **fields: Any) -> m.LeaderAndIsrRequest:
    kind = m.LeaderAndIsrRequest
    state = kind.LeaderAndIsrPartitionState(partition_index=0, leader=1, isr=(1,), replicas=(1,))
    topic = kind.LeaderAndIsrTopicState(
        topic_name="t", topic_id=topic_id.to_bytes(16, "big"), partition_states=[state]
    )
    values: dict[str, Any] = {"controller_epoch": 7, "broker_epoch": 40, "type": 1, **fields}
    return kind(controller_id=3000, topic_states=[topic], **values)


def test_control_requests_are_judged_by_epochs_and_followed() -> None:
    stage = Stage().begin()
    answered = stage.tell(leaders(), leaders(controller_epoch=6), leaders(broker_epoch=39))
    assert [answer.error_code for answer in answered] == [
        0,
        ErrorCode.STALE_CONTROLLER_EPOCH,
        ErrorCode.STALE_BROKER_EPOCH,
    ]
    assert list(stage.broker.view.replicas) == [("t", 0)]
    assert [told.response.error_code for told in stage.of(ToldByController)] == [0, 11, 77]


def test_another_topic_of_that_name_is_refused_partition_by_partition() -> None:
    stage = Stage().begin()
    _, answer = stage.tell(leaders(), leaders(topic_id=2))
    ((error,),) = [topic.partition_errors for topic in answer.topics]
    assert error.error_code == ErrorCode.INCONSISTENT_TOPIC_ID


def test_what_no_controller_sends_ends_that_connection_and_nothing_else() -> None:
    stage = Stage().begin()
    stage.tell(leaders())
    request = m.MetadataRequest(topics=[])
    frame = framed(encode_request(header_of(request), request))
    stage.event(Received(CONTROL, frame))
    assert stage.closed == [CONTROL]
    assert len(stage.of(SentNonsense)) == 1
    assert stage.broker.received == {"LeaderAndIsr": 1, "nonsense": 1}
    stage.event(Closed(CONTROL, "late"))
    assert stage.broker.epoch == 40


@pytest.mark.parametrize(("version", "code"), [(3, 0), (99, ErrorCode.UNSUPPORTED_VERSION)])
def test_versions_are_those_of_its_release(version: int, code: int) -> None:
    stage = Stage().begin()
    stage.event(Accepted(CONTROL, "INTERNAL", b"\x7f\0\0\1"))
    header = header_of(m.ApiVersionsRequest())
    frame = bytearray(encode_request(header, m.ApiVersionsRequest()))
    frame[2:4] = version.to_bytes(2, "big")
    stage.event(Received(CONTROL, framed(bytes(frame))))
    _, answer = decode_response(18, min(version, 3), stage.replies[0][4:])
    assert answer.error_code == code
    found = {api.api_key: (api.min_version, api.max_version) for api in answer.api_keys}
    assert found == dict(broker_ranges("3.9", mode="zk"))


# ---------------------------------------------------------------- the metadata log
def partition(**fields: Any) -> m.FetchResponse:
    kind = m.FetchResponse
    data = kind.PartitionData(**fields)
    return kind(
        responses=[kind.FetchableTopicResponse(topic_id=b"\0" * 15 + b"\1", partitions=[data])]
    )


def following(*responses: m.FetchResponse, log: FollowedLog | None = None) -> Stage:
    stage = Stage(FollowedLog() if log is None else log)
    left = iter(responses)
    stage.answers = lambda r: next(left, None) if isinstance(r, m.FetchRequest) else None
    return stage.begin()


def fetched_from(stage: Stage) -> list[tuple[int, int, int]]:
    parts = [request.topics[0].partitions[0] for request in stage.of(m.FetchRequest)]
    return [(p.fetch_offset, p.last_fetched_epoch, p.current_leader_epoch) for p in parts]


def test_it_follows_the_log_and_says_how_far_it_has_come() -> None:
    batch = Batch(0, 3, 0, 0, ((None, b"one"), (None, b"two")))
    stage = following(partition(records=encode_batch(batch), high_watermark=2))
    assert fetched_from(stage) == [(0, 0, 0), (2, 3, 0)]
    assert stage.of(RecordFetched) == [RecordFetched(0, 3, b"one"), RecordFetched(1, 3, b"two")]
    assert stage.broker.observer is not None
    assert stage.broker.observer.reached == 1


def test_it_takes_up_a_newer_leader_a_snapshot_and_where_the_log_parts() -> None:
    newer = m.FetchResponse.LeaderIdAndEpoch(leader_id=3000, leader_epoch=4)
    snapshot = m.FetchResponse.SnapshotId(end_offset=90, epoch=3)
    parted = m.FetchResponse.EpochEndOffset(epoch=2, end_offset=50)
    stage = following(
        partition(error_code=ErrorCode.FENCED_LEADER_EPOCH, current_leader=newer),
        partition(snapshot_id=snapshot),
        partition(diverging_epoch=parted),
    )
    assert fetched_from(stage) == [(0, 0, 0), (0, 0, 4), (90, 3, 4), (50, 2, 4)]
    assert stage.of(Diverged) == [Diverged(90, 2, 50)]


@pytest.mark.parametrize(
    ("response", "pause_ms"),
    [(partition(error_code=ErrorCode.NOT_LEADER_OR_FOLLOWER), 50), (m.FetchResponse(), 100)],
)
def test_a_fetch_that_brings_nothing_is_repeated_after_a_pause(
    response: m.FetchResponse, pause_ms: int
) -> None:
    stage = following(response)
    stage.wait(pause_ms - 1)
    assert len(fetched_from(stage)) == 1
    stage.wait(1)
    assert len(fetched_from(stage)) == 2


# ---------------------------------------------------------------- clients, and the end
def test_requests_of_clients_are_passed_on_one_after_the_other() -> None:
    stage = Stage()
    stage.answers = lambda r: (
        m.AllocateProducerIdsResponse(producer_id_start=r.broker_id)
        if isinstance(r, m.AllocateProducerIdsRequest)
        else answers(r)
    )
    stage.begin()
    for number in range(3):
        stage.broker.ask(m.AllocateProducerIdsRequest(broker_id=number), number)
    stage.wait(0)
    stage.after(stage.broker.step([], stage.now_ms))
    told = [(each.ticket, each.message.producer_id_start) for each in stage.of(ClientAnswered)]
    assert told == [(0, 0), (1, 1), (2, 2)]


def test_what_is_lost_with_the_broker_is_told_as_unknown() -> None:
    stage = Stage().begin()
    stage.broker.ask(m.AllocateProducerIdsRequest(), "sent")
    stage.after(stage.broker.step([], 0))
    stage.broker.ask(m.AllocateProducerIdsRequest(), "waiting")
    effects = stage.broker.shutdown(0)
    stage.after(effects)
    assert isinstance(effects[-1], Halt)
    assert stage.open == set()
    assert stage.of(ClientAnswered) == [
        ClientAnswered("sent", None),
        ClientAnswered("waiting", None),
    ]
    assert stage.broker.deadline_ms is None
