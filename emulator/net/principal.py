"""Who the peer of an accepted connection is."""

from __future__ import annotations

from typing import Final

import msgspec


class PeerPrincipal(msgspec.Struct, frozen=True, gc=False):
    """Kafka's ``Type:name``, and whether the peer logged in with a delegation token."""

    name: str = "User:ANONYMOUS"
    token_authenticated: bool = False


NOBODY: Final = PeerPrincipal()
"""Of a peer that says nothing about itself."""
