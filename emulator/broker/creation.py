"""Topics that a broker has the controller create, because a client or the broker needs them.

No client waits for them: the client asks again. A topic is asked for once at a time.

Source: DefaultAutoTopicCreationManager, Kafka 3.9.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from emulator.broker.forwarding import Forwardee, Forwarding
from emulator.net.greeting import declared
from wire import messages as m
from wire.frame import RequestHeader, encode_request
from wire.releases import Ranges

ASKED_MAX: Final = 10_000
"""Topics that are asked for at a time; the client of one more asks again."""


class TopicCreation:
    """See the module's docstring.

    Args:
        forwarding: the channel to the controller.
        newest: versions of this broker's release, by API key.
        timeout_ms: how long the controller may take.
    """

    def __init__(self, forwarding: Forwarding, newest: Ranges, timeout_ms: int) -> None:
        self._forwarding = forwarding
        self._newest = newest
        self._timeout_ms = timeout_ms
        self._asked: set[str] = set()

    def for_client(
        self,
        topics: Sequence[m.CreateTopicsRequest.CreatableTopic],
        header: RequestHeader,
        client: Forwardee,
        now_ms: int,
    ) -> None:
        """Ask in the name of a client, which the controller authorizes.

        Args:
            topics: which ones.
            header: of the client's request: its client id and correlation id go with it.
            client: who sent the request, and on which connection.
            now_ms: the clock.
        """
        request = self._request(topics)
        if request is None:
            return
        _, key = declared(m.CreateTopicsRequest)
        version = self._newest[key][1]
        controllers = self._forwarding.controller_versions
        if controllers is not None:
            version = min(version, controllers.get(key, (0, 0))[1])
        inner = RequestHeader(
            api_key=key,
            api_version=version,
            correlation_id=header.correlation_id,
            client_id=header.client_id,
        )
        names = [topic.name for topic in request.topics]
        data = encode_request(inner, request)
        self._forwarding.forward(data, inner, client, now_ms, lambda _: self._done(names))

    def for_broker(
        self, topics: Sequence[m.CreateTopicsRequest.CreatableTopic], now_ms: int
    ) -> None:
        """Ask in the broker's own name."""
        request = self._request(topics)
        if request is not None:
            names = [topic.name for topic in request.topics]
            self._forwarding.ask(request, lambda _answer, _now_ms: self._done(names), now_ms)

    def _request(
        self, topics: Sequence[m.CreateTopicsRequest.CreatableTopic]
    ) -> m.CreateTopicsRequest | None:
        room = ASKED_MAX - len(self._asked)
        new = [topic for topic in topics if topic.name not in self._asked][: max(room, 0)]
        if not new:
            return None
        self._asked |= {topic.name for topic in new}
        return m.CreateTopicsRequest(topics=new, timeout_ms=self._timeout_ms)

    def _done(self, names: Sequence[str]) -> None:
        self._asked.difference_update(names)
