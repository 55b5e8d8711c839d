"""From the files of a node's folder back to its log; what is damaged is told apart.

A batch is believed when its header is sound, its offset is the next one and its CRC-32C holds.
The last group before a crash may be torn: an unsound end of the *last* segment with no sound batch
behind it is cut off, with a log line. Anything else that is unsound had been durable once, so
``RecoveryError`` stops the node: cutting there could drop acknowledged records.
Source: LogSegment.recover, KafkaMetadataLog.apply (Kafka 3.9), which cut in every case.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from emulator.raft import layout
from emulator.raft.errors import RecoveryError
from emulator.raft.layout import SnapshotId
from emulator.raft.log import LogBatch, MetadataLog, Segment
from emulator.seam import DeleteFile, Effect, Log, TruncateFile
from wire.batch import HEADER_BYTES, BatchHeader, batch_crc_holds, batch_header
from wire.errors import DecodeError

_MAGIC_AT = 16


@dataclass(frozen=True, slots=True)
class Scan:
    """The sound batches at the begin of a file; ``why`` tells what stopped the scan at ``size``."""

    batches: list[LogBatch]
    size: int
    why: str | None


def scan(data: bytes, expected_offset: int) -> Scan:
    """Read sound batches from the start of ``data``, the first at ``expected_offset``."""
    batches: list[LogBatch] = []
    position = 0
    epoch = 0
    while position < len(data):
        found = _sound(data, position)
        if isinstance(found, str):
            return Scan(batches, position, found)
        if found.base_offset != expected_offset:
            why = f"base offset {found.base_offset}, expected {expected_offset}"
            return Scan(batches, position, why)
        if found.leader_epoch < epoch:
            why = f"leader epoch {found.leader_epoch} after epoch {epoch}"
            return Scan(batches, position, why)
        epoch = found.leader_epoch
        end = position + found.size
        batches.append(LogBatch(found.base_offset, found.last_offset, epoch, data[position:end]))
        expected_offset = found.last_offset + 1
        position = end
    return Scan(batches, position, None)


def recover_log(
    files: Mapping[str, bytes], snapshots: list[SnapshotId], segment_bytes: int
) -> tuple[MetadataLog, list[Effect]]:
    """Rebuild the log from its segments; the effects repair a torn end.

    Args:
        files: relative path -> content of the node's folder.
        snapshots: those whose files were found sound, oldest first.
        segment_bytes: see ``RaftConfig``.

    Raises:
        RecoveryError: a damaged middle, a gap between segments, or records that neither the log
            nor a snapshot holds any more.
    """
    paths = {base: path for path in files if (base := layout.segment_base(path)) is not None}
    bases = sorted(paths)
    start = _start_offset(bases, paths, snapshots)
    log = MetadataLog(segment_bytes, start_offset=start)
    effects: list[Effect] = []
    expected = bases[0] if bases else 0
    for base in bases:
        path = paths[base]
        if base != expected:
            raise RecoveryError(
                path, None, f"begins at {base}, the segment before ends at {expected}"
            )
        found = scan(files[path], base)
        if found.why is not None:
            effects += _repair(path, files[path], found, last=base == bases[-1], base=base)
        log.segments.append(Segment(base))
        log.segments[-1].size = found.size
        for batch in found.batches:
            expected = batch.last_offset + 1
            if batch.last_offset >= start:
                log.recovered(batch)
    log.epochs.truncate_from_start(start)
    if snapshots and snapshots[-1].end_offset > log.end_offset:
        why = f"the log ends at {log.end_offset}, records after it are missing"
        raise RecoveryError(layout.snapshot_path(snapshots[-1]), None, why)
    return log, effects


def leftovers(files: Mapping[str, bytes]) -> list[Effect]:
    """Remove halves of snapshots that were being made or deleted when the node stopped."""
    return [DeleteFile(path) for path in sorted(files) if layout.is_leftover(path)]


def _start_offset(bases: list[int], paths: Mapping[int, str], snapshots: list[SnapshotId]) -> int:
    if not bases or bases[0] == 0:
        return 0
    for snapshot in snapshots:
        if snapshot.end_offset >= bases[0]:
            return snapshot.end_offset
    why = f"the log begins at {bases[0]} and no snapshot holds what is below"
    raise RecoveryError(paths[bases[0]], None, why)


def _repair(path: str, data: bytes, found: Scan, *, last: bool, base: int) -> list[Effect]:
    expected = found.batches[-1].last_offset + 1 if found.batches else base
    why = f"{found.why}; the record at offset {expected} should begin here"
    if not last:
        raise RecoveryError(path, found.size, f"{why}, and later segments follow")
    later = _later_batch(data, found.size + 1, expected)
    if later is not None:
        position, header = later
        why += f", and a sound batch with offset {header.base_offset} follows at byte {position}"
        raise RecoveryError(path, found.size, why)
    lost = len(data) - found.size
    fields: dict[str, object] = {"path": path, "position": found.size, "bytes": lost, "why": why}
    return [Log("warning", "raft.log.torn_tail_truncated", fields), TruncateFile(path, found.size)]


def _sound(data: bytes, position: int) -> BatchHeader | str:
    """The header of a whole batch whose checksum holds, or what is wrong with it."""
    try:
        header = batch_header(data, position)
    except DecodeError as error:
        return error.why
    if position + header.size > len(data):
        return f"batch of {header.size} bytes, {len(data) - position} are left"
    if not batch_crc_holds(data, position):
        return "checksum does not hold"
    offsets = header.last_offset - header.base_offset + 1
    if header.count != offsets:
        return f"{header.count} records for {offsets} offsets"
    return header


def _later_batch(data: bytes, position: int, expected: int) -> tuple[int, BatchHeader] | None:
    """A sound batch for an offset from ``expected`` on, anywhere from ``position`` on."""
    at = data.find(b"\x02", position + _MAGIC_AT)
    while at != -1 and at + HEADER_BYTES - _MAGIC_AT <= len(data):
        header = _sound(data, at - _MAGIC_AT)
        if not isinstance(header, str) and header.base_offset >= expected:
            return at - _MAGIC_AT, header
        at = data.find(b"\x02", at + 1)
    return None
