"""The number of connections for which this process has file descriptors."""

from __future__ import annotations

import contextlib
import resource
from typing import Final

RESERVE_MAX: Final = 512
"""For the log, snapshots, the trace, ZooKeeper, a connection to each broker, and for connections
that are accepted in one turn of the loop before the first of them is turned away (the backlog of a
listener, 100)."""


def for_connections() -> int:
    """Raise the soft limit to the hard limit if possible; returns it without the reserve."""
    _soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with contextlib.suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    soft, _hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    return beside_reserve(soft)


def beside_reserve(limit: int) -> int:
    """Descriptors for connections under a limit; the reserve is a quarter of a low one.

    >>> beside_reserve(20_000), beside_reserve(400)
    (19488, 300)
    """
    if limit == resource.RLIM_INFINITY:
        limit = 2**31 - 1
    return limit - min(RESERVE_MAX, limit // 4)
