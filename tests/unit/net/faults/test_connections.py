"""Accepted connections with a script: what becomes of each request and of those behind it."""

from __future__ import annotations

from itertools import count

import pytest

from emulator.controller.registry import refused
from emulator.net.faults.connections import FaultyConnections
from emulator.net.faults.fault import Fault
from emulator.net.faults.script import FaultScript
from emulator.net.reply import Request
from emulator.seam import Accepted, Close, Effect, Send
from tests.kit.requests import create_topics, delete_topics
from wire import messages as m
from wire.errors import ErrorCode
from wire.frame import (
    RequestHeader,
    decode_request,
    decode_response,
    encode_request,
    encode_response,
    framed,
)

ADVERTISED = {18: (0, 4), 19: (0, 7), 20: (0, 6), 43: (0, 2), 56: (0, 3), 58: (0, 0), 63: (0, 1)}
NOW = 1_000


class Peer:
    """One connection to connections with a script; answers what reaches the node."""

    def __init__(self, *faults: Fault) -> None:
        self.script = FaultScript()
        self.script.add(*faults)
        self.stamps = count()
        self.connections = FaultyConnections(
            ADVERTISED, 100_000, lambda: next(self.stamps), script=self.script, refuse=refused
        )
        self.connections.accepted(Accepted(1, "CONTROLLER", b"\x7f\x00\x00\x01"), NOW)
        self.sent: dict[int, tuple[int, int]] = {}
        self.executed: list[Request] = []
        self.got: list[tuple[int, object]] = []
        self.closed = False
        self._unread = b""

    def ask(
        self, message: object, key: int, version: int, client: str = "me", at: int = NOW
    ) -> int:
        """Send a request; the number of its answer."""
        number = len(self.sent)
        self.sent[number] = (key, version)
        data = framed(encode_request(RequestHeader(key, version, number, client), message))
        self._take(self.connections.received(1, data, at))
        return number

    def heartbeat(self, at: int = NOW, client: str = "me") -> int:
        return self.ask(m.BrokerHeartbeatRequest(), 63, 1, client, at)

    def run(self, at: int) -> None:
        """Let time pass as a node does: what is due, while anything is."""
        for _ in range(100):
            for conn in self.connections.turns():
                self._take(self.connections.received(conn, b"", at))
            deadline = self.connections.deadline_ms
            if deadline is None or deadline > at:
                return
            self.connections.tick(at)
        raise AssertionError("always due")

    def answer(self, message: object, index: int = -1, at: int = NOW) -> None:
        """The node's answer to a request that reached it."""
        header = self.executed[index].ticket.header
        payload = encode_response(
            header.api_key, header.api_version, header.correlation_id, message
        )
        self._effects(self.connections.reply(self.executed[index].ticket, payload, at))

    def _take(self, taken: tuple[list[Request], list[Effect]]) -> None:
        self.executed += taken[0]
        self._effects(taken[1])

    def _effects(self, effects: list[Effect]) -> None:
        for effect in effects:
            self.closed |= isinstance(effect, Close)
            if isinstance(effect, Send):
                self._unread += effect.data
        while self._unread:
            size = int.from_bytes(self._unread[:4], "big")
            payload, self._unread = self._unread[4 : 4 + size], self._unread[4 + size :]
            number = int.from_bytes(payload[:4], "big")
            self.got.append((number, decode_response(*self.sent[number], payload)[1]))


def test_without_a_fault_nothing_is_struck() -> None:
    peer = Peer()
    peer.heartbeat()
    peer.answer(m.BrokerHeartbeatResponse())
    assert [number for number, _ in peer.got] == [0]
    assert peer.connections.deadline_ms == Peer().connections.deadline_ms


@pytest.mark.parametrize("version", range(8))
def test_an_error_is_told_in_the_shape_of_the_version_and_nothing_is_executed(version: int) -> None:
    peer = Peer(Fault(api="CreateTopics", error="NOT_CONTROLLER", message="elsewhere"))
    peer.ask(create_topics("a", "b"), 19, version)
    assert not peer.executed
    ((_, answer),) = peer.got
    assert isinstance(answer, m.CreateTopicsResponse)
    assert [(one.name, one.error_code) for one in answer.topics] == [("a", 41), ("b", 41)]
    assert peer.script.status()[0]["fired"] == 1


TRIGGERS: dict[str, tuple[dict[str, object], str]] = {
    "each": ({}, "xxxxxx"),
    "once": ({"times": 1}, "x....."),
    "twice": ({"times": 2}, "xx...."),
    "the third": ({"nth": 3}, "..x..."),
    "two from the third on": ({"nth": 3, "times": 2}, "..xx.."),
    "never": ({"probability": 0.0, "seed": 1}, "......"),
    "always": ({"probability": 1.0, "seed": 1}, "xxxxxx"),
    "all of a client": ({"client_id": "me"}, "xxxxxx"),
    "of another client": ({"client_id": "you"}, "......"),
}


@pytest.mark.parametrize("name", TRIGGERS)
def test_a_trigger_strikes_its_requests(name: str) -> None:
    given, wanted = TRIGGERS[name]
    peer = Peer(Fault(api="BrokerHeartbeat", error="STALE_BROKER_EPOCH", **given))  # type: ignore[arg-type]
    seen = ""
    for _ in range(6):
        before = len(peer.executed)
        peer.heartbeat()
        seen += "." if len(peer.executed) > before else "x"
    assert seen == wanted
    assert peer.script.status()[0]["fired"] == wanted.count("x")


def test_a_probability_repeats_with_its_seed() -> None:
    def struck(seed: int) -> list[bool]:
        peer = Peer(Fault(api="BrokerHeartbeat", silent=True, probability=0.5, seed=seed))
        found = []
        for _ in range(64):
            before = len(peer.executed)
            peer.heartbeat()
            found.append(len(peer.executed) == before)
        return found

    assert struck(7) == struck(7) != struck(8)
    assert 16 < sum(struck(7)) < 48


def test_the_first_fault_whose_turn_it_is_strikes() -> None:
    peer = Peer(
        Fault(api="BrokerHeartbeat", error="NOT_CONTROLLER", times=1),
        Fault(api="brokerheartbeat", error="STALE_BROKER_EPOCH"),
    )
    peer.heartbeat()
    peer.heartbeat()
    assert [answer.error_code for _, answer in peer.got] == [41, 77]  # type: ignore[attr-defined]
    assert [one["calls"] for one in peer.script.status()] == [1, 1]


def test_a_drop_closes_and_executes_nothing() -> None:
    peer = Peer(Fault(api="BrokerHeartbeat", drop=True))
    peer.heartbeat()
    assert (peer.closed, peer.executed, peer.connections.open_count) == (True, [], 0)


def test_a_lost_answer_is_that_of_an_executed_request() -> None:
    peer = Peer(Fault(api="BrokerHeartbeat", drop=True, executed=True))
    peer.heartbeat()
    assert not peer.closed
    peer.answer(m.BrokerHeartbeatResponse())
    assert peer.closed
    assert not peer.got


@pytest.mark.parametrize("executed", [False, True])
def test_silence_keeps_what_follows_on_the_connection(executed: bool) -> None:
    peer = Peer(Fault(api="BrokerHeartbeat", silent=True, executed=executed, times=1))
    peer.heartbeat()
    assert len(peer.executed) == executed
    if executed:
        peer.answer(m.BrokerHeartbeatResponse())
    peer.heartbeat()
    peer.answer(m.BrokerHeartbeatResponse())
    assert not peer.got
    assert not peer.closed


def test_a_late_request_holds_those_behind_it() -> None:
    peer = Peer(Fault(api="BrokerHeartbeat", delay_ms=50, times=1))
    peer.heartbeat()
    peer.heartbeat()
    peer.run(NOW + 49)
    assert not peer.executed
    assert peer.connections.deadline_ms == NOW + 50
    peer.run(NOW + 50)
    assert [one.ticket.header.correlation_id for one in peer.executed] == [0, 1]


def test_many_behind_a_late_one_are_taken_in_order_a_few_at_a_time() -> None:
    peer = Peer(Fault(api="BrokerHeartbeat", delay_ms=50, times=1))
    for _ in range(60):
        peer.heartbeat()
    peer.connections.tick(NOW + 50)
    assert len(peer.connections.received(1, b"", NOW + 50)[0]) == 16
    peer.run(NOW + 50)
    assert [one.ticket.header.correlation_id for one in peer.executed] == list(range(16, 60))


def test_a_late_answer_is_that_of_an_executed_request() -> None:
    peer = Peer(Fault(api="BrokerHeartbeat", delay_ms=50, executed=True, times=1))
    peer.heartbeat()
    peer.answer(m.BrokerHeartbeatResponse(), at=NOW + 10)
    peer.heartbeat()
    peer.answer(m.BrokerHeartbeatResponse())
    peer.run(NOW + 59)
    assert not peer.got
    peer.run(NOW + 60)
    assert [number for number, _ in peer.got] == [0, 1]


@pytest.mark.parametrize(
    ("fault", "answered"),
    [
        (Fault(api="BrokerHeartbeat", delay_ms=50, error="NOT_CONTROLLER"), True),
        (Fault(api="BrokerHeartbeat", delay_ms=50, drop=True), False),
    ],
)
def test_an_error_or_a_drop_may_be_late(fault: Fault, answered: bool) -> None:
    peer = Peer(fault)
    peer.heartbeat()
    assert not peer.got
    assert not peer.closed
    peer.run(NOW + 50)
    assert (len(peer.got), peer.closed, peer.executed) == (answered, not answered, [])


def test_a_peer_that_leaves_takes_what_was_late_with_it() -> None:
    peer = Peer(Fault(api="BrokerHeartbeat", delay_ms=50))
    peer.heartbeat()
    peer.connections.closed(1)
    peer.run(NOW + 60)
    assert not peer.executed
    assert peer.connections.deadline_ms is None
    assert not peer.connections._troubled


def test_requests_before_nonsense_are_struck_too() -> None:
    peer = Peer(Fault(api="CreateTopics", error="NOT_CONTROLLER"))
    request = framed(encode_request(RequestHeader(19, 7, 0, "me"), create_topics("a")))
    requests, effects = peer.connections.received(1, request + framed(b"\x7f\x7f"), NOW)
    assert not requests
    assert Close(1) in effects


def test_only_what_is_asked_of_a_topic_is_struck() -> None:
    peer = Peer(Fault(api="CreateTopics", topic="b", error="POLICY_VIOLATION", message="no"))
    peer.ask(create_topics("a", "b", "c"), 19, 7)
    ((executed),) = peer.executed
    assert executed.message == create_topics("a", "c")
    # A broker forwards the frame, not the message.
    assert decode_request(executed.frame) == (executed.ticket.header, executed.message)
    result = m.CreateTopicsResponse.CreatableTopicResult
    peer.answer(m.CreateTopicsResponse(topics=[result(name="a"), result(name="c", error_code=36)]))
    ((_, answer),) = peer.got
    assert isinstance(answer, m.CreateTopicsResponse)
    assert {one.name: (one.error_code, one.error_message) for one in answer.topics} == {
        "a": (0, ""),
        "c": (36, ""),
        "b": (44, "no"),
    }


def test_a_request_of_which_nothing_is_left_is_not_executed() -> None:
    peer = Peer(Fault(api="CreateTopics", topic="*", error="POLICY_VIOLATION"))
    peer.ask(create_topics("a", "b"), 19, 7)
    ((_, answer),) = peer.got
    assert [one.error_code for one in answer.topics] == [44, 44]  # type: ignore[attr-defined]
    assert not peer.executed


@pytest.mark.parametrize("version", [0, 3, 5, 6])
def test_a_topic_is_found_in_each_version_of_a_deletion(version: int) -> None:
    peer = Peer(Fault(api="DeleteTopics", topic="b", error="TOPIC_DELETION_DISABLED"))
    request = m.DeleteTopicsRequest(topic_names=("a", "b"))
    if version >= 6:
        request = delete_topics("a", "b")
    peer.ask(request, 20, version)
    left = peer.executed[0].message
    assert isinstance(left, m.DeleteTopicsRequest)
    assert [*left.topic_names, *(one.name for one in left.topics)] == ["a"]
    result = m.DeleteTopicsResponse.DeletableTopicResult
    peer.answer(m.DeleteTopicsResponse(responses=[result(name="a")]))
    ((_, answer),) = peer.got
    assert {one.name: one.error_code for one in answer.responses} == {"a": 0, "b": 73}  # type: ignore[attr-defined]


@pytest.mark.parametrize("version", range(4))
def test_one_partition_gets_the_error_and_the_others_are_executed(version: int) -> None:
    topic, part = m.AlterPartitionRequest.TopicData, m.AlterPartitionRequest.PartitionData
    named = {"topic_name": "t"} if version < 2 else {"topic_id": b"\x01" * 16}
    name = "t" if version < 2 else "AQEBAQEBAQEBAQEBAQEBAQ"
    peer = Peer(
        Fault(api="AlterPartition", topic=name, partition=1, error="INELIGIBLE_REPLICA", times=1)
    )
    request = m.AlterPartitionRequest(
        topics=[topic(**named, partitions=[part(partition_index=i) for i in range(3)])]  # type: ignore[arg-type]
    )
    peer.ask(request, 56, version)
    left = peer.executed[0].message
    assert isinstance(left, m.AlterPartitionRequest)
    assert [one.partition_index for one in left.topics[0].partitions] == [0, 2]
    said, told = m.AlterPartitionResponse.TopicData, m.AlterPartitionResponse.PartitionData
    peer.answer(
        m.AlterPartitionResponse(
            topics=[
                said(**named, partitions=[told(partition_index=i, leader_id=5) for i in (0, 2)])
            ]  # type: ignore[arg-type]
        )
    )
    ((_, answer),) = peer.got
    assert isinstance(answer, m.AlterPartitionResponse)
    assert len(answer.topics) == 1
    found = {one.partition_index: one.error_code for one in answer.topics[0].partitions}
    assert found == {0: 0, 2: 0, 1: 107}


def test_one_partition_is_not_elected_and_the_others_are() -> None:
    topic, result = m.ElectLeadersRequest.TopicPartitions, m.ElectLeadersResponse
    peer = Peer(
        Fault(api="ElectLeaders", topic="t", partition=1, error="PREFERRED_LEADER_NOT_AVAILABLE")
    )
    peer.ask(
        m.ElectLeadersRequest(topic_partitions=[topic(topic="t", partitions=[0, 1, 2])]), 43, 2
    )
    left = peer.executed[0].message
    assert isinstance(left, m.ElectLeadersRequest)
    assert left.topic_partitions is not None
    assert left.topic_partitions[0].partitions == [0, 2]
    results = [result.PartitionResult(partition_id=index) for index in (0, 2)]
    said = [result.ReplicaElectionResult(topic="t", partition_result=results)]
    peer.answer(m.ElectLeadersResponse(replica_election_results=said))
    ((_, answer),) = peer.got
    assert isinstance(answer, m.ElectLeadersResponse)
    found = {
        one.partition_id: one.error_code
        for each in answer.replica_election_results
        for one in each.partition_result
    }
    assert found == {0: 0, 2: 0, 1: ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE}


def test_what_is_asked_of_no_partition_is_left_as_it_is() -> None:
    topic, part = m.AlterPartitionRequest.TopicData, m.AlterPartitionRequest.PartitionData
    peer = Peer(Fault(api="AlterPartition", topic="*", error="INELIGIBLE_REPLICA"))
    empty, full = topic(topic_name="a"), topic(topic_name="b", partitions=[part()])
    peer.ask(m.AlterPartitionRequest(topics=[empty, full]), 56, 1)
    assert peer.executed[0].message == m.AlterPartitionRequest(topics=[empty])


def test_an_answer_that_refuses_all_of_the_rest_stays_as_it_is() -> None:
    topic, part = m.AlterPartitionRequest.TopicData, m.AlterPartitionRequest.PartitionData
    peer = Peer(Fault(api="AlterPartition", topic="t", partition=1, error="INELIGIBLE_REPLICA"))
    parts = [part(partition_index=i) for i in range(2)]
    peer.ask(m.AlterPartitionRequest(topics=[topic(topic_name="t", partitions=parts)]), 56, 1)
    peer.answer(m.AlterPartitionResponse(error_code=ErrorCode.STALE_BROKER_EPOCH))
    ((_, answer),) = peer.got
    assert answer == m.AlterPartitionResponse(error_code=ErrorCode.STALE_BROKER_EPOCH)


def envelope(message: object, version: int = 7, client: str = "inner") -> m.EnvelopeRequest:
    # Bytes after a request are ignored.
    data = encode_request(RequestHeader(19, version, 9, client), message) + b"abc"
    return m.EnvelopeRequest(request_data=data, client_host_address=b"\x7f\x00\x00\x01")


def opened(answer: object) -> m.CreateTopicsResponse:
    assert isinstance(answer, m.EnvelopeResponse)
    assert answer.error_code == 0
    number, inner = decode_response(19, 7, answer.response_data or b"")
    assert number == 9
    assert isinstance(inner, m.CreateTopicsResponse)
    return inner


def test_a_request_in_an_envelope_is_struck_by_its_own_name_and_client() -> None:
    peer = Peer(Fault(api="CreateTopics", error="POLICY_VIOLATION", client_id="inner"))
    peer.ask(envelope(create_topics("a")), 58, 0, "broker")
    ((_, answer),) = peer.got
    assert [one.error_code for one in opened(answer).topics] == [44]


def test_not_controller_in_an_envelope_is_the_envelopes_error() -> None:
    peer = Peer(Fault(api="CreateTopics", error="NOT_CONTROLLER"))
    peer.ask(envelope(create_topics("a")), 58, 0)
    ((_, answer),) = peer.got
    assert answer == m.EnvelopeResponse(response_data=None, error_code=ErrorCode.NOT_CONTROLLER)


def test_a_part_of_a_request_in_an_envelope_is_struck() -> None:
    peer = Peer(Fault(api="CreateTopics", topic="b", error="POLICY_VIOLATION"))
    peer.ask(envelope(create_topics("a", "b")), 58, 0)
    left = peer.executed[0].message
    assert isinstance(left, m.EnvelopeRequest)
    assert decode_request(left.request_data)[1] == create_topics("a")
    assert decode_request(peer.executed[0].frame)[1] == left
    result = m.CreateTopicsResponse.CreatableTopicResult
    data = encode_response(19, 7, 9, m.CreateTopicsResponse(topics=[result(name="a")]))
    peer.answer(m.EnvelopeResponse(response_data=data))
    ((_, answer),) = peer.got
    assert [(one.name, one.error_code) for one in opened(answer).topics] == [("a", 0), ("b", 44)]


def test_an_envelope_that_cannot_be_read_is_passed_on() -> None:
    peer = Peer(Fault(api="CreateTopics", error="POLICY_VIOLATION"))
    peer.ask(m.EnvelopeRequest(request_data=b"\x00\x13"), 58, 0)
    assert len(peer.executed) == 1


def test_an_api_that_is_not_answered_here_is_not_struck_in_an_envelope() -> None:
    peer = Peer(Fault(api="Produce", error="NOT_CONTROLLER"))
    data = encode_request(RequestHeader(0, 9, 9, "me"), m.ProduceRequest(acks=1))
    peer.ask(m.EnvelopeRequest(request_data=data), 58, 0)
    assert len(peer.executed) == 1
    assert "KeyError" in peer.script.status()[0]["unfit"]


def test_an_error_without_a_place_in_the_answer_does_not_fire_and_says_why() -> None:
    peer = Peer(Fault(api="CreateTopics", error="NOT_CONTROLLER"))
    peer.ask(create_topics(), 19, 7)
    assert len(peer.executed) == 1
    (status,) = peer.script.status()
    assert (status["calls"], status["fired"]) == (1, 0)
    assert status["unfit"] == "NoPlaceError: CreateTopics v7 has no place for NOT_CONTROLLER"


@pytest.mark.parametrize("version", [0, 3, 99])
def test_api_versions_of_any_version_can_be_struck(version: int) -> None:
    peer = Peer(Fault(api="ApiVersions", error="CLUSTER_AUTHORIZATION_FAILED"))
    header = RequestHeader(18, min(version, 3), 0, "me")
    data = bytearray(encode_request(header, m.ApiVersionsRequest()))
    data[2:4] = version.to_bytes(2, "big")
    peer.sent[0] = (18, version if version < 5 else 0)
    peer._take(peer.connections.received(1, framed(bytes(data)), NOW))
    ((_, answer),) = peer.got
    assert answer.error_code == 31  # type: ignore[attr-defined]


def test_a_script_may_change_while_requests_wait() -> None:
    peer = Peer(Fault(api="BrokerHeartbeat", delay_ms=50))
    peer.heartbeat()
    peer.script.clear()
    peer.heartbeat()
    peer.run(NOW + 50)
    assert len(peer.executed) == 2


def test_what_never_fired_is_known_also_after_it_was_removed() -> None:
    miss = Fault(api="CreateTopics", drop=True)
    peer = Peer(
        miss,
        Fault(api="BrokerHeartbeat", error="NOT_CONTROLLER"),
        Fault(api="DeleteTopics", drop=True, may_miss=True),
    )
    peer.heartbeat()
    assert peer.script.never_fired() == [miss]
    peer.script.clear()
    assert peer.script.never_fired() == [miss]
    assert peer.script.status() == []
