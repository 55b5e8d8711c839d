"""What is dear in few entries: lists of all there is, and texts that are told for each entry.

``make cost`` asks every API in this way, on clusters of 100,000 of each entity. Here are those that
were dear once, on small ones: what a step takes is counted in lines of Python.
"""

from __future__ import annotations

from functools import cache
from typing import Any, Final

import pytest
from msgspec.structs import replace

from emulator.broker.api import describe_delegation_token
from emulator.broker.registry import entries_max
from emulator.controller.tables import acl_index
from emulator.metadata.delegation_tokens import DelegationToken
from emulator.metadata.pmap import PMap
from emulator.seam import RECORDS_PER_SLICE
from tests.unit.cost.cluster import Cost, OurBroker
from wire import messages as m
from wire.frame import RequestHeader, decode_response, encode_request
from wire.schema import spec

FEW, MANY = 1_500, 9_000
"""Of each entity in a cluster: more than a slice."""
STEP_LINES: Final = 400_000
"""20 ms."""
LONGER: Final = 16
"""Bytes of an answer for each of its request."""
POOR: Final = "User:u7"
"""May do next to nothing, and not on the cluster."""


@cache
def broker(count: int) -> OurBroker:
    return OurBroker(count)


def frame(message: Any, version: int) -> bytes:
    key = spec(type(message)).key
    assert key is not None
    return encode_request(RequestHeader(key, version, 7, "me"), message)


LISTS = [
    (m.MetadataRequest(topics=[]), 0),
    (m.MetadataRequest(topics=None), 12),
    (m.DescribeLogDirsRequest(topics=None), 4),
    (m.DescribeTopicPartitionsRequest(topics=[], response_partition_limit=2_000, cursor=None), 0),
    (m.DescribeUserScramCredentialsRequest(users=None), 0),
    (m.DescribeClientQuotasRequest(components=[], strict=False), 1),
    (m.ListClientMetricsResourcesRequest(), 0),
    (m.InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=1_000), 4),
]


def asked_anew(count: int, data: bytes, caller: str) -> Cost:
    """As the first request that needs what ACLs are found by: it is made in its steps."""
    for order in acl_index._ORDERED.values():
        order.__init__(order._places)  # type: ignore[misc]
    return broker(count).ask(data, principal=caller)


@pytest.mark.parametrize("caller", ["User:admin", POOR])
@pytest.mark.parametrize(("message", "version"), LISTS)
def test_no_step_is_longer_in_a_larger_cluster(message: Any, version: int, caller: str) -> None:
    few, many = (asked_anew(n, frame(message, version), caller) for n in (FEW, MANY))
    # ACLs are found by a binary search; a list of all takes four lines for each.
    more = MANY - FEW + few.longest / 4
    assert many.longest - few.longest < more, (few.longest, many.longest)


def test_who_may_write_to_any_topic_is_found_once() -> None:
    message = m.InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=1_000)
    asked = OurBroker(FEW)
    first, again = (asked.ask(frame(message, 4), principal=POOR) for _ in range(2))
    assert (len(first.steps) > 3, len(again.steps)) == (True, 1)
    assert again.lines < 1_000


def test_tokens_of_one_owner_are_told_in_slices(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(describe_delegation_token, "may_ask_for_tokens", lambda _: True)
    kind = m.DescribeDelegationTokenRequest
    owner = kind.DescribeDelegationTokenOwner(principal_type="User", principal_name="u7")
    asked = OurBroker(0)
    costs = []
    for count in (FEW, 30_000):
        tokens = {f"{n:06}": token(f"{n:06}") for n in range(count)}
        asked.machine.side.cluster.image = replace(asked.image, delegation_tokens=PMap(tokens))
        costs.append(asked.ask(frame(kind(owners=[owner]), 3), principal=POOR))
        answer = decode_response(41, 3, (costs[-1].answer or b"")[4:])[1]
        assert [one.token_id for one in answer.tokens] == [*tokens], "also those it may renew"
    few, many = costs
    assert many.longest < 1.25 * few.longest, (few.longest, many.longest)


def token(name: str) -> DelegationToken:
    renewers = ("User:u7", "User:u8")
    return DelegationToken(name, "User:u7", "User:u7", renewers, 0, 1 << 60, 1 << 60)


def test_partitions_that_are_not_there_are_left_out_in_slices() -> None:
    kind = m.DescribeLogDirsRequest
    few, many = (
        broker(FEW).ask(
            frame(kind(topics=[kind.DescribableLogDirTopic(topic="t1", partitions=some)]), 4),
            principal="User:admin",
        )
        for some in ((0,), (*range(MANY), *range(MANY)))
    )
    assert few.answer == many.answer is not None
    assert (len(few.steps), len(many.steps) > 2 * MANY / RECORDS_PER_SLICE) == (1, True)


Named = m.MetadataRequest.MetadataRequestTopic


def metadata(count: int) -> Any:
    return m.MetadataRequest(topics=[Named(name=f"t{n}") for n in range(count)])


def metadata_by_name_and_id(count: int) -> Any:
    """Which version 10 does not have."""
    topics = metadata(count).topics
    return m.MetadataRequest(topics=[*topics, Named(name="a", topic_id=b"i" * 16)])


def configs(count: int) -> Any:
    kind = m.DescribeConfigsRequest.DescribeConfigsResource
    return m.DescribeConfigsRequest(
        resources=[kind(resource_type=2, resource_name=f"n{n % 50}") for n in range(count)]
    )


LONG = [
    (metadata, 12),
    (metadata_by_name_and_id, 10),
    (configs, 4),
]


@pytest.mark.parametrize(("message", "version"), LONG)
def test_the_longest_request_is_cut_before_it_is_answered(message: Any, version: int) -> None:
    asked = broker(FEW)
    key = spec(type(message(0))).key
    assert key is not None
    few, many = (asked.ask(frame(message(n), version)) for n in (3_000, 6_000))
    each = (many.longest - few.longest) / 3_000
    assert few.longest + each * entries_max({key: (0, 0)})[key] <= STEP_LINES, (few.longest, each)


Topic = m.ProduceRequest.TopicProduceData
Part = m.ProduceRequest.PartitionProduceData
TEXTS = [
    (
        m.DescribeProducersRequest(
            topics=[
                m.DescribeProducersRequest.TopicRequest(
                    name="t", partition_indexes=tuple(range(5_000))
                )
            ]
        ),
        0,
    ),
    (
        m.ProduceRequest(
            acks=1,
            topic_data=[
                Topic(name="t", partition_data=[Part(index=n, records=None) for n in range(5_000)])
            ],
        ),
        9,
    ),
    (m.FindCoordinatorRequest(key_type=9, coordinator_keys=("g",) * 5_000), 6),
]


@pytest.mark.parametrize(("message", "version"), TEXTS)
def test_no_text_is_told_for_each_entry(message: Any, version: int) -> None:
    cost = broker(FEW).ask(frame(message, version))
    assert len(cost.answer or b"") <= LONGER * cost.asked, (len(cost.answer or b""), cost.asked)
