"""Control requests as a controller sends them, and a broker's ends of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from emulator.broker.kraft.replicas import HostedReplicas
from emulator.broker.zookeeper.control_requests import BrokerEpochs, ControlRequests
from emulator.broker.zookeeper.metadata_cache import ZkMetadataCache
from wire import messages as m

ME = 1
ZNODE_EPOCH = 40
REGISTRATION_EPOCH = 90
T, U = b"T" * 16, b"U" * 16


class Told:
    """A broker's ends of control requests, and everything it learns by them."""

    def __init__(self, *, migrating: bool = True, full_replaces: bool = True) -> None:
        self.cache = ZkMetadataCache(full_replaces=full_replaces)
        self.replicas = HostedReplicas(ME)
        registration = (lambda: REGISTRATION_EPOCH) if migrating else None
        self.ends = ControlRequests(
            ME,
            self.cache,
            self.replicas,
            BrokerEpochs(lambda: ZNODE_EPOCH, registration),
            full_replaces=full_replaces,
        )

    def take(self, request: Any) -> Any:
        return self.ends.take(request, 0)


def live(broker_id: int, *names: str, rack: str | None = None) -> Any:
    kind = m.UpdateMetadataRequest
    return kind.UpdateMetadataBroker(
        id=broker_id,
        endpoints=[
            kind.UpdateMetadataEndpoint(port=9000 + broker_id, host=f"h{broker_id}", listener=name)
            for name in names or ("PLAINTEXT",)
        ],
        rack=rack,
    )


def update(
    *topics: tuple[str, bytes, dict[int, int]],
    brokers: Sequence[Any] = (),
    controller: int = 0,
    kraft: bool = False,
    epoch: int = 5,
    broker_epoch: int = -1,
    kind: int = 0,
) -> m.UpdateMetadataRequest:
    """``topics``: name, id, leader by partition number."""
    one = m.UpdateMetadataRequest
    return one(
        controller_id=controller,
        is_kraft_controller=kraft,
        controller_epoch=epoch,
        broker_epoch=broker_epoch,
        type=kind,
        topic_states=[
            one.UpdateMetadataTopicState(
                topic_name=name,
                topic_id=topic_id,
                partition_states=[
                    one.UpdateMetadataPartitionState(
                        partition_index=index,
                        leader=leader,
                        isr=(leader,),
                        replicas=(leader,),
                        leader_epoch=1,
                    )
                    for index, leader in leaders.items()
                ],
            )
            for name, topic_id, leaders in topics
        ],
        live_brokers=[*brokers],
    )


def lead(
    name: str = "t",
    topic_id: bytes = T,
    indexes: Sequence[int] = (0,),
    *,
    kraft: bool = False,
    epoch: int = 5,
    leader_epoch: int = 1,
    broker_epoch: int = -1,
    replicas: Sequence[int] = (ME, 2),
    kind: int = 0,
    partition_epoch: int = 0,
) -> m.LeaderAndIsrRequest:
    one = m.LeaderAndIsrRequest
    return one(
        is_kraft_controller=kraft,
        controller_epoch=epoch,
        broker_epoch=broker_epoch,
        type=kind,
        topic_states=[
            one.LeaderAndIsrTopicState(
                topic_name=name,
                topic_id=topic_id,
                partition_states=[
                    one.LeaderAndIsrPartitionState(
                        partition_index=index,
                        leader=replicas[0],
                        leader_epoch=leader_epoch,
                        isr=(*replicas,),
                        replicas=(*replicas,),
                        partition_epoch=partition_epoch,
                    )
                    for index in indexes
                ],
            )
        ],
    )


def stop(
    name: str = "t",
    index: int = 0,
    *,
    leader_epoch: int = 1,
    kraft: bool = False,
    epoch: int = 5,
    broker_epoch: int = -1,
) -> m.StopReplicaRequest:
    one = m.StopReplicaRequest
    state = one.StopReplicaPartitionState(
        partition_index=index, leader_epoch=leader_epoch, delete_partition=True
    )
    return one(
        is_kraft_controller=kraft,
        controller_epoch=epoch,
        broker_epoch=broker_epoch,
        topic_states=[one.StopReplicaTopicState(topic_name=name, partition_states=[state])],
    )


def codes(response: Any) -> list[int]:
    """Of the response and of every partition in it, in order."""
    if isinstance(response, m.LeaderAndIsrResponse):
        inside = [one.error_code for topic in response.topics for one in topic.partition_errors]
    else:
        inside = [one.error_code for one in getattr(response, "partition_errors", ())]
    return [response.error_code, *inside]
