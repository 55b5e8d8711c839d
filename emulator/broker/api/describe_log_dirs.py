"""DescribeLogDirs (35): the folders of this broker and the replicas in them. KIP-113, KIP-827 (v4).

Kafka: KafkaApis.handleDescribeLogDirsRequest, ReplicaManager.describeLogDirs (3.9).

CLUSTER_AUTHORIZATION_FAILED without DESCRIBE on the cluster: in the response from v3 on, below it
there are no folders. Without topics every replica is listed. As no records are stored, all sizes
and lags are 0; every replica is in the first folder. The size of the volume is not told (-1).
"""

from __future__ import annotations

from emulator.broker.cluster import KnownCluster
from emulator.broker.reading import reading
from emulator.broker.registry import Asked, serves
from emulator.metadata.acls import Operation
from wire import messages as m
from wire.errors import ErrorCode

Response = m.DescribeLogDirsResponse
Folder = m.DescribeLogDirsResponse.DescribeLogDirsResult
Topic = m.DescribeLogDirsResponse.DescribeLogDirsTopic


def refused(
    _request: m.DescribeLogDirsRequest, code: ErrorCode, _text: str | None
) -> m.DescribeLogDirsResponse:
    """The response with the error."""
    return Response(error_code=code)


@serves(m.DescribeLogDirsRequest, refused=refused)
def describe_log_dirs(
    cluster: KnownCluster, request: m.DescribeLogDirsRequest, asked: Asked
) -> m.DescribeLogDirsResponse:
    """List the replicas of this broker by folder."""
    if not reading(cluster, request, asked).may_on_cluster(Operation.DESCRIBE):
        return refused(request, ErrorCode.CLUSTER_AUTHORIZATION_FAILED, None)
    wanted: dict[str, set[int]] | None = None
    if request.topics is not None:
        wanted = {}
        for topic in request.topics:
            wanted.setdefault(topic.topic, set()).update(topic.partitions)
    first, *others = asked.config.log_dirs
    return Response(
        results=[
            Folder(log_dir=first, topics=_replicas(cluster, wanted, asked.config.node_id)),
            *(Folder(log_dir=folder) for folder in others),
        ]
    )


def _replicas(
    cluster: KnownCluster, wanted: dict[str, set[int]] | None, broker_id: int
) -> list[Topic]:
    found = []
    named = cluster.topics() if wanted is None else map(cluster.topic, wanted)
    for topic in named:
        if topic is None:
            continue
        indexes = [
            index
            for index, partition in topic.partitions.items()
            if broker_id in partition.replicas and (wanted is None or index in wanted[topic.name])
        ]
        if indexes:
            kind = Response.DescribeLogDirsPartition
            partitions = [kind(partition_index=index) for index in indexes]
            found.append(Topic(name=topic.name, partitions=partitions))
    return found
