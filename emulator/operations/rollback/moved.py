"""Whether the state of a migration may have moved on in a log since it was looked at.

Only what is behind the committed end that was seen is decoded: the cluster has no controller while
this is read. The answer is careful: any record of the state counts, also one of a transaction that
is open or aborted, and what is not known counts as moved.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from emulator.operations.preflight.controller_folder import ControllerFolder
from emulator.raft import layout
from wire import records as r
from wire.batch import batch_header, decode_batches
from wire.errors import DecodeError
from wire.schema import spec

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
