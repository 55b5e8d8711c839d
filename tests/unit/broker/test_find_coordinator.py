"""FindCoordinator: whose partition it is, and what happens before there is one."""

from __future__ import annotations

from typing import Any

import pytest

from emulator.broker import registry
from emulator.broker.api.find_coordinator import GROUP, SHARE, TRANSACTION, partition_for
from emulator.broker.registry import Answer
from emulator.metadata.acls import Operation, Permission, ResourceType
from tests.unit.broker.asking import ACLS, ask, refused
from tests.unit.controller.world import broker, image_of, partition, topic, uuid
from wire import messages as m
from wire import records as r
from wire.errors import ErrorCode

FIND_COORDINATOR = 10
BROKERS = (broker(1), broker(2), broker(3, fenced=True))
LED = image_of(
    *BROKERS,
    topic("__consumer_offsets", 1),
    *(partition(1, index, replicas=(1 + index % 3,)) for index in range(50)),
)


def batch(*keys: str, kind: int = GROUP) -> m.FindCoordinatorRequest:
    return m.FindCoordinatorRequest(key_type=kind, coordinator_keys=keys)


def found(answer: Any) -> list[tuple[str, int, int]]:
    assert isinstance(answer, Answer)
    return [(one.key, one.error_code, one.node_id) for one in answer.response.coordinators]


@pytest.mark.parametrize(
    ("key", "hashed"),
    # From Java: "…".hashCode().
    [("", 0), ("a", 97), ("my-group", -1_906_497_762), ("polygenelubricants", -(2**31))],
)
def test_the_partition_is_java_s_hash_of_the_key(key: str, hashed: int):
    for partitions in (1, 7, 50):
        expected = (0 if hashed == -(2**31) else abs(hashed)) % partitions
        assert partition_for(key, partitions) == expected


def test_surrogates_are_two_units():
    # 55357 * 31 + 56832, of the pair that writes U+1F600.
    assert partition_for("\U0001f600", 10**9) == 55_357 * 31 + 56_832


@pytest.mark.parametrize("length", [1, 31, 1_023, 1_024, 1_025, 2_500])
def test_a_long_key_is_hashed_as_java_does(length: int):
    key = "".join(chr(97 + number * number % 2_000) for number in range(length))
    hashed = 0
    for char in key:
        hashed = (31 * hashed + ord(char)) % 2**32
    signed = hashed - 2**32 if hashed >= 2**31 else hashed
    assert partition_for(key, 10**9 + 7) == abs(signed) % (10**9 + 7)


def test_the_leader_of_the_partition_is_the_coordinator():
    leaders = {key: 1 + partition_for(key, 50) % 3 for key in ("a", "b", "c")}
    assert set(leaders.values()) == {1, 2, 3}
    answers = found(ask(LED, batch("a", "b", "c")))
    unavailable = ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert answers == [
        (key, unavailable, -1) if leader == 3 else (key, 0, leader)
        for key, leader in leaders.items()
    ]


@pytest.mark.parametrize("version", [0, 1, 3])
def test_old_versions_ask_for_one(version: int):
    response = ask(LED, m.FindCoordinatorRequest(key="b"), version).response
    expected = 1 + partition_for("b", 50) % 3
    assert (response.error_code, response.node_id) == (0, expected)
    assert (response.host, response.port) == ("127.0.0.1", 29_090 + expected)


@pytest.mark.parametrize(
    ("kind", "name", "partitions", "factor"),
    [(GROUP, "__consumer_offsets", 12, 2), (TRANSACTION, "__transaction_state", 50, 3)],
)
def test_the_internal_topic_is_created_by_the_controller(
    kind: int, name: str, partitions: int, factor: int
):
    properties = {
        "offsets.topic.num.partitions": "12",
        "offsets.topic.replication.factor": "2",
    }
    answer = ask(image_of(*BROKERS), batch("a", "b", kind=kind), properties=properties)
    assert found(answer) == [(key, ErrorCode.COORDINATOR_NOT_AVAILABLE, -1) for key in ("a", "b")]
    (wanted,) = answer.create
    assert answer.as_broker
    assert (wanted.name, wanted.num_partitions, wanted.replication_factor) == (
        name,
        partitions,
        factor,
    )
    assert {one.name: one.value for one in wanted.configs}["cleanup.policy"] == "compact"


def test_an_existing_topic_is_not_created_again():
    assert ask(LED, batch("a", "b", "c")).create == ()


@pytest.mark.parametrize("kind", [3, 9, -1])
def test_an_unknown_type_is_an_invalid_request(kind: int):
    answer = ask(LED, batch("a", kind=kind))
    assert found(answer) == [("a", ErrorCode.INVALID_REQUEST, -1)]
    assert "malformed by the client library" in answer.response.coordinators[0].error_message
    assert answer.create == ()


def test_share_groups_have_no_coordinator():
    for version, code in ((6, ErrorCode.COORDINATOR_NOT_AVAILABLE), (5, ErrorCode.INVALID_REQUEST)):
        answer = ask(LED, batch("a", kind=SHARE), version)
        assert found(answer) == [("a", code, -1)]
        assert answer.create == ()


def allow(kind: ResourceType, name: str, operation: Operation) -> r.AccessControlEntryRecord:
    return r.AccessControlEntryRecord(
        id=uuid(700),
        resource_type=kind,
        resource_name=name,
        pattern_type=3,
        principal="User:ANONYMOUS",
        host="*",
        operation=operation,
        permission_type=Permission.ALLOW,
    )


def test_who_may_not_describe_the_group_learns_nothing():
    image = image_of(*BROKERS, allow(ResourceType.GROUP, "mine", Operation.READ))
    answer = ask(image, batch("mine", "other"), properties=ACLS)
    assert found(answer) == [
        ("mine", ErrorCode.COORDINATOR_NOT_AVAILABLE, -1),
        ("other", ErrorCode.GROUP_AUTHORIZATION_FAILED, -1),
    ]
    answer = ask(image, batch("mine", kind=TRANSACTION), properties=ACLS)
    assert found(answer) == [("mine", ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, -1)]
    assert answer.create == ()
    answer = ask(image, batch("mine", kind=SHARE), properties=ACLS)
    assert found(answer) == [("mine", ErrorCode.CLUSTER_AUTHORIZATION_FAILED, -1)]
    everything = ask(image, batch("any"), properties=ACLS, principal="User:admin")
    assert found(everything) == [("any", ErrorCode.COORDINATOR_NOT_AVAILABLE, -1)]


@pytest.mark.parametrize("version", range(7))
def test_a_refusal_fits_every_version(version: int):
    request = batch("a") if version >= 4 else m.FindCoordinatorRequest(key="a")
    response = refused(request, version, ErrorCode.INVALID_REQUEST)
    codes = [one.error_code for one in response.coordinators] or [response.error_code]
    assert codes == [ErrorCode.INVALID_REQUEST]


@pytest.mark.parametrize(
    ("count", "parts"), [(0, []), (1, []), (500, []), (501, [500, 1]), (1_200, [500, 500, 200])]
)
def test_only_requests_with_more_than_500_keys_are_divided(count: int, parts: list[int]):
    keys = tuple(f"g{number}" for number in range(count))
    request = m.FindCoordinatorRequest(key_type=1, coordinator_keys=keys)
    served = registry.served()[FIND_COORDINATOR]
    assert served.division is not None
    pieces = [*(served.division.pieces(request, 4) or ())]
    assert [len(one.coordinator_keys) for one in pieces] == parts
    assert tuple(key for one in pieces for key in one.coordinator_keys) == (keys if parts else ())
    assert {one.key_type for one in pieces} <= {1}
    assert served.division.pieces(request, 3) is None, "which has one key, and no list"
