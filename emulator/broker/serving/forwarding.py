"""Forwards clients' requests to the controller in Envelopes (KIP-590), on one channel.

A request goes with its header, body, principal and address as the client sent it, and its answer
goes back as the controller made it. The channel repeats a request until the controller answers
it or the request's time is over; the rest is decided here:

=============================  =======================================================
the controller                 the client gets
=============================  =======================================================
answers the request            this answer
does not answer in time        REQUEST_TIMED_OUT in the form of its API
UNSUPPORTED_VERSION            its connection is closed: its list of versions is old
any other error, or refuses    UNKNOWN_SERVER_ERROR in the form of its API
the login, or lacks Envelope
=============================  =======================================================

Source: ForwardingManagerImpl, RequestHandlerHelper.sendForwardedResponse, Kafka 3.9.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple, TypeAlias

from typing_extensions import override

from emulator.broker.controller_channel import ControllerChannel, Outcome
from emulator.broker.lifecycle import BrokerPart
from emulator.net.channel import Answered, EndedBy, Unanswered
from emulator.net.greeting import declared
from emulator.net.reply import PeerPrincipal
from emulator.seam import Effect, Event
from emulator.trace.distribution import Rate
from wire import messages as m
from wire.codec import encode
from wire.errors import DecodeError, ErrorCode
from wire.frame import SLICED_BYTES, RequestHeader, decode_response, encode_request
from wire.releases import Ranges

_PRINCIPAL_VERSION: Final = 0
WAITING_BYTES_MAX: Final = 64 * 1024 * 1024
"""Maximum bytes of requests that wait for the controller, also of clients that hung up. One more
gets REQUEST_TIMED_OUT at once, so that its client tries again later."""

Then: TypeAlias = Callable[[Any, int], None]
"""Takes an answer, None if there will be none, and the time."""


class Forwardee(NamedTuple):
    """Whose request it is. ``address``: 4 or 16 raw bytes."""

    conn: int
    principal: PeerPrincipal
    address: bytes


@dataclass(frozen=True, slots=True)
class Forwarded:
    """The outcome for a client. One of ``payload`` and ``error`` is given; else close.

    ``payload``: header and body of the answer as the controller made it. ``message``: the same,
    decoded; None: it is long, and not decoded yet. ``error``: for the whole request, to be put in
    the form of its API.
    """

    payload: bytes | None = None
    message: Any = None
    error: ErrorCode | None = None


Done: TypeAlias = Callable[[Forwarded], None]


@dataclass(frozen=True, slots=True)
class _Envelope:
    header: RequestHeader
    done: Done
    conn: int
    size: int


@dataclass(frozen=True, slots=True)
class _Plain:
    then: Then


@dataclass(slots=True)
class ForwardingCounts:
    """What was forwarded, for the metrics of KIP-590."""

    envelopes_total: int = 0
    """Requests of clients that were put into Envelopes."""
    refused_total: int = 0
    """Envelopes that the controller refused by CLUSTER_AUTHORIZATION_FAILED."""
    waiting: dict[int, int] = field(default_factory=dict)
    """Connection -> its forwarded requests without an answer."""
    envelopes_rate: Rate = field(default_factory=Rate)
    clients_rate: Rate = field(default_factory=Rate)

    def begun(self, conn: int, now_ms: int) -> None:
        """A request of a connection is forwarded."""
        self.envelopes_total += 1
        self.envelopes_rate.add(now_ms)
        if conn not in self.waiting:
            self.clients_rate.add(now_ms)
        self.waiting[conn] = self.waiting.get(conn, 0) + 1

    def ended(self, conn: int) -> None:
        """It has its outcome."""
        self.waiting[conn] -= 1
        if not self.waiting[conn]:
            del self.waiting[conn]


class Forwarding(BrokerPart):
    """A ``BrokerPart``: the channel ``forwarding``, shared by Envelopes and requests of the broker.

    Args:
        channel: to whoever is the controller; gives up after the broker's request timeout.
    """

    def __init__(self, channel: ControllerChannel[_Envelope | _Plain]) -> None:
        self.counts = ForwardingCounts()
        self._channel = channel
        self._waiting_bytes = 0

    @property
    def outstanding(self) -> int:
        """Requests without an outcome, those of the broker itself among them."""
        return self._channel.outstanding

    @property
    def controller_versions(self) -> Ranges | None:
        """What the controller offered on the last connection; None before the first."""
        return self._channel.versions

    def forward(
        self, data: bytes, header: RequestHeader, client: Forwardee, now_ms: int, done: Done
    ) -> None:
        """Forward a client's request.

        Args:
            data: header and body, as the client sent them.
            header: the same header, decoded.
            client: who sent the request, and on which connection.
            now_ms: the request's time counts from here.
            done: takes the outcome, once.
        """
        size = len(data)
        if self._waiting_bytes + size > WAITING_BYTES_MAX:
            done(Forwarded(error=ErrorCode.REQUEST_TIMED_OUT))
            return
        envelope = m.EnvelopeRequest(
            request_data=data,
            request_principal=principal_bytes(client.principal),
            client_host_address=client.address,
        )
        self.counts.begun(client.conn, now_ms)
        self._waiting_bytes += size
        self._channel.put(envelope, _Envelope(header, done, client.conn, size), now_ms)

    def ask(self, request: Any, then: Then, now_ms: int) -> None:
        """Send a request of the broker itself, without an Envelope."""
        self._channel.put(request, _Plain(then), now_ms)

    # ---------------------------------------------------------------- a part
    @property
    @override
    def deadline_ms(self) -> int | None:
        return self._channel.deadline_ms

    @override
    def start(self, now_ms: int) -> None:
        pass

    @override
    def handle(self, event: Event, now_ms: int) -> None:
        self._take(self._channel.handle(event, now_ms), now_ms)

    @override
    def tick(self, now_ms: int) -> None:
        self._take(self._channel.tick(now_ms), now_ms)

    @override
    def effects(self, now_ms: int) -> list[Effect]:
        return self._channel.effects(now_ms)

    @override
    def close(self) -> None:
        """The clients' connections are closed too, so no client waits."""
        self._channel.close()

    # ---------------------------------------------------------------- outcomes
    def _take(self, outcomes: list[Outcome[_Envelope | _Plain]], now_ms: int) -> None:
        for outcome in outcomes:
            match outcome:
                case Answered(ticket=_Plain(then), message=message):
                    then(message, now_ms)
                case Unanswered(ticket=_Plain(then)):
                    then(None, now_ms)
                case Answered(ticket=_Envelope() as asked, message=message):
                    self._done(asked, self._answered(asked, message))
                case Unanswered(ticket=_Envelope() as asked, by=by):
                    late = by is EndedBy.TIME
                    error = ErrorCode.REQUEST_TIMED_OUT if late else ErrorCode.UNKNOWN_SERVER_ERROR
                    self._done(asked, Forwarded(error=error))

    def _done(self, asked: _Envelope, outcome: Forwarded) -> None:
        self.counts.ended(asked.conn)
        self._waiting_bytes -= asked.size
        asked.done(outcome)

    def _answered(self, asked: _Envelope, envelope: m.EnvelopeResponse) -> Forwarded:
        code = envelope.error_code
        if code == ErrorCode.UNSUPPORTED_VERSION:
            return Forwarded()
        failed = Forwarded(error=ErrorCode.UNKNOWN_SERVER_ERROR)
        if code:
            self.counts.refused_total += code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED
            return failed
        data, header = envelope.response_data, asked.header
        if data is None or len(data) < 4:
            return failed
        # It is that of the header we sent, unless the controller is wrong.
        payload = header.correlation_id.to_bytes(4, "big", signed=True) + data[4:]
        if len(payload) >= SLICED_BYTES:
            return Forwarded(payload)
        try:
            _, message = decode_response(header.api_key, header.api_version, payload)
        except DecodeError:
            return failed
        return Forwarded(payload, message)


def principal_bytes(principal: PeerPrincipal) -> bytes:
    """A principal as DefaultKafkaPrincipalBuilder serialises it.

    >>> principal_bytes(PeerPrincipal("User:ANONYMOUS")).hex(" ")
    '00 00 05 55 73 65 72 0a 41 4e 4f 4e 59 4d 4f 55 53 00 00'
    """
    kind, _, name = principal.name.partition(":")
    authenticated = principal.token_authenticated
    value = m.DefaultPrincipalData(type=kind, name=name, token_authenticated=authenticated)
    return _PRINCIPAL_VERSION.to_bytes(2, "big") + encode(value, _PRINCIPAL_VERSION)


ASKED_MAX: Final = 10_000
"""Topics that are asked for at a time; the client of one more asks again."""


class TopicCreation:
    """Topics that a broker has the controller create, because a client or the broker needs them.

    No client waits for them: the client asks again. A topic is asked for once at a time.

    Args:
        forwarding: the channel to the controller.
        newest: versions of this broker's release, by API key.
        timeout_ms: how long the controller may take.

    Source: DefaultAutoTopicCreationManager, Kafka 3.9.
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
