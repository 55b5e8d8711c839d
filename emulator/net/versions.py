"""ApiVersions, both ways: how an offer is written, and where a peer's offer meets what we declare.

Source: KIP-35, KIP-511; NodeApiVersions.latestUsableVersion and NetworkClient, Kafka 3.9.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from wire import messages as m
from wire.releases import Ranges
from wire.schema import Spec, spec

API_VERSIONS: Final = 18


class NoCommonVersionError(Exception):
    """The peer supports no version that has what the request needs.

    ``name`` is the API's; ``offered_max`` its highest version at the peer, -1 if it has none.
    """

    def __init__(self, name: str, offered_max: int) -> None:
        """Say which API it is."""
        what = "is not offered" if offered_max < 0 else f"is offered up to version {offered_max}"
        super().__init__(f"{name} {what}")
        self.name = name
        self.offered_max = offered_max


def declared(request: type) -> tuple[Spec, int]:
    """What is declared of a class of requests, and its API key.

    Raises:
        DeclarationError: no message is declared by this class.
    """
    found = spec(request)
    assert found.key is not None, request
    return found, found.key


def offered(answer: m.ApiVersionsResponse) -> Ranges:
    """API key -> lowest and highest version, as a peer answered."""
    return {api.api_key: (api.min_version, api.max_version) for api in answer.api_keys}


def listed(ranges: Mapping[int, tuple[int, int]]) -> list[m.ApiVersionsResponse.ApiVersion]:
    """The same as a server writes it, in the order of ``ranges``."""
    kind = m.ApiVersionsResponse.ApiVersion
    return [
        kind(api_key=key, min_version=low, max_version=high) for key, (low, high) in ranges.items()
    ]


def common(ranges: Ranges | None, request: type, lowest: int = 0) -> int:
    """The newest version that both sides speak.

    Args:
        ranges: what the peer offers; None when it was not asked, and is taken to speak what we do.
        request: the class of the request.
        lowest: version below which the request cannot say what is meant.

    Raises:
        NoCommonVersionError: there is none.
    """
    ours, key = declared(request)
    if ranges is None:
        return ours.max_version
    low, high = ranges.get(key, (0, -1))
    version = min(high, ours.max_version)
    if version < max(low, ours.min_version, lowest):
        raise NoCommonVersionError(ours.name.removesuffix("Request"), high)
    return version


def next_greeting(refused: m.ApiVersionsResponse, version: int) -> int | None:
    """The version of ApiVersions to try after a peer refused ``version``; None: give up.

    A peer answers a version that it does not know in version 0, with its own range if it is not a
    very old one.
    """
    _, high = offered(refused).get(API_VERSIONS, (0, 0))
    lower = min(high, version - 1)
    return lower if lower >= 0 else None
