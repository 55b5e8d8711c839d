"""LeaderAndIsr, UpdateMetadata and StopReplica, with the checks of a Kafka broker.

Before anything is applied: the broker epoch that a request names may not be of an earlier life, and
its controller epoch not lower than the newest seen. LeaderAndIsr and StopReplica then answer for
every partition.

Source: KafkaApis.handle{LeaderAndIsr,UpdateMetadata,StopReplica}Request,
ReplicaManager.{becomeLeaderOrFollower,stopReplicas,maybeUpdateMetadataCache}, Kafka 3.9. A
controller of a release before 3.6 does not know type FULL; a broker of such a release ignores it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import repeat
from typing import Final

from emulator.broker.isr import Key
from emulator.broker.kraft.replicas import HostedReplicas
from emulator.broker.zookeeper.metadata_cache import DURING_DELETE, ZkMetadataCache
from emulator.broker.zookeeper.shared_control import SharedControl
from emulator.metadata.topics import Partition
from emulator.net.control import TYPE_FULL, ControlRequest, ControlResponse
from wire import messages as m
from wire.errors import ErrorCode
from wire.schema import ZERO_UUID

# The two epochs of a migrating broker: of its znode, and of its registration with the quorum.
#
# A ZooKeeper controller knows the first, a KRaft controller the second; each controller gets and
# compares its own one. Source: ZkBrokerEpochManager, Kafka 3.9.

UNKNOWN: Final = -1
"""A sender that does not know the broker's epoch: nothing is compared."""


@dataclass(frozen=True, slots=True)
class BrokerEpochs:
    """Where both epochs are read; -1 before there is one.

    ``registration`` is None where the migration is off: such a broker has no second epoch.
    """

    znode: Callable[[], int]
    registration: Callable[[], int] | None = None

    def to_name(self, *, kraft: bool) -> int:
        """The epoch to name in requests to the controller known now."""
        if kraft and self.registration is not None:
            return self.registration()
        return self.znode()

    def stale(self, named: int, *, kraft: bool) -> bool:
        """Whether a control request means an earlier life of this broker.

        A higher epoch than ours is not stale: the controller may know it before we do.

        Raises:
            ValueError: a KRaft controller sent it, and the migration is off.
        """
        if named == UNKNOWN:
            return False
        if not kraft:
            return named < self.znode()
        if self.registration is None:
            raise ValueError("a KRaft controller sent this, and the migration is off")
        return named < self.registration()


NO_EPOCH: Final = -1
"""Instead of a leader epoch, where there is none: in StopReplica before version 3, and of a replica
that is not hosted here. Below any leader epoch, so any is newer."""
LeaderState = m.LeaderAndIsrRequest.LeaderAndIsrPartitionState
StopState = m.StopReplicaRequest.StopReplicaPartitionState


@dataclass(frozen=True, slots=True, eq=False)
class LeaderAndIsrContent:
    """The content of a LeaderAndIsr without its epochs: topic ids, and the partitions of each.

    ``all_hosted``: the answer of a broker that took everything; it must not be changed.
    """

    topics: tuple[tuple[bytes, tuple[tuple[Key, Partition], ...]], ...]
    all_hosted: m.LeaderAndIsrResponse


def leader_and_isr_content(request: m.LeaderAndIsrRequest) -> LeaderAndIsrContent:
    """Read a request; brokers that get the same one may share the result."""
    return LeaderAndIsrContent(
        tuple(
            (
                topic.topic_id,
                tuple(
                    ((topic.topic_name, p.partition_index), _partition(p))
                    for p in topic.partition_states
                ),
            )
            for topic in request.topic_states
        ),
        _answer(request, repeat(ErrorCode.NONE)),
    )


class ControlRequests:
    """See the module's docstring.

    Args:
        broker_id: this broker.
        cache: what UpdateMetadata changes.
        replicas: what LeaderAndIsr and StopReplica change.
        epochs: of this broker.
        full_replaces: whether type FULL is understood.
        shared: the requests to other brokers of the process, and the objects made of them.
    """

    def __init__(
        self,
        broker_id: int,
        cache: ZkMetadataCache,
        replicas: HostedReplicas,
        epochs: BrokerEpochs,
        *,
        full_replaces: bool,
        shared: SharedControl | None = None,
    ) -> None:
        self.controller_epoch = 0
        self._shared = shared
        self._broker_id = broker_id
        self._cache = cache
        self._replicas = replicas
        self._epochs = epochs
        self._full_replaces = full_replaces

    def take(self, request: ControlRequest, now_ms: int) -> ControlResponse:
        """Check a request, apply it, and return the response."""
        code = self._refusal(request)
        if code:
            return refused(request, code, None)
        self.controller_epoch = request.controller_epoch
        match request:
            case m.LeaderAndIsrRequest():
                return self._leader_and_isr(request, now_ms)
            case m.UpdateMetadataRequest():
                return self._update_metadata(request, now_ms)
            case m.StopReplicaRequest():
                return self._stop_replica(request)

    def _refusal(self, request: ControlRequest) -> ErrorCode:
        try:
            if self._epochs.stale(request.broker_epoch, kraft=request.is_kraft_controller):
                return ErrorCode.STALE_BROKER_EPOCH
        except ValueError:
            return ErrorCode.UNKNOWN_SERVER_ERROR
        if request.controller_epoch < self.controller_epoch:
            return ErrorCode.STALE_CONTROLLER_EPOCH
        return ErrorCode.NONE

    # ---------------------------------------------------------------- UpdateMetadata
    def _update_metadata(
        self, request: m.UpdateMetadataRequest, now_ms: int
    ) -> m.UpdateMetadataResponse:
        before = self._cache.live
        self._cache.update(request, full=request.type == TYPE_FULL)
        live = self._cache.live
        # Every request names all live brokers: only those that came or went are of interest.
        changed = sorted(before.keys() ^ live.keys())
        self._replicas.take_members(lambda one: NO_EPOCH if one in live else None, changed, now_ms)
        return m.UpdateMetadataResponse()

    # ---------------------------------------------------------------- LeaderAndIsr
    def _leader_and_isr(
        self, request: m.LeaderAndIsrRequest, now_ms: int
    ) -> m.LeaderAndIsrResponse:
        if request.type == TYPE_FULL and request.is_kraft_controller and self._full_replaces:
            self._drop_strays(request)
        shared, kraft = self._shared, request.is_kraft_controller
        content = (
            leader_and_isr_content(request)
            if shared is None
            else shared.made_of(request, leader_and_isr_content)
        )
        codes = [
            self._host(topic_id, key, partition, kraft, now_ms)
            for topic_id, states in content.topics
            for key, partition in states
        ]
        return _answer(request, codes) if any(codes) else content.all_hosted

    def _drop_strays(self, request: m.LeaderAndIsrRequest) -> None:
        """Stop hosting what a complete list leaves out, or names with another topic id."""
        named = {
            (topic.topic_name, p.partition_index): topic.topic_id
            for topic in request.topic_states
            for p in topic.partition_states
        }
        for hosted in [*self._replicas]:
            if named.get(hosted.key) != hosted.topic_id:
                self._replicas.drop(hosted.key)

    def _host(
        self,
        topic_id: bytes,
        key: Key,
        partition: Partition,
        kraft: bool,  # of the request
        now_ms: int,
    ) -> ErrorCode:
        known = self._replicas.get(key)
        if known is not None and topic_id != known.topic_id:
            if ZERO_UUID not in {topic_id, known.topic_id}:
                return ErrorCode.INCONSISTENT_TOPIC_ID
            # A controller that has no ids, or that has learnt them: not another topic.
            topic_id = known.topic_id if topic_id == ZERO_UUID else topic_id
        epoch = NO_EPOCH if known is None else known.partition.leader_epoch
        named_anew = known is not None and known.topic_id != topic_id
        equal_counts = kraft or named_anew
        if partition.leader_epoch < epoch or (partition.leader_epoch == epoch and not equal_counts):
            return ErrorCode.STALE_CONTROLLER_EPOCH
        if self._broker_id not in partition.replicas:
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        self._replicas.assign(key, topic_id, partition, now_ms)
        return ErrorCode.NONE

    # ---------------------------------------------------------------- StopReplica
    def _stop_replica(self, request: m.StopReplicaRequest) -> m.StopReplicaResponse:
        kind = m.StopReplicaResponse.StopReplicaPartitionError
        answers = [
            kind(topic_name=name, partition_index=p.partition_index, error_code=self._stop(name, p))
            for name, p in _stopped(request)
        ]
        return m.StopReplicaResponse(partition_errors=answers)

    def _stop(self, name: str, p: StopState) -> ErrorCode:
        key: Key = (name, p.partition_index)
        known = self._replicas.get(key)
        unchecked = p.leader_epoch in {NO_EPOCH, DURING_DELETE}
        if known is None or unchecked or p.leader_epoch >= known.partition.leader_epoch:
            self._replicas.drop(key)
            return ErrorCode.NONE
        return ErrorCode.FENCED_LEADER_EPOCH


def refused(request: ControlRequest, code: ErrorCode, _text: str | None) -> ControlResponse:
    """The response with one error; LeaderAndIsr also names it for every partition."""
    match request:
        case m.UpdateMetadataRequest():
            return m.UpdateMetadataResponse(error_code=code)
        case m.StopReplicaRequest():
            return m.StopReplicaResponse(error_code=code)
        case m.LeaderAndIsrRequest():
            return _answer(request, repeat(code), code)


def _answer(
    request: m.LeaderAndIsrRequest, codes: Iterable[int], code: int = ErrorCode.NONE
) -> m.LeaderAndIsrResponse:
    """``codes``: of all partitions, in the order of the request; ``code``: of the request."""
    kind, left = m.LeaderAndIsrResponse, iter(codes)
    return kind(
        error_code=code,
        topics=[
            kind.LeaderAndIsrTopicError(
                topic_id=topic.topic_id,
                partition_errors=[
                    kind.LeaderAndIsrPartitionError(
                        topic_name=topic.topic_name,
                        partition_index=p.partition_index,
                        error_code=next(left),
                    )
                    for p in topic.partition_states
                ],
            )
            for topic in request.topic_states
        ],
    )


def _stopped(request: m.StopReplicaRequest) -> Iterator[tuple[str, StopState]]:
    for topic in request.topic_states:
        for p in topic.partition_states:
            yield topic.topic_name, p


def _partition(p: LeaderState) -> Partition:
    return Partition(
        replicas=tuple(p.replicas),
        isr=tuple(p.isr),
        leader=p.leader,
        leader_epoch=p.leader_epoch,
        partition_epoch=p.partition_epoch,
        adding_replicas=tuple(p.adding_replicas),
        removing_replicas=tuple(p.removing_replicas),
        leader_recovery_state=p.leader_recovery_state,
    )
