"""The configuration of the Raft machine of one node; constant while it runs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from emulator.config.quorum import QuorumTimes

PARK_MS_MAX = 500
"""Longest wait of a Fetch; observers time out at 2 s (controller.quorum.fetch.timeout.ms)."""

WOKEN_PER_STEP_MAX = 100
"""Parked fetches answered in one step; the next step continues, so no step is long."""

OBSERVER_SESSION_MS = 300_000
"""How long an observer that stopped fetching is still listed (Kafka: LeaderState, 3.9)."""


@dataclass(frozen=True, slots=True)
class RaftConfig:
    """Identity and bounds of one voter.

    Invariant: ``node_id`` is one of the ``voters``, which never change.

    Attributes: voters: id -> (host, port) under ``listener_name``, as other nodes reach them.
    directory_id: 16 raw bytes of ``directory.id``; zeros when the folder has none (before 3.7).
    segment_bytes: size at which a new log segment begins (``metadata.log.segment.bytes``).
    batch_bytes_max: largest batch (KafkaRaftClient.MAX_BATCH_SIZE_BYTES, 3.9). fetch_bytes_max:
    maximum bytes of one Fetch or FetchSnapshot answer, whatever the request allows: an observer
    that is far behind takes many short steps instead of one long one. snapshot_slice_records:
    records encoded per step while a snapshot is written. snapshots_retained: snapshots kept; the
    log is kept from the oldest of them on, so an observer that lags by less than one snapshot still
    catches up by Fetch.
    """

    node_id: int
    cluster_id: str
    voters: Mapping[int, tuple[str, int]]
    listener_name: str = "CONTROLLER"
    directory_id: bytes = field(default=bytes(16))
    release: str = "3.9"
    segment_bytes: int = 1024 * 1024 * 1024
    batch_bytes_max: int = 8 * 1024 * 1024
    fetch_bytes_max: int = 1024 * 1024
    snapshot_slice_records: int = 250
    snapshots_retained: int = 2
    times: QuorumTimes = QuorumTimes()  # noqa: RUF009  # frozen

    def __post_init__(self) -> None:
        """Refuse an unsupported configuration.

        Raises:
            ValueError: this node is not a voter, or a bound is below one.
        """
        if self.node_id not in self.voters:
            raise ValueError(
                f"node {self.node_id} must be a voter, controller.quorum.voters names"
                f" {sorted(self.voters)}"
            )
        if len(self.directory_id) != 16:
            raise ValueError(f"directory_id has {len(self.directory_id)} bytes, not 16")
        if min(self.segment_bytes, self.batch_bytes_max, self.fetch_bytes_max) < 1:
            raise ValueError("segment_bytes, batch_bytes_max and fetch_bytes_max must be positive")
        if min(self.snapshot_slice_records, self.snapshots_retained) < 1:
            raise ValueError("snapshot_slice_records and snapshots_retained must be positive")
