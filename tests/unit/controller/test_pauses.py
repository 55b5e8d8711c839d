"""A request that names many things pauses after each 250 of them, and not before."""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Any

import pytest

from emulator.controller.api import delete_acls
from emulator.controller.registry import handlers
from emulator.controller.rules.authorizer import StandardAuthorizer
from emulator.seam import Pace
from tests.unit.controller.world import broker, context, header, image_of
from wire import messages as m

IMAGE = image_of(broker(0), broker(1))
SUPER = StandardAuthorizer(frozenset({"User:ANONYMOUS"}))


def reassignments(count: int) -> Any:
    one = m.AlterPartitionReassignmentsRequest
    partitions = [one.ReassignablePartition(partition_index=at) for at in range(count)]
    half = count // 2
    return one(
        topics=[
            one.ReassignableTopic(name="gone", partitions=partitions[:half]),
            one.ReassignableTopic(name="gone too", partitions=partitions[half:]),
        ]
    )


def elections(count: int) -> Any:
    one = m.ElectLeadersRequest
    return one(topic_partitions=[one.TopicPartitions(topic="gone", partitions=tuple(range(count)))])


def quotas(count: int) -> Any:
    one = m.AlterClientQuotasRequest
    return one(
        entries=[
            one.EntryData(entity=[one.EntityData(entity_type="user", entity_name=f"u{at}")], ops=[])
            for at in range(count)
        ]
    )


def acls(count: int) -> Any:
    one = m.CreateAclsRequest
    return one(creations=[one.AclCreation(resource_type=99) for _ in range(count)])


def filters(count: int) -> Any:
    one = m.DeleteAclsRequest
    return one(filters=[one.DeleteAclsFilter(resource_type_filter=99) for _ in range(count)])


def isr_changes(count: int) -> Any:
    one = m.AlterPartitionRequest
    partitions = [one.PartitionData(partition_index=at) for at in range(count)]
    topics = [one.TopicData(topic_id=b"g" * 16, partitions=partitions)]
    return one(broker_id=0, broker_epoch=IMAGE.brokers[0].epoch, topics=topics)


def names(count: int) -> Any:
    return m.DeleteTopicsRequest(topic_names=tuple(f"n{at}" for at in range(count)))


def ids(count: int) -> Any:
    one = m.DeleteTopicsRequest
    found = [
        one.DeleteTopicState(name=None, topic_id=bytes([9]) * 12 + at.to_bytes(4, "big"))
        for at in range(count)
    ]
    return one(topics=found)


@pytest.mark.parametrize(
    "request_of", [reassignments, elections, quotas, acls, filters, isr_changes, names, ids]
)
@pytest.mark.parametrize("count", [0, 1, 249, 250, 251, 499, 500])
def test_a_pause_after_each_250_entries(request_of: Callable[[int], Any], count: int) -> None:
    request = request_of(count)
    handler = handlers()[header(request).api_key]
    made = handler.function(IMAGE, request, context(IMAGE, request, authorizer=SUPER))
    assert isinstance(made, Generator)
    # Quotas are looked at three times: as they are named, in order, and when they are changed.
    looks = 3 if request_of is quotas else 1
    each = delete_acls.FILTERS_PER_SLICE if request_of is filters else 250
    # Topics to delete are first sorted out: names and ids are counted, and ids as they come too.
    counted = {names: (count,), ids: (*[1] * count, count)}.get(request_of, ())
    pace = Pace(250)
    first = sum(pace.over(some) for some in counted)
    assert len([*made]) == looks * (count // each) + first
