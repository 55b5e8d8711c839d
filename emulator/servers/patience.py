"""Wait for an event while servers run: ask slow servers again, stop when a server has ended."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Sequence
from typing import Final, TypeVar

from kazoo.exceptions import KazooException
from kazoo.handlers.threading import KazooTimeoutError

from emulator.servers.process import ProcessError, ServerProcess
from emulator.servers.waiting import PATIENCE_S, wait_for
from emulator.servers.zk_dump import UnreadableError

T = TypeVar("T")

SLOW: Final = (
    OSError,
    KazooException,
    KazooTimeoutError,
    UnreadableError,
    subprocess.CalledProcessError,
)
"""Errors of a server that does not answer in time, or of a tool that reads an unfinished log."""


def patiently(
    what: str,
    ready: Callable[[], T],
    servers: Sequence[ServerProcess],
    timeout_s: float = PATIENCE_S,
) -> T:
    """Call ``ready`` until it answers something true, and return that.

    Args:
        what: for messages.
        ready: may fail as a server that does not answer makes it.
        servers: that are to run meanwhile.
        timeout_s: seconds.

    Raises:
        ProcessError: one of them has ended by itself.
        TimeoutError: it was not so in time.
    """
    last_error = ""

    def asked() -> T | None:
        nonlocal last_error
        if ended := [one for one in servers if one.exit_code is not None]:
            raise ProcessError(f"{ended[0].name} ended by itself with {ended[0].exit_code}")
        try:
            return ready()
        except SLOW as error:
            last_error = f"; {type(error).__name__}: {error}"
            return None

    try:
        found = wait_for(what, asked, timeout_s)
    except TimeoutError as late:
        raise TimeoutError(f"{late}{last_error}") from late
    assert found is not None
    return found
