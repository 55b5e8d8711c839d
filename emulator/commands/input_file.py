"""A file that a user names, read whole."""

from __future__ import annotations

from pathlib import Path

from emulator.znodes import dump
from emulator.znodes.reader import Tree


def whole(path: Path) -> bytes:
    """What is in a file; a device, such as /dev/zero, may have no end.

    Raises:
        OSError: it cannot be read.
        ValueError: it is a device.

    >>> whole(Path("/dev/zero"))
    Traceback (most recent call last):
    ValueError: it is a device
    """
    if path.is_char_device():
        raise ValueError("it is a device")
    return path.read_bytes()


# A dumped ZooKeeper tree from a file, for the commands that work offline.


class TreeFileError(Exception):
    """The file cannot be read, or is not a dump; the text is one sentence that names it."""


def load(path: Path) -> Tree:
    """Read what ``kraft-bridge zk dump`` printed, secrets left out or not.

    ``znodes.dump.redacted`` lists their paths.

    Raises:
        TreeFileError: no such file, not readable, no JSON, or no dump of a tree.
    """
    try:
        data = whole(path)
    except OSError as error:
        raise TreeFileError(f"{path}: {error.strerror or error}") from error
    except ValueError as error:
        raise TreeFileError(f"{path}: {error}, not a dump of a ZooKeeper tree") from error
    try:
        return dump.parse(data)
    except dump.DumpError as error:
        raise TreeFileError(f"{path}: {error}") from error
