"""What a broker has of the metadata log: the applied state, and batches not committed yet.

Makes the requests that continue it, and takes their answers. Nothing is kept on disk: a broker
reads the log from its beginning, or the newest snapshot, at every start.

Source: KafkaRaftClient as an observer, MetadataLoader, Kafka 3.9; KIP-595, KIP-630.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from emulator.broker.kraft.shared_log import START, LogState, LogStates
from emulator.metadata.delta import Delta
from emulator.metadata.errors import ReplayError
from emulator.metadata.image import Image
from emulator.raft.layout import TOPIC, TOPIC_ID
from emulator.seam import RECORDS_PER_SLICE, Pace, Slices
from wire import messages as m
from wire.batch import BatchHeader, batch_header
from wire.errors import DecodeError, ErrorCode

FETCH_WAIT_MS: Final = 500
FETCH_BYTES_MAX: Final = 8 * 1024 * 1024
PENDING_BYTES_MAX: Final = 64 * 1024 * 1024
"""A leader that commits nothing of so much is not believed; a batch may pass it."""
SPLIT_BYTES_MAX: Final = 256 * 1024
SPLIT_KEPT_MAX: Final = 16
"""Answers up to that length whose batches are kept, for the other brokers of the process."""
SNAPSHOT_BYTES_MAX: Final = 1024 * 1024 * 1024
"""A leader that names a larger snapshot is not believed."""


@dataclass(frozen=True, slots=True)
class FollowerIdentity:
    """The follower, as the requests name it."""

    node_id: int
    cluster_id: str
    directory_id: bytes


@dataclass(slots=True)
class _Download:
    end_offset: int
    epoch: int
    data: bytearray


@dataclass(frozen=True, slots=True)
class _Pending:
    header: BatchHeader
    data: bytes


class FollowedMetadata:
    """See the module's docstring.

    Args:
        identity: of the follower.
        states: what is made of the batches of this cluster's log.
    """

    def __init__(self, identity: FollowerIdentity, states: LogStates) -> None:
        self.high_watermark = -1
        self.outrun = False
        """A snapshot of the leader and what is behind it are to be loaded: ours is an old image."""
        self._identity = identity
        self._states = states
        self._state: LogState = START
        self.pending_bytes = 0
        """Size of the batches that are not committed yet."""
        self._committed = -1
        """The high watermark of the last answer; an earlier answer may have had a higher one."""
        self._pending: list[_Pending] = []
        self._applying: Slices[None] | None = None
        """What is committed and not applied yet."""
        self._download: _Download | None = None
        self._deltas: list[Delta] = []
        self._replaced = False

    @property
    def image(self) -> Image:
        """The metadata as far as it is committed and may be shown."""
        return self._state.stable

    @property
    def current(self) -> bool:
        """Whether everything that was committed at the last answer is applied."""
        return 0 <= self._committed <= self._applied_end

    @property
    def behind(self) -> bool:
        """Whether more is committed than is applied: :meth:`go_on` does the next slice."""
        return self._applying is not None

    @property
    def progress(self) -> tuple[int, int, int]:
        """More than before after an answer that brought something: the end, commits, a snapshot."""
        downloaded = 0 if self._download is None else len(self._download.data)
        return self._end[0], self.high_watermark, downloaded

    def take_deltas(self) -> tuple[bool, list[Delta]]:
        """Deltas since the last call; True: a snapshot came first, so the image is another one."""
        replaced, self._replaced = self._replaced, False
        deltas, self._deltas = self._deltas, []
        return replaced, deltas

    def forget_unfinished(self) -> None:
        """Drop batches that are not applied, and a snapshot that is not complete."""
        self._applying = None
        self._keep([])
        self._download = None

    # ---------------------------------------------------------------- requests
    def request(self, leader_epoch: int) -> m.FetchRequest | m.FetchSnapshotRequest:
        """The request that continues the log, or the snapshot that is being read."""
        if self._download is not None:
            return self._fetch_snapshot(self._download, leader_epoch)
        kind, own = m.FetchRequest, self._identity
        end_offset, last_epoch = self._end
        partition = kind.FetchPartition(
            current_leader_epoch=leader_epoch,
            fetch_offset=end_offset,
            last_fetched_epoch=last_epoch,
            replica_directory_id=own.directory_id,
        )
        return kind(
            cluster_id=own.cluster_id,
            replica_state=kind.ReplicaState(replica_id=own.node_id),
            max_wait_ms=FETCH_WAIT_MS,
            max_bytes=FETCH_BYTES_MAX,
            topics=[kind.FetchTopic(topic=TOPIC, topic_id=TOPIC_ID, partitions=[partition])],
        )

    def _fetch_snapshot(self, wanted: _Download, leader_epoch: int) -> m.FetchSnapshotRequest:
        kind, own = m.FetchSnapshotRequest, self._identity
        partition = kind.PartitionSnapshot(
            current_leader_epoch=leader_epoch,
            snapshot_id=kind.SnapshotId(end_offset=wanted.end_offset, epoch=wanted.epoch),
            position=len(wanted.data),
            replica_directory_id=own.directory_id,
        )
        return kind(
            cluster_id=own.cluster_id,
            replica_id=own.node_id,
            max_bytes=FETCH_BYTES_MAX,
            topics=[kind.TopicSnapshot(name=TOPIC, partitions=[partition])],
        )

    @property
    def _applied_end(self) -> int:
        return self._state.tip.offset + 1

    @property
    def _end(self) -> tuple[int, int]:
        """The end offset of what was fetched, and the epoch of its last record."""
        if self._pending:
            last = self._pending[-1].header
            return last.last_offset + 1, last.leader_epoch
        return self._applied_end, max(self._state.tip.epoch, 0)

    # ---------------------------------------------------------------- answers without an error
    def fetched(self, partition: m.FetchResponse.PartitionData) -> None:
        """Take records, or learn that the log begins with a snapshot, or differs from ours.

        Of what is committed, a slice is applied; not to be called while more is left.

        Raises:
            DecodeError: the records cannot be read, or do not follow ours.
            ReplayError: a committed record does not fit, or the leader's log differs from ours
                where it was committed.
        """
        assert self._applying is None, "asked for more before this is applied"
        snapshot, diverging = partition.snapshot_id, partition.diverging_epoch
        if snapshot.end_offset >= 0:
            self.outrun = True
            self._download = _Download(snapshot.end_offset, snapshot.epoch, bytearray())
        elif diverging.epoch >= 0:
            self._cut(diverging.end_offset)
        else:
            self._append(partition.records or b"")
            self._committed = partition.high_watermark
            end_offset, _ = self._end
            self.high_watermark = max(self.high_watermark, min(self._committed, end_offset))
            self._applying = self._commit()
            self.go_on()

    def go_on(self) -> None:
        """Apply the next slice of what is committed, if there is one.

        Raises:
            DecodeError, ReplayError: as :meth:`fetched`.
        """
        if self._applying is None:
            return
        applying, self._applying = self._applying, None
        if next(applying, self) is not self:
            self._applying = applying
            return
        self.outrun = self.outrun and not self.current
        if self.pending_bytes > PENDING_BYTES_MAX:
            raise _nonsense(f"over {PENDING_BYTES_MAX} bytes that are not committed")

    def downloaded(self, piece: m.FetchSnapshotResponse.PartitionSnapshot) -> None:
        """Take the next piece of a snapshot; a complete one is applied.

        Raises:
            DecodeError: it is another piece, or the snapshot cannot be read.
            RecoveryError: the snapshot is damaged.
            ReplayError: a record does not fit.
        """
        wanted = self._download
        if wanted is None:
            return
        got = piece.snapshot_id
        if piece.error_code == ErrorCode.SNAPSHOT_NOT_FOUND:
            self._download = None
            return
        if (got.end_offset, got.epoch) != (wanted.end_offset, wanted.epoch):
            raise _nonsense("another snapshot")
        if piece.position != len(wanted.data) or not 0 < piece.size <= SNAPSHOT_BYTES_MAX:
            raise _nonsense(f"position {piece.position} of {piece.size} bytes")
        if not piece.unaligned_records:
            raise _nonsense("an empty piece of a snapshot")
        wanted.data += piece.unaligned_records
        if len(wanted.data) < piece.size:
            return
        self._download = None
        if wanted.end_offset <= self._applied_end:
            raise _nonsense(f"a snapshot up to {wanted.end_offset}, which was applied already")
        self._state = self._states.of_snapshot(bytes(wanted.data), wanted.end_offset, wanted.epoch)
        self._keep([])
        self.high_watermark = max(self.high_watermark, wanted.end_offset)
        self._committed = max(self._committed, wanted.end_offset)
        self._deltas, self._replaced = [], True

    def _append(self, data: bytes) -> None:
        expected, _ = self._end
        split = _split if len(data) <= SPLIT_BYTES_MAX else _split.__wrapped__
        for batch in split(data):
            header = batch.header
            if header.base_offset != expected:
                raise _nonsense(f"a batch at offset {header.base_offset} instead of {expected}")
            self._pending.append(batch)
            self.pending_bytes += len(batch.data)
            expected = header.last_offset + 1

    def _commit(self) -> Slices[None]:
        self._keep(self._pending[self._skipped() :])
        done, pace = 0, Pace(RECORDS_PER_SLICE)
        for batch in self._pending:
            if batch.header.last_offset >= self.high_watermark:
                break
            self._state = yield from self._states.after(self._state, batch.header, batch.data)
            self._deltas += self._state.deltas
            done += 1
            if pace.over(batch.header.last_offset - batch.header.base_offset + 1):
                yield
        self._keep(self._pending[done:])

    def _skipped(self) -> int:
        """At the start: go on where another broker of the process is; returns batches passed."""
        if self._state is not START:
            return 0
        for number in range(len(self._pending), 0, -1):
            header = self._pending[number - 1].header
            if header.last_offset < self.high_watermark:
                known = self._states.known(header)
                if known is not None:
                    self._state, self._deltas, self._replaced = known, [], True
                    return number
        return 0

    def _cut(self, end_offset: int) -> None:
        """Drop batches that the leader does not have."""
        if end_offset < self._applied_end:
            raise ReplayError(
                f"the leader's log differs from offset {end_offset} on, but records up to offset "
                f"{self._applied_end - 1} were committed"
            )
        kept = [one for one in self._pending if one.header.last_offset < end_offset]
        if kept == self._pending:
            # Our last epoch is unknown to the leader although the offset is not: read it again.
            kept = []
        self._keep(kept)

    def _keep(self, batches: list[_Pending]) -> None:
        """Of the batches that are not committed, only these are left."""
        if len(batches) != len(self._pending):
            self._pending = batches
            self.pending_bytes = sum(len(batch.data) for batch in batches)


@lru_cache(maxsize=SPLIT_KEPT_MAX)
def _split(data: bytes) -> tuple[_Pending, ...]:
    """The batches of one answer; by its content, as brokers of a process are answered alike.

    Raises:
        DecodeError: the last one is incomplete, or one has no header.
    """
    found: list[_Pending] = []
    position = 0
    while position < len(data):
        header = batch_header(data, position)
        chunk = data[position : position + header.size]
        if len(chunk) < header.size:
            raise _nonsense("an incomplete batch")
        found.append(_Pending(header, chunk))
        position += header.size
    return tuple(found)


def _nonsense(why: str) -> DecodeError:
    return DecodeError("metadata log", -1, "", 0, why)
