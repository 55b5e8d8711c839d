"""Standard error of a server process, which never waits for it and never ends because of it.

Behind it may be a full disk, a closed pipe, or a pipe that is not read: what cannot be written at
once is lost, and counted.
"""

from __future__ import annotations

import importlib
import io
import os
import select
import sys
from collections.abc import Callable
from functools import cache
from typing import Any, Final

from emulator.io.printable import printable, printable_json
from emulator.seam import Log
from emulator.trace.log_events import UNLISTED, log_event

# Log lines: one line each on stderr, ISO time, level, event, fields; JSON on request.
#
# ``event_id`` is what programs look for: see ``emulator/trace/log_events.py``.

LEVELS: Final = ("trace", "debug", "info", "warning", "error")
_LOST = "log lines could not be written"


def logger(node: str, *, json: bool = False, level: str = "info") -> Callable[[Log], None]:
    """A performer of ``Log`` effects that writes to stderr (stdout is for data).

    Args:
        node: its id, in each line.
        json: lines as JSON.
        level: lines below it are left out; one of ``LEVELS``.
    """
    bound = cache(lambda: _bound(node, json=json))
    lowest = LEVELS.index(level)
    lost_reported = lines_lost()

    def write_line(line: Log) -> None:
        found = log_event(line.event)
        event_id = UNLISTED if found is None else found.event_id
        getattr(bound(), line.level)(line.event, event_id=event_id, **line.fields)

    def write(line: Log) -> None:
        nonlocal lost_reported
        if LEVELS.index(line.level) < lowest:
            return
        lost = lines_lost()
        try:
            write_line(line)
        except Exception:  # noqa: BLE001 - such as no descriptor left to load the library
            lose()
        if lost_reported < lost == lines_lost():
            lost_reported = lost
            write_line(Log("warning", _LOST, {"lines": lost}))

    return write


class _Lines:
    """Takes rendered lines, as structlog's own loggers do."""

    def __init__(self, *, json: bool) -> None:
        self._json = json

    def msg(self, text: str) -> None:
        safe = printable_json(text) if self._json else printable(text)
        write(f"{safe}\n")

    trace = debug = info = warning = error = msg


def _bound(node: str, *, json: bool) -> Any:
    """The logger of a node; its library is loaded for the first line, after the node listens."""
    structlog: Any = importlib.import_module("structlog")
    renderer = (
        structlog.processors.JSONRenderer()
        if json
        else structlog.dev.ConsoleRenderer(colors=False, pad_event_to=0)
    )
    return structlog.wrap_logger(
        _Lines(json=json),
        processors=[
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            renderer,
        ],
        wrapper_class=structlog.BoundLogger,
    ).bind(node=node)


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
        ended = not self._cut
        try:
            while left and self._ready.poll(0):
                done = os.write(self._fd, left[:_PIECE])
                ended = left[done - 1] == ord("\n")
                left = left[done:]
        except OSError:
            pass
        # What ends without a newline and is whole, such as the foot of a terminal, was not cut.
        self._cut = bool(left) and not ended
        if left:
            _Lost.lines += max(1, left.count(b"\n"))
        return len(whole)
