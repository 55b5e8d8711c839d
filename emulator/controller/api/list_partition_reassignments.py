"""ListPartitionReassignments (46): the reassignments in progress. KIP-455.

Kafka: ReplicationControlManager.listPartitionReassignments (3.9).

POLICY_VIOLATION for more than 200,000 partitions. Unknown partitions and those without a
reassignment are left out; they are no error. Null means all. Needs DESCRIBE on the cluster. Shows
what is committed, on a standby too.
"""

from __future__ import annotations

from collections.abc import Iterable

from emulator.controller.context import Context
from emulator.controller.queue.batches import TOO_MANY_PARTITIONS
from emulator.controller.registry import PARTITIONS_MAX, handles
from emulator.controller.result import Result
from emulator.controller.rules import reassignment
from emulator.metadata.acls import Operation
from emulator.metadata.image import Image
from emulator.metadata.topics import Partition, Topic
from emulator.seam import RECORDS_PER_SLICE, Pace, Slices
from wire import messages as m
from wire.errors import ErrorCode

Response = m.ListPartitionReassignmentsResponse
TopicAnswer = Response.OngoingTopicReassignment
Answer = Response.OngoingPartitionReassignment


def refused(
    request: m.ListPartitionReassignmentsRequest, code: ErrorCode, message: str | None
) -> Slices[Response]:
    """The response with one error; it lists the requested partitions without their replicas.

    More than ``PARTITIONS_MAX`` are not listed: any caller may name millions.
    """
    response, pace = Response(error_code=code, error_message=message), Pace(RECORDS_PER_SLICE)
    for topic in () if _too_many(request) else request.topics or ():
        answer = TopicAnswer(name=topic.name)
        response.topics.append(answer)
        for index in topic.partition_indexes:
            if pace.over():
                yield
            answer.partitions.append(Answer(partition_index=index))
    return response


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
    image: Image, request: m.ListPartitionReassignmentsRequest, ctx: Context
) -> Slices[Result[Response]]:
    """List the reassignments of the requested partitions, or of all."""
    if _too_many(request):
        code = ErrorCode.POLICY_VIOLATION
        return Result((yield from refused(request, code, TOO_MANY_PARTITIONS)))
    wanted: Iterable[tuple[str, Topic | None, Iterable[int]]]
    if request.topics is None:
        moving = yield from ctx.moving.find(image.topics)
        wanted = ((topic.name, topic, topic.partitions) for topic in moving)
    else:
        asked = request.topics
        wanted = ((one.name, image.topic(one.name), one.partition_indexes) for one in asked)
    response, pace = Response(error_message=None), Pace(RECORDS_PER_SLICE)
    for name, topic, indexes in wanted:
        answers: list[Answer] = []
        if pace.over():
            yield
        for index in indexes:
            if pace.over():
                yield
            partition = None if topic is None else topic.partitions.get(index)
            if partition is not None and reassignment.in_progress(partition):
                answers.append(_answer(index, partition))
        if answers:
            response.topics.append(TopicAnswer(name=name, partitions=answers))
    return Result(response)


def _answer(index: int, partition: Partition) -> Answer:
    return Answer(
        partition_index=index,
        replicas=partition.replicas,
        adding_replicas=partition.adding_replicas,
        removing_replicas=partition.removing_replicas,
    )
