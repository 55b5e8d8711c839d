"""Rebuilds the log from a node's files; distinguishes a torn end from damage.

A batch is valid if its header is valid, its offset is the next one and its CRC-32C matches. The
last group before a crash was not acknowledged if its sync did not end, and the file system may have
written any of its pages: from its first invalid batch on it is truncated, with a log line. Damage
of durable data stops the node with ``RecoveryError``: truncating there would drop acknowledged
records. These prove which data was durable:

- a valid batch after the damage: all below its own group (see ``MetadataLog``),
- the last segment: it is created when everything before it is durable,
- a snapshot: its records were committed,
- ``recovery-point``, written at an orderly stop, and more often with several voters.

Data that none of the last three proves durable may be in the page cache only: after a failed
``fdatasync`` Linux marks the pages clean, so the next ``fdatasync`` succeeds without writing them.
Such data is rewritten, to a new file that replaces the segment, before anything is appended.

In a quorum of several voters batches come from other nodes too, whose groups are not the groups
that were synced here: there a valid batch after the damage proves nothing. ``recovery-point`` is
written every few seconds instead, and the end behind it is truncated. A follower whose log is being
replaced by a snapshot has recorded this in that file: the log begins at the snapshot.

Source: LogSegment.recover, KafkaMetadataLog.apply (Kafka 3.9), which truncate in every case.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from emulator.raft import layout
from emulator.raft.layout import RecoveryError, RecoveryPoint, SnapshotId
from emulator.raft.log import LogBatch, MetadataLog, Segment
from emulator.seam import DeleteFile, Effect, Log, ReplaceFile, TruncateFile
from wire.batch import HEADER_BYTES, BatchHeader, batch_crc_holds, batch_header
from wire.errors import DecodeError

_MAGIC_AT = 16
_WAY_OUT = (
    "acknowledged records are damaged, and nothing was changed. Restore an undamaged copy of this "
    "folder. Or, to start without the records from there on, truncate the file at that byte and "
    "remove later segments, snapshots that end later, and recovery-point"
)
_SHORT = (
    "nothing was changed. Restore an undamaged copy of this folder. Or, to start without them, "
    "remove this file"
)
_GAP = (
    "acknowledged records between them are missing, and nothing was changed. Restore an undamaged "
    "copy of this folder. Or, to start without the records from there on, remove this segment, "
    "later ones, snapshots that end later, and recovery-point"
)


@dataclass(frozen=True, slots=True)
class Scan:
    """The valid batches at the start of a file; ``why`` says what stopped the scan at ``size``."""

    batches: list[LogBatch]
    size: int
    why: str | None


def scan(data: bytes, expected_offset: int) -> Scan:
    """Read valid batches from the start of ``data``, the first at ``expected_offset``."""
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


class Recovered(NamedTuple):
    """What recovery found.

    Attributes: repairs: effects that come before anything is appended. point: what
    ``recovery-point`` says when they are done; None: there is no such file.
    """

    log: MetadataLog
    repairs: list[Effect]
    point: RecoveryPoint | None


def recover_log(
    files: Mapping[str, bytes],
    snapshots: list[SnapshotId],
    segment_bytes: int,
    *,
    alone: bool = True,
) -> Recovered:
    """Rebuild the log from its segments; the repairs are those of its end.

    Args:
        files: relative path -> content of the node's folder.
        snapshots: those with valid files, oldest first.
        segment_bytes: see ``RaftConfig``.
        alone: whether this node is the only voter, and wrote every batch itself.

    Raises:
        RecoveryError: damage of durable data, a gap between segments, or records missing from both
            the log and the snapshots.
    """
    paths = {base: path for path in files if (base := layout.segment_base(path)) is not None}
    bases, point = sorted(paths), _recovery_point(files)
    effects: list[Effect] = []
    if point is not None and point.replacing is not None:
        if point.replacing in snapshots[-1:]:
            return _at_snapshot(bases, point.replacing, segment_bytes)
        # The snapshot did not come; the log goes on as it is.
        point = point._replace(replacing=None)
        effects.append(ReplaceFile(layout.RECOVERY_POINT, layout.render_recovery_point(*point)))
    start, start_epoch = _start(bases, paths, snapshots)
    durable = _durable_before(point, snapshots, bases)
    log = MetadataLog(segment_bytes, start_offset=start, start_epoch=start_epoch)
    torn: list[Log] = []
    expected = bases[0] if bases else 0
    for base in bases:
        path = paths[base]
        if base != expected:
            why = f"begins at {base}, the segment before ends at {expected}"
            raise RecoveryError(path, None, why, _GAP)
        found = scan(files[path], base)
        log.segments.append(Segment(base, found.size))
        for batch in found.batches:
            expected = batch.last_offset + 1
            if batch.last_offset >= start:
                log.recovered(batch)
        if found.why is not None:
            last = base == bases[-1]
            end = _Torn(path, files[path], found, expected)
            torn.append(_truncated(end, durable, last=last, alone=alone))
    log.epochs.truncate_from_start(start)
    if expected < durable.offset:
        why = f"the log ends at {expected}, records after it are missing"
        raise RecoveryError(durable.path, None, why, _SHORT)
    effects += torn
    epochs = log.epochs_file()
    if not alone and files.get(layout.EPOCHS, epochs.data) != epochs.data:
        # The end of the log was being cut: the file is written first then.
        effects.append(epochs)
    if expected > durable.offset:
        active = log.segments[-1]
        effects.append(ReplaceFile(active.path, files[active.path][: active.size]))
    elif torn:
        effects.append(TruncateFile(log.segments[-1].path, log.segments[-1].size))
    if snapshots and log.segments and log.segments[-1].base_offset < snapshots[-1].end_offset:
        # It was to end with the newest snapshot, and the process ended before.
        log.roll()
    return Recovered(log, effects, point)


def leftovers(files: Mapping[str, bytes]) -> list[Effect]:
    """Remove files of snapshots whose creation or deletion a stop interrupted."""
    return [DeleteFile(path) for path in sorted(files) if layout.is_leftover(path)]


def _at_snapshot(bases: list[int], snapshot: SnapshotId, segment_bytes: int) -> Recovered:
    """An empty log above a snapshot that was to replace the old one, which is deleted."""
    log = MetadataLog(segment_bytes)
    log.segments += [Segment(base) for base in bases]
    end_offset = snapshot.end_offset
    effects = log.restart_at(end_offset, snapshot.epoch)
    point = RecoveryPoint(end_offset, end_offset)
    effects.append(ReplaceFile(layout.RECOVERY_POINT, layout.render_recovery_point(*point)))
    fields: dict[str, object] = {"end_offset": end_offset, "epoch": snapshot.epoch}
    effects.append(Log("warning", "the snapshot that was loaded replaces the log", fields))
    return Recovered(log, effects, point)


def _start(
    bases: list[int], paths: Mapping[int, str], snapshots: list[SnapshotId]
) -> tuple[int, int]:
    """Offset at which the log begins, and the epoch of the record below it."""
    if not bases or bases[0] == 0:
        return 0, 0
    for snapshot in snapshots:
        if snapshot.end_offset >= bases[0]:
            return snapshot.end_offset, snapshot.epoch
    why = (
        f"the log begins at {bases[0]} and no snapshot holds what is below it: restore a copy "
        "of this folder that has one"
    )
    raise RecoveryError(paths[bases[0]], None, why)


@dataclass(frozen=True, slots=True)
class _Durable:
    """Everything below ``offset`` was durable; the file ``path`` proves it."""

    offset: int
    path: str


def _recovery_point(files: Mapping[str, bytes]) -> RecoveryPoint | None:
    data = files.get(layout.RECOVERY_POINT)
    if data is None:
        return None
    point = layout.parse_recovery_point(data)
    if point is None:
        remedy = "remove it, and only the bytes of the log are checked"
        raise RecoveryError(layout.RECOVERY_POINT, None, "not a recovery point", remedy)
    return point


def _durable_before(
    point: RecoveryPoint | None, snapshots: list[SnapshotId], bases: list[int]
) -> _Durable:
    known = [_Durable(base, layout.segment_path(base)) for base in bases[-1:]]
    known += [_Durable(each.end_offset, layout.snapshot_path(each)) for each in snapshots[-1:]]
    if point is not None:
        known.append(_Durable(point.durable, layout.RECOVERY_POINT))
    return max(known, key=lambda each: each.offset, default=_Durable(0, layout.FOLDER))


@dataclass(frozen=True, slots=True)
class _Torn:
    """A file whose valid batches end before the file does."""

    path: str
    data: bytes
    found: Scan
    expected: int
    """Offset of the batch that should begin where the valid ones end."""


def _truncated(torn: _Torn, durable: _Durable, *, last: bool, alone: bool) -> Log:
    """Check that the rest after the valid batches is a torn end; returns the log line.

    Raises:
        RecoveryError: it is not the end of the log, or it was durable.
    """
    path, found, expected = torn.path, torn.found, torn.expected
    why = f"{found.why}; the record at offset {expected} should begin here"
    if not last:
        raise RecoveryError(path, found.size, f"{why}, and later segments follow", _WAY_OUT)
    if expected < durable.offset:
        why += f", and {durable.path} says that all below {durable.offset} was durable"
        raise RecoveryError(path, found.size, why, _WAY_OUT)
    last_offset = expected
    for position, header in _later_batches(torn.data, found.size + 1, expected):
        if alone and header.base_offset - max(0, header.base_sequence) > expected:
            why += (
                f", and a valid batch with offset {header.base_offset} follows at byte {position}"
            )
            why += ", written when what is damaged was durable"
            raise RecoveryError(path, found.size, why, _WAY_OUT)
        last_offset = header.last_offset
    fields: dict[str, object] = {
        "path": path,
        "position": found.size,
        "bytes": len(torn.data) - found.size,
        "first_offset": expected,
        "why": why,
    }
    if last_offset > expected:
        fields["last_offset_seen"] = last_offset
    return Log("warning", "unfinished end of the log truncated", fields)


def _sound(data: bytes, position: int) -> BatchHeader | str:
    """The header of a complete batch with a valid checksum, or the error."""
    try:
        header = batch_header(data, position)
    except DecodeError as error:
        return error.why
    if position + header.size > len(data):
        return f"batch of {header.size} bytes, {len(data) - position} are left"
    if not batch_crc_holds(data, position):
        return "the checksum is wrong"
    offsets = header.last_offset - header.base_offset + 1
    if header.count != offsets:
        return f"{header.count} records for {offsets} offsets"
    return header


def _later_batches(data: bytes, position: int, expected: int) -> Iterator[tuple[int, BatchHeader]]:
    """Valid batches for offsets from ``expected`` on, anywhere after ``position``."""
    at = data.find(b"\x02", position + _MAGIC_AT)
    while at != -1 and at + HEADER_BYTES - _MAGIC_AT <= len(data):
        header = _sound(data, at - _MAGIC_AT)
        after = at + 1
        if not isinstance(header, str) and header.base_offset >= expected:
            yield at - _MAGIC_AT, header
            after = at + header.size
        at = data.find(b"\x02", after)
