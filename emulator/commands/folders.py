"""A controller's folder, read from outside.

Nothing is written; the controller may be running.
"""

from __future__ import annotations

import random
from pathlib import Path

from emulator.metadata.image import Image
from emulator.node.recovery import load_history
from emulator.raft import layout
from emulator.raft.config import RaftConfig
from emulator.raft.errors import RecoveryError
from emulator.raft.format import MetaProperties, parse_meta_properties
from emulator.raft.machine import Raft
from emulator.raft.quorum_state import voters_in


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
    files.pop(layout.CONTRADICTED, None)
    try:
        meta = parse_meta_properties(data)
        voters = {meta.node_id} | voters_in(files.get(layout.QUORUM_STATE, b""))
        config = RaftConfig(meta.node_id, meta.cluster_id, dict.fromkeys(voters, ("", 0)))
        return meta, Raft(config, files, random.Random(0), 0)  # noqa: S311 - it draws nothing
    except RecoveryError as error:
        raise FolderUnreadableError(f"{folder}: {error}") from error


def _paths(folder: Path) -> list[Path]:
    """The files of the log, and those beside its folder: others, of any size, may be there too.

    A token is for the user of the controller alone.
    """
    log = folder / layout.FOLDER
    paths = [
        path
        for path in sorted((*folder.iterdir(), *(log.iterdir() if log.is_dir() else ())))
        if path.is_file() and not path.name.endswith((".lock", ".part", ".token"))
    ]
    # A controller that is running may renew this file: it must not be newer than the log.
    paths.sort(key=lambda path: path != folder / layout.RECOVERY_POINT)
    return paths


def committed_image(raft: Raft, folder: Path, elsewhere: int = 0) -> Image:
    """The image of what is committed in the folder's log, as far as the folder tells.

    In a quorum of one that is all of it. The end of the log of one of several voters may be
    truncated; it has written down what it knew to be committed, a few seconds ago if it was killed.

    Args:
        raft: the log.
        folder: where it is.
        elsewhere: below that offset something else than the folder shows it to be committed.

    Raises:
        FolderUnreadableError: a record does not fit.
    """
    try:
        history = load_history(raft)
    except RecoveryError as error:
        raise FolderUnreadableError(f"{folder}: {error}") from error
    alone = len(raft.config.voters) == 1
    history.advance(raft.log_end_offset if alone else max(raft.committed_end, elsewhere))
    return history.stable
