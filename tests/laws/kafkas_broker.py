"""What a broker of Kafka 3.9 in ZooKeeper mode does with control requests, rule by rule.

Beside the metadata it models what follows from the order of requests: whether a replica was made a
follower before it led again, the offsets that a group coordinator drops with a partition, and the
topics whose remote storage it deletes.

Source: KafkaApis.handle{LeaderAndIsr,UpdateMetadata,StopReplica}Request,
ReplicaManager.becomeLeaderOrFollower, makeFollowers and stopReplicas, LogManager.findStrayReplicas,
Partition.makeLeader and makeFollower, ZkMetadataCache.updateMetadata, Kafka 3.9.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from emulator.metadata.image import Image
from emulator.net.control import TYPE_FULL, ControlRequest
from wire import messages as m
from wire.errors import ErrorCode

DURING_DELETE = -2
Key = tuple[str, int]


@dataclass
class Replica:
    """A replica that the broker hosts."""

    topic_id: bytes | None = None
    """Of its log; None: there is none."""
    leader: int = -1
    leader_epoch: int = -1
    partition_epoch: int = 0
    others: tuple[Any, ...] = ()
    """Replicas, ISR and what a reassignment adds and removes."""
    followed: int = -1
    """The leader epoch in which it was made a follower last: it resigned as coordinator."""


@dataclass
class Broker:
    """See the module's docstring. ``keeps``: as up to 3.6.0, a FULL UpdateMetadata adds."""

    broker_id: int
    epoch: int
    keeps: bool = False
    controller_epoch: int = -1
    live: dict[int, Any] = field(default_factory=dict)
    topic_ids: dict[str, bytes] = field(default_factory=dict)
    shown: dict[str, dict[int, Any]] = field(default_factory=dict)
    offsets: dict[Key, bytes] = field(default_factory=dict)
    """Of groups: partition -> the topic for which they were committed first."""
    replicas: dict[Key, Replica] = field(default_factory=dict)
    remote_deleted: set[bytes] = field(default_factory=set)
    errors: list[ErrorCode] = field(default_factory=list)

    @property
    def state(self) -> tuple[Any, ...]:
        """Everything but the errors, and what was deleted in remote storage."""
        return (
            self.controller_epoch,
            self.live,
            self.topic_ids,
            self.shown,
            self.offsets,
            self.replicas,
        )

    def take(self, request: ControlRequest) -> ErrorCode:
        """Act on a request; the error that answers it."""
        error = ErrorCode.NONE
        if request.broker_epoch < self.epoch:
            error = ErrorCode.STALE_BROKER_EPOCH
        elif request.controller_epoch < self.controller_epoch:
            error = ErrorCode.STALE_CONTROLLER_EPOCH
        if error:
            self.errors.append(error)
            return error
        self.controller_epoch = request.controller_epoch
        match request:
            case m.LeaderAndIsrRequest():
                self._leader_and_isr(request)
            case m.UpdateMetadataRequest():
                self._update_metadata(request)
            case m.StopReplicaRequest():
                for topic in request.topic_states:
                    for state in topic.partition_states:
                        self._stop((topic.topic_name, state.partition_index), state)
        return ErrorCode.NONE

    def _leader_and_isr(self, request: m.LeaderAndIsrRequest) -> None:
        if request.type == TYPE_FULL:
            named = {
                (topic.topic_name, one.partition_index): topic.topic_id
                for topic in request.topic_states
                for one in topic.partition_states
            }
            for key, replica in [*self.replicas.items()]:
                if named.get(key) != replica.topic_id:
                    del self.replicas[key]
        for topic in request.topic_states:
            for state in topic.partition_states:
                self._lead((topic.topic_name, state.partition_index), topic.topic_id, state)

    def _lead(self, key: Key, topic_id: bytes, state: Any) -> None:
        replica = self.replicas.setdefault(key, Replica())
        if replica.topic_id not in (None, topic_id):
            self.errors.append(ErrorCode.INCONSISTENT_TOPIC_ID)
            return
        if state.leader_epoch < replica.leader_epoch or self.broker_id not in state.replicas:
            self.errors.append(ErrorCode.STALE_CONTROLLER_EPOCH)
            return
        leads = state.leader == self.broker_id
        if not leads and state.leader not in self.live:
            replica.topic_id = topic_id
            return
        if state.partition_epoch < replica.partition_epoch:
            return
        if not leads and state.leader_epoch > replica.leader_epoch:
            replica.followed = state.leader_epoch
        replica.topic_id = topic_id
        replica.leader, replica.leader_epoch = state.leader, state.leader_epoch
        replica.partition_epoch = state.partition_epoch
        replica.others = (
            state.replicas,
            state.isr if leads else (),
            state.adding_replicas,
            state.removing_replicas,
        )

    def _stop(self, key: Key, state: Any) -> None:
        replica = self.replicas.get(key)
        if replica is None:
            return
        if 0 <= state.leader_epoch < replica.leader_epoch:
            self.errors.append(ErrorCode.FENCED_LEADER_EPOCH)
            return
        # In epoch 0 nobody has led before, and what was not told to lead has stored nothing there.
        leads = replica.leader == self.broker_id and replica.leader_epoch > 0
        if leads and state.leader_epoch == DURING_DELETE and replica.topic_id is not None:
            self.remote_deleted.add(replica.topic_id)
        if state.delete_partition:
            del self.replicas[key]

    def _update_metadata(self, request: m.UpdateMetadataRequest) -> None:
        told = [
            (
                topic.topic_name,
                topic.topic_id,
                [(p.partition_index, p) for p in topic.partition_states],
            )
            for topic in request.topic_states
        ]
        if request.type == TYPE_FULL and not self.keeps:
            named = {topic.topic_id for topic in request.topic_states}
            told[:0] = [
                (name, topic_id, [(index, None) for index in self.shown.get(name, ())])
                for name, topic_id in self.topic_ids.items()
                if topic_id not in named
            ]
        self.live = {one.id: (one.endpoints, one.rack) for one in request.live_brokers}
        for name, topic_id, _ in told:
            if not any(topic_id):
                self.topic_ids.pop(name, None)
        self.topic_ids |= {name: topic_id for name, topic_id, _ in told if any(topic_id)}
        deleted: dict[Key, None] = {}
        for name, _topic_id, states in told:
            for index, state in states:
                if state is None or state.leader == DURING_DELETE:
                    self._hide(name, index)
                    deleted[name, index] = None
                else:
                    self.shown.setdefault(name, {})[index] = state
                    deleted.pop((name, index), None)
        for key in deleted:
            self.offsets.pop(key, None)
        for name, topic_id, states in told:
            for index, _ in states:
                if index in self.shown.get(name, ()):
                    self.offsets.setdefault((name, index), topic_id)

    def _hide(self, name: str, index: int) -> None:
        if name in self.shown:
            self.shown[name].pop(index, None)
            if not self.shown[name]:
                del self.shown[name]
                self.topic_ids.pop(name, None)

    def differences(self, image: Image) -> list[str]:
        """Where this broker differs from what ``image`` holds."""
        wanted = {
            (topic.name, index): (topic.id, p)
            for topic in image.topics.values()
            for index, p in topic.partitions.items()
        }
        shown = {
            (name, index): (self.topic_ids.get(name), one.leader, one.leader_epoch, one.zk_version)
            for name, states in self.shown.items()
            for index, one in states.items()
        }
        found = [
            f"shows {key}: {shown.get(key)}"
            for key in sorted({*shown, *wanted})
            if key not in wanted
            or shown.get(key)
            != (
                (one := wanted[key])[0],
                one[1].leader,
                one[1].leader_epoch,
                one[1].partition_epoch,
            )
        ]
        hosted = {key for key, (_, p) in wanted.items() if self.broker_id in p.replicas}
        found += [f"hosts {key}" for key in sorted(hosted ^ set(self.replicas))]
        for key in sorted(hosted & set(self.replicas)):
            topic_id, p = wanted[key]
            have = self.replicas[key]
            adopted = (have.leader, have.leader_epoch, have.partition_epoch)
            if have.topic_id != topic_id:
                found.append(f"hosts {key} of another topic")
            elif p.leader >= 0 and adopted != (p.leader, p.leader_epoch, p.partition_epoch):
                found.append(f"hosts {key}: {have}")
        return [*found, *([] if set(self.live) == set(image.brokers) else ["live brokers"])]
