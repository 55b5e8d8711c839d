"""Accepted connections: decodes requests, and sends responses in the order of the requests.

Pure. The connection of a peer that sends an invalid frame (a bad length, an API or version we do
not list, a body that does not parse) is closed, as in Kafka; only ApiVersions is accepted in any
version. A peer with too many unanswered requests is closed too; Kafka reads one request at a time
from it. Source: SocketServer.Processor, RequestContext.parseRequest, Kafka 3.9.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final

from emulator.config.connections import ConnectionSettings
from emulator.net.population import Population
from emulator.net.reply import API_VERSIONS, Request, Ticket
from emulator.seam import Accepted, Close, Effect, Log, Send
from wire import messages as m
from wire.errors import DecodeError
from wire.frame import FrameReader, decode_body, framed, split_request

WHY_MAX: Final = 300
"""Maximum characters of a close reason in the log; it may quote the peer."""
UNANSWERED_MAX: Final = 1_000
"""Maximum unanswered requests of one connection; brokers have one in flight, clients a few."""


@dataclass(slots=True)
class _Inbound:
    listener: str
    peer_address: bytes
    reader: FrameReader
    slots: deque[Ticket] = field(default_factory=deque)


class Connections:
    """Every accepted connection of one node.

    ``requests_total`` (by API key), ``refused_total`` (closed for nonsense), ``turned_away_total``
    (over a limit) and ``idle_total`` (closed for being idle) are for the metrics.
    """

    def __init__(
        self,
        advertised: Mapping[int, tuple[int, int]],
        frame_bytes_max: int,
        stamp: Callable[[], int],
        population: Population | None = None,
    ) -> None:
        self._advertised = advertised
        self._frame_bytes_max = frame_bytes_max
        self._stamp = stamp
        self._population = population or Population(ConnectionSettings())
        self._open: dict[int, _Inbound] = {}
        self._next_request_id = 0
        self.requests_total: dict[int, int] = {}
        self.refused_total = 0
        self.turned_away_total = 0
        self.idle_total = 0
        self._full = False

    @property
    def open_count(self) -> int:
        """Connections open now."""
        return len(self._open)

    def owns(self, conn: int) -> bool:
        """Whether the id is one of an open accepted connection."""
        return conn in self._open

    def accepted(self, event: Accepted, now_ms: int) -> list[Effect]:
        """A peer connected; it is closed at once if there are too many connections."""
        why = self._population.enter(event.conn, event.peer_address, now_ms)
        if why:
            self.turned_away_total += 1
            fields: dict[str, object] = {"listener": event.listener, "why": why}
            level, self._full = "debug" if self._full else "warning", True
            return [Log(level, "turning a connection away", fields), Close(event.conn)]
        self._full = False
        reader = FrameReader(self._frame_bytes_max)
        self._open[event.conn] = _Inbound(event.listener, event.peer_address, reader)
        return []

    @property
    def deadline_ms(self) -> int | None:
        """When the next connection has been idle for too long."""
        return self._population.deadline_ms

    def tick(self, now_ms: int) -> list[int]:
        """Close connections that have been idle for too long, also with an incomplete frame."""
        found = self._population.idle(now_ms)
        for conn in found:
            self.closed(conn)
        self.idle_total += len(found)
        return found

    def closed(self, conn: int) -> None:
        """A peer disconnected; its pending responses are dropped."""
        self._open.pop(conn, None)
        self._population.leave(conn)

    def received(self, conn: int, data: bytes, now_ms: int) -> tuple[list[Request], list[Effect]]:
        """Take bytes; returns the whole requests in them; ``CloseConn`` after an invalid frame."""
        inbound = self._open[conn]
        self._population.active(conn, now_ms)
        requests: list[Request] = []
        try:
            for frame in inbound.reader.feed(data):
                requests.append(self._request(conn, inbound, frame))  # noqa: PERF401 - keep those before an error
        except Exception as error:  # noqa: BLE001 - nothing a peer sends ends the node
            return requests, self._refuse(conn, error)
        return requests, []

    def reply(self, ticket: Ticket, payload: bytes | None, now_ms: int) -> list[Effect]:
        """Answer one request; all responses that are now in order are sent.

        Args:
            ticket: of the request.
            payload: header and body; None closes the connection, as there is no answer.
            now_ms: the clock.
        """
        inbound = self._open.get(ticket.conn)
        if inbound is None:
            return []
        if payload is None:
            return self._refuse(ticket.conn, ValueError("its request has no answer"))
        ticket.payload = framed(payload)
        ready: list[bytes] = []
        while inbound.slots and inbound.slots[0].payload is not None:
            ready.append(inbound.slots.popleft().payload or b"")
        if not ready:
            return []
        self._population.active(ticket.conn, now_ms)
        return [Send(ticket.conn, b"".join(ready))]

    def close_all(self) -> list[Effect]:
        """Close every connection (orderly stop)."""
        effects: list[Effect] = [Close(conn) for conn in self._open]
        for conn in list(self._open):
            self.closed(conn)
        return effects

    def _request(self, conn: int, inbound: _Inbound, frame: bytes) -> Request:
        header, body = split_request(frame)
        if len(inbound.slots) >= UNANSWERED_MAX:
            why = f"{UNANSWERED_MAX} requests of this connection are not answered yet"
            raise DecodeError(f"request {header.api_key}", header.api_version, "header", 0, why)
        low, high = self._advertised.get(header.api_key, (0, -1))
        message: object
        if header.api_key == API_VERSIONS and not low <= header.api_version <= high:
            message = m.ApiVersionsRequest()
        elif low <= header.api_version <= high:
            message = decode_body(header, body)
        else:
            raise DecodeError(
                f"request {header.api_key}",
                header.api_version,
                "header",
                0,
                "this listener does not offer this API and version",
            )
        self._next_request_id += 1
        self.requests_total[header.api_key] = self.requests_total.get(header.api_key, 0) + 1
        ticket = Ticket(conn, self._next_request_id, header, self._stamp())
        inbound.slots.append(ticket)
        return Request(ticket, message, inbound.listener, inbound.peer_address)

    def _refuse(self, conn: int, error: Exception) -> list[Effect]:
        inbound = self._open[conn]
        self.closed(conn)
        self.refused_total += 1
        why = str(error) if isinstance(error, DecodeError) else repr(error)
        fields: dict[str, object] = {"listener": inbound.listener, "why": why[:WHY_MAX]}
        return [Log("warning", "closing a connection that sent nonsense", fields), Close(conn)]
