"""One answer of a machine to one request, matched by the ticket the request came with."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Reply:
    """``message`` answers the request that carried ``ticket``; the node knows its connection."""

    ticket: object
    message: object
