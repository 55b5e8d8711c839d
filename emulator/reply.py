"""One answer of a machine to one request, matched by the ticket the request came with."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Reply:
    """``message`` answers the request that carried ``ticket``; the node knows its connection.

    ``first_offset`` and ``last_offset``: the records the request appended, None for a request that
    appended none. They serve the trace.
    """

    ticket: object
    message: object
    first_offset: int | None = None
    last_offset: int | None = None
