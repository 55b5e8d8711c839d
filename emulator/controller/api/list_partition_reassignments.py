"""ListPartitionReassignments (46): the reassignments in progress. KIP-455.

Kafka: ReplicationControlManager.listPartitionReassignments (3.9).

POLICY_VIOLATION for more than 200,000 partitions. Unknown partitions and those without a
reassignment are left out; they are no error. Null means all. Needs DESCRIBE on the cluster. Shows
what is committed, on a standby too.
"""

from __future__ import annotations

from collections.abc import Iterable

from emulator.controller import reassignment
from emulator.controller.batches import TOO_MANY_PARTITIONS
from emulator.controller.context import Context
from emulator.controller.registry import PARTITIONS_MAX, handles
from emulator.controller.result import Result
from emulator.metadata.acls import Operation
from emulator.metadata.image import Image
from emulator.metadata.topics import Partition, Topic
from wire import messages as m
from wire.errors import ErrorCode

Asked = m.ListPartitionReassignmentsRequest.ListPartitionReassignmentsTopics
Response = m.ListPartitionReassignmentsResponse
TopicAnswer = Response.OngoingTopicReassignment
Answer = Response.OngoingPartitionReassignment


def refused(
    request: m.ListPartitionReassignmentsRequest, code: ErrorCode, message: str | None
) -> Response:
    """The response with one error; it lists the requested partitions without their replicas.

    More than ``PARTITIONS_MAX`` are not listed: any caller may name millions.
    """
    return Response(
        error_code=code,
        error_message=message,
        topics=[
            TopicAnswer(
                name=topic.name,
                partitions=[Answer(partition_index=index) for index in topic.partition_indexes],
            )
            for topic in (() if _too_many(request) else request.topics or ())
        ],
    )


def _too_many(request: m.ListPartitionReassignmentsRequest) -> bool:
    return sum(len(one.partition_indexes) for one in request.topics or ()) > PARTITIONS_MAX


@handles(
    m.ListPartitionReassignmentsRequest,
    refused=refused,
    pre_migration=True,
    read=True,
    needs=Operation.DESCRIBE,
)
def list_partition_reassignments(
    image: Image, request: m.ListPartitionReassignmentsRequest, _ctx: Context
) -> Result[Response]:
    """List the reassignments of the requested partitions, or of all."""
    if _too_many(request):
        return Result(refused(request, ErrorCode.POLICY_VIOLATION, TOO_MANY_PARTITIONS))
    wanted: Iterable[tuple[str, Iterable[tuple[int, Partition | None]]]]
    if request.topics is None:
        wanted = ((topic.name, topic.partitions.items()) for topic in image.topics.values())
    else:
        wanted = ((one.name, _named(image.topic(one.name), one)) for one in request.topics)
    response = Response(error_message=None)
    for name, partitions in wanted:
        moving = _moving(partitions)
        if moving:
            response.topics.append(TopicAnswer(name=name, partitions=moving))
    return Result(response)


def _named(topic: Topic | None, asked: Asked) -> Iterable[tuple[int, Partition | None]]:
    if topic is None:
        return ()
    return ((index, topic.partitions.get(index)) for index in asked.partition_indexes)


def _moving(partitions: Iterable[tuple[int, Partition | None]]) -> list[Answer]:
    return [
        Answer(
            partition_index=index,
            replicas=partition.replicas,
            adding_replicas=partition.adding_replicas,
            removing_replicas=partition.removing_replicas,
        )
        for index, partition in partitions
        if partition is not None and reassignment.in_progress(partition)
    ]
