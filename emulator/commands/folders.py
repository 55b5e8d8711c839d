"""A controller's folder, read from outside.

Nothing is written; the controller may be running.
"""

from __future__ import annotations

from pathlib import Path

from emulator.metadata.image import Image
from emulator.node import recovery
from emulator.raft import layout
from emulator.raft.format import MetaProperties
from emulator.raft.layout import RecoveryError
from emulator.raft.machine import Raft


class FolderUnreadableError(Exception):
    """The folder cannot be read; the text says which and why."""


def open_log(folder: Path) -> tuple[MetaProperties, Raft]:
    """Read a controller's folder without taking its lock; one that must not start too.

    Raises:
        FolderUnreadableError: not a formatted folder, or damaged.
    """
    try:
        data = (folder / layout.META_PROPERTIES).read_bytes()
        files = {path.relative_to(folder).as_posix(): path.read_bytes() for path in _paths(folder)}
    except (FileNotFoundError, NotADirectoryError):
        raise FolderUnreadableError(
            f"{folder} has no meta.properties: not a formatted controller's folder"
        ) from None
    except OSError as error:
        raise FolderUnreadableError(f"{error.filename}: {error.strerror}") from error
    files[layout.META_PROPERTIES] = data
    try:
        return recovery.opened(files)
    except RecoveryError as error:
        raise FolderUnreadableError(recovery.damaged(str(folder), error)) from error


def _paths(folder: Path) -> list[Path]:
    """The files of the log, and those beside its folder: others, of any size, may be there too.

    Tokens and ``status.url`` are for the user of the controller, and go when it ends.
    """
    log = folder / layout.FOLDER
    paths = [
        path
        for path in sorted((*folder.iterdir(), *(log.iterdir() if log.is_dir() else ())))
        if path.is_file() and not path.name.endswith((".lock", ".part", ".token", ".url"))
    ]
    # A controller that is running may renew this file: it must not be newer than the log.
    paths.sort(key=lambda path: path != folder / layout.RECOVERY_POINT)
    return paths


def committed_image(raft: Raft, folder: Path, elsewhere: int = 0) -> Image:
    """See :func:`recovery.committed_image`; ``folder``: where the log is.

    Raises:
        FolderUnreadableError: a record does not fit.
    """
    try:
        return recovery.committed_image(raft, elsewhere)
    except RecoveryError as error:
        raise FolderUnreadableError(f"{folder}: {error}") from error
