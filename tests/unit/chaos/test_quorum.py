"""Who leads, as a controller answers; an error is an answer too."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from bench.chaos.quorum import described
from tests.unit.load.fake_broker import FakeBroker
from wire import messages as m
from wire.errors import ErrorCode

pytestmark = pytest.mark.asyncio

KINDS = m.DescribeQuorumResponse
LEADER = KINDS.PartitionData(leader_id=3000, leader_epoch=7, high_watermark=9)
OTHER = KINDS.PartitionData(error_code=ErrorCode.NOT_LEADER_OR_FOLLOWER, leader_id=3001)


@pytest.mark.parametrize(
    ("partitions", "leader"),
    [([LEADER], 3000), ([OTHER], None), ([], None)],
    ids=["leads", "does not", "an error of the whole"],
)
async def test_the_answer_of_a_controller(partitions: list[Any], leader: int | None) -> None:
    async def answer(_request: Any) -> Any:
        topics = [KINDS.TopicData(topic_name="__cluster_metadata", partitions=partitions)]
        return KINDS(topics=topics if partitions else [])

    async with FakeBroker(answer) as controller:
        found = await asyncio.to_thread(described, controller.port)
    assert (found and found.leader_id) == leader
