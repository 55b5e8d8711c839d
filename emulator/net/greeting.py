"""The exchange before the first request: ApiVersions, then the login.

Source: KIP-35, KIP-43, KIP-511; NetworkClient.handleApiVersionsResponse, Kafka 3.9.
"""

from __future__ import annotations

import re
from collections.abc import Generator, Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from emulator.net.login import Login
from wire import messages as m
from wire.errors import ErrorCode
from wire.releases import Ranges
from wire.schema import Spec, spec

# ApiVersions: lists our version ranges, and finds common versions with a peer.
#
# Source: KIP-35, KIP-511; NodeApiVersions.latestUsableVersion and NetworkClient, Kafka 3.9.

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


FIRST_VERSION: Final = 3

Exchange: TypeAlias = Generator[tuple[Any, int], Any, Ranges | None]
"""Yields requests with versions and takes the answers; returns the peer's version ranges."""


class GreetingError(Exception):
    """The peer answered ApiVersions with an error."""


@dataclass(frozen=True, slots=True)
class Greeting:
    """The first requests of a connection."""

    api_versions: m.ApiVersionsRequest | None = None
    """None: ApiVersions is not sent, and the peer is assumed to support our versions."""
    version: int = FIRST_VERSION
    """Version of ApiVersions; lower ones are tried if the peer does not know it."""
    login: Login | None = None

    def exchange(self) -> Exchange:
        """The complete exchange.

        Raises:
            GreetingError, LoginError: the peer refuses.
            NoCommonVersionError: it has no login.
        """
        ranges = None
        if self.api_versions is not None:
            ranges = yield from self._ask(self.api_versions)
        if self.login is not None:
            conversation = self.login.conversation()
            request = next(conversation)
            while request is not None:
                answer = yield request, common(ranges, type(request), lowest=1)
                try:
                    request = conversation.send(answer)
                except StopIteration:
                    request = None
        return ranges

    def _ask(self, request: m.ApiVersionsRequest) -> Generator[tuple[Any, int], Any, Ranges]:
        version: int | None = self.version
        while version is not None:
            answer = yield request, version
            if answer.error_code != ErrorCode.UNSUPPORTED_VERSION:
                break
            version = next_greeting(answer, version)
        if answer.error_code:
            raise GreetingError(f"ApiVersions was refused with error {answer.error_code}")
        return offered(answer)
