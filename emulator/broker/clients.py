"""The software of connected clients, as they name it in ApiVersions (KIP-511).

Old clients do not name theirs: they are counted as ``unknown``, so that one can see whether any are
left before their versions are given up (KIP-590 "Monitoring Metrics").
"""

from __future__ import annotations

from collections import Counter
from typing import Final

from emulator.net.greeting import SOFTWARE_SINCE, software_is_named
from wire import messages as m

UNKNOWN: Final = "unknown"
NAME_MAX: Final = 100
"""Longer names are cut in the metrics."""


class ClientSoftware:
    """Names and versions by open connection."""

    def __init__(self) -> None:
        self._of: dict[int, tuple[str, str]] = {}

    def named(self, conn: int, request: m.ApiVersionsRequest, version: int) -> None:
        """A client asked for ApiVersions; only a valid name is taken."""
        if version >= SOFTWARE_SINCE and software_is_named(request, version):
            self._of[conn] = (
                request.client_software_name[:NAME_MAX],
                request.client_software_version[:NAME_MAX],
            )

    def left(self, conn: int) -> None:
        """A connection ended."""
        self._of.pop(conn, None)

    def counted(self, open_count: int) -> dict[tuple[str, str], int]:
        """(name, version) -> connections, of ``open_count`` in all."""
        counted = Counter(self._of.values())
        rest = open_count - counted.total()
        if rest > 0:
            counted[UNKNOWN, UNKNOWN] += rest
        return dict(sorted(counted.items()))
