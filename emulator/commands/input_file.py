"""A file that a user names, read whole."""

from __future__ import annotations

from pathlib import Path


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
