"""ListPartitionReassignments (46): the reassignments in progress. KIP-455.

Kafka: ReplicationControlManager.listPartitionReassignments (3.9).

Unknown partitions and those without a reassignment are left out; they are no error. Null means all.
Needs DESCRIBE on the cluster. Shows what is committed, on a standby too.
"""

from __future__ import annotations

from collections.abc import Iterable

from emulator.controller import reassignment
from emulator.controller.context import Context
from emulator.controller.registry import handles
from emulator.controller.result import Result
from emulator.metadata.acls import Operation
from emulator.metadata.image import Image
from emulator.metadata.topics import Topic
from wire import messages as m
from wire.errors import ErrorCode

Response = m.ListPartitionReassignmentsResponse
TopicAnswer = Response.OngoingTopicReassignment
Answer = Response.OngoingPartitionReassignment


def refused(
    request: m.ListPartitionReassignmentsRequest, code: ErrorCode, message: str | None
) -> Response:
    """The response with one error; it lists the requested partitions without their replicas."""
    return Response(
        error_code=code,
        error_message=message,
        topics=[
            TopicAnswer(
                name=topic.name,
                partitions=[Answer(partition_index=index) for index in topic.partition_indexes],
            )
            for topic in request.topics or ()
        ],
    )


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
    wanted: Iterable[tuple[Topic | None, Iterable[int]]]
    if request.topics is None:
        wanted = ((topic, topic.partitions) for topic in image.topics.values())
    else:
        wanted = ((image.topic(one.name), one.partition_indexes) for one in request.topics)
    response = Response(error_message=None)
    for topic, indexes in wanted:
        moving = [] if topic is None else _moving(topic, indexes)
        if topic is not None and moving:
            response.topics.append(TopicAnswer(name=topic.name, partitions=moving))
    return Result(response)


def _moving(topic: Topic, indexes: Iterable[int]) -> list[Answer]:
    return [
        Answer(
            partition_index=index,
            replicas=partition.replicas,
            adding_replicas=partition.adding_replicas,
            removing_replicas=partition.removing_replicas,
        )
        for index in indexes
        if (partition := topic.partitions.get(index)) is not None
        and reassignment.in_progress(partition)
    ]
