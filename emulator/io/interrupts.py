"""Ctrl-C before a verb has begun anything, and after its end: the program is over, without a word.

In between it is a KeyboardInterrupt, so that what was begun is put in order. The first module
of the program: it imports only what the interpreter has already, ``_signal`` and not ``signal``.
"""

from __future__ import annotations

import _signal as signal  # type: ignore[import-not-found]  # in C, without a stub
import os

CODE = 130


def _end(_number: int, _frame: object) -> None:
    # An exception would end in a traceback wherever an import or the interpreter's end catches it.
    os._exit(CODE)


def end_at_once() -> None:
    """Let Ctrl-C end the process at once; where it is ignored, as under ``nohup``, it stays so."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, _end)


def put_in_order() -> None:
    """Let Ctrl-C raise KeyboardInterrupt again, if :func:`end_at_once` has changed that."""
    if signal.getsignal(signal.SIGINT) is _end:
        signal.signal(signal.SIGINT, signal.default_int_handler)
