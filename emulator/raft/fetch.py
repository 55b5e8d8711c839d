"""Fetch (1) of the metadata log by voters and observers: answer at once, or wait for new records.

KIP-595, KIP-630 (snapshot id), KIP-853 (v17). Kafka: KafkaRaftClient.handleFetchRequest and
tryCompleteFetchRequest (3.9). Top level: INCONSISTENT_CLUSTER_ID, INVALID_REQUEST. Partition:
INVALID_REQUEST, FENCED_LEADER_EPOCH (also the discovery answer to an observer that knows no epoch),
UNKNOWN_LEADER_EPOCH, NOT_LEADER_OR_FOLLOWER, BROKER_NOT_AVAILABLE.

Voters get what is appended, as Kafka's do: their disks sync while that of the leader does. It is
committed only when it is durable here too (:meth:`Progress.majority_end`). After a crash a leader
may lack what a follower has: it leads this epoch no more, so nothing else gets those offsets in it,
and the follower is elected rather than it, or drops them.

Observers get only durable records; Kafka serves them all appended ones. With one voter no other
copy exists: if a crash lost a record that an observer already has, a different record would follow
at that offset, and a real broker cannot take back what it published. This has no disadvantage:
observers may publish only records below the high watermark, which is the same offset.

While ZooKeeper has not confirmed that it follows this log, observers get nothing
(:class:`Serving`): the partition's answer is BROKER_NOT_AVAILABLE with the observer's own epoch and
no leader, after which an observer of Kafka 3.4 to 3.9 waits and asks again. The fetch is parked
first, so that it is served as soon as it may be. Not in Kafka, where the quorum alone decides.

The sizes that a consumer sets (MinBytes 0, PartitionMaxBytes 0) are ignored; the answer is
whole batches within MaxBytes, and at least one.

A Fetch that waits is woken as in :class:`WaitingFetches`, and then answered with the state
of that moment. Woken ones that get the same are given the same object, so that it is encoded once.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, TypeAlias

from emulator.raft.config import PARK_MS_MAX, WOKEN_PER_STEP_MAX
from emulator.raft.layout import TOPIC, TOPIC_ID, SnapshotId
from emulator.raft.quorum_state import NONE
from emulator.raft.replica import UNKNOWN, Replica
from emulator.seam import Kept, Reply, Same, Ticket, earlier
from wire import messages as m
from wire.errors import ErrorCode

PAUSE_US_PER_OBSERVER: Final = 250
"""Three or four times what one answer costs: to answer 200 observers takes a third of the time."""
PAUSE_MS_MAX: Final = 250
"""An observer learns of a change at most this much later; a lease of a broker is 9 s. With 50 ms
1,000 observers took all the time of their leader."""


class ObserverPace:
    """When waiting Fetches of observers are answered with news: at once, or after a pause.

    Each committed change is news for every observer, and each answer is a request of its own: with
    200 observers, 50 changes a second would be 10,000 answers a second. So after the observers were
    answered, they rest for a time that grows with their number. What is new meanwhile is sent at
    the end of that time, in one answer each. A few observers never rest, and neither do those that
    missed the last round of answers: only what is newer than that is gathered. Voters are always
    answered at once.

    Kafka has no such pause. There the leader gathers appended records for 25 ms before it writes
    them (``controller.quorum.append.linger.ms``), and callers wait for that too.

    Times are milliseconds that never go back.
    """

    def __init__(self) -> None:
        self._rests_until_ms = 0
        self._answered_end = 0
        self._news = False

    @property
    def due_ms(self) -> int | None:
        """When waiting observers are to be answered; None while there is nothing new."""
        return self._rests_until_ms if self._news else None

    def news(self) -> None:
        """More is durable, or committed, than the observers got last."""
        self._news = True

    def is_due(self, now_ms: int) -> bool:
        """Whether waiting observers are to be answered now."""
        return self._news and self._rests_until_ms <= now_ms

    def answered(self, observers: int, end_offset: int, now_ms: int) -> None:
        """All waiting observers are answered now.

        Args:
            observers: how many they are.
            end_offset: everything below is durable, and in the answers.
            now_ms: the time.
        """
        pause_ms = min(PAUSE_MS_MAX, observers * PAUSE_US_PER_OBSERVER // 1000)
        self._rests_until_ms = now_ms + pause_ms
        self._answered_end = end_offset
        self._news = False

    def rests(self, offset: int, now_ms: int) -> bool:
        """Whether a Fetch at an offset must wait for the next round of answers, even with news."""
        return self._news and now_ms < self._rests_until_ms and offset >= self._answered_end


@dataclass(frozen=True, slots=True)
class Parked:
    """A Fetch that waits.

    ``offset`` and ``high_watermark``: what its sender knows, so that it is woken only by more.
    """

    ticket: Ticket
    request: m.FetchRequest
    version: int
    offset: int
    high_watermark: int


class _FetchLine:
    """Parked Fetches by the time at which they are answered at the latest."""

    def __init__(self) -> None:
        self.heap: list[tuple[int, int, Parked]] = []
        self._count = 0

    def add(self, parked: Parked, deadline_ms: int) -> None:
        self._count += 1
        heapq.heappush(self.heap, (deadline_ms, self._count, parked))

    def take_late(self, now_ms: int) -> list[Parked]:
        """Those whose time is up."""
        taken: list[Parked] = []
        while self.heap and self.heap[0][0] <= now_ms:
            taken.append(heapq.heappop(self.heap)[2])
        return taken

    def take(self, wanted: Callable[[Parked], bool]) -> list[Parked]:
        """Remove and return the wanted Fetches, oldest first."""
        taken: list[Parked] = []
        left: list[tuple[int, int, Parked]] = []
        for entry in sorted(self.heap):
            if wanted(entry[2]):
                taken.append(entry[2])
            else:
                left.append(entry)
        # Sorted, so it is a heap.
        self.heap = left
        return taken


class WaitingFetches:
    """The Fetches that wait: for something new, or until their time is up.

    Voters are woken by whatever is new, observers at their pace (:class:`ObserverPace`); all are
    woken when the epoch, the leader or what observers may read changes. Woken ones are taken a few
    per step, oldest first.
    """

    def __init__(self) -> None:
        self._voters = _FetchLine()
        self._observers = _FetchLine()
        self._pace = ObserverPace()
        self._woken: deque[Parked] = deque()

    @property
    def deadline_ms(self) -> int | None:
        """When ``tick`` is due: at once (0) while woken ones are left; None if no Fetch waits."""
        if self._woken:
            return 0
        voters, observers = self._voters.heap, self._observers.heap
        if not observers:
            return voters[0][0] if voters else None
        at_latest = observers[0][0] if not voters else min(observers[0][0], voters[0][0])
        return earlier(at_latest, self._pace.due_ms)

    def add(self, parked: Parked, deadline_ms: int, *, voter: bool) -> None:
        """Let a Fetch wait until ``deadline_ms`` at most."""
        (self._voters if voter else self._observers).add(parked, deadline_ms)

    def rests(self, offset: int, now_ms: int) -> bool:
        """Whether an observer's Fetch must wait although there may be something new for it."""
        return self._pace.rests(offset, now_ms)

    def wake(self) -> None:
        """Wake all: what they were waiting for may never come."""
        for line in (self._voters, self._observers):
            self._woken.extend(line.take(lambda _: True))

    def appended(self) -> None:
        """The log has grown: wake the voters."""
        if self._voters.heap:
            self._woken.extend(self._voters.take(lambda _: True))

    def news(self, end_offset: int, high_watermark: int, now_ms: int) -> None:
        """More is durable, below ``end_offset``, or committed, below ``high_watermark``."""
        self._pace.news()
        self.appended()
        self.tick(end_offset, high_watermark, now_ms)

    def tick(self, end_offset: int, high_watermark: int, now_ms: int) -> None:
        """Wake Fetches whose time is up, and those of observers when news is due."""
        for line in (self._voters, self._observers):
            if line.heap:
                self._woken.extend(line.take_late(now_ms))
        if self._pace.is_due(now_ms):
            behind: list[Parked] = []
            if self._observers.heap:
                behind = self._observers.take(
                    lambda one: one.offset < end_offset or one.high_watermark != high_watermark
                )
            self._pace.answered(len(behind), end_offset, now_ms)
            self._woken.extend(behind)

    def take(self) -> list[Parked]:
        """Some of the woken Fetches; the rest is for the next call."""
        if not self._woken:
            return []
        count = min(len(self._woken), WOKEN_PER_STEP_MAX)
        return [self._woken.popleft() for _ in range(count)]


_TOPIC_ID_FROM = 13
_LEADER_FROM = 12
_ENDPOINTS_FROM = 17
"""The schema has node endpoints from 16; Kafka 3.9 fills them from 17 (RaftUtil)."""


ALIKE_KEPT: Final = 2
"""Answers that are kept: observers ask in two versions at most, and of voters there are few."""

VoterFetched: TypeAlias = Callable[[int, int, bool, int], bool]
"""(voter, offset, whether its log is a part of ours, time): whether the high watermark moved."""


class Fetches:
    """Answers fetches at once or later: parked ones when they are woken or their time is up.

    Args:
        replica: what is served.
        voter_fetched: called for each Fetch of another voter that names the epoch of this leader.
    """

    def __init__(self, replica: Replica, voter_fetched: VoterFetched) -> None:
        self._replica = replica
        self._voter_fetched = voter_fetched
        self.waiting = WaitingFetches()
        self._alike: Kept[m.FetchResponse] = Kept(ALIKE_KEPT)
        """The last answers, by everything in them: of 1,000 observers many get the same."""

    def handle(
        self, ticket: Ticket, request: m.FetchRequest, version: int, now_ms: int
    ) -> Reply | None:
        """Answer one fetch, or park it and return None."""
        response = self._answer(request, version, now_ms, may_wait=request.max_wait_ms > 0)
        if response is not None:
            return Reply(ticket, response)
        asked = request.topics[0].partitions[0]
        observer = self._replica.observers.of(_key(request, asked))
        known = None if observer is None else observer.sent_high_watermark
        if known is None:
            known = self._replica.high_watermark
        parked = Parked(ticket, request, version, asked.fetch_offset, known)
        deadline_ms = now_ms + min(request.max_wait_ms, PARK_MS_MAX)
        self.waiting.add(parked, deadline_ms, voter=self._is_voter(request))
        return None

    def wake(self, now_ms: int) -> list[Reply]:
        """Wake every parked fetch: the epoch, leader, or what observers may read has changed."""
        self.waiting.wake()
        return self._woken_replies(now_ms)

    def appended(self, now_ms: int) -> list[Reply]:
        """The log has grown: wake voters, which need not wait until it is durable here."""
        self.waiting.appended()
        return self._woken_replies(now_ms)

    def news(self, now_ms: int) -> list[Reply]:
        """More is durable or committed: wake voters, and observers if they are not at rest."""
        log = self._replica.log
        self.waiting.news(log.durable_end, self._replica.high_watermark, now_ms)
        return self._woken_replies(now_ms)

    def tick(self, now_ms: int) -> list[Reply]:
        """Answer woken fetches, and those that timed out, usually without records."""
        log = self._replica.log
        self.waiting.tick(log.durable_end, self._replica.high_watermark, now_ms)
        return self._woken_replies(now_ms)

    def _woken_replies(self, now_ms: int) -> list[Reply]:
        replies: list[Reply] = []
        for parked in self.waiting.take():
            response = self._answer(parked.request, parked.version, now_ms, may_wait=False)
            assert response is not None, "it waited"
            replies.append(Reply(parked.ticket, response))
        return replies

    def _is_voter(self, request: m.FetchRequest) -> bool:
        return self._replica.other_voter(request.replica_state.replica_id)

    def _answer(
        self, request: m.FetchRequest, version: int, now_ms: int, *, may_wait: bool
    ) -> m.FetchResponse | None:
        """The response now; None if the fetch may wait, and should."""
        replica = self._replica
        if replica.wrong_cluster(request.cluster_id):
            return m.FetchResponse(error_code=ErrorCode.INCONSISTENT_CLUSTER_ID)
        asked = _partition(request, version)
        if asked is None:
            return m.FetchResponse(error_code=ErrorCode.INVALID_REQUEST)
        if replica.withholds(request.replica_state.replica_id):
            waits = may_wait and not replica.shutting_down
            return None if waits else self._withheld(asked, version)
        error = self._refusal(request, asked)
        if error is not ErrorCode.NONE:
            return self._response(version, error)
        offset, voter = asked.fetch_offset, self._is_voter(request)
        end = replica.log.end_offset if voter else replica.log.durable_end
        where = replica.divergence(offset, asked.last_fetched_epoch)
        key, has_all = _key(request, asked), offset >= end
        moved = voter and self._voter_fetched(key[0], offset, where is None, now_ms)
        if where is not None:
            return self._response(version, where=where)
        if voter:
            # A Fetch that moves the high watermark is answered at once, not after the wait.
            waits = may_wait and has_all and not moved
            return None if waits else self._served(request, offset, end, version)
        observer = None
        if key[0] >= 0:
            observer = replica.observers.fetched(key, offset, end, now_ms)
            # With several voters more may have been committed since the last answer to it.
            has_all &= observer.sent_high_watermark in {None, replica.high_watermark}
        if may_wait and (has_all or self.waiting.rests(offset, now_ms)):
            return None
        if observer is not None:
            observer.sent_high_watermark = replica.high_watermark
        return self._served(request, offset, end, version)

    def _served(
        self, request: m.FetchRequest, offset: int, end: int, version: int
    ) -> m.FetchResponse:
        replica = self._replica
        bytes_max = min(request.max_bytes, replica.bytes_max(request.replica_state.replica_id))
        records = replica.log.read(offset, end, bytes_max)
        quorum = replica.quorum
        key = (
            *(version, Same(records), replica.high_watermark, replica.log.start_offset),
            *(quorum.leader_id, quorum.epoch, replica.endpoint),
        )
        found = self._alike.find(key)
        if found is None:
            found = self._alike.keep(key, self._response(version, records=records))
        return found

    def _refusal(self, request: m.FetchRequest, asked: m.FetchRequest.FetchPartition) -> ErrorCode:
        lowest = min(
            request.max_wait_ms,
            asked.fetch_offset,
            asked.last_fetched_epoch,
            asked.current_leader_epoch,
        )
        if lowest < 0 or asked.last_fetched_epoch > asked.current_leader_epoch:
            return ErrorCode.INVALID_REQUEST
        return self._replica.validate(asked.current_leader_epoch)

    def _withheld(self, asked: m.FetchRequest.FetchPartition, version: int) -> m.FetchResponse:
        leader = (NONE, asked.current_leader_epoch)
        return self._response(version, ErrorCode.BROKER_NOT_AVAILABLE, leader=leader)

    def _response(
        self,
        version: int,
        error: ErrorCode = ErrorCode.NONE,
        *,
        leader: tuple[int, int] | None = None,
        where: SnapshotId | tuple[int, int] | None = None,
        records: bytes = b"",
    ) -> m.FetchResponse:
        replica = self._replica
        good = error is ErrorCode.NONE
        partition = m.FetchResponse.PartitionData(
            error_code=error,
            high_watermark=replica.high_watermark if good else UNKNOWN,
            log_start_offset=replica.log.start_offset if leader is None else UNKNOWN,
            records=records,
        )
        leader_id, epoch = leader or (replica.quorum.leader_id, replica.quorum.epoch)
        if version >= _LEADER_FROM:
            partition.current_leader = m.FetchResponse.LeaderIdAndEpoch(
                leader_id=leader_id, leader_epoch=epoch
            )
        match where:
            case SnapshotId(end_offset, last):
                partition.snapshot_id = m.FetchResponse.SnapshotId(
                    end_offset=end_offset, epoch=last
                )
            case (diverging, end_offset):
                partition.diverging_epoch = m.FetchResponse.EpochEndOffset(
                    epoch=diverging, end_offset=end_offset
                )
            case None:
                pass
        topic = m.FetchResponse.FetchableTopicResponse(partitions=[partition])
        if version >= _TOPIC_ID_FROM:
            topic.topic_id = TOPIC_ID
        else:
            topic.topic = TOPIC
        response = m.FetchResponse(responses=[topic])
        endpoint = replica.endpoint
        if version >= _ENDPOINTS_FROM and endpoint is not None and leader_id != NONE:
            node_id, host, port = endpoint
            response.node_endpoints = [
                m.FetchResponse.NodeEndpoint(node_id=node_id, host=host, port=port)
            ]
        return response


def _key(request: m.FetchRequest, asked: m.FetchRequest.FetchPartition) -> tuple[int, bytes]:
    return request.replica_state.replica_id, asked.replica_directory_id


def _partition(request: m.FetchRequest, version: int) -> m.FetchRequest.FetchPartition | None:
    """The metadata partition of the request, or None if it asks for another."""
    if len(request.topics) != 1 or len(request.topics[0].partitions) != 1:
        return None
    topic = request.topics[0]
    named = topic.topic_id == TOPIC_ID if version >= _TOPIC_ID_FROM else topic.topic == TOPIC
    return topic.partitions[0] if named and topic.partitions[0].partition == 0 else None
