"""The batches that this node appends as the leader: encoded, checked, stamped."""

from __future__ import annotations

from collections.abc import Iterable

from emulator.raft.errors import AppendRefusedError
from emulator.raft.log import LogBatch
from emulator.raft.replica import Replica
from emulator.raft.snapshots import CONTROL
from emulator.raft.verify import CheckedRecords, check_sealed, checked_control
from wire import records as r
from wire.batch import Batch, seal_batch
from wire.record_serde import encode_control


class LeaderAppender:
    """Appends to the log of one replica; nothing is written before its next flush.

    Args:
        replica: the log, the epoch and the bounds.
        now_ms: milliseconds since the Unix epoch; the times of batches never go back.
    """

    def __init__(self, replica: Replica, now_ms: int) -> None:
        self._replica = replica
        self._timestamp_ms = now_ms

    def at(self, now_ms: int) -> int:
        """The time of a batch that is appended now."""
        self._timestamp_ms = max(self._timestamp_ms, now_ms)
        return self._timestamp_ms

    def append(self, records: CheckedRecords, attributes: int, now_ms: int) -> int:
        """Append one batch; returns its base offset.

        Raises:
            AppendRefusedError: see ``Raft.append``.
        """
        replica = self._replica
        log, epoch = replica.log, replica.quorum.epoch
        base_offset, stamp = log.end_offset, self.at(now_ms)
        head = Batch(base_offset, epoch, attributes, stamp, (), log.next_sequence)
        data = seal_batch(head, records.body, records.count)
        bytes_max = replica.config.batch_bytes_max
        if len(data) > bytes_max:
            raise AppendRefusedError(
                f"a batch of {len(data)} bytes, at most {bytes_max} are allowed"
            )
        check_sealed(data, records)
        replica.appended_bytes += len(data)
        log.append(LogBatch(base_offset, base_offset + records.count - 1, epoch, data))
        return base_offset

    def leader_change(self, granting: Iterable[int], now_ms: int) -> int:
        """Append the record that opens an epoch; returns its offset."""
        config = self._replica.config
        kind = r.LeaderChangeMessage
        message = kind(
            version=0,
            leader_id=config.node_id,
            voters=[kind.Voter(voter_id=each) for each in sorted(config.voters)],
            granting_voters=[kind.Voter(voter_id=each) for each in sorted(granting)],
        )
        return self.append(checked_control(encode_control(message)), CONTROL, now_ms)
