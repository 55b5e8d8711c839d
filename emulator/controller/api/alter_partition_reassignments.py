"""AlterPartitionReassignments (45): move replicas to other brokers, or cancel that. KIP-455.

Kafka: ReplicationControlManager.alterPartitionReassignments (3.9).

Per partition, in order: UNKNOWN_TOPIC_OR_PARTITION; without replicas (null: cancel)
NO_REASSIGNMENT_IN_PROGRESS, and INVALID_REPLICA_ASSIGNMENT if the cancel would need an unclean
election that the topic forbids; with replicas INVALID_REPLICA_ASSIGNMENT for an empty list, unknown
brokers and duplicates, POLICY_VIOLATION if the topic would not fit into its znode (``storable``).
Target brokers may be fenced. Needs ALTER on the cluster.

A reassignment whose replicas are all in sync completes at once. For one that replaces another, see
``reassignment``.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from emulator.controller.context import Context
from emulator.controller.registry import handles
from emulator.controller.result import ApiError, Record, Result, Texts
from emulator.controller.rules import reassignment
from emulator.controller.rules.broker_changes import partition_change
from emulator.controller.rules.storable import Room
from emulator.controller.rules.topics import replica_list_error
from emulator.controller.tables.config_defs import unclean_election_allowed
from emulator.metadata.acls import Operation
from emulator.metadata.image import Image
from emulator.metadata.leader_election import Election
from emulator.metadata.topics import Partition, Topic, changed_partition
from emulator.seam import ENTRIES_PER_SLICE, Slices
from wire import messages as m
from wire import records as r
from wire.errors import ErrorCode

Response = m.AlterPartitionReassignmentsResponse
TopicAnswer = Response.ReassignableTopicResponse
Answer = Response.ReassignablePartitionResponse
Wanted = m.AlterPartitionReassignmentsRequest.ReassignablePartition


@dataclass(slots=True)
class Changed:
    """State after the earlier parts of the same request: partitions, and room in ZooKeeper."""

    room: Room
    partitions: dict[tuple[bytes, int], Partition] = field(default_factory=dict)


def refused(
    request: m.AlterPartitionReassignmentsRequest, code: ErrorCode, message: str | None
) -> Response:
    """The response with the error, for the request and for every partition."""
    texts = Texts()
    return Response(
        error_code=code,
        error_message=message,
        responses=[
            TopicAnswer(
                name=topic.name,
                partitions=[
                    Answer(
                        partition_index=one.partition_index,
                        error_code=code,
                        error_message=texts.take(message),
                    )
                    for one in topic.partitions
                ],
            )
            for topic in request.topics
        ],
    )


@handles(m.AlterPartitionReassignmentsRequest, refused=refused, needs=Operation.ALTER)
def alter_partition_reassignments(
    image: Image, request: m.AlterPartitionReassignmentsRequest, ctx: Context
) -> Slices[Result[Response]]:
    """Check each partition separately; all changes are one batch."""
    records: list[Record] = []
    changed = Changed(Room(image, ctx))
    response = Response(error_message=None)
    texts = Texts()
    count = 0
    for topic in request.topics:
        answers = []
        for wanted in topic.partitions:
            count += 1
            if count % ENTRIES_PER_SLICE == 0:
                yield
            found = _alter(image, ctx, topic.name, wanted, changed)
            answer = Answer(partition_index=wanted.partition_index, error_message=None)
            if isinstance(found, ApiError):
                answer.error_code, answer.error_message = found.code, texts.take(found.message)
            elif found is not None:
                records.append(found)
            answers.append(answer)
        response.responses.append(TopicAnswer(name=topic.name, partitions=answers))
    return Result(response, tuple(records))


def _alter(
    image: Image, ctx: Context, name: str, wanted: Wanted, changed: Changed
) -> r.PartitionChangeRecord | ApiError | None:
    topic = image.topic(name)
    if topic is None:
        text = f"Unable to find a topic named {name}."
        return ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, text)
    key = (topic.id, wanted.partition_index)
    partition = changed.partitions.get(key) or topic.partitions.get(wanted.partition_index)
    if partition is None:
        text = f"Unable to find partition {name}:{wanted.partition_index}."
        return ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, text)
    if wanted.replicas is None:
        found = _cancel(image, ctx, topic, wanted.partition_index, partition)
    else:
        found = _begin(image, ctx, topic, wanted, partition)
    if isinstance(found, r.PartitionChangeRecord):
        why = changed.room.take([found])
        if why is not None:
            return ApiError(ErrorCode.POLICY_VIOLATION, why)
        changed.partitions[key] = changed_partition(partition, found)
    return found


def _begin(
    image: Image, ctx: Context, topic: Topic, wanted: Wanted, partition: Partition
) -> r.PartitionChangeRecord | ApiError | None:
    target = tuple(wanted.replicas or ())
    error = replica_list_error(image.brokers, target)
    if error is not None:
        return error
    begun = reassignment.begin(partition, target)
    change = partition_change(image, ctx.config, (topic.id, wanted.partition_index))
    change.partition = partition
    change.unclean_allowed = lambda: False
    change.target_replicas = begun.replicas
    change.target_adding = begun.adding
    change.target_removing = begun.removing
    return change.build()


def _cancel(
    image: Image, ctx: Context, topic: Topic, index: int, partition: Partition
) -> r.PartitionChangeRecord | ApiError | None:
    if not reassignment.in_progress(partition):
        # Without a text: ApiError.fromThrowable leaves out the default text of the code.
        return ApiError(ErrorCode.NO_REASSIGNMENT_IN_PROGRESS)
    try:
        reverted = reassignment.revert(partition)
    except ValueError as error:
        text = f"Invalid replica assignment: {error}"
        return ApiError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, text)
    unclean_allowed = unclean_election_allowed(image, ctx.config, topic.name)
    if reverted.unclean and not unclean_allowed:
        return ApiError(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            f"Unable to revert partition assignment for {topic.name}:{index} because it would "
            "require an unclean leader election.",
        )
    change = partition_change(image, ctx.config, (topic.id, index))
    change.partition = partition
    if unclean_allowed:
        change.election = Election.UNCLEAN
    change.target_isr = reverted.isr
    change.target_replicas = reverted.replicas
    change.target_adding = change.target_removing = ()
    return change.build()
