"""How far the metadata log goes, for a broker that needs none of its records.

A broker in ZooKeeper mode that migrates follows the log, so that its heartbeats can report how far
it has read; what it knows of the cluster comes from control requests. So no record is decoded, and
no image is kept. Checksums are checked.

Source: OffsetTrackingListener, Kafka 3.4-3.9.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Final

from emulator.broker.shared_log import LogState
from emulator.metadata.image import Image
from emulator.raft import snapshots
from wire.batch import BatchHeader, batch_crc_holds
from wire.errors import DecodeError

CHECKED_BYTES_MAX: Final = 16 * 1024
CHECKED_MAX: Final = 256
"""Batches up to that length that are known to be whole, for the other brokers of the process."""


class LogOffsets:
    """``LogStates`` whose images are empty but for offset and epoch."""

    def after(self, state: LogState, header: BatchHeader, data: bytes) -> LogState:
        """The state after one more batch.

        Args:
            state: what was read so far.
            header: of the batch.
            data: the bytes of the whole batch.

        Raises:
            DecodeError: the checksum is wrong.
        """
        del state
        holds = batch_crc_holds if len(data) > CHECKED_BYTES_MAX else _crc_holds
        if not holds(data):
            why = f"the bytes do not have CRC-32C {header.crc:#010x}, as the header says"
            raise DecodeError("RecordBatch", header.magic, f"offset {header.base_offset}", 0, why)
        return _at(header.last_offset, header.leader_epoch)

    def known(self, header: BatchHeader) -> None:
        """None: a state costs less than to find it."""
        del header

    def of_snapshot(self, data: bytes, end_offset: int, epoch: int) -> LogState:
        """The state of a snapshot of all records below ``end_offset``.

        Raises:
            RecoveryError: it is damaged.
        """
        snapshots.check("snapshot", data, None)
        return _at(end_offset - 1, epoch)


@lru_cache(maxsize=CHECKED_MAX)
def _crc_holds(data: bytes) -> bool:
    """See :func:`batch_crc_holds`; by the content of the whole batch."""
    return batch_crc_holds(data)


def _at(offset: int, epoch: int) -> LogState:
    image = Image(offset, epoch)
    return LogState(image, image)
