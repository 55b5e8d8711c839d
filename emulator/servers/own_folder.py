"""A folder below the system's temporary one that this user alone has, from run to run."""

from __future__ import annotations

import atexit
import errno
import functools
import os
import shutil
import stat
import tempfile
from pathlib import Path


def own_folder() -> Path | None:
    """The folder, made if missing; None if others own it, or may write to it.

    Anybody may make a folder of that name first: what another user can write is neither used nor
    run.
    """
    folder = Path(tempfile.gettempdir(), f"kraft-bridge-{os.getuid()}")
    try:
        folder.mkdir(mode=0o700, exist_ok=True)
        found = folder.lstat()
    except OSError:
        return None
    mine = stat.S_ISDIR(found.st_mode) and found.st_uid == os.getuid()
    return folder if mine and not found.st_mode & (stat.S_IWGRP | stat.S_IWOTH) else None


@functools.cache
def private_folder(_process: int) -> Path:
    """The folder; if its name is taken, a new one, which goes with this process.

    Args:
        _process: the id of this process.

    Raises:
        OSError: none can be made.
    """
    folder = own_folder()
    if folder is not None:
        return folder
    made = tempfile.mkdtemp(prefix="kraft-bridge-")
    atexit.register(shutil.rmtree, made, ignore_errors=True)
    return Path(made)


def make_folder(root: Path) -> None:
    """Make a folder, with those above it, unless it is there.

    Raises:
        NotADirectoryError: something else has its name.
        OSError: it cannot be made.
    """
    try:
        root.mkdir(parents=True, exist_ok=True)
    except FileExistsError:
        raise NotADirectoryError(errno.ENOTDIR, "not a folder", str(root)) from None
