"""The exchange before the first request: ApiVersions, then the login.

Source: KIP-35, KIP-43, KIP-511; NetworkClient.handleApiVersionsResponse, Kafka 3.9.
"""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from emulator.net.login import Login
from emulator.net.versions import common, next_greeting, offered
from wire import messages as m
from wire.errors import ErrorCode
from wire.releases import Ranges

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
