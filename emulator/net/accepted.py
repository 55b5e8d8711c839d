"""Accepted connections: decodes requests, and sends responses in the order of the requests.

Pure. The connection of a peer that sends an invalid frame (a bad length, an API or version we do
not list, a body that does not parse) is closed, as in Kafka; only ApiVersions is accepted in any
version. A peer with too many unanswered requests is closed too; Kafka reads one request at a time
from it. Here a step takes some of a connection, and the next steps the rest: no step takes all.
Source: SocketServer.Processor, RequestContext.parseRequest, Kafka 3.9.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Callable, Container, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from emulator.config.limits import ConnectionSettings
from emulator.net.authentication import BARE_HEADER, OWNER_ANSWERS, Authentication, LoginSession
from emulator.net.logins import FailedLogin, Logins
from emulator.net.population import Population
from emulator.net.reply import API_VERSIONS, NOBODY, PeerPrincipal, Request, encoded
from emulator.seam import (
    REQUEST_COST,
    SLICE_COST,
    Accepted,
    Budget,
    Close,
    Effect,
    Log,
    Send,
    Slices,
    Ticket,
)
from wire import messages as m
from wire.errors import DecodeError
from wire.frame import (
    SLICED_BYTES,
    FrameReader,
    RequestHeader,
    decode_body,
    decoding_body,
    framed,
    split_request,
)

# One accepted connection.

QUEUED_MAX: Final = 10_000
"""Maximum requests of one connection that came and were not taken yet."""


def too_much(most: int) -> DecodeError:
    """More bytes are held for one connection than may be."""
    why = f"unanswered requests and the answers that wait for them have over {most} bytes"
    return DecodeError("request", -1, "header", 0, why)


@dataclass(slots=True)
class Inbound:
    """What is known of one connection, and what came on it and has no answer yet."""

    listener: str
    peer_address: bytes
    reader: FrameReader
    slots: deque[Ticket] = field(default_factory=deque)
    unsplit: deque[tuple[bytes, int]] = field(default_factory=deque)
    """Bytes in which no requests were looked for yet, and when they came (ns)."""
    frames: deque[tuple[bytes, int]] = field(default_factory=deque)
    """Requests not taken yet, and when they came (ns)."""
    reading: tuple[bytes, int, Slices[object]] | None = None
    """A long request that is being decoded, and when it came (ns)."""
    held_bytes: int = 0
    principal: PeerPrincipal = NOBODY
    login: Authentication | None = None
    """None: the client has logged in, or need not."""
    session: LoginSession | None = None
    """That of a client which has to log in again; None: nobody, or its session has no end."""

    @property
    def long_is_next(self) -> bool:
        """Whether what is to be taken next is a long request, or its rest."""
        if self.reading is not None:
            return True
        return self.login is None and bool(self.frames) and len(self.frames[0][0]) >= SLICED_BYTES

    @property
    def rest(self) -> bool:
        """Whether something is to be taken."""
        return bool(self.frames or self.reading or self.unsplit)

    def keep(self, data: bytes, now_ns: int, most: int) -> None:
        """Keep bytes that came as they are, to look for requests in them later.

        Raises:
            DecodeError: over ``most`` bytes are held.
        """
        self.unsplit.append((data, now_ns))
        self.hold(len(data), most)

    def split(self, most: int) -> int:
        """Look for requests in the oldest of those bytes, to be taken later; how many there are.

        Raises:
            DecodeError: as :meth:`fed`, or of the frames.
        """
        data, came_ns = self.unsplit.popleft()
        self.held_bytes -= len(data)
        frames = self.reader.feed(data, QUEUED_MAX)
        self.fed(frames, came_ns, most)
        return len(frames)

    def fed(self, frames: list[bytes], now_ns: int, most: int) -> None:
        """Keep requests that came, to be taken later.

        Raises:
            DecodeError: too many are kept, or over ``most`` bytes.
        """
        self.frames += [(frame, now_ns) for frame in frames]
        if len(self.frames) > QUEUED_MAX:
            why = f"{QUEUED_MAX} requests of this connection wait to be processed"
            raise DecodeError("request", -1, "header", 0, why)
        self.hold(sum(map(len, frames)), most)

    def hold(self, size: int, most: int) -> None:
        """Count the bytes of requests until they are answered.

        Raises:
            DecodeError: there are over ``most``.
        """
        self.held_bytes += size
        if self.held_bytes > most:
            raise too_much(most)

    def read_on(self) -> tuple[bytes, int, object] | None:
        """Decode the next slice of the long request; at its end the frame, when it came, and it.

        Raises:
            DecodeError: it cannot be read.
        """
        assert self.reading is not None
        frame, came_ns, slices = self.reading
        try:
            next(slices)
        except StopIteration as end:
            self.reading = None
            return frame, came_ns, end.value
        return None


# The connections with requests to be taken.


class Behind:
    """In the order of their turns; those whose next request is a long one have an order besides.

    So that nobody looks at all of them in each step: there may be thousands.
    """

    def __init__(self) -> None:
        self._turns: dict[bool, OrderedDict[int, int]] = {False: OrderedDict(), True: OrderedDict()}
        """By whether it is long: connection -> the number of its turn."""
        self.last = 0
        """The number of the newest turn; a step takes none that comes after it begins."""

    def __bool__(self) -> bool:
        return any(self._turns.values())

    def put(self, conn: int, *, long: bool) -> None:
        """Its turn comes after those of all others, unless it has one; ``long``: its request."""
        turn = self._turns[not long].pop(conn, 0)
        if conn not in self._turns[long]:
            self.last += not turn
            self._turns[long][conn] = turn or self.last

    def remove(self, conn: int) -> None:
        """It has no turn any more."""
        for turns in self._turns.values():
            turns.pop(conn, None)

    def take(self, last: int, *, long: bool) -> tuple[int, bool] | None:
        """Remove who is next, up to the turn of that number, and whether its request is long.

        Args:
            last: see there.
            long: whether it may be.
        """
        kinds = (False, True) if long else (False,)
        first = [
            (next(iter(self._turns[kind].items())), kind) for kind in kinds if self._turns[kind]
        ]
        if not first:
            return None
        (conn, turn), kind = min(first, key=lambda one: one[0][1])
        if turn > last:
            return None
        del self._turns[kind][conn]
        return conn, kind


class RequestBodies:
    """Reads the bodies of requests that a listener offers; long ones in slices.

    ``entries_max``: API key -> most entries of all arrays in one request, set by the owner; without
    one, any number. ``decoder`` and ``slicer``: read bodies as :func:`decode_body` and
    :func:`decoding_body` do, which are used without them.

    Args:
        advertised: API key -> lowest and highest version.
    """

    def __init__(self, advertised: Mapping[int, tuple[int, int]]) -> None:
        self._advertised = advertised
        self.entries_max: Mapping[int, int] = {}
        self.decoder: Callable[..., object] = decode_body
        self.slicer: Callable[..., Slices[object]] = decoding_body

    def read(self, header: RequestHeader, body: bytes) -> object:
        """The message; a default ApiVersionsRequest of a version that is not known.

        Raises:
            DecodeError: it is not offered, or the bytes are not one.
        """
        key = header.api_key
        if self._offers(header):
            most = self.entries_max.get(key)
            return self.decoder(header, body, trailing=True, entries_max=most)
        if key == API_VERSIONS:
            return m.ApiVersionsRequest()
        why = "this listener does not offer this API and version"
        raise DecodeError(f"request {key}", header.api_version, "header", 0, why)

    def reading(self, frame: bytes) -> Slices[object] | None:
        """Reads the message of a long frame in slices; None: it is to be read at once."""
        if len(frame) < SLICED_BYTES:
            return None
        header, body = split_request(frame)
        if not self._offers(header):
            return None
        most = self.entries_max.get(header.api_key)
        return self.slicer(header, body, trailing=True, entries_max=most)

    def _offers(self, header: RequestHeader) -> bool:
        low, high = self._advertised.get(header.api_key, (0, -1))
        return low <= header.api_version <= high


WHY_MAX: Final = 300
"""Maximum characters of a close reason in the log; it may quote the peer."""
UNANSWERED_MAX: Final = 1_000
"""Maximum unanswered requests of one connection; brokers have one in flight, clients a few."""
TAKEN_MAX: Final = 16
"""Maximum requests that are taken from a connection at once."""
FRAMES_PER_COST: Final = 3
"""Requests that are found in what came, for what one byte of a request costs."""
URGENT_BYTES: Final = 1_024
"""A request of more bytes is not urgent, whatever it asks for."""
HELD_BYTES_MAX: Final = 64 * 1024 * 1024
"""Maximum bytes of one connection's unanswered requests, and of answers that wait for an earlier
one; twice the longest request, if that is more."""


class Connections:
    """Every accepted connection of one node.

    ``requests_total`` (by API key), ``accepted_total`` (by listener), ``refused_total`` (closed for
    what cannot be read), ``turned_away_total`` (over a limit) and ``idle_total`` (closed for being
    idle) are for the metrics. ``logins``: of listeners with SASL; None: there are none.
    ``budget``: of a step; the owner renews it. ``urgent``: API keys of what is taken beside it.
    """

    def __init__(
        self,
        advertised: Mapping[int, tuple[int, int]],
        frame_bytes_max: int,
        stamp: Callable[[], int],
        population: Population | None = None,
        logins: Logins | None = None,
    ) -> None:
        self._advertised = advertised
        self._frame_bytes_max = frame_bytes_max
        self._held_bytes_max = max(HELD_BYTES_MAX, 2 * frame_bytes_max)
        self._stamp = stamp
        self._population = population or Population(ConnectionSettings())
        self.logins = logins
        self._open: dict[int, Inbound] = {}
        self._behind = Behind()
        self._paused: set[int] = set()
        self._next_request_id = 0
        self.bodies = RequestBodies(advertised)
        self.budget = Budget()
        self.urgent: Container[int] = ()
        self.requests_total: dict[int, int] = {}
        self.accepted_total: dict[str, int] = {}
        self.refused_total = self.turned_away_total = self.idle_total = 0
        self._full = False

    @property
    def open_count(self) -> int:
        """Connections open now."""
        return len(self._open)

    @property
    def open_by_listener(self) -> dict[str, int]:
        """The same by listener, for all that ever had a connection."""
        counts = dict.fromkeys(self.accepted_total, 0)
        for inbound in self._open.values():
            counts[inbound.listener] += 1
        return counts

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
            return [Log(level, "refusing a connection", fields), Close(event.conn)]
        self._full = False
        reader = FrameReader(self._frame_bytes_max)
        inbound = Inbound(event.listener, event.peer_address, reader)
        if event.principal:
            inbound.principal = PeerPrincipal(event.principal)
        self._open[event.conn] = inbound
        self.accepted_total[event.listener] = self.accepted_total.get(event.listener, 0) + 1
        return [] if self.logins is None else self._log_in(event.conn, inbound, now_ms)

    def _log_in(self, conn: int, inbound: Inbound, now_ms: int) -> list[Effect]:
        """Begin a login if the listener needs one; close the oldest one if there are too many."""
        assert self.logins is not None
        inbound.login = self.logins.begin(conn, inbound.listener, now_ms)
        if inbound.login is not None:
            inbound.reader.max_bytes = self.logins.receive_bytes_max
        oldest = self.logins.crowded_out
        if oldest is None:
            return []
        return self._refuse(oldest, ValueError("too many connections have not logged in"))

    @property
    def deadline_ms(self) -> int | None:
        """When the next connection has been idle for too long; 0 while requests are to be taken."""
        if self._behind:
            return 0
        idle_ms = self._population.deadline_ms
        if self.logins is None or (login_ms := self.logins.deadline_ms) is None:
            return idle_ms
        return login_ms if idle_ms is None else min(idle_ms, login_ms)

    def turns(self) -> Iterator[int]:
        """Connections with requests to be taken, until the step is over; of long ones one in turn.

        Call :meth:`received` for each.
        """
        if not self._behind:
            return
        last, long = self._behind.last, True
        while self.budget.takes() and (found := self._behind.take(last, long=long)) is not None:
            conn, is_long = found
            long = long and not is_long
            yield conn

    def pause(self, conn: int) -> None:
        """Take no more requests of a connection: one of them takes long, and those wait anyway."""
        if conn in self._open:
            self._paused.add(conn)
            self._behind.remove(conn)

    def resume(self, conn: int) -> None:
        """Take its requests again."""
        self._paused.discard(conn)
        if conn in self._open and self._open[conn].rest:
            self._put(conn)

    def _put(self, conn: int) -> None:
        if conn not in self._paused:
            self._behind.put(conn, long=self._open[conn].long_is_next)

    def tick(self, now_ms: int) -> list[int]:
        """Close connections that were idle for too long, or logged in with what is gone."""
        found = self._population.idle(now_ms)
        if self.logins is not None:
            found = [*dict.fromkeys((*found, *self.logins.late(now_ms)))]
        self.idle_total += len(found)
        if self.logins is not None:
            found = [*dict.fromkeys((*found, *self.logins.revoked(now_ms)))]
        for conn in found:
            self.closed(conn)
        if self.logins is not None:
            # The next ``received`` answers them.
            for conn in self.logins.due(now_ms):
                self._put(conn)
        return found

    def closed(self, conn: int) -> None:
        """A peer disconnected; its pending responses are dropped."""
        self._open.pop(conn, None)
        self._behind.remove(conn)
        self._paused.discard(conn)
        self._population.leave(conn)
        if self.logins is not None:
            self.logins.ended(conn)

    def received(self, conn: int, data: bytes, now_ms: int) -> tuple[list[Request], list[Effect]]:
        """Take bytes; returns the next whole requests; ``Close`` after an invalid frame.

        Without bytes it is one of :meth:`turns`, and a slice of a long request is read.
        """
        inbound = self._open[conn]
        if inbound.login is not None:
            return self._before_login(conn, inbound, inbound.login, data, now_ms)
        requests: list[Request] = []
        try:
            if data:
                self._population.active(conn, now_ms)
                if (alone := self._alone(conn, inbound, data)) is not None:
                    inbound.hold(len(alone), self._held_bytes_max)
                    return [self._request(conn, inbound, alone, self._stamp())], []
            self._split(inbound)
            most = 0 if conn in self._paused else TAKEN_MAX
            while inbound.frames and len(requests) < most and self.budget.takes():
                if inbound.reading or (inbound.long_is_next and (data or requests)):
                    break  # until it is its turn
                if (login := self._again(conn, inbound, now_ms)) is not None:
                    more, effects = self._before_login(conn, inbound, login, b"", now_ms)
                    return [*requests, *more], effects
                frame, came_ns = inbound.frames.popleft()
                if (slices := self.bodies.reading(frame)) is not None:
                    inbound.reading = (frame, came_ns, slices)
                else:
                    requests.append(self._request(conn, inbound, frame, came_ns))
            if inbound.reading and most and not data:
                self.budget.left -= SLICE_COST // 2
                if read := inbound.read_on():
                    requests.append(self._request(conn, inbound, *read))
        except Exception as error:  # noqa: BLE001 - nothing a peer sends ends the node
            return requests, self._refuse(conn, error)
        if requests or not (data and inbound.rest):
            self._behind.remove(conn)  # its next turn comes after those of all others
        if inbound.rest:
            self._put(conn)
        return requests, []

    def _alone(self, conn: int, inbound: Inbound, data: bytes) -> bytes | None:
        """The request that is all that came, if it may be taken at once; else it is kept.

        Raises:
            DecodeError: what came is invalid, or too much.
        """
        takes = self.budget.takes()
        if inbound.unsplit or (len(data) > URGENT_BYTES and not takes):
            inbound.keep(data, self._stamp(), self._held_bytes_max)
            return None
        frames = inbound.reader.feed(data, QUEUED_MAX)
        free = not (inbound.frames or inbound.reading or conn in self._paused)
        short = len(frames) == 1 and len(frames[0]) < SLICED_BYTES
        fits = short and free and inbound.session is None
        if fits and (takes or self._passes(inbound, frames[0])):
            return frames[0]
        self.budget.left -= len(frames) // FRAMES_PER_COST
        inbound.fed(frames, self._stamp(), self._held_bytes_max)
        return None

    def _split(self, inbound: Inbound) -> None:
        while inbound.unsplit and self.budget.takes():
            self.budget.left -= inbound.split(self._held_bytes_max) // FRAMES_PER_COST

    def _passes(self, inbound: Inbound, frame: bytes) -> bool:
        """Whether it is taken though others are not: it is urgent, and its client has no other."""
        urgent = len(frame) <= URGENT_BYTES and int.from_bytes(frame[:2], "big") in self.urgent
        passes = urgent and not inbound.slots and self.budget.urgent > 0
        self.budget.urgent -= passes
        return passes

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
        answer = framed(payload)
        if len(inbound.slots) == 1 and inbound.slots[0] is ticket:
            inbound.slots.clear()
            inbound.held_bytes -= ticket.bytes
            self._population.active(ticket.conn, now_ms)
            return [Send(ticket.conn, answer)]
        ticket.payload = answer
        inbound.held_bytes += len(answer) - ticket.bytes
        ready: list[bytes] = []
        while inbound.slots and inbound.slots[0].payload is not None:
            ready.append(inbound.slots.popleft().payload or b"")
            inbound.held_bytes -= len(ready[-1])
        if not ready:
            if inbound.held_bytes > self._held_bytes_max:
                return self._refuse(ticket.conn, too_much(self._held_bytes_max))
            return []
        self._population.active(ticket.conn, now_ms)
        return [Send(ticket.conn, b"".join(ready))]

    def close_all(self) -> list[Effect]:
        """Close every connection (orderly stop)."""
        effects: list[Effect] = [Close(conn) for conn in self._open]
        for conn in list(self._open):
            self.closed(conn)
        return effects

    def _request(
        self, conn: int, inbound: Inbound, frame: bytes, came_ns: int, message: object = None
    ) -> Request:
        header, body = split_request(frame)
        if len(inbound.slots) >= UNANSWERED_MAX:
            why = f"{UNANSWERED_MAX} requests of this connection have no answer yet"
            raise DecodeError(f"request {header.api_key}", header.api_version, "header", 0, why)
        if message is None:
            message = self.bodies.read(header, body)
        size = len(frame) if len(frame) > URGENT_BYTES or header.api_key not in self.urgent else 0
        self.budget.left -= min(REQUEST_COST + size, SLICE_COST)
        self._next_request_id += 1
        self.requests_total[header.api_key] = self.requests_total.get(header.api_key, 0) + 1
        ticket = Ticket(conn, self._next_request_id, header, came_ns, bytes=len(frame))
        inbound.slots.append(ticket)
        return Request(
            ticket, message, inbound.listener, inbound.peer_address, frame, inbound.principal
        )

    # ---------------------------------------------------------------- before the login
    def _again(self, conn: int, inbound: Inbound, now_ms: int) -> Authentication | None:
        """The login that prolongs the session, if the next request begins one.

        Raises:
            DecodeError: it does not, and the session is over.
        """
        session, logins = inbound.session, self.logins
        if session is None or logins is None:
            return None
        frame, _ = inbound.frames[0]
        key = int.from_bytes(frame[:2], "big", signed=True)
        inbound.login = logins.again(conn, inbound.listener, session, key, now_ms)
        if inbound.login is None and session.over(now_ms):
            why = "the session is over, and the client has not logged in again"
            raise DecodeError(f"request {key}", -1, "header", 0, why)
        return inbound.login

    def _before_login(
        self, conn: int, inbound: Inbound, login: Authentication, data: bytes, now_ms: int
    ) -> tuple[list[Request], list[Effect]]:
        """As :meth:`received`, for a client that has not logged in; the owner answers requests."""
        assert self.logins is not None
        requests: list[Request] = []
        effects: list[Effect] = []
        takes = self.budget.takes()
        if takes:
            self._behind.remove(conn)
        try:
            if data and not login.over:
                self._population.active(conn, now_ms)
                inbound.keep(data, self._stamp(), self._held_bytes_max)
            self._split(inbound)
            for _ in range(min(TAKEN_MAX, len(inbound.frames)) if takes else 0):
                if not login.over:
                    effects += self._login_turn(conn, inbound, login, requests, now_ms)
        except Exception as error:  # noqa: BLE001 - nothing a peer sends ends the node
            # What cannot be read may be a password, and the error may quote it.
            hidden = ValueError(f"not readable before a login: {type(error).__name__}")
            return requests, effects + self._refuse(conn, hidden)
        failed = self.logins.take_failed(conn, now_ms)
        if failed is not None:
            if failed.ticket is not None and failed.payload is not None:
                effects += self.reply(failed.ticket, failed.payload, now_ms)
            effects += [failed.line(inbound.listener, inbound.peer_address), Close(conn)]
            self.closed(conn)
        elif inbound.frames or inbound.unsplit:
            self._put(conn)
        return requests, effects

    def _login_turn(
        self,
        conn: int,
        inbound: Inbound,
        login: Authentication,
        requests: list[Request],
        now_ms: int,
    ) -> list[Effect]:
        """Take the next frame; a request that the owner answers is added to ``requests``.

        Raises:
            DecodeError: it cannot be read.
        """
        assert self.logins is not None
        frame, came_ns = inbound.frames.popleft()
        ticket: Ticket | None = None
        if login.bare:
            self._next_request_id += 1
            ticket = Ticket(conn, self._next_request_id, BARE_HEADER, came_ns, bytes=len(frame))
            inbound.slots.append(ticket)
            turn = login.take_token(frame, now_ms)
        else:
            header, _ = split_request(frame)
            turn = login.refusal(header.api_key) or OWNER_ANSWERS
            if turn.answer is not None or not turn.failure:
                request = self._request(conn, inbound, frame, came_ns)
                ticket = request.ticket
                if not turn.failure:
                    turn = login.take(header.api_version, request.message, now_ms)
                if turn is OWNER_ANSWERS:
                    requests.append(request)
                    return []
        payload = turn.token
        if turn.answer is not None and ticket is not None:
            newest = self._advertised[API_VERSIONS][1]
            payload = encoded(ticket.header, turn.answer, newest)
        if turn.failure:
            inbound.frames.clear()
            inbound.unsplit.clear()
            failed = FailedLogin(turn.failure, login.mechanism, ticket, payload)
            self.logins.fail(conn, failed, now_ms)
            return []
        assert ticket is not None
        if login.session is not None:
            inbound.login, inbound.principal = None, login.session.principal
            inbound.session = None if login.session.until_ms is None else login.session
            inbound.reader.max_bytes = self._frame_bytes_max
            self.logins.complete(conn, login, now_ms)
        return self.reply(ticket, payload, now_ms)

    def _refuse(self, conn: int, error: Exception) -> list[Effect]:
        inbound = self._open[conn]
        self.closed(conn)
        self.refused_total += 1
        why = str(error) if isinstance(error, DecodeError) else repr(error)
        fields: dict[str, object] = {"listener": inbound.listener, "why": why[:WHY_MAX]}
        text = "closing a connection that sent an invalid request"
        return [Log("warning", text, fields), Close(conn)]
