"""What the system refuses, as a person reads it."""

from __future__ import annotations

import os


def sentence(error: OSError) -> str:
    """The file and the reason, without Python's number.

    >>> sentence(FileNotFoundError(2, "No such file or directory", "x"))
    'x: No such file or directory'
    """
    why = error.strerror or str(error) or type(error).__name__
    names = [os.fsdecode(one) for one in (error.filename, error.filename2) if one is not None]
    return f"{' and '.join(names)}: {why}" if names else why
