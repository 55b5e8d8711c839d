"""Fetch (1) of the metadata log by voters and observers: answer at once, or wait for new records.

KIP-595, KIP-630 (snapshot id), KIP-853 (v17). Kafka: KafkaRaftClient.handleFetchRequest and
tryCompleteFetchRequest (3.9). Top level: INCONSISTENT_CLUSTER_ID, INVALID_REQUEST. Partition:
INVALID_REQUEST, FENCED_LEADER_EPOCH (also the discovery answer to an observer that knows no epoch),
UNKNOWN_LEADER_EPOCH, NOT_LEADER_OR_FOLLOWER, BROKER_NOT_AVAILABLE.

Only durable records are served; Kafka serves all appended ones. With one voter no other copy
exists: if a crash lost a record that an observer already has, a different record would follow at
that offset, and a real broker cannot take back what it published. This has no disadvantage:
observers may publish only records below the high watermark, which is the same offset.

While ZooKeeper has not confirmed that it follows this log, nothing is told (:class:`Serving`): the
partition's answer is BROKER_NOT_AVAILABLE with the follower's own epoch and no leader, after which
an observer of Kafka 3.4 to 3.9 waits and asks again. The fetch is parked first, so that a follower
is served as soon as it may be. Not in Kafka, where the quorum alone decides.

The sizes that a consumer sets (MinBytes 0, PartitionMaxBytes 0) are ignored; the answer is
whole batches within MaxBytes, and at least one.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

from emulator.net.reply import Reply, Ticket
from emulator.raft.config import PARK_MS_MAX, WOKEN_PER_STEP_MAX
from emulator.raft.layout import TOPIC, TOPIC_ID, SnapshotId
from emulator.raft.quorum_state import NONE
from emulator.raft.replica import UNKNOWN, Replica, Serving
from wire import messages as m
from wire.errors import ErrorCode

_TOPIC_ID_FROM = 13
_LEADER_FROM = 12
_ENDPOINTS_FROM = 17
"""The schema has node endpoints from 16; Kafka 3.9 fills them from 17 (RaftUtil)."""


VoterFetched: TypeAlias = Callable[[int, int, int], bool]
"""(voter, offset, time): it has everything below; whether the high watermark moved."""


@dataclass(frozen=True, slots=True)
class Parked:
    """A fetch that waits for new records."""

    ticket: Ticket
    request: m.FetchRequest
    version: int


class Fetches:
    """Answers fetches at once or later: parked ones after ``wake`` or when they time out.

    Woken ones are answered a few per step, oldest first, each with the state at that step.
    """

    def __init__(self, replica: Replica, voter_fetched: VoterFetched) -> None:
        self._replica = replica
        self._voter_fetched = voter_fetched
        self._parked: list[tuple[int, int, Parked]] = []
        self._woken: deque[Parked] = deque()
        self._count = 0

    @property
    def deadline_ms(self) -> int | None:
        """When the next parked fetch must be answered; 0 (at once) while woken ones are left."""
        if self._woken:
            return 0
        return self._parked[0][0] if self._parked else None

    def handle(
        self, ticket: Ticket, request: m.FetchRequest, version: int, now_ms: int
    ) -> Reply | None:
        """Answer one fetch, or park it and return None."""
        response, wait = self._answer(request, version, now_ms)
        if not wait or request.max_wait_ms == 0:
            return Reply(ticket, response)
        deadline_ms = now_ms + min(request.max_wait_ms, PARK_MS_MAX)
        self._count += 1
        entry = (deadline_ms, self._count, Parked(ticket, request, version))
        heapq.heappush(self._parked, entry)
        return None

    def wake(self, now_ms: int) -> list[Reply]:
        """Wake every parked fetch: the high watermark moved, or who may be told what has."""
        self._woken.extend(parked for _, _, parked in sorted(self._parked))
        self._parked.clear()
        return self._woken_replies(now_ms)

    def tick(self, now_ms: int) -> list[Reply]:
        """Answer woken fetches, and those that timed out, usually without records."""
        while self._parked and self._parked[0][0] <= now_ms:
            self._woken.append(heapq.heappop(self._parked)[2])
        return self._woken_replies(now_ms)

    def _woken_replies(self, now_ms: int) -> list[Reply]:
        replies: list[Reply] = []
        while self._woken and len(replies) < WOKEN_PER_STEP_MAX:
            parked = self._woken.popleft()
            response, _ = self._answer(parked.request, parked.version, now_ms)
            replies.append(Reply(parked.ticket, response))
        return replies

    def _answer(
        self, request: m.FetchRequest, version: int, now_ms: int
    ) -> tuple[m.FetchResponse, bool]:
        """The response now, and whether the fetch should wait if it may."""
        replica = self._replica
        if replica.wrong_cluster(request.cluster_id):
            return m.FetchResponse(error_code=ErrorCode.INCONSISTENT_CLUSTER_ID), False
        asked = _partition(request, version)
        if asked is None:
            return m.FetchResponse(error_code=ErrorCode.INVALID_REQUEST), False
        if replica.serving is Serving.NOTHING:
            return self._withheld(asked, version), not replica.shutting_down
        error = self._refusal(request, asked)
        if error is not ErrorCode.NONE:
            return self._response(version, error), False
        offset = asked.fetch_offset
        where = replica.divergence(offset, asked.last_fetched_epoch)
        if where is not None:
            return self._response(version, where=where), False
        replica_id, moved = request.replica_state.replica_id, False
        if replica_id in replica.config.voters and replica_id != replica.config.node_id:
            moved = self._voter_fetched(replica_id, offset, now_ms)
        elif replica_id >= 0:
            key = (replica_id, asked.replica_directory_id)
            replica.observers.fetched(key, offset, replica.log.durable_end, now_ms)
        bytes_max = min(request.max_bytes, replica.config.fetch_bytes_max)
        records = replica.log.read(offset, bytes_max)
        # One that commits something is told so at once, not after the wait.
        return self._response(version, records=records), not records and not moved

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


def _partition(request: m.FetchRequest, version: int) -> m.FetchRequest.FetchPartition | None:
    """The metadata partition of the request, or None if it asks for another."""
    if len(request.topics) != 1 or len(request.topics[0].partitions) != 1:
        return None
    topic = request.topics[0]
    named = topic.topic_id == TOPIC_ID if version >= _TOPIC_ID_FROM else topic.topic == TOPIC
    return topic.partitions[0] if named and topic.partitions[0].partition == 0 else None
