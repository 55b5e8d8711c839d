"""AlterPartition (56): a leader asks for another ISR. KIP-497, KIP-704 (v1), KIP-841, KIP-903 (v3).

Kafka: ReplicationControlManager.alterPartition (3.9).

For the whole request STALE_BROKER_EPOCH. Per partition, in order: UNKNOWN_TOPIC_ID (v2+) or
UNKNOWN_TOPIC_OR_PARTITION; NOT_CONTROLLER if the leader's epoch is above ours; FENCED_LEADER_EPOCH;
INVALID_REQUEST if the broker does not lead the partition; INVALID_UPDATE_VERSION; INVALID_REQUEST
for a wrong ISR or recovery state; INELIGIBLE_REPLICA (v2+) or OPERATION_NOT_ATTEMPTED.
NEW_LEADER_ELECTED (v2+) or FENCED_LEADER_EPOCH although the record is written, if the change
completed a reassignment and moved the leader. Needs CLUSTER_ACTION. Never forwarded.
"""

from __future__ import annotations

from collections.abc import Collection

from emulator.controller.context import Context
from emulator.controller.queue.urgency import Urgency
from emulator.controller.registry import TOUCHED_MAX, handles
from emulator.controller.result import Record, Result, one_error
from emulator.controller.rules.broker_changes import migrating, partition_change
from emulator.controller.rules.topics import replica_online
from emulator.controller.tables.index import collision_key
from emulator.metadata.acls import Operation
from emulator.metadata.image import Image
from emulator.metadata.leader_election import keeps_leader_epoch
from emulator.metadata.topics import (
    NO_LEADER_CHANGE,
    RECOVERED,
    RECOVERING,
    Partition,
    Topic,
    changed_partition,
)
from emulator.seam import Pace, Slices
from wire import messages as m
from wire import records as r
from wire.errors import ErrorCode

Response = m.AlterPartitionResponse
Wanted = m.AlterPartitionRequest.PartitionData
Answer = m.AlterPartitionResponse.PartitionData
ANY_EPOCH = -1
TOPIC_IDS_SINCE = 2

refused = one_error(Response)


def touches(image: Image, request: m.AlterPartitionRequest) -> Collection[object] | None:
    """The partitions; of a topic or partition that is not there, the name of the topic."""
    many = len(request.topics) > TOUCHED_MAX
    if many or sum([len(asked.partitions) for asked in request.topics]) > TOUCHED_MAX:
        return None
    keys: list[object] = []
    for asked in request.topics:
        name = asked.topic_name
        topic = image.topic(name) if name else image.topics.get(asked.topic_id)
        if topic is None:
            if name:  # nobody creates one with an id that was given out before
                keys.append(collision_key(name))
            continue
        for wanted in asked.partitions:
            if wanted.partition_index in topic.partitions:
                keys.append((topic.id, wanted.partition_index))
            else:
                keys.append(collision_key(topic.name))
    return keys


@handles(
    m.AlterPartitionRequest,
    refused=refused,
    urgency=Urgency.URGENT,
    needs=Operation.CLUSTER_ACTION,
    touches=touches,
)
def alter_partition(
    image: Image, request: m.AlterPartitionRequest, ctx: Context
) -> Slices[Result[Response]]:
    """Check each partition separately; valid changes go into one batch."""
    broker = image.brokers.get(request.broker_id)
    if broker is None or broker.epoch != request.broker_epoch:
        return Result(refused(request, ErrorCode.STALE_BROKER_EPOCH, None))
    records: list[Record] = []
    changed: dict[tuple[bytes, int], Partition] = {}
    response = Response()
    pace = Pace()
    for asked in request.topics:
        by_id = ctx.api_version >= TOPIC_IDS_SINCE
        topic = image.topics.get(asked.topic_id) if by_id else image.topic(asked.topic_name)
        answers = []
        if not asked.partitions and pace.over():
            yield
        for wanted in asked.partitions:
            if pace.over():
                yield
            if topic is None:
                code = ErrorCode.UNKNOWN_TOPIC_ID if by_id else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
                answers.append(_error(wanted, code))
                continue
            key = (topic.id, wanted.partition_index)
            partition = changed.get(key) or topic.partitions.get(wanted.partition_index)
            if partition is None:
                answers.append(_error(wanted, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION))
                continue
            error = check(image, request.broker_id, partition, wanted, ctx.api_version)
            if error is not None:
                answers.append(_error(wanted, error))
                continue
            record = _change(image, ctx, topic, partition, wanted)
            after = partition
            if record is not None:
                # The same partition twice in one request: the second sees the first.
                after = changed[key] = changed_partition(partition, record)
                records.append(record)
            answers.append(_answer(request.broker_id, after, wanted, record, ctx.api_version))
        response.topics.append(
            m.AlterPartitionResponse.TopicData(
                topic_name=asked.topic_name, topic_id=asked.topic_id, partitions=answers
            )
        )
    return Result(response, tuple(records), atomic=False)


def _change(
    image: Image, ctx: Context, topic: Topic, partition: Partition, wanted: Wanted
) -> r.PartitionChangeRecord | None:
    isr = tuple([member.broker_id for member in wanted.new_isr_with_epochs])
    if _isr_alone(image, partition, wanted):
        if isr == partition.isr:
            return None
        shrinks = not set(partition.isr).issubset(isr)
        raised = shrinks and not keeps_leader_epoch(
            image.metadata_version, migrating=migrating(image, ctx.config)
        )
        return r.PartitionChangeRecord(
            partition_id=wanted.partition_index,
            topic_id=topic.id,
            isr=isr,
            leader=partition.leader if raised else NO_LEADER_CHANGE,
        )
    change = partition_change(image, ctx.config, (topic.id, wanted.partition_index))
    change.partition = partition
    change.target_isr = isr
    change.target_recovery_state = wanted.leader_recovery_state
    return change.build()


def _isr_alone(image: Image, partition: Partition, wanted: Wanted) -> bool:
    """Whether only the ISR can change: what was checked leaves the leader alive and in it."""
    return (
        wanted.leader_recovery_state == partition.leader_recovery_state
        and not partition.adding_replicas
        and not partition.removing_replicas
        and replica_online(image, partition, partition.leader)
    )


def _answer(
    broker_id: int,
    after: Partition,
    wanted: Wanted,
    record: r.PartitionChangeRecord | None,
    api_version: int,
) -> Answer:
    if record is not None and record.leader not in {NO_LEADER_CHANGE, broker_id}:
        code = (
            ErrorCode.NEW_LEADER_ELECTED
            if api_version >= TOPIC_IDS_SINCE
            else ErrorCode.FENCED_LEADER_EPOCH
        )
        return _error(wanted, code)
    return Answer(
        partition_index=wanted.partition_index,
        leader_id=after.leader,
        leader_epoch=after.leader_epoch,
        isr=after.isr,
        leader_recovery_state=after.leader_recovery_state,
        partition_epoch=after.partition_epoch,
    )


def check(
    image: Image, broker_id: int, partition: Partition, wanted: Wanted, api_version: int
) -> ErrorCode | None:
    """Why a requested ISR is refused, in Kafka's order of precedence; None if it is valid.

    Source: ReplicationControlManager.validateAlterPartitionData, Kafka 3.9.
    """
    if (
        wanted.leader_epoch > partition.leader_epoch
        or wanted.partition_epoch > partition.partition_epoch
    ):
        return ErrorCode.NOT_CONTROLLER
    if wanted.leader_epoch < partition.leader_epoch:
        return ErrorCode.FENCED_LEADER_EPOCH
    if broker_id != partition.leader:
        return ErrorCode.INVALID_REQUEST
    if wanted.partition_epoch < partition.partition_epoch:
        return ErrorCode.INVALID_UPDATE_VERSION
    if len(wanted.new_isr_with_epochs) > len(partition.replicas):
        return ErrorCode.INVALID_REQUEST  # as below; a request may name millions
    isr = [member.broker_id for member in wanted.new_isr_with_epochs]
    state = wanted.leader_recovery_state
    members = set(isr)
    if (
        len(members) != len(isr)
        or not members.issubset(partition.replicas)
        or partition.leader not in isr
        or state not in {RECOVERED, RECOVERING}
        or (state == RECOVERING and len(isr) > 1)
        or (partition.leader_recovery_state == RECOVERED and state == RECOVERING)
    ):
        return ErrorCode.INVALID_REQUEST
    for member in wanted.new_isr_with_epochs:
        if not _eligible(image, member):
            if api_version >= TOPIC_IDS_SINCE:
                return ErrorCode.INELIGIBLE_REPLICA
            return ErrorCode.OPERATION_NOT_ATTEMPTED
    return None


def _eligible(image: Image, member: m.AlterPartitionRequest.BrokerState) -> bool:
    """Whether a broker may join the ISR. ZooKeeper-mode brokers send -1 for every epoch."""
    broker = image.brokers.get(member.broker_id)
    return broker is not None and broker.active and member.broker_epoch in {ANY_EPOCH, broker.epoch}


def _error(wanted: Wanted, code: ErrorCode) -> Answer:
    return Answer(partition_index=wanted.partition_index, error_code=code)
