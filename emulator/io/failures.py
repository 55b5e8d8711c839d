"""What the system refuses, as a person reads it."""

from __future__ import annotations

import os


def sentence(error: Exception) -> str:
    """The text of an error; of the system's, the file and the reason, without Python's number.

    >>> sentence(FileNotFoundError(2, "No such file or directory", "x"))
    'x: No such file or directory'
    >>> sentence(ValueError("nothing is given"))
    'nothing is given'
    """
    if not isinstance(error, OSError):
        return str(error)
    why = error.strerror or str(error) or type(error).__name__
    names = [os.fsdecode(one) for one in (error.filename, error.filename2) if one is not None]
    return f"{' and '.join(names)}: {why}" if names else why
