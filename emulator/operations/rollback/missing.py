"""What a controllers' log holds behind the offset of ``/migration``: changes not in ZooKeeper.

Only the end of the log is decoded, batch headers before it are skipped: between the end of the
controllers and the election of a broker this may take some milliseconds only.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from emulator.metadata.migration_state import MigrationState
from emulator.operations.preflight.controller_folder import ControllerFolder
from emulator.raft import layout
from wire import records as r
from wire.batch import Batch, batch_header, decode_batches
from wire.errors import DecodeError
from wire.record_serde import decode_record
from wire.schema import spec

# Whether the state of a migration may have moved on in a log since it was looked at.
#
# Only what is behind the committed end that was seen is decoded: the cluster has no controller
# while this is read. The answer is careful: any record of the state counts, also one of a
# transaction that is open or aborted, and what is not known counts as moved.

_STATE: Final = spec(r.ZkMigrationStateRecord).key


def committed(folder: ControllerFolder) -> int:
    """The end of what was known to be committed in a folder when it was read."""
    return folder.end_offset - folder.uncommitted


def state_moved(files: Mapping[str, bytes], seen: ControllerFolder) -> bool:
    """Whether a record of the state may follow what was committed in ``seen``.

    Args:
        files: the segments by path below the folder; one that ends before the committed end may be
            left out.
        seen: the folder as it was looked at.
    """
    offset = committed(seen)
    bases = sorted(
        (base, path) for path in files if (base := layout.segment_base(path)) is not None
    )
    try:
        return _follows([files[path] for _, path in bases], offset, seen.epoch_at(offset - 1))
    except DecodeError:
        return True


def _follows(segments: Sequence[bytes], offset: int, epoch: int | None) -> bool:
    """Whether a record of the state is at an offset or behind it, or the log is another one.

    Args:
        segments: in their order.
        offset: the first one that is looked at.
        epoch: of the record before it; None: there is none.
    """
    joined = offset == 0
    for data in segments:
        position = 0
        while position < len(data):
            header = batch_header(data, position)
            end = position + header.size
            if end > len(data):
                break  # a torn end, as a controller leaves that was killed
            if header.base_offset < offset <= header.last_offset + 1:
                joined = header.leader_epoch == epoch
            if header.last_offset >= offset:
                for batch in decode_batches(data[position:end]):
                    if not batch.is_control and _has_state(batch.records):
                        return True
            position = end
    return not joined


def _has_state(records: Sequence[tuple[bytes | None, bytes]]) -> bool:
    # Frame version and type are one byte each: known types are below 128.
    return any(len(value) > 2 and value[1] == _STATE for _, value in records)


WRITTEN_TO_ZOOKEEPER: Final = {
    spec(one).key: one.__name__.removesuffix("Record")
    for one in (
        r.TopicRecord,
        r.PartitionRecord,
        r.PartitionChangeRecord,
        r.RemoveTopicRecord,
        r.ConfigRecord,
        r.ClientQuotaRecord,
        r.UserScramCredentialRecord,
        r.RemoveUserScramCredentialRecord,
        r.AccessControlEntryRecord,
        r.RemoveAccessControlEntryRecord,
        r.ProducerIdsRecord,
        r.DelegationTokenRecord,
        r.RemoveDelegationTokenRecord,
    )
}
"""Type of record -> its name: those of entities that have znodes."""


@dataclass(frozen=True, slots=True)
class FolderEnd:
    """The log of one folder from an offset on.

    ``changes``: offset and kind of each record that ZooKeeper should have. ``epoch``: of the last
    batch. ``problem``: why it is not known what is missing; empty: it is. ``final``: offset of the
    record that finalises the migration; -1: none.
    """

    name: str
    end: int = 0
    epoch: int = -1
    changes: tuple[tuple[int, str], ...] = ()
    problem: str = ""
    final: int = -1


def read(name: str, files: Mapping[str, bytes], offset: int, epoch: int) -> FolderEnd:
    """Read what follows the record at ``offset``, which must be of that leader epoch.

    Args:
        name: of the folder.
        files: segments and names of snapshots by path below the folder; a segment that ends
            before ``offset`` may be left out.
        offset: of ``/migration``.
        epoch: its leader epoch there.
    """
    bases = sorted(
        (base, path) for path in files if (base := layout.segment_base(path)) is not None
    )
    held, end, last, final, changes = False, 0, -1, -1, []
    for _, path in bases:
        data, position = files[path], 0
        try:
            while position < len(data):
                header = batch_header(data, position)
                if position + header.size > len(data):
                    break  # a torn end
                if header.base_offset <= offset <= header.last_offset:
                    held = header.leader_epoch == epoch
                if header.last_offset > offset:
                    batches = decode_batches(data[position : position + header.size])
                    for place, value in _records(batches, offset):
                        if value[1] in WRITTEN_TO_ZOOKEEPER:
                            changes.append((place, WRITTEN_TO_ZOOKEEPER[value[1]]))
                        elif _finalises(value):
                            final = place
                end, last = header.last_offset + 1, header.leader_epoch
                position += header.size
        except DecodeError as error:
            return FolderEnd(name, end, last, tuple(changes), f"{name}: {path}: {error}")
    if not held:
        why = (
            f"the log in {name} does not hold offset {offset} of epoch {epoch}, as /migration says"
        )
        return FolderEnd(name, end, last, (), why)
    return FolderEnd(name, end, last, tuple(changes), final=final)


def _records(batches: Iterable[Batch], offset: int) -> Iterator[tuple[int, bytes]]:
    """Offset and value of each record behind an offset."""
    for batch in batches:
        if batch.is_control:
            continue
        for place, (_, value) in enumerate(batch.records, batch.base_offset):
            # Frame version and type are one byte each: known types are below 128.
            if place > offset and len(value) > 2:
                yield place, value


def _finalises(value: bytes) -> bool:
    if value[1] != _STATE:
        return False
    record, _ = decode_record(value)
    return getattr(record, "zk_migration_state", None) == MigrationState.POST_MIGRATION


def finalised(ends: Sequence[FolderEnd], voters: int) -> bool:
    """Whether the newest log says that the migration was finalised; see :func:`missing`."""
    newest, committed = _committed(ends, voters)
    return newest is not None and 0 <= newest.final < committed


def missing(ends: Sequence[FolderEnd], voters: int) -> tuple[tuple[int, str], ...]:
    """Changes that may have been acknowledged and are not in ZooKeeper.

    The newest log has all of them. Beyond what a majority holds nothing was acknowledged, which is
    known only with the folders of all voters.

    Args:
        ends: of the folders that could be read, without problems.
        voters: how many the quorum has.
    """
    newest, committed = _committed(ends, voters)
    if newest is None:
        return ()
    return tuple(one for one in newest.changes if one[0] < committed)


def _committed(ends: Sequence[FolderEnd], voters: int) -> tuple[FolderEnd | None, int]:
    """The newest log, and the offset from which on nothing was acknowledged for certain."""
    newest = max(ends, key=lambda one: (one.epoch, one.end), default=None)
    if newest is None:
        return None, 0
    if len(ends) < voters:
        return newest, newest.end
    return newest, sorted((one.end for one in ends), reverse=True)[voters // 2]


def counted(changes: Iterable[tuple[int, str]]) -> str:
    """Changes by kind, for a sentence.

    >>> counted([(7, "Topic"), (8, "Partition"), (9, "Partition")])
    '3 records (2 Partition, 1 Topic)'
    """
    kinds: dict[str, int] = {}
    for _, kind in changes:
        kinds[kind] = kinds.get(kind, 0) + 1
    counts = ", ".join(f"{count} {kind}" for kind, count in sorted(kinds.items()))
    total = sum(kinds.values())
    return f"{total} record{'' if total == 1 else 's'} ({counts})"
