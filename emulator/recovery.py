"""From a controller's files to its metadata: the newest snapshot, then every batch of the log.

Source: MetadataLoader, Kafka 3.9. A quorum of one has committed whatever is durable, so everything
recovered stands; an open metadata transaction is the controller's to abort.
"""

from __future__ import annotations

from emulator.metadata.errors import ReplayError
from emulator.metadata.history import History
from emulator.metadata.image import EMPTY, Image
from emulator.metadata.snapshot import from_records
from emulator.raft.errors import RecoveryError
from emulator.raft.machine import Raft
from wire.record_serde import decode_record


def load_history(raft: Raft) -> History:
    """Replay snapshot and log into a :class:`History` whose tip is the end of the log.

    Raises:
        RecoveryError: a record that does not fit; the node must stop.
    """
    history = History(_snapshot_image(raft))
    first = history.tip.offset + 1
    last = raft.log_end_offset - 1
    if first > last:
        return history
    for batch in raft.read(first, last):
        try:
            if batch.is_control:
                history.skip(batch.base_offset, batch.last_offset, batch.leader_epoch)
            else:
                records = [decode_record(value)[0] for _key, value in batch.records]
                history.append(records, batch.base_offset, batch.leader_epoch)
        except ReplayError as error:
            raise RecoveryError("__cluster_metadata-0", batch.base_offset, str(error)) from error
    return history


def _snapshot_image(raft: Raft) -> Image:
    snapshot = raft.latest_snapshot
    if snapshot is None:
        return EMPTY
    records = (decode_record(value)[0] for value in raft.snapshot_records)
    try:
        return from_records(records, snapshot.end_offset - 1, snapshot.epoch)
    except ReplayError as error:
        raise RecoveryError(f"snapshot {snapshot}", None, str(error)) from error
