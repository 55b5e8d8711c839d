"""Reads the end of each controller's log on this machine: what may not be in ZooKeeper."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from emulator.operations.rollback import missing
from emulator.operations.rollback.missing import FolderEnd
from emulator.operations.rollback.situation import ControllerSeen, Situation
from emulator.raft import layout
from emulator.znodes.migration import MigrationZnode


def read(controllers: Iterable[ControllerSeen], mark: MigrationZnode) -> list[FolderEnd]:
    """The end of each log, from the segment on that holds the offset in ``/migration``."""
    offset, epoch = mark.kraft_metadata_offset, mark.kraft_metadata_epoch
    ends = []
    for name in (one.folder for one in controllers if one.folder):
        try:
            files = _segments(Path(name), offset)
        except OSError as error:
            ends.append(FolderEnd(name, problem=f"{error.filename}: {error.strerror}"))
            continue
        ends.append(missing.read(name, files, offset, epoch))
    return ends


def state_moved(seen: Situation) -> bool:
    """Whether a log here may have another state of the migration than was seen, or be unreadable.

    A folder that cannot be read counts as moved: the next complete look reports the reason.
    """
    for one in seen.survey.folders:
        try:
            files = _segments(Path(one.name), missing.committed(one))
        except OSError:
            return True
        if missing.state_moved(files, one):
            return True
    return False


def _segments(folder: Path, offset: int) -> dict[str, bytes]:
    """Segments that can hold what follows an offset, by path below the folder."""
    inner = folder / layout.FOLDER
    found = {
        base: path
        for path in inner.iterdir()
        if (base := layout.segment_base(f"{layout.FOLDER}/{path.name}")) is not None
    }
    first = max((base for base in found if base <= offset), default=0)
    return {
        f"{layout.FOLDER}/{path.name}": path.read_bytes()
        for base, path in found.items()
        if base >= first
    }
