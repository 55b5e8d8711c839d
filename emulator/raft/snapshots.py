"""Snapshots of the metadata log: written in slices, kept compressed, served as raw bytes.

A snapshot is a file with its own batches: offsets begin at 0, every batch carries the snapshot's
epoch; first a control batch with the header, last one with the footer. The content of a snapshot id
never changes, because observers assemble it from pieces. Source: KIP-630; RecordsSnapshotWriter,
Kafka 3.9.
"""

from __future__ import annotations

import zlib
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import islice
from typing import Final

from emulator.raft import layout
from emulator.raft.layout import RecoveryError, SnapshotId, snapshot_path
from emulator.raft.recovery import scan
from emulator.seam import DeleteFile, Effect
from wire import records as r
from wire.batch import Batch, decode_batches, encode_batch
from wire.errors import DecodeError
from wire.record_serde import decode_control, encode_control

CONTROL = 0x20
_SLICE_BYTES_MAX = 1024 * 1024
_PIECE_BYTES: Final = 256 * 1024

Verify = Callable[[bytes], None]


class Packed:
    """The bytes of a snapshot in pieces, each compressed by itself.

    That takes a sixth to a twentieth of their memory. Two snapshots are kept, and hardly ever
    served: of 1,000,000 partitions they would take 230 MB.

    >>> packed = Packed(b"abcde")
    >>> packed.add(b"fg")
    >>> packed.size, packed.read(3, 3), packed.read(6, 10), packed.read(0, packed.size)
    (7, b'def', b'g', b'abcdefg')
    """

    __slots__ = ("_pieces", "_starts", "size")

    def __init__(self, data: bytes = b"") -> None:
        self.size = 0
        self._starts: list[int] = []
        self._pieces: list[bytes] = []
        for at in range(0, len(data), _PIECE_BYTES):
            self.add(data[at : at + _PIECE_BYTES])

    def add(self, data: bytes) -> None:
        """Append bytes; 1 MiB takes 3 ms."""
        self._starts.append(self.size)
        self._pieces.append(zlib.compress(data, 1))
        self.size += len(data)

    def read(self, position: int, count: int) -> bytes:
        """So many bytes from a position on, fewer at the end."""
        end = min(position + count, self.size)
        found: list[bytes] = []
        for at in range(max(bisect_right(self._starts, position) - 1, 0), len(self._starts)):
            start = self._starts[at]
            if start >= end:
                break
            data = zlib.decompress(self._pieces[at])
            found.append(data[max(position - start, 0) : end - start])
        return b"".join(found)


class SnapshotWriter:
    """Encodes one snapshot a slice at a time.

    Args:
        snapshot: its id.
        values: encoded records; read lazily, so they must not change until it is finished.
        last_timestamp_ms: of the last contained record; the timestamp of the header and every
            batch.
        verify: decodes a batch and raises if it cannot.
    """

    def __init__(
        self,
        snapshot: SnapshotId,
        values: Iterable[bytes],
        last_timestamp_ms: int,
        verify: Verify,
    ) -> None:
        self.id = snapshot
        self.last_timestamp_ms = last_timestamp_ms
        self._values = iter(values)
        self._verify = verify
        self._offset = 0
        self._parts: list[bytes] = []
        self.packed = Packed()
        """The same as :meth:`content`."""
        self._control(
            r.SnapshotHeaderRecord(version=0, last_contained_log_timestamp=last_timestamp_ms)
        )

    def step(self, count: int) -> bool:
        """Encode up to ``count`` more records as batches; True when the footer is written."""
        values = list(islice(self._values, count))
        chunk: list[bytes] = []
        size = 0
        for value in values:
            if chunk and size + len(value) > _SLICE_BYTES_MAX:
                self._batch([(None, each) for each in chunk], 0)
                chunk, size = [], 0
            chunk.append(value)
            size += len(value)
        if chunk:
            self._batch([(None, each) for each in chunk], 0)
        if len(values) == count:
            return False
        self._control(r.SnapshotFooterRecord(version=0))
        return True

    def content(self) -> bytes:
        """The whole file, once ``step`` returned True."""
        return b"".join(self._parts)

    def _control(self, record: r.SnapshotHeaderRecord | r.SnapshotFooterRecord) -> None:
        self._batch([encode_control(record)], CONTROL)

    def _batch(self, records: list[tuple[bytes | None, bytes]], attributes: int) -> None:
        data = encode_batch(
            Batch(self._offset, self.id.epoch, attributes, self.last_timestamp_ms, records)
        )
        self._verify(data)
        self._parts.append(data)
        self.packed.add(data)
        self._offset += len(records)


def render(
    snapshot: SnapshotId, values: Iterable[bytes], last_timestamp_ms: int, verify: Verify
) -> bytes:
    """One snapshot file in one step; for small files such as ``bootstrap.checkpoint``."""
    writer = SnapshotWriter(snapshot, values, last_timestamp_ms, verify)
    while not writer.step(1000):
        pass
    return writer.content()


def values_of(path: str, data: bytes) -> Iterator[bytes]:
    """Data records of a snapshot file, in order; the file is checked before the first is returned.

    Raises:
        RecoveryError: see ``check``.
    """
    check(path, data, None)
    return (
        value
        for batch in decode_batches(data)
        if not batch.attributes & CONTROL
        for _, value in batch.records
    )


def check(path: str, data: bytes, snapshot: SnapshotId | None) -> None:
    """Check that a snapshot file is complete: valid batches from offset 0, header, footer.

    Args:
        path: for the error.
        data: the file.
        snapshot: the id in its name; None: epochs are not checked.

    Raises:
        RecoveryError: anything else; a missing footer means that the file was never finished.
    """
    found = scan(data, 0)
    if found.why is not None:
        raise RecoveryError(path, found.size, found.why)
    if not found.batches:
        raise RecoveryError(path, 0, "empty, not even a snapshot header")
    if _control_of(path, found.batches[0].data) is not r.SnapshotHeaderRecord:
        raise RecoveryError(path, 0, "does not begin with a snapshot header")
    if _control_of(path, found.batches[-1].data) is not r.SnapshotFooterRecord:
        raise RecoveryError(path, found.size, "no snapshot footer, the file was never finished")
    if snapshot is not None and any(batch.epoch != snapshot.epoch for batch in found.batches):
        raise RecoveryError(path, 0, f"a batch is not of epoch {snapshot.epoch}")


def _control_of(path: str, data: bytes) -> type | None:
    """Type of the first (header) or last (footer) control record of a batch."""
    try:
        batch = next(iter(decode_batches(data)))
        if not batch.attributes & CONTROL:
            return None
        key, value = batch.records[0]
        return None if key is None else type(decode_control(key, value))
    except DecodeError as error:
        raise RecoveryError(path, error.offset, str(error)) from error


_WAY_OUT: Final = (
    "restore an undamaged copy of it. Or remove it, if an older snapshot or the log from offset 0 "
    "on is in the folder"
)


class Snapshots:
    """The finished snapshots of a node, oldest first, with their bytes."""

    def __init__(self, found: Mapping[SnapshotId, Packed]) -> None:
        self._data = dict(sorted(found.items()))

    def ids(self) -> list[SnapshotId]:
        """Oldest first."""
        return list(self._data)

    @property
    def earliest(self) -> SnapshotId | None:
        """The oldest one kept."""
        return next(iter(self._data), None)

    @property
    def latest(self) -> SnapshotId | None:
        """The newest one."""
        return next(reversed(self._data), None)

    def data(self, snapshot: SnapshotId) -> Packed | None:
        """The bytes of a snapshot, or None if it is not kept."""
        return self._data.get(snapshot)

    def add(self, snapshot: SnapshotId, data: Packed) -> None:
        """Keep a finished snapshot; its content is final."""
        latest = self.latest
        assert latest is None or snapshot.end_offset > latest.end_offset, "snapshots only advance"
        self._data[snapshot] = data

    def forget_all_but(self, count: int) -> list[Effect]:
        """Drop the oldest ones beyond ``count``."""
        gone = self.ids()[:-count]
        for snapshot in gone:
            del self._data[snapshot]
        return [DeleteFile(snapshot_path(snapshot)) for snapshot in gone]


def recover_snapshots(files: Mapping[str, bytes]) -> Snapshots:
    """Take the snapshots found in a node's folder.

    Raises:
        RecoveryError: one of them is invalid; snapshots are renamed into place when finished, so it
            is damaged.
    """
    found: dict[SnapshotId, Packed] = {}
    for path in sorted(files):
        snapshot = layout.snapshot_id(path)
        if snapshot is not None and snapshot != layout.BOOTSTRAP_SNAPSHOT_ID:
            try:
                check(path, files[path], snapshot)
            except RecoveryError as error:
                raise RecoveryError(path, error.position, error.why, _WAY_OUT) from error
            found[snapshot] = Packed(files[path])
    return Snapshots(found)
