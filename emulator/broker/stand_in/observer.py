"""A broker's position in the metadata log, and the Fetch requests that advance it.

It keeps offsets only; the records are passed on as notices.

Source: KafkaRaftClient as an observer, Kafka 3.9.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass
from itertools import count
from typing import Final

from emulator.broker.stand_in.notices import BrokerNotice, Diverged, RecordFetched
from emulator.broker.stand_in.settings import BrokerSettings
from emulator.net.channel import OutboundChannel
from emulator.net.outcomes import Answered, Turn, Unanswered
from emulator.raft.layout import TOPIC_ID
from wire import messages as m
from wire.batch import decode_batches

FETCH_WAIT_MS: Final = 500
FETCH_BYTES_MAX: Final = 8 * 1024 * 1024
REFUSED_MS: Final = 50
LOST_MS: Final = 100


@dataclass(slots=True)
class FollowedLog:
    """A broker's position in the metadata log, which it keeps on its disk."""

    end_offset: int = 0
    last_epoch: int = 0
    high_watermark: int = -1


class MetadataObserver:
    """See the module's docstring.

    Args:
        settings: the broker.
        log: the start position; it is updated.
        new_conn: allocates connection ids.
    """

    def __init__(
        self, settings: BrokerSettings, log: FollowedLog, new_conn: Callable[[], int]
    ) -> None:
        self.leader_epoch = 0
        self.log = log
        self.channel: OutboundChannel[None] = OutboundChannel(
            settings.controller, settings.channel, new_conn, count(1)
        )
        self._settings = settings
        self._due_ms: int | None = None
        """When to fetch; None while a fetch is in flight, and before the start."""

    @property
    def deadline_ms(self) -> int | None:
        """When the next fetch is due."""
        return self._due_ms

    @property
    def reached(self) -> int:
        """Offset of the last record known to be committed; 0 if there is none."""
        return max(0, self.log.high_watermark - 1)

    def begin(self, now_ms: int) -> None:
        """Fetch now."""
        self._due_ms = now_ms

    def end(self) -> None:
        """Send nothing more."""
        self._due_ms = None
        self.channel.close()

    def go_on(self, now_ms: int) -> None:
        """Fetch if it is time."""
        if self._due_ms is not None and self._due_ms <= now_ms:
            self._due_ms = None
            self.channel.put(self._fetch(), None)

    def take(self, turns: list[Turn[None]], now_ms: int) -> Iterator[BrokerNotice]:
        """Take outcomes of fetches."""
        for turn in turns:
            match turn:
                case Answered(message=m.FetchResponse(responses=[topic, *_])):
                    pause_ms = yield from self._follow(topic.partitions[0])
                    self._due_ms = now_ms + pause_ms
                case Answered() | Unanswered():
                    self._due_ms = now_ms + LOST_MS
                case _:
                    """Only an answer changes the position."""

    def _follow(
        self, partition: m.FetchResponse.PartitionData
    ) -> Generator[BrokerNotice, None, int]:
        """Take one answer; returns how long to wait before the next fetch."""
        leader = partition.current_leader
        if partition.error_code:
            if leader.leader_epoch > self.leader_epoch:
                self.leader_epoch = leader.leader_epoch
                return 0
            return REFUSED_MS
        log, snapshot, diverging = self.log, partition.snapshot_id, partition.diverging_epoch
        if snapshot.end_offset >= 0:
            # The content is not used; only its offsets count.
            log.end_offset, log.last_epoch = snapshot.end_offset, snapshot.epoch
            return 0
        if diverging.epoch >= 0:
            yield Diverged(log.end_offset, diverging.epoch, diverging.end_offset)
            log.end_offset = min(log.end_offset, diverging.end_offset)
            log.last_epoch = diverging.epoch
            return 0
        for batch in decode_batches(partition.records or b""):
            for index, (_, value) in enumerate(batch.records):
                yield RecordFetched(batch.base_offset + index, batch.leader_epoch, value)
            log.end_offset = batch.last_offset + 1
            log.last_epoch = batch.leader_epoch
        log.high_watermark = max(log.high_watermark, min(partition.high_watermark, log.end_offset))
        return 0

    def _fetch(self) -> m.FetchRequest:
        kind = m.FetchRequest
        own = self._settings
        partition = kind.FetchPartition(
            current_leader_epoch=self.leader_epoch,
            fetch_offset=self.log.end_offset,
            last_fetched_epoch=self.log.last_epoch,
            replica_directory_id=own.directory,
        )
        return kind(
            cluster_id=own.cluster_id,
            replica_state=kind.ReplicaState(replica_id=own.broker_id),
            max_wait_ms=FETCH_WAIT_MS,
            max_bytes=FETCH_BYTES_MAX,
            topics=[kind.FetchTopic(topic_id=TOPIC_ID, partitions=[partition])],
        )
