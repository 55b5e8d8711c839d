"""Standard error of a server process, which never waits for it and never ends because of it.

Behind it may be a full disk, a closed pipe, or a pipe that is not read: what cannot be written at
once is lost, and counted.
"""

from __future__ import annotations

import io
import os
import select
import sys
from typing import Final

_PIECE: Final = select.PIPE_BUF
"""What can be written has room for so many bytes; more at a time could wait."""


class _Lost:
    """Counts, of this process."""

    lines = 0


def lines_lost() -> int:
    """Lines of this process that are not on standard error, or not whole."""
    return _Lost.lines


def lose(lines: int = 1) -> None:
    """Count lines that never came so far as to be written."""
    _Lost.lines += lines


def write(text: str) -> None:
    """Write lines to what is standard error at the time, or lose them."""
    try:
        sys.stderr.write(text)
        sys.stderr.flush()
    except (OSError, ValueError):  # ValueError: it is closed
        _Lost.lines += text.count("\n")


def never_wait() -> None:
    """From now on nothing that this process writes to standard error makes it wait or fail.

    What has taken the place of standard error, as in tests, stays there.
    """
    own = sys.__stderr__
    if own is not None and sys.stderr is own:
        patient = _Patient(own.fileno())
        sys.stderr = io.TextIOWrapper(
            io.BufferedWriter(patient), "utf-8", "backslashreplace", line_buffering=True
        )


class _Patient(io.RawIOBase):
    """Takes every byte; what the file does not take at once is lost."""

    def __init__(self, fd: int) -> None:
        self._fd = fd
        self._ready = select.poll()
        self._ready.register(fd, select.POLLOUT)
        self._cut = False

    def writable(self) -> bool:
        return True

    def fileno(self) -> int:
        return self._fd

    def isatty(self) -> bool:
        return os.isatty(self._fd)

    def write(self, data: bytes | memoryview) -> int:  # type: ignore[override]  # of any buffer
        """Write what can be written now; returns the length of all of it."""
        whole = bytes(data)
        # A line that was cut must not spoil the next one.
        left = b"\n" + whole if self._cut else whole
        try:
            while left and self._ready.poll(0):
                done = os.write(self._fd, left[:_PIECE])
                self._cut = left[done - 1] != ord("\n")
                left = left[done:]
        except OSError:
            pass
        if left:
            _Lost.lines += max(1, left.count(b"\n"))
        return len(whole)
