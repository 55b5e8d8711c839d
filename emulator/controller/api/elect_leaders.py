"""ElectLeaders (43): move leadership now. KIP-183 (v0, preferred only), KIP-460 (v1, unclean too).

Kafka: ControllerApis.handleElectLeaders, ReplicationControlManager.electLeaders (3.9).

For the whole request, and then for each of its partitions too: INVALID_REQUEST for an unknown
election type; POLICY_VIOLATION for more than 10,000 changes, and for more than 200,000 partitions.
Of so many only the first of each topic is told an error. Per partition, in order:
UNKNOWN_TOPIC_OR_PARTITION; ELECTION_NOT_NEEDED if the preferred replica leads already (preferred)
or there is a leader (unclean); PREFERRED_LEADER_NOT_AVAILABLE or ELIGIBLE_LEADERS_NOT_AVAILABLE if
no replica can be elected. Needs ALTER on the cluster.

A null list means every partition. Those that need no election are left out of the response; their
topics stay in it with an empty list. As in Kafka, a preferred election of a partition without
leader whose preferred replica cannot lead elects another member of the ISR, and answers NONE. A
partition named twice is elected and answered once; Kafka writes two records, which raises its
leader epoch twice.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from emulator.controller.context import Context
from emulator.controller.queue.batches import BATCH_RECORDS_MAX, TOO_LARGE, TOO_MANY_PARTITIONS
from emulator.controller.queue.urgency import Urgency
from emulator.controller.registry import PARTITIONS_MAX, handles
from emulator.controller.result import ApiError, Record, Result, Texts
from emulator.controller.rules.broker_changes import partition_change
from emulator.metadata.acls import Operation
from emulator.metadata.image import Image
from emulator.metadata.leader_election import Election
from emulator.metadata.topics import NO_LEADER, Topic
from emulator.seam import ENTRIES_PER_SLICE, RECORDS_PER_SLICE, Pace, Slices
from wire import messages as m
from wire import records as r
from wire.errors import ErrorCode

Response = m.ElectLeadersResponse
TopicAnswer = Response.ReplicaElectionResult
Answer = Response.PartitionResult

ELECTIONS: Final = {0: Election.PREFERRED, 1: Election.UNCLEAN}
NOT_NEEDED: Final = ApiError(
    ErrorCode.ELECTION_NOT_NEEDED, "Leader election not needed for topic partition."
)
NOBODY: Final = {
    Election.PREFERRED: ApiError(
        ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE, "The preferred leader was not available."
    ),
    Election.UNCLEAN: ApiError(
        ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE,
        "Eligible topic partition leaders are not available.",
    ),
}


def refused(
    request: m.ElectLeadersRequest, code: ErrorCode, message: str | None
) -> Slices[Response]:
    """The response with the error, for the request (v1+) and for every partition.

    Of more than ``PARTITIONS_MAX`` only the first of each topic has it: any caller may name
    millions, and in v0 a response without partitions tells no error.
    """
    most = 1 if _too_many(request) else None
    response, texts = Response(error_code=code), Texts()
    pace = Pace(RECORDS_PER_SLICE)
    for topic in request.topic_partitions or ():
        answer = TopicAnswer(topic=topic.topic)
        response.replica_election_results.append(answer)
        for index in topic.partitions[:most]:
            if pace.over():
                yield
            answer.partition_result.append(
                Answer(partition_id=index, error_code=code, error_message=texts.take(message))
            )
    return response


@handles(m.ElectLeadersRequest, refused=refused, urgency=Urgency.VITAL, needs=Operation.ALTER)
def elect_leaders(
    image: Image, request: m.ElectLeadersRequest, ctx: Context
) -> Slices[Result[Response]]:
    """Elect for each partition separately; the response waits for the commit."""
    election = ELECTIONS.get(request.election_type)
    if election is None:
        text = f"Unknown election type {request.election_type}"
        return Result((yield from refused(request, ErrorCode.INVALID_REQUEST, text)))
    if _too_many(request):
        code = ErrorCode.POLICY_VIOLATION
        return Result((yield from refused(request, code, TOO_MANY_PARTITIONS)))
    everything = request.topic_partitions is None
    response = Response()
    records: list[Record] = []
    texts = Texts()
    count = 0
    for name, indexes in _wanted(image, request, ctx, election):
        topic, answers = image.topic(name), []
        for index in indexes:
            count += 1
            if count % ENTRIES_PER_SLICE == 0:
                yield
            found = _elect(image, ctx, (name, topic), index, election)
            if isinstance(found, r.PartitionChangeRecord):
                records.append(found)
                answers.append(Answer(partition_id=index, error_message=None))
            elif not everything or found.code != ErrorCode.ELECTION_NOT_NEEDED:
                told = texts.take(found.message)
                answers.append(
                    Answer(partition_id=index, error_code=found.code, error_message=told)
                )
            if len(records) > BATCH_RECORDS_MAX:
                code = ErrorCode.POLICY_VIOLATION
                return Result((yield from refused(request, code, TOO_LARGE)))
        response.replica_election_results.append(TopicAnswer(topic=name, partition_result=answers))
    return Result(response, tuple(records), atomic=False)


def _too_many(request: m.ElectLeadersRequest) -> bool:
    named = request.topic_partitions or ()
    return sum(len(topic.partitions) for topic in named) > PARTITIONS_MAX


def _wanted(
    image: Image, request: m.ElectLeadersRequest, ctx: Context, election: Election
) -> Iterable[tuple[str, Iterable[int]]]:
    """The requested topics and partitions, each once; of all, those that need an election."""
    if request.topic_partitions is None:
        index = ctx.index
        needy: dict[bytes, list[int]] = {}
        for topic_id, number in index.imbalanced if election is Election.PREFERRED else index.unled:
            needy.setdefault(topic_id, []).append(number)
        return [(one.name, sorted(needy.get(one.id, ()))) for one in image.topics.values()]
    wanted: dict[str, dict[int, None]] = {}
    for topic in request.topic_partitions:
        wanted.setdefault(topic.topic, {}).update(dict.fromkeys(topic.partitions))
    return wanted.items()


def _elect(
    image: Image, ctx: Context, found: tuple[str, Topic | None], index: int, election: Election
) -> r.PartitionChangeRecord | ApiError:
    name, topic = found
    if topic is None:
        return ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"No such topic as {name}")
    if index not in topic.partitions:
        text = f"No such partition as {name}-{index}"
        return ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, text)
    if _needless(topic, index, election):
        return NOT_NEEDED
    change = partition_change(image, ctx.config, (topic.id, index))
    change.election = election
    return change.build() or NOBODY[election]


def _needless(topic: Topic, index: int, election: Election) -> bool:
    partition = topic.partitions[index]
    if election is Election.PREFERRED:
        return partition.leader in partition.replicas[:1]
    return partition.leader != NO_LEADER
