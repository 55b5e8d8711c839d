"""Requests that wait for a broker that is behind, merged into a few with the same effect.

What a broker does with requests decides what may be merged. Each state of a partition is replaced
by a newer one, and what is left is sent in this order:

1. UpdateMetadata with the partitions that were deleted, and the live brokers. Deletions go ahead
   of what was created since under the same name: a group coordinator drops the offsets of a
   partition only if the request that deletes it does not name it anew. Without deletions it is
   needed if the live brokers have changed: a broker follows only a leader in its live set.
2. StopReplica. Nothing that waited before for such a replica is sent; what came afterwards is a
   new replica, perhaps of a topic with another id. One exception goes ahead: the broker is the new
   leader of what is deleted, and only a leader deletes what is in remote storage.
3. LeaderAndIsr. A broker ignores a state without a leader, so the one before it is sent as well.
   A broker that leads again first gets the leader in between: it must resign, or its
   coordinators would not load what was written meanwhile. These rare states need a second
   request, or a third.
4. UpdateMetadata with the partitions that exist.

Not merged are FULL requests and questions; one waits as it is, between what was put before and
after it. Its body is shared by all brokers, and it need not be written anew for each. Nor is
what would mean something else: requests of another sender or life of the broker, a topic id that
changes without StopReplica, a live broker that is missing later, epochs that go back.

The cost of a request that is put is that of its entries; requests are built when they are sent.

Source: ReplicaManager.becomeLeaderOrFollower, stopReplicas and makeFollowers, Partition.makeLeader
and makeFollower, ZkMetadataCache.updateMetadata, KafkaApis.handleUpdateMetadataRequest, Kafka 3.9.
Kafka's controllers merge nothing.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Any, Final, NamedTuple, TypeVar

import msgspec

from emulator.net.control import (
    TYPE_FULL,
    TYPE_INCREMENTAL,
    ControlRequest,
    Question,
    Told,
)
from wire import messages as m

LEADER_DURING_DELETE: Final = -2
ENTRIES_MAX: Final = 200_000
"""Partitions and brokers that may wait for one broker: up to 20 MB of requests, and 70 MB of
memory. Replicas that were deleted meanwhile count too, so that the partitions of the cluster are
no bound."""
MERGED_MAX: Final = 5_000
"""Partitions in one request that is merged with others, in 10 ms; a longer one waits as it is."""

T = TypeVar("T")
_Key = tuple[str, int]
_LeaderState = m.LeaderAndIsrRequest.LeaderAndIsrPartitionState
_UpdateState = m.UpdateMetadataRequest.UpdateMetadataPartitionState


def mergeable(request: ControlRequest) -> bool:
    """Whether a request may be merged at all."""
    match request:
        case m.StopReplicaRequest():
            return all(p.delete_partition for t in request.topic_states for p in t.partition_states)
        case _:
            return request.type != TYPE_FULL


def _named(request: ControlRequest) -> int:
    return sum(len(topic.partition_states) for topic in request.topic_states)


class _Long(NamedTuple):
    """A request with too many partitions to be merged."""

    request: ControlRequest
    entries: int


class Later:
    """What waits for one broker until all that was put before has been answered."""

    def __init__(self, broker_id: int) -> None:
        self._broker_id = broker_id
        self._parts: deque[Told | Merged | _Long] = deque()

    def __bool__(self) -> bool:
        return bool(self._parts)

    @property
    def count(self) -> int:
        """Requests that were put; of what is merged, each counts."""
        return sum(one.count if isinstance(one, Merged) else 1 for one in self._parts)

    @property
    def entries(self) -> int:
        """Partitions and brokers that requests name which are merged, or too long to be."""
        return sum(one.entries for one in self._parts if isinstance(one, Merged | _Long))

    def put(self, request: Told) -> None:
        """Merge a request with those before it, if it may be."""
        last = self._parts[-1] if self._parts else None
        if isinstance(request, Question) or not mergeable(request):
            self._parts.append(request)
        elif (named := _named(request)) > MERGED_MAX:
            # It is encoded already, for all brokers; to merge 100,000 takes 0.2 s.
            self._parts.append(_Long(request, named))
        elif isinstance(last, Merged) and last.takes(request):
            last.add(request)
        else:
            self._parts.append(Merged(self._broker_id, request))

    def take(self) -> Sequence[Told]:
        """Take out what is to be sent next."""
        part = self._parts.popleft()
        if isinstance(part, Merged):
            return part.requests()
        return [part.request if isinstance(part, _Long) else part]

    def clear(self) -> None:
        """Drop everything."""
        self._parts.clear()


class Merged:
    """The content of several requests to one broker.

    Args:
        broker_id: the broker.
        first: the first of the requests; :func:`mergeable`.
    """

    def __init__(self, broker_id: int, first: ControlRequest) -> None:
        self.count = 0
        """How many requests are merged."""
        self._broker_id = broker_id
        self._sender = _sender(first)
        self._as_put: list[ControlRequest] | None = []
        """The requests themselves, while there is one of each kind at most."""
        self._deleted, self._updates = _Updates(), _Updates()
        self._stops: dict[_Key, m.StopReplicaRequest.StopReplicaPartitionState] = {}
        self._leaders: dict[_Key, tuple[bytes, tuple[_LeaderState, ...]]] = {}
        """Topic id, and the states to send one after the other."""
        self._led: dict[_Key, tuple[bytes, tuple[_LeaderState, ...]]] = {}
        """The same of those that are deleted, and that the broker has come to lead."""
        self._endpoints: dict[int, m.LeaderAndIsrRequest.LeaderAndIsrLiveLeader] = {}
        self._live: list[m.UpdateMetadataRequest.UpdateMetadataBroker] | None = None
        self._live_ids: AbstractSet[int] = frozenset()
        self._live_changed = False
        self.add(first)

    @property
    def entries(self) -> int:
        """How many partitions and brokers are named."""
        partitions = (self._deleted.states, self._updates.states, self._stops, self._leaders)
        return sum(map(len, (*partitions, self._led, self._live or ())))

    def takes(self, request: ControlRequest) -> bool:
        """Whether the broker ends in the same state if this one is merged, too."""
        if _sender(request) != self._sender:
            return False
        match request:
            case m.UpdateMetadataRequest():
                same = request.live_brokers is self._live
                return same or self._live_ids <= {one.id for one in request.live_brokers}
            case m.StopReplicaRequest():
                return all(
                    self._may_stop((topic.topic_name, p.partition_index), p.leader_epoch)
                    for topic in request.topic_states
                    for p in topic.partition_states
                )
            case m.LeaderAndIsrRequest():
                return all(
                    self._may_lead((topic.topic_name, p.partition_index), topic.topic_id, p)
                    for topic in request.topic_states
                    for p in topic.partition_states
                )

    def add(self, request: ControlRequest) -> None:
        """Merge one more; :meth:`takes` it."""
        self.count += 1
        if self._as_put is not None:
            if any(type(one) is type(request) for one in self._as_put):
                self._as_put = None
            else:
                self._as_put.append(request)
        match request:
            case m.UpdateMetadataRequest():
                self._update(request)
            case m.StopReplicaRequest():
                for topic in request.topic_states:
                    for state in topic.partition_states:
                        self._stop((topic.topic_name, state.partition_index), state)
            case m.LeaderAndIsrRequest():
                self._lead(request)

    def _update(self, request: m.UpdateMetadataRequest) -> None:
        live = request.live_brokers
        if live is not self._live:
            # A change of brokers comes without partitions; such a request may be the first with it.
            named = bool(request.topic_states)
            self._live_changed |= not named or self._live not in (None, live)
            self._live, self._live_ids = live, {one.id for one in live}
        for topic in request.topic_states:
            for state in topic.partition_states:
                key = (topic.topic_name, state.partition_index)
                gone = state.leader == LEADER_DURING_DELETE
                if gone:
                    self._updates.states.pop(key, None)
                updates = self._deleted if gone else self._updates
                updates.states[key] = state
                updates.topic_ids[topic.topic_name] = topic.topic_id

    def _may_stop(self, key: _Key, leader_epoch: int) -> bool:
        _, queued = self._leaders.get(key, _NONE)
        if not queued:
            return True
        if leader_epoch < 0:
            return key not in self._stops or not self._has_come_to_lead(queued)
        return leader_epoch >= queued[-1].leader_epoch

    def _may_lead(self, key: _Key, topic_id: bytes, state: _LeaderState) -> bool:
        known_id, queued = self._leaders.get(key, _NONE)
        if not queued:
            return True
        before = queued[-1]
        return (
            topic_id == known_id
            and state.leader_epoch >= before.leader_epoch
            and state.partition_epoch >= before.partition_epoch
        )

    def _has_come_to_lead(self, queued: tuple[_LeaderState, ...]) -> bool:
        """Whether the broker is the leader of a partition that others may have led before."""
        return any(self._rank(one) == 1 and one.leader_epoch > 0 for one in queued)

    def _stop(self, key: _Key, state: m.StopReplicaRequest.StopReplicaPartitionState) -> None:
        waiting = self._leaders.pop(key, _NONE)
        if state.leader_epoch < 0 and self._has_come_to_lead(waiting[1]):
            self._led[key] = waiting
        before = self._stops.get(key)
        # A negative epoch stops whatever the broker knows; else the greatest decides.
        if before is None or (
            before.leader_epoch >= 0
            and (state.leader_epoch < 0 or state.leader_epoch > before.leader_epoch)
        ):
            self._stops[key] = state

    def _lead(self, request: m.LeaderAndIsrRequest) -> None:
        self._endpoints.update((one.broker_id, one) for one in request.live_leaders)
        for topic in request.topic_states:
            for state in topic.partition_states:
                key = (topic.topic_name, state.partition_index)
                rank = self._rank(state)
                _, queued = self._leaders.get(key, _NONE)
                needed = tuple(one for one in queued if self._rank(one) < rank)
                self._leaders[key] = (topic.topic_id, (*needed, state))

    def _rank(self, state: _LeaderState) -> int:
        """A state replaces those before it whose rank is its own or higher."""
        if state.leader < 0:
            return 2
        return 1 if state.leader == self._broker_id else 0

    def requests(self) -> list[ControlRequest]:
        """What to send, in this order; of a kind that came once alone, as it was put."""
        if self._as_put is not None:
            return self._as_put
        requests: list[ControlRequest] = []
        first = bool(self._deleted.states)
        first |= self._live_changed and bool(self._leaders or self._led)
        if first:
            requests.append(self._update_metadata(self._deleted))
        requests += self._leader_and_isrs(self._led)
        if self._stops:
            requests.append(self._stop_replica())
        requests += self._leader_and_isrs(self._leaders)
        if self._updates.states or (self._live is not None and not first):
            requests.append(self._update_metadata(self._updates))
        return requests

    def _update_metadata(self, named: _Updates) -> m.UpdateMetadataRequest:
        kind = m.UpdateMetadataRequest

        def topic(name: str) -> m.UpdateMetadataRequest.UpdateMetadataTopicState:
            return kind.UpdateMetadataTopicState(
                topic_name=name, topic_id=named.topic_ids[name], partition_states=[]
            )

        return kind(
            **self._sender,
            type=TYPE_INCREMENTAL,
            topic_states=_by_topic(named.states.items(), topic),
            live_brokers=self._live or [],
        )

    def _stop_replica(self) -> m.StopReplicaRequest:
        kind = m.StopReplicaRequest

        def topic(name: str) -> m.StopReplicaRequest.StopReplicaTopicState:
            return kind.StopReplicaTopicState(topic_name=name, partition_states=[])

        return kind(**self._sender, topic_states=_by_topic(self._stops.items(), topic))

    def _leader_and_isrs(
        self, named: Mapping[_Key, tuple[bytes, tuple[_LeaderState, ...]]]
    ) -> Iterator[m.LeaderAndIsrRequest]:
        kind = m.LeaderAndIsrRequest
        ids = {name: topic_id for (name, _), (topic_id, _) in named.items()}

        def topic(name: str) -> m.LeaderAndIsrRequest.LeaderAndIsrTopicState:
            return kind.LeaderAndIsrTopicState(
                topic_name=name, topic_id=ids[name], partition_states=[]
            )

        for turn in range(max((len(queued) for _, queued in named.values()), default=0)):
            states = [
                (key, queued[turn]) for key, (_, queued) in named.items() if turn < len(queued)
            ]
            leaders = {state.leader for _, state in states} & self._endpoints.keys()
            yield kind(
                **self._sender,
                type=TYPE_INCREMENTAL,
                topic_states=_by_topic(states, topic),
                live_leaders=[self._endpoints[leader] for leader in sorted(leaders)],
            )


def _by_topic(states: Iterable[tuple[_Key, Any]], make: Callable[[str], T]) -> list[T]:
    """States of partitions in topics, which ``make`` makes without any."""
    topics: dict[str, Any] = {}
    for (name, _), state in states:
        topic: Any = topics.get(name)
        if topic is None:
            topic = topics[name] = make(name)
        topic.partition_states.append(state)
    return [*topics.values()]


class _Updates(msgspec.Struct):
    """The partition states of UpdateMetadata; topic name -> the newest id."""

    states: dict[_Key, _UpdateState] = {}
    topic_ids: dict[str, bytes] = {}


_NONE: Final[tuple[bytes, tuple[_LeaderState, ...]]] = (b"", ())


def _sender(request: ControlRequest) -> dict[str, Any]:
    return {
        "controller_id": request.controller_id,
        "is_kraft_controller": request.is_kraft_controller,
        "controller_epoch": request.controller_epoch,
        "broker_epoch": request.broker_epoch,
    }
