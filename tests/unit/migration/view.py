"""The metadata of a ZooKeeper-mode broker, from the control requests it received.

Follows what a real one does with them: an older controller and an older life of the broker are
refused, lower epochs of a partition are ignored, a FULL request replaces everything.

Source: KafkaApis.handle{LeaderAndIsr,UpdateMetadata,StopReplica}Request, ReplicaManager,
ZkMetadataCache, Kafka 3.9.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from emulator.metadata.image import Image
from emulator.net.control import TYPE_FULL, ControlRequest, ControlResponse
from wire import messages as m
from wire.errors import ErrorCode

DURING_DELETE = -2


@dataclass(frozen=True, slots=True)
class Known:
    """A partition as received in control requests."""

    topic_id: bytes
    leader: int
    leader_epoch: int
    isr: tuple[int, ...]
    partition_epoch: int
    replicas: tuple[int, ...]


@dataclass(slots=True)
class View:
    """All metadata received in one life of a broker, by topic name and partition."""

    broker_id: int
    controller_epoch: int = -1
    live: frozenset[int] = frozenset()
    partitions: dict[tuple[str, int], Known] = field(default_factory=dict)
    """The metadata for clients, from UpdateMetadata."""
    replicas: dict[tuple[str, int], Known] = field(default_factory=dict)
    """The replicas that this broker hosts, from LeaderAndIsr."""

    def refusal(self, request: ControlRequest, broker_epoch: int) -> ErrorCode:
        """The error for a request that is stale or for another life of this broker, or NONE."""
        if request.broker_epoch < broker_epoch:
            return ErrorCode.STALE_BROKER_EPOCH
        if request.controller_epoch < self.controller_epoch:
            return ErrorCode.STALE_CONTROLLER_EPOCH
        return ErrorCode.NONE

    def take(self, request: ControlRequest, broker_epoch: int) -> ControlResponse:
        """Check a request, apply it, and return the response."""
        refusal = self.refusal(request, broker_epoch)
        match request:
            case m.LeaderAndIsrRequest():
                if refusal:
                    return m.LeaderAndIsrResponse(error_code=refusal)
                return self.leader_and_isr(request)
            case m.UpdateMetadataRequest():
                if refusal:
                    return m.UpdateMetadataResponse(error_code=refusal)
                return self.update_metadata(request)
            case m.StopReplicaRequest():
                if refusal:
                    return m.StopReplicaResponse(error_code=refusal)
                return self.stop_replica(request)

    def leader_and_isr(self, request: m.LeaderAndIsrRequest) -> m.LeaderAndIsrResponse:
        """Host the listed replicas; a FULL request lists all, so the others are dropped first."""
        self.controller_epoch = request.controller_epoch
        errors = []
        if request.type == TYPE_FULL:
            named = {
                (topic.topic_name, p.partition_index): topic.topic_id
                for topic in request.topic_states
                for p in topic.partition_states
            }
            self.replicas = {
                key: known
                for key, known in self.replicas.items()
                if named.get(key) == known.topic_id
            }
        for topic in request.topic_states:
            failed = []
            for p in topic.partition_states:
                key = (topic.topic_name, p.partition_index)
                told = Known(
                    topic.topic_id,
                    p.leader,
                    p.leader_epoch,
                    tuple(p.isr),
                    p.partition_epoch,
                    tuple(p.replicas),
                )
                if not self._host(key, told):
                    failed.append(
                        m.LeaderAndIsrResponse.LeaderAndIsrPartitionError(
                            partition_index=p.partition_index,
                            error_code=ErrorCode.INCONSISTENT_TOPIC_ID,
                        )
                    )
            if failed:
                errors.append(
                    m.LeaderAndIsrResponse.LeaderAndIsrTopicError(
                        topic_id=topic.topic_id, partition_errors=failed
                    )
                )
        return m.LeaderAndIsrResponse(topics=errors)

    def _host(self, key: tuple[str, int], told: Known) -> bool:
        known = self.replicas.get(key)
        if known is not None and known.topic_id != told.topic_id:
            return False
        if known is None or (told.leader_epoch, told.partition_epoch) >= (
            known.leader_epoch,
            known.partition_epoch,
        ):
            self.replicas[key] = told
        return True

    def update_metadata(self, request: m.UpdateMetadataRequest) -> m.UpdateMetadataResponse:
        """Update partitions and live brokers; a FULL request lists all partitions."""
        self.controller_epoch = request.controller_epoch
        self.live = frozenset(broker.id for broker in request.live_brokers)
        if request.type == TYPE_FULL:
            self.partitions.clear()
        for topic in request.topic_states:
            for p in topic.partition_states:
                key = (topic.topic_name, p.partition_index)
                if p.leader == DURING_DELETE:
                    self.partitions.pop(key, None)
                    continue
                self.partitions[key] = Known(
                    topic.topic_id,
                    p.leader,
                    p.leader_epoch,
                    tuple(p.isr),
                    p.zk_version,
                    tuple(p.replicas),
                )
        return m.UpdateMetadataResponse()

    def stop_replica(self, request: m.StopReplicaRequest) -> m.StopReplicaResponse:
        """Stop hosting replicas, unless the leader epoch is stale."""
        self.controller_epoch = request.controller_epoch
        for topic in request.topic_states:
            for p in topic.partition_states:
                key = (topic.topic_name, p.partition_index)
                known = self.replicas.get(key)
                newer = known is None or p.leader_epoch >= known.leader_epoch
                if p.leader_epoch == DURING_DELETE or newer:
                    self.replicas.pop(key, None)
        return m.StopReplicaResponse()

    def differences(self, image: Image) -> list[str]:
        """Differences between this broker's metadata and an image."""
        wanted: dict[tuple[str, int], Known] = {}
        for topic in image.topics.values():
            for index, p in topic.partitions.items():
                wanted[topic.name, index] = Known(
                    topic.id, p.leader, p.leader_epoch, p.isr, p.partition_epoch, p.replicas
                )
        hosted = {key: one for key, one in wanted.items() if self.broker_id in one.replicas}
        found = [
            f"{what} {key}: believes {have.get(key)}, is {want.get(key)}"
            for what, have, want in (
                ("partition", self.partitions, wanted),
                ("replica", self.replicas, hosted),
            )
            for key in sorted({*have, *want})
            if have.get(key) != want.get(key)
        ]
        if self.live != frozenset(image.brokers):
            found.append(f"believes {sorted(self.live)} live, is {sorted(image.brokers)}")
        return found
