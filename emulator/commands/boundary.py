"""The end of every verb: what an operator can repair is one sentence and an exit code.

Other exceptions are faults of this program; their traceback is shown, for a report.
"""

from __future__ import annotations

import contextlib
import errno
import os
import sys
from collections.abc import Callable
from typing import Final, TextIO

from emulator.commands.exits import ExitCode
from emulator.config.words import install
from emulator.io.printable import sentence

_EXTRAS: Final = {
    "cryptography": ("tls", "passwords"),
    "jinja2": ("spark",),
    "pandas": ("spark",),
    "pyarrow": ("spark",),
    "pyspark": ("spark",),
}
"""Package -> the extras that install it."""


def run(program: Callable[[], object]) -> int:
    """Run a verb; returns its exit code. Nothing is left in the buffers of the two streams.

    Args:
        program: the parser and the verb; may end with SystemExit.
    """
    try:
        code = _code_of(program)
    except KeyboardInterrupt:
        code = ExitCode.INTERRUPTED
    except ModuleNotFoundError as error:
        extra = _EXTRAS.get((error.name or "").partition(".")[0])
        if extra is None:
            raise
        code = _print_problem(f"the package {error.name} is missing; {install(*extra)}")
    except OSError as error:
        code = ExitCode.FOUND if error.errno == errno.EPIPE else _print_problem(sentence(error))
        if error.errno == errno.ENAMETOOLONG:
            code = ExitCode.WRONG  # a name that was given, and not yet looked at
    for stream, name in ((sys.stdout, "standard output"), (sys.stderr, "standard error")):
        code = _flushed(stream, name) or code
    return int(code)


def have_streams() -> None:
    """Stand in for a standard stream that the caller has closed.

    Else the next file that is opened, perhaps one of the log, has the number of standard error, and
    gets what C code writes there.
    """
    while (fd := os.open(os.devnull, os.O_RDWR)) <= 2:
        pass
    os.close(fd)
    if sys.stdout is None:
        sys.stdout = os.fdopen(1, "w", closefd=False)
    if sys.stderr is None:
        sys.stderr = os.fdopen(2, "w", closefd=False)


def encode_anything() -> None:
    """Let names of files that are no text be shown: a message must not fail on what it names."""
    for stream in (sys.stdout, sys.stderr):
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None:
            reconfigure(errors="backslashreplace")


def _code_of(program: Callable[[], object]) -> int:
    try:
        program()
    except SystemExit as end:
        if end.code is None or isinstance(end.code, int):
            return end.code or 0
        return _print_problem(str(end.code))
    return 0


def _print_problem(problem: str) -> int:
    # A closed or full standard error changes nothing about the exit code.
    with contextlib.suppress(OSError):
        sys.stderr.write(f"kraft-bridge: {problem}\n")
    return ExitCode.FOUND


def _flushed(stream: TextIO | None, name: str) -> int:
    """Write what is left; 0, or the code if that fails. The interpreter does not try it again."""
    if stream is None or stream.closed:
        return 0
    try:
        stream.flush()
    except OSError as error:
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, stream.fileno())
        os.close(null)
        if stream is sys.stderr:
            return 0  # as in _print_problem
        if error.errno != errno.EPIPE:
            _print_problem(f"{name}: {error.strerror}")
        return ExitCode.FOUND
    return 0
