"""ElectLeaders: who is elected, every error, and when the answer comes."""

from __future__ import annotations

from typing import Any

import pytest

from emulator.controller.registry import advertised
from emulator.controller.result import Result
from emulator.metadata.topics import RECOVERING
from tests.kit.requests import elect
from tests.unit.controller.world import (
    World,
    broker,
    create,
    handle,
    image_of,
    partition,
    topic,
    uuid,
)
from wire import messages as m
from wire import records as r
from wire.codec import decode, encode
from wire.errors import ErrorCode
from wire.releases import broker_ranges

PREFERRED, UNCLEAN = 0, 1
OFFLINE = uuid(9999)
BROKERS = (broker(0), broker(1), broker(2), broker(3, fenced=True))
PARTITIONS: dict[int, dict[str, Any]] = {
    0: {},
    1: {"leader": 1},
    2: {"leader": 1, "isr": (1, 2)},
    3: {"replicas": (3, 1, 2), "isr": (3, 1), "leader": 1},
    4: {"isr": (3,), "replicas": (3, 0), "leader": -1},
    5: {"isr": (3,), "replicas": (3,), "leader": -1},
    6: {"isr": (3, 1), "replicas": (3, 1), "leader": -1},
    7: {"leader": 1, "directories": (OFFLINE, uuid(5001), uuid(5002))},
    8: {"leader": 1, "adding_replicas": (2,), "removing_replicas": (1,)},
}
"""Led by the preferred replica; by another; preferred out of sync; preferred fenced; leaderless
with a live replica out of sync; leaderless for good; leaderless with a live ISR member; preferred
in a folder that is offline; in the middle of a reassignment that could end."""
IMAGE = image_of(
    *BROKERS,
    topic("t", 1),
    *(partition(1, index, **fields) for index, fields in PARTITIONS.items()),
    topic("calm", 2),
    partition(2),
)


def request(*wanted: tuple[str, tuple[int, ...]], kind: int = PREFERRED) -> m.ElectLeadersRequest:
    group = m.ElectLeadersRequest.TopicPartitions
    return m.ElectLeadersRequest(
        election_type=kind,
        topic_partitions=[group(topic=name, partitions=indexes) for name, indexes in wanted],
    )


def made(result: Result[Any]) -> list[r.PartitionChangeRecord]:
    """Its records, all of them changes of partitions."""
    changes = [one for one in result.records if isinstance(one, r.PartitionChangeRecord)]
    assert len(changes) == len(result.records)
    return changes


def answers(response: m.ElectLeadersResponse) -> dict[str, dict[int, int]]:
    return {
        one.topic: {each.partition_id: int(each.error_code) for each in one.partition_result}
        for one in response.replica_election_results
    }


OUTCOMES = [
    # partition, preferred: error and leader; unclean: error and leader
    (0, ErrorCode.ELECTION_NOT_NEEDED, None, ErrorCode.ELECTION_NOT_NEEDED, None),
    (1, ErrorCode.NONE, 0, ErrorCode.ELECTION_NOT_NEEDED, None),
    (2, ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE, None, ErrorCode.ELECTION_NOT_NEEDED, None),
    (3, ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE, None, ErrorCode.ELECTION_NOT_NEEDED, None),
    (4, ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE, None, ErrorCode.NONE, 0),
    (
        5,
        ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE,
        None,
        ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE,
        None,
    ),
    (6, ErrorCode.NONE, 1, ErrorCode.NONE, 1),
    (7, ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE, None, ErrorCode.ELECTION_NOT_NEEDED, None),
    (8, ErrorCode.NONE, 0, ErrorCode.ELECTION_NOT_NEEDED, None),
    (99, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, None, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, None),
    (-1, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, None, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, None),
]


@pytest.mark.parametrize(
    ("index", "kind", "error", "leader"),
    [(row[0], kind, row[1 + 2 * kind], row[2 + 2 * kind]) for row in OUTCOMES for kind in (0, 1)],
)
def test_outcomes(index: int, kind: int, error: ErrorCode, leader: int | None) -> None:
    result = handle(IMAGE, request(("t", (index,)), kind=kind))
    ((answer,),) = [one.partition_result for one in result.response.replica_election_results]
    assert (answer.partition_id, answer.error_code) == (index, error)
    assert (answer.error_message is None) == (error is ErrorCode.NONE)
    assert [one.leader for one in made(result)] == ([] if leader is None else [leader])
    assert result.response.error_code == 0


@pytest.mark.parametrize("allowed", ["true", "false"])
def test_only_the_caller_decides_whether_an_election_is_unclean(allowed: str) -> None:
    """A preferred one is not, whatever the topic allows; an unclean one is, whatever it forbids."""
    properties = {"unclean.leader.election.enable": allowed}
    clean = handle(IMAGE, request(("t", (4,))), properties=properties)
    assert clean.records == ()
    unclean = handle(IMAGE, request(("t", (4,)), kind=UNCLEAN), properties=properties)
    (record,) = made(unclean)
    assert (record.leader, record.isr, record.leader_recovery_state) == (0, (0,), RECOVERING)


@pytest.mark.requirement("K06")
def test_what_cannot_be_elected_is_told_beside_what_was() -> None:
    result = handle(IMAGE, request(("no", (0,)), ("t", (1, 0, 99, 6))))
    assert answers(result.response) == {"no": {0: 3}, "t": {1: 0, 0: 84, 99: 3, 6: 0}}
    assert [one.partition_id for one in made(result)] == [1, 6]


@pytest.mark.requirement("K05", "K07")
def test_no_list_means_every_partition_and_leaves_out_what_needs_none() -> None:
    """KIP-183 "Public Interfaces": null is all; what was tried is listed, also where it failed."""
    result = handle(IMAGE, m.ElectLeadersRequest(topic_partitions=None))
    assert answers(result.response) == {
        "t": {1: 0, 2: 80, 3: 80, 4: 80, 5: 80, 6: 0, 7: 80, 8: 0},
        "calm": {},
    }
    assert [one.partition_id for one in made(result)] == [1, 6, 8]


def test_an_empty_list_asks_for_nothing() -> None:
    result = handle(IMAGE, request())
    assert result.response == m.ElectLeadersResponse()
    assert result.records == ()


@pytest.mark.requirement("K11")
def test_a_partition_named_twice_is_elected_and_answered_once() -> None:
    """KIP-183 "Network Protocol": a duplicate is no error. Kafka would write two records."""
    result = handle(IMAGE, request(("t", (1, 1, 0)), ("calm", (0,)), ("t", (1,))))
    (first, second) = result.response.replica_election_results
    assert [(one.partition_id, one.error_code) for one in first.partition_result] == [
        (1, 0),
        (0, 84),
    ]
    assert second.topic == "calm"
    assert len(result.records) == 1


@pytest.mark.parametrize("kind", [-1, 2, 127])
def test_an_unknown_kind_of_election_refuses_everything(kind: int) -> None:
    result = handle(IMAGE, request(("t", (1, 2)), kind=kind))
    assert result.response.error_code == ErrorCode.INVALID_REQUEST
    assert answers(result.response) == {"t": {1: 42, 2: 42}}
    assert result.records == ()


def test_more_than_a_batch_holds_is_refused() -> None:
    many = (partition(1, index, leader=1) for index in range(10_001))
    image = image_of(*BROKERS, topic("t", 1), *many)
    result = handle(image, m.ElectLeadersRequest(topic_partitions=None))
    assert result.response.error_code == ErrorCode.POLICY_VIOLATION
    assert result.records == ()
    fewer = handle(image, request(("t", tuple(range(10_000)))))
    assert len(fewer.records) == 10_000
    assert not fewer.atomic


def test_an_error_for_everything_has_no_place_of_its_own_in_version_0() -> None:
    """KIP-460: the top-level error came with version 1."""
    refusal = m.ElectLeadersResponse(error_code=41)
    assert encode(refusal, 0) == bytes(8)
    for version in (1, 2):
        assert decode(m.ElectLeadersResponse, version, encode(refusal, version)) == refusal


# --- through the controller


def cluster(**fields: Any) -> World:
    """Three brokers; ``moved`` is led by broker 1 although 0 is preferred."""
    world = World(auto_leader_rebalance_enable=False, **fields).join(0, 1, 2)
    assignment = m.CreateTopicsRequest.CreatableReplicaAssignment(broker_ids=(0, 1, 2))
    answer = world.ask(create("moved", -1, -1, assignments=[assignment]))
    assert answer.topics[0].error_code == 0
    moved = world.tip.topic("moved")
    world.controller.append(
        [r.PartitionChangeRecord(partition_id=0, topic_id=moved.id, leader=1)], world.now_ms
    )
    world.commit()
    return world


def leader(world: World) -> int:
    topic_ = world.controller.stable.topic("moved")
    return topic_.partitions[0].leader


@pytest.mark.requirement("K15")
def test_the_answer_comes_when_the_new_leader_is_committed() -> None:
    world = cluster()
    assert world.send(request(("moved", (0,)))) == []
    assert leader(world) == 1
    world.commit()
    (answer,) = world.answers()
    assert answers(answer) == {"moved": {0: 0}}
    assert leader(world) == 0


@pytest.mark.requirement("K08", "K17")
def test_after_the_timeout_of_the_request_the_answer_is_that_it_timed_out() -> None:
    """KIP-183 "Broker-side": answered when done, or when the time is over."""
    world = cluster()
    asked = request(("moved", (0,)))
    asked.timeout_ms = 1_500
    assert world.send(asked) == []
    assert world.later(1_499) == []
    (answer,) = world.later(1)
    assert answer.error_code == ErrorCode.REQUEST_TIMED_OUT
    assert answers(answer) == {"moved": {0: 7}}
    world.commit()
    assert world.answers() == []
    assert leader(world) == 0, "a timeout says nothing about the election"


@pytest.mark.requirement("K16")
def test_of_two_at_once_the_second_finds_nothing_to_do_and_both_are_answered_together() -> None:
    """KIP-183 "Broker-side": elections are serialised."""
    world = cluster()
    assert world.send(request(("moved", (0,))), ticket="first") == []
    assert world.send(request(("moved", (0,))), ticket="second") == [], "waits for the first"
    world.commit()
    first, second = world.answers()
    assert answers(first) == {"moved": {0: 0}}
    assert answers(second) == {"moved": {0: 84}}
    changes = [
        record
        for record, _ in world.records_since(0)
        if isinstance(record, r.PartitionChangeRecord)
    ]
    assert [one.leader for one in changes] == [1, 0]


@pytest.mark.requirement("K12")
def test_a_controller_that_is_not_active_sends_callers_to_the_one_that_is() -> None:
    world = cluster()
    world.controller.resign(world.now_ms, leader_id=3001)
    (answer,) = world.send(request(("moved", (0,))))
    assert answer.error_code == ErrorCode.NOT_CONTROLLER
    assert answers(answer) == {"moved": {0: 41}}
    ((told,),) = [one.partition_result for one in answer.replica_election_results]
    assert "3001" in told.error_message


# --- on the wire

ASKED = elect("t", 0, 1, timeout_ms=3_000)
REQUESTS = {
    0: "00000001 0001 74 00000002 00000000 00000001 00000bb8",
    1: "00 00000001 0001 74 00000002 00000000 00000001 00000bb8",
    2: "00 02 02 74 03 00000000 00000001 00 00000bb8 00",
}
EVERYTHING = {
    0: "ffffffff 00000bb8",
    1: "01 ffffffff 00000bb8",
    2: "01 00 00000bb8 00",
}


@pytest.mark.requirement("K09")
@pytest.mark.parametrize("version", [0, 1, 2])
def test_a_request_on_the_wire(version: int) -> None:
    """Topics with partitions and a timeout; from version 1 on the kind of election before them."""
    assert encode(ASKED, version) == bytes.fromhex(REQUESTS[version])
    assert decode(m.ElectLeadersRequest, version, bytes.fromhex(REQUESTS[version])) == ASKED
    everything = decode(m.ElectLeadersRequest, version, bytes.fromhex(EVERYTHING[version]))
    assert everything.topic_partitions is None
    assert everything.election_type == (UNCLEAN if version else PREFERRED)


RESPONSES = {
    0: "00000000 00000001 0001 74 00000002 00000000 0000 ffff 00000001 0050 0002 6e6f",
    1: "00000000 0000 00000001 0001 74 00000002 00000000 0000 ffff 00000001 0050 0002 6e6f",
    2: "00000000 0000 02 02 74 03 00000000 0000 00 00 00000001 0050 03 6e6f 00 00 00",
}


@pytest.mark.requirement("K13")
@pytest.mark.parametrize("version", [0, 1, 2])
def test_a_response_on_the_wire(version: int) -> None:
    """A throttle time, and for each partition a code and a text."""
    kinds = m.ElectLeadersResponse
    told = kinds.ReplicaElectionResult(
        topic="t",
        partition_result=[
            kinds.PartitionResult(partition_id=0, error_message=None),
            kinds.PartitionResult(partition_id=1, error_code=80, error_message="no"),
        ],
    )
    response = kinds(replica_election_results=[told])
    assert encode(response, version) == bytes.fromhex(RESPONSES[version])
    assert decode(kinds, version, bytes.fromhex(RESPONSES[version])) == response


@pytest.mark.requirement("K21")
@pytest.mark.parametrize("release", ["3.4", "3.5", "3.6", "3.7", "3.8", "3.9"])
def test_every_release_lists_the_range_its_brokers_list(release: str) -> None:
    assert advertised(release)[43] == broker_ranges(release)[43] == (0, 2)
