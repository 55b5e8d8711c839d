"""Which controller a broker follows and asks, while the leader of the quorum moves."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random
from typing import Any

import pytest

from emulator.broker.kraft.quorum import KnownQuorum, LeaderAndEpoch
from emulator.broker.machine import BrokerNode
from emulator.config.listeners import HostPort
from emulator.net.accepted import Connections
from emulator.net.greeting import listed
from emulator.net.reply import API_VERSIONS, Request, encoded
from emulator.seam import Accepted, Closed, Effect, Event, Received
from tests.unit.broker.joined_brokers import CLUSTER_ID, CONTROLLER, Stage
from wire import messages as m
from wire import records as r
from wire.batch import Batch, encode_batch
from wire.errors import ErrorCode
from wire.frame import encode_response
from wire.record_serde import encode_record
from wire.releases import controller_ranges

A, B = ("a", 9093), ("b", 9093)
VOTERS = "1001@a:9093,1002@b:9093"


@dataclass
class Term:
    """Who leads, as all nodes of the quorum know it; ``told`` False: no addresses are given."""

    leader: int = 1002
    epoch: int = 5
    endpoints: bool = True


class QuorumNode:
    """One controller of the quorum: a machine of the seam.

    ``silent``: it answers nothing. ``foreign``: it is of another cluster.
    """

    def __init__(self, node_id: int, term: Term) -> None:
        self.id = node_id
        self.term = term
        self.silent = False
        self.foreign = False
        self.asked: list[Any] = []
        self.ranges = controller_ranges("3.9")
        self.connections = Connections(self.ranges, 2**20, lambda: 0)
        self.parked: list[tuple[int, Request]] = []
        """When a Fetch is answered without records, as a leader does after its wait."""

    @property
    def deadline_ms(self) -> int | None:
        return min((due_ms for due_ms, _ in self.parked), default=None)

    def start(self, _now_ms: int) -> list[Effect]:
        return []

    def shutdown(self, _now_ms: int) -> list[Effect]:
        return []

    def step(self, events: list[Event], now_ms: int) -> list[Effect]:
        effects: list[Effect] = []
        due = [request for due_ms, request in self.parked if due_ms <= now_ms]
        self.parked = [one for one in self.parked if one[0] > now_ms]
        for request in due:
            answer = self.fetched(request.message, leads=self.term.leader == self.id)
            effects += self.reply(request, answer, now_ms)
        for event in events:
            match event:
                case Accepted():
                    effects += self.connections.accepted(event, now_ms)
                case Closed(conn):
                    self.connections.closed(conn)
                case Received(conn, data) if self.connections.owns(conn):
                    requests, _ = self.connections.received(conn, data, now_ms)
                    for request in requests:
                        effects += self.take(request, now_ms)
        return effects

    def take(self, request: Request, now_ms: int) -> list[Effect]:
        self.asked.append(request.message)
        if self.silent:
            return []
        answer = self.answer(request.message)
        if isinstance(answer, m.FetchResponse) and answer.responses:
            (partition,) = answer.responses[0].partitions
            if not partition.error_code and not partition.records:
                self.parked.append((now_ms + 500, request))
                return []
        return self.reply(request, answer, now_ms)

    def reply(self, request: Request, answer: Any, now_ms: int) -> list[Effect]:
        payload = encoded(request.ticket.header, answer, self.ranges[API_VERSIONS][1])
        return self.connections.reply(request.ticket, payload, now_ms)

    def answer(self, message: Any) -> Any:
        leads = self.term.leader == self.id
        moved = 0 if leads else ErrorCode.NOT_CONTROLLER
        match message:
            case m.ApiVersionsRequest():
                return m.ApiVersionsResponse(api_keys=listed(self.ranges))
            case m.FetchRequest() if self.foreign:
                return m.FetchResponse(error_code=ErrorCode.INCONSISTENT_CLUSTER_ID)
            case m.FetchRequest():
                return self.fetched(message, leads=leads)
            case m.BrokerRegistrationRequest():
                return m.BrokerRegistrationResponse(error_code=moved, broker_epoch=0)
            case m.BrokerHeartbeatRequest():
                return m.BrokerHeartbeatResponse(
                    error_code=moved, is_caught_up=True, is_fenced=message.want_fence
                )
            case m.EnvelopeRequest() if leads:
                inner = m.CreateTopicsResponse()
                return m.EnvelopeResponse(response_data=encode_response(19, 7, 0, inner))
            case m.EnvelopeRequest():
                return m.EnvelopeResponse(error_code=moved)
        return None

    def fetched(self, request: Any, *, leads: bool) -> m.FetchResponse:
        (asked,) = request.topics[0].partitions
        kind, term = m.FetchResponse, self.term
        error = ErrorCode.NONE if leads else ErrorCode.NOT_LEADER_OR_FOLLOWER
        if asked.current_leader_epoch < term.epoch:
            error = ErrorCode.FENCED_LEADER_EPOCH
        partition = kind.PartitionData(
            error_code=error,
            high_watermark=1,
            current_leader=kind.LeaderIdAndEpoch(leader_id=term.leader, leader_epoch=term.epoch),
        )
        if not error and not asked.fetch_offset:
            record = encode_record(r.NoOpRecord(), 0)
            partition.records = encode_batch(Batch(0, 5, 0, 0, [(None, record)]))
        topic = kind.FetchableTopicResponse(topic_id=bytes(15) + b"\x01", partitions=[partition])
        answer = kind(responses=[topic])
        if term.endpoints:
            host, port = A if term.leader == 1001 else B
            answer.node_endpoints = [kind.NodeEndpoint(node_id=term.leader, host=host, port=port)]
        return answer


class Quorum:
    """Two nodes and a broker that has just started.

    ``fetch_max``: the newest Fetch of node a. ``foreign``: the nodes of another cluster.
    """

    def __init__(
        self, term: Term, fetch_max: int = 17, foreign: tuple[int, ...] = (), **more: str
    ) -> None:
        self.term = term
        self.stage = Stage()
        self.joined = self.stage.joined
        self.joined.leave(self.stage.controller)
        self.joined.cut.add(CONTROLLER)
        self.a, self.b = QuorumNode(1001, term), QuorumNode(1002, term)
        self.a.ranges = {**self.a.ranges, 1: (0, fetch_max)}
        for node in (self.a, self.b):
            node.foreign = node.id in foreign
        self.joined.join("a", self.a, {A: "CONTROLLER"})
        self.joined.join("b", self.b, {B: "CONTROLLER"})
        voters = more or {"controller_quorum_voters": VOTERS}
        self.broker: BrokerNode = self.stage.broker(1, **voters)

    def beats(self, node: QuorumNode) -> int:
        return sum(isinstance(one, m.BrokerHeartbeatRequest) for one in node.asked)


@pytest.mark.parametrize("leader", [1001, 1002])
def test_whoever_is_asked_first_the_leader_is_found(leader: int) -> None:
    quorum = Quorum(Term(leader))
    quorum.joined.until(lambda: quorum.broker.side.running, 5_000)
    node, other = (quorum.a, quorum.b) if leader == 1001 else (quorum.b, quorum.a)
    assert quorum.beats(node) > 0
    assert quorum.beats(other) == 0


@pytest.mark.parametrize("endpoints", [True, False])
def test_with_bootstrap_servers_alone_the_leader_is_found(*, endpoints: bool) -> None:
    """Before Fetch 16 no answer has an address: the node that answers as the leader is it."""
    servers = {
        "controller_quorum_voters": "",
        "controller_quorum_bootstrap_servers": "a:9093,b:9093",
    }
    quorum = Quorum(Term(1001, endpoints=endpoints), **servers)
    quorum.joined.until(lambda: quorum.broker.side.running, 20_000)
    assert quorum.beats(quorum.a) > 0


@pytest.mark.requirement("I14")
def test_a_new_leader_gets_what_the_old_one_refuses() -> None:
    quorum = Quorum(Term(1002))
    quorum.joined.until(lambda: quorum.broker.side.running, 5_000)
    quorum.term.leader, quorum.term.epoch = 1001, 6
    client = quorum.stage.client(1)
    answer = client.ask(m.CreateTopicsRequest(topics=[], timeout_ms=5_000), 7, 10_000)
    assert answer == m.CreateTopicsResponse()
    beats = quorum.beats(quorum.a)
    quorum.joined.wait(10_000)
    assert quorum.beats(quorum.a) > beats
    assert quorum.broker.side.running


def test_a_leader_that_falls_silent_is_left_for_another_node() -> None:
    quorum = Quorum(Term(1002))
    quorum.joined.until(lambda: quorum.broker.side.running, 5_000)
    quorum.b.silent = True
    quorum.term.leader, quorum.term.epoch = 1001, 6
    quorum.joined.wait(20_000)
    assert quorum.beats(quorum.a) > 0


def test_an_answer_of_an_older_epoch_says_nothing() -> None:
    one, other = HostPort("a", 1), HostPort("b", 1)
    known = KnownQuorum([one, other], {1: one, 2: other}, Random(1))
    known.take_leader(LeaderAndEpoch(2, 5), ())
    assert known.leader == other
    known.answered(HostPort("c", 1))
    assert known.leader == other, "its address is known"
    known.take_leader(LeaderAndEpoch(1, 4), ())
    assert (known.leader_id, known.epoch) == (2, 5)
    known.lost(other)
    assert known.leader is None
    assert {known.someone() for _ in range(20)} == {one}, "not the one that was lost last"
    known.take_leader(LeaderAndEpoch(-1, 6), ())
    assert (known.leader_id, known.epoch) == (-1, 6)


def test_a_node_that_cannot_be_followed_is_left_for_another() -> None:
    """Below version 12 a Fetch does not say which epoch the follower has read."""
    quorum = Quorum(Term(1001), fetch_max=11)
    quorum.joined.wait(10_000)
    assert not any(isinstance(one, m.FetchRequest) for one in quorum.a.asked)
    said = [line.fields["why"] for line in quorum.stage.parties[1].logs if line.level == "warning"]
    assert "Fetch is offered up to version 11" in said
    quorum.term.leader, quorum.term.epoch = 1002, 6
    quorum.joined.until(lambda: quorum.broker.side.running, 10_000)


@pytest.mark.parametrize("leader", [1001, 1002])
def test_a_node_of_another_cluster_is_left_for_one_of_ours(leader: int) -> None:
    quorum = Quorum(Term(leader), foreign=(1002 if leader == 1001 else 1001,))
    quorum.joined.until(lambda: quorum.broker.side.running, 10_000)
    assert quorum.stage.parties[1].halt is None


@pytest.mark.requirement("N08")
def test_where_every_node_is_of_another_cluster_a_broker_ends_at_once_and_says_why() -> None:
    quorum = Quorum(Term(1001), foreign=(1001, 1002))
    quorum.joined.wait(3_000)
    party = quorum.stage.parties[1]
    assert party.halt.exit_code == 1
    assert "INCONSISTENT_CLUSTER_ID" in party.halt.why
    assert CLUSTER_ID in party.halt.why
    (said,) = [log for log in party.logs if log.fields.get("why") == "INCONSISTENT_CLUSTER_ID"]
    assert "meta.properties" in str(said.fields["hint"])


def test_a_registered_broker_outlives_controllers_of_another_cluster() -> None:
    quorum = Quorum(Term(1001))
    quorum.joined.until(lambda: quorum.broker.side.running, 5_000)
    quorum.a.foreign = quorum.b.foreign = True
    quorum.term.epoch = 6
    quorum.joined.wait(20_000)
    assert quorum.stage.parties[1].halt is None
    quorum.a.foreign = quorum.b.foreign = False
    beats = quorum.beats(quorum.a)
    quorum.joined.wait(10_000)
    assert quorum.beats(quorum.a) > beats


def test_that_no_controller_is_reached_is_said_with_addresses_and_reasons_once_each() -> None:
    stage = Stage()
    voters = "1001@a:9093,1002@b:9093"
    stage.broker(1, controller_quorum_voters=voters)
    stage.joined.wait(5_000)
    said = [
        (log.event, log.fields["why"]) for log in stage.parties[1].logs if log.level == "warning"
    ]
    assert {why.partition(": ")[0] for event, why in said if "reached" in event} == {
        "a:9093",
        "b:9093",
    }
    assert len(said) == len(set(said)) <= 4
    assert ("the controller does not answer", "registration was not answered") in said
