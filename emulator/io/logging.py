"""Log lines: one line each on stderr, ISO time, level, event, fields; JSON on request."""

from __future__ import annotations

import contextlib
import importlib
import sys
from collections.abc import Callable
from functools import cache
from typing import Any

from emulator.seam import Log

_LEVELS = {"debug": 0, "info": 1, "warning": 2, "error": 3}


def logger(node: str, *, json: bool = False, level: str = "info") -> Callable[[Log], None]:
    """A performer of ``Log`` effects that writes to stderr (stdout is for data)."""
    bound = cache(lambda: _bound(node, json=json))
    lowest = _LEVELS[level]

    def write(line: Log) -> None:
        if _LEVELS[line.level] < lowest:
            return
        # A full disk or a closed pipe behind stderr costs lines, not the process.
        with contextlib.suppress(OSError):
            getattr(bound(), line.level)(line.event, **line.fields)

    return write


def _bound(node: str, *, json: bool) -> Any:
    """The logger of a node; its library is loaded for the first line, after the node listens."""
    structlog: Any = importlib.import_module("structlog")
    renderer = (
        structlog.processors.JSONRenderer()
        if json
        else structlog.dev.ConsoleRenderer(colors=False, pad_event_to=0)
    )
    return structlog.wrap_logger(
        structlog.PrintLogger(sys.stderr),
        processors=[
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            renderer,
        ],
    ).bind(node=node)
