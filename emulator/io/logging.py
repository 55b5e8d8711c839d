"""Log lines: one line each on stderr, ISO time, level, event, fields; JSON on request.

``event_id`` is what programs look for: see ``emulator/trace/log_events.py``.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from functools import cache
from typing import Any, Final

from emulator.io import log_output
from emulator.io.printable import printable, printable_json
from emulator.seam import Log
from emulator.trace.log_event import UNLISTED
from emulator.trace.log_events import log_event

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
    lost_reported = log_output.lines_lost()

    def write_line(line: Log) -> None:
        found = log_event(line.event)
        event_id = UNLISTED if found is None else found.event_id
        getattr(bound(), line.level)(line.event, event_id=event_id, **line.fields)

    def write(line: Log) -> None:
        nonlocal lost_reported
        if LEVELS.index(line.level) < lowest:
            return
        lost = log_output.lines_lost()
        try:
            write_line(line)
        except Exception:  # noqa: BLE001 - such as no descriptor left to load the library
            log_output.lose()
        if lost_reported < lost == log_output.lines_lost():
            lost_reported = lost
            write_line(Log("warning", _LOST, {"lines": lost}))

    return write


class _Lines:
    """Takes rendered lines, as structlog's own loggers do."""

    def __init__(self, *, json: bool) -> None:
        self._json = json

    def msg(self, text: str) -> None:
        safe = printable_json(text) if self._json else printable(text)
        log_output.write(f"{safe}\n")

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
