"""AssignReplicasToDirs (73): a KRaft-mode broker reports its replicas' log directories. KIP-858.

Kafka: ReplicationControlManager.handleAssignReplicasToDirs (3.9).

For the whole request, in order: UNSUPPORTED_VERSION below metadata.version 3.7-IV2;
STALE_BROKER_EPOCH. Per partition: UNKNOWN_TOPIC_ID; UNKNOWN_TOPIC_OR_PARTITION;
NOT_LEADER_OR_FOLLOWER if the broker has no replica. A replica in an offline directory leaves the
ISR. Needs CLUSTER_ACTION. Never forwarded.
"""

from __future__ import annotations

from emulator.controller.context import Context
from emulator.controller.registry import handles
from emulator.controller.result import Record, Result, one_error
from emulator.controller.rules.broker_changes import partition_change
from emulator.controller.rules.topics import is_online
from emulator.controller.tables.partition_set import PartitionKey
from emulator.metadata.acls import Operation
from emulator.metadata.image import Image
from emulator.metadata.metadata_version import Feature
from emulator.metadata.topics import Partition, changed_partition
from emulator.seam import Pace, Slices
from wire import messages as m
from wire.errors import ErrorCode

Request = m.AssignReplicasToDirsRequest
Response = m.AssignReplicasToDirsResponse
refused = one_error(Response)


@handles(Request, refused=refused, needs=Operation.CLUSTER_ACTION)
def assign_replicas_to_dirs(
    image: Image, request: Request, ctx: Context
) -> Slices[Result[Response]]:
    """Check each partition separately."""
    if not image.metadata_version.supports(Feature.DIRECTORIES):
        return Result(refused(request, ErrorCode.UNSUPPORTED_VERSION, None))
    broker = image.brokers.get(request.broker_id)
    if broker is None or broker.epoch != request.broker_epoch:
        return Result(refused(request, ErrorCode.STALE_BROKER_EPOCH, None))
    records: list[Record] = []
    changed: dict[PartitionKey, Partition] = {}
    response = Response()
    pace = Pace()
    for directory in request.directories:
        answer = Response.DirectoryData(id=directory.id)
        without = -1 if is_online(broker, directory.id) else broker.id
        for topic in directory.topics:
            topic_answer = Response.TopicData(topic_id=topic.topic_id)
            for asked in topic.partitions:
                if pace.over():
                    yield
                key = (topic.topic_id, asked.partition_index)
                code = _error(image, broker.id, key)
                if code is ErrorCode.NONE:
                    # The same partition twice in one request: the second sees the first.
                    partition = changed.get(key) or image.topics[key[0]].partitions[key[1]]
                    change = partition_change(image, ctx.config, key, without=without)
                    change.partition = partition
                    if without < 0:
                        # Recording a directory never causes an unclean election.
                        change.unclean_allowed = lambda: False
                    change.target_directories = {broker.id: directory.id}
                    change.target_isr = tuple(x for x in partition.isr if x != without)
                    record = change.build()
                    if record is not None:
                        changed[key] = changed_partition(partition, record)
                        records.append(record)
                topic_answer.partitions.append(
                    Response.PartitionData(partition_index=asked.partition_index, error_code=code)
                )
            answer.topics.append(topic_answer)
        response.directories.append(answer)
    return Result(response, tuple(records), atomic=False)


def _error(image: Image, broker_id: int, key: PartitionKey) -> ErrorCode:
    if key[0] not in image.topics:
        return ErrorCode.UNKNOWN_TOPIC_ID
    partition = image.partition(*key)
    if partition is None:
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    known = broker_id in partition.replicas
    return ErrorCode.NONE if known else ErrorCode.NOT_LEADER_OR_FOLLOWER
