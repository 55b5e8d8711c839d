"""ApiVersions: lists our version ranges, and finds common versions with a peer.

Source: KIP-35, KIP-511; NodeApiVersions.latestUsableVersion and NetworkClient, Kafka 3.9.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from wire import messages as m
from wire.releases import Ranges
from wire.schema import Spec, spec

API_VERSIONS: Final = 18
SOFTWARE_SINCE: Final = 3
"""First version of ApiVersions in which a client names its software (KIP-511)."""
_SOFTWARE: Final = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?")


class NoCommonVersionError(Exception):
    """The peer supports no version that the request needs.

    ``name`` is the API's; ``offered_max`` its highest version at the peer, -1 if it has none.
    """

    def __init__(self, name: str, offered_max: int) -> None:
        """Say which API it is."""
        what = "is not offered" if offered_max < 0 else f"is offered up to version {offered_max}"
        super().__init__(f"{name} {what}")
        self.name = name
        self.offered_max = offered_max


def declared(request: type) -> tuple[Spec, int]:
    """The declaration of a request class, and its API key.

    Raises:
        DeclarationError: no message is declared by this class.
    """
    found = spec(request)
    assert found.key is not None, request
    return found, found.key


def offered(answer: m.ApiVersionsResponse) -> Ranges:
    """API key -> lowest and highest version, from a peer's answer."""
    return {api.api_key: (api.min_version, api.max_version) for api in answer.api_keys}


def listed(ranges: Mapping[int, tuple[int, int]]) -> list[m.ApiVersionsResponse.ApiVersion]:
    """The same in the form of a server's response, in the order of ``ranges``."""
    kind = m.ApiVersionsResponse.ApiVersion
    return [
        kind(api_key=key, min_version=low, max_version=high) for key, (low, high) in ranges.items()
    ]


def common(ranges: Ranges | None, request: type, lowest: int = 0) -> int:
    """The newest version that both sides support.

    Args:
        ranges: the peer's ranges; None if unknown: the peer is assumed to support our versions.
        request: the class of the request.
        lowest: lowest version that can carry the request.

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


def software_is_named(request: m.ApiVersionsRequest, version: int) -> bool:
    """Whether the client names its software as it must, from the version on in which it does.

    >>> software_is_named(m.ApiVersionsRequest(client_software_name="a b"), 3)
    False

    Source: ApiVersionsRequest.isValid, Kafka 3.9.
    """
    names = (request.client_software_name, request.client_software_version)
    return version < SOFTWARE_SINCE or all(map(_SOFTWARE.fullmatch, names))


def next_greeting(refused: m.ApiVersionsResponse, version: int) -> int | None:
    """The version of ApiVersions to try after a peer refused ``version``; None: give up.

    A peer answers a version that it does not know in version 0, with its own range if it is not a
    very old one.
    """
    _, high = offered(refused).get(API_VERSIONS, (0, 0))
    lower = min(high, version - 1)
    return lower if lower >= 0 else None
