"""What is said before the first request: which versions the peer speaks, and who we are.

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
"""Requests and their versions, each of which takes its answer; returns what the peer offers."""


class GreetingError(Exception):
    """The peer answered ApiVersions with an error."""


@dataclass(frozen=True, slots=True)
class Greeting:
    """Which questions come first."""

    api_versions: m.ApiVersionsRequest | None = None
    """None: the peer is not asked, and is taken to speak what we do."""
    version: int = FIRST_VERSION
    """Of ApiVersions; lower ones are tried when the peer does not know it."""
    login: Login | None = None

    def exchange(self) -> Exchange:
        """The whole of it.

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
