"""One broker: its connections, its parts and its answers behind one ``step``.

Start reading here. A request of a client is answered from what the broker knows
(``emulator.broker.api``), or goes to the controller in an Envelope (``forwarding``). What it knows
and which node is its controller depends on its mode (``side``). It stores no records.

Source: BrokerServer, KafkaApis, Kafka 3.9; KIP-590.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from random import Random
from types import MappingProxyType
from typing import Any, Final, TypeAlias

from emulator.broker.controller_channel import ControllerChannel
from emulator.broker.kraft.side import spoken
from emulator.broker.lifecycle import BrokerPart
from emulator.broker.registry import (
    Answer,
    Asked,
    NoAnswer,
    PassOn,
    ServedApi,
    entries_max,
    offered,
    refused,
    refusing,
    served,
)
from emulator.broker.serving.forwarding import Forwarded, Forwardee, Forwarding, TopicCreation
from emulator.broker.serving.in_parts import DividedAnswer
from emulator.broker.serving.producer_ids import ProducerIdSource
from emulator.broker.serving.shared_answers import sharing
from emulator.broker.side import BrokerSide
from emulator.broker.zookeeper.shared_control import SharedControl
from emulator.config.broker import BrokerConfig
from emulator.config.java_text import INT_MAX
from emulator.controller.result import RequestFailures, failure_line
from emulator.controller.rules.credentials import ImageCredentials
from emulator.net.accepted import Connections
from emulator.net.control import ControlRequest
from emulator.net.faults.connections import accepting
from emulator.net.faults.script import FaultScript
from emulator.net.greeting import SOFTWARE_SINCE, software_is_named
from emulator.net.population import Population
from emulator.net.reply import API_VERSIONS, Request, encoded, encoding
from emulator.seam import (
    CALL_COST,
    ENCODED_PER_COST,
    Accepted,
    Close,
    Closed,
    Connected,
    Effect,
    Event,
    Halt,
    Log,
    Received,
    Slices,
    Ticket,
    earliest,
    whole,
)
from wire import messages as m
from wire.errors import UNEXPECTED, DecodeError, ErrorCode
from wire.frame import SLICED_BYTES, RequestHeader, decoding_response, encoding_request
from wire.releases import forwardable

# Answers of a broker that take longer than a slice: in each step a slice of one, in turn.

Work: TypeAlias = list[Effect] | Slices[list[Effect]]
"""What is to be done for a request, done at once or in slices."""


class UnderWay:
    """The requests that are under way. Their connections are paused: what comes behind them waits.

    Of a connection only the first one is worked on, so that they are carried out in their order.

    Args:
        connections: of the broker.
    """

    def __init__(self, connections: Connections) -> None:
        self._of: dict[int, deque[tuple[Request, Slices[list[Effect]]]]] = {}
        """By connection, in the order of their turns."""
        self._connections = connections
        self._budget = connections.budget

    def __bool__(self) -> bool:
        return bool(self._of)

    def in_turn(self, request: Request, work: Callable[[], Work]) -> Callable[[], Work]:
        """The work of a request, later if its connection has something under way."""
        return partial(_later, work) if request.ticket.conn in self._of else work

    def begin(self, request: Request, slices: Slices[list[Effect]]) -> list[Effect]:
        """Do the first slice of a request, if it may be done now; it may then be under way."""
        conn = request.ticket.conn
        if conn not in self._of and not self._budget.over and (made := self._budget.end_of(slices)):
            return made[0]
        self._of.setdefault(conn, deque()).append((request, slices))
        self._connections.pause(conn)
        return []

    def go_on(
        self, guarded: Callable[[Request, Callable[[], list[Effect]]], list[Effect]]
    ) -> list[Effect]:
        """Do the next slice of one; before it, those that need no other one.

        Those whose client has gone are left out.

        Args:
            guarded: does the work of a request, and answers for what it raises.
        """
        effects: list[Effect] = []
        while self._of and not self._budget.over:
            conn = next(iter(self._of))
            left = self._of.pop(conn)
            if not self._connections.owns(conn):
                continue
            # Again the last in turn; its own requests still wait for the one that is worked on.
            self._of[conn] = left
            request, slices = left.popleft()
            effects += guarded(request, partial(self._next, left, request, slices))
            if left and left[0][1] is slices:
                break
            if not left:
                del self._of[conn]
                self._connections.resume(conn)
        return effects

    def _next(
        self,
        left: deque[tuple[Request, Slices[list[Effect]]]],
        request: Request,
        slices: Slices[list[Effect]],
    ) -> list[Effect]:
        if made := self._budget.end_of(slices):
            return made[0]
        left.appendleft((request, slices))
        return []


def _later(work: Callable[[], Work]) -> Slices[list[Effect]]:
    return (yield from _slices_of(work()))


def _slices_of(work: Work) -> Slices[list[Effect]]:
    return (yield from work) if isinstance(work, Generator) else work


# What a broker answers that cannot forward: in ZooKeeper mode, without migration.
#
# A Kafka broker in that mode refuses what only the controller does: the client then asks the
# controller that Metadata names. Some changes it writes to ZooKeeper itself, whichever broker is
# asked; here they are refused by a code that is not retried, as another broker must be asked.
#
# Source: KafkaApis.maybeForwardToController and the handlers behind it, Kafka 3.4-3.9.

WRITTEN_BY_ANY_BROKER: Final = frozenset({30, 31, 33, 44, 49})
"""CreateAcls, DeleteAcls, AlterConfigs, IncrementalAlterConfigs, AlterClientQuotas."""
_NOT_HERE: Final = (
    "This broker is in ZooKeeper mode without migration and does not write to ZooKeeper; ask a "
    "Kafka broker."
)
NOT_CONTROLLER: Final = (
    ErrorCode.NOT_CONTROLLER,
    "This is not the correct controller for this cluster.",
)


def unforwarded(api_key: int) -> tuple[ErrorCode, str]:
    """The error for a request that only a controller can serve, and its text."""
    if api_key in WRITTEN_BY_ANY_BROKER:
        return ErrorCode.INVALID_REQUEST, _NOT_HERE
    return NOT_CONTROLLER


# The request versions of KIP-590 that only the controller may take, which no Kafka released.
#
# The KIP raised the version of each changing API by one: a client that knows the new version asks
# the controller itself, and any other broker answers NOT_CONTROLLER; older versions are forwarded.
# Kafka dropped this before a release; the same numbers are other changes today. With
# ``kraftbridge.kip590.strict.versions`` they have the KIP's meaning, while a ZooKeeper-mode
# controller rules. In KRaft mode clients cannot reach the controller, so every version is
# forwarded.
#
# Source: KIP-590 "Protocol Bumps".

FOR_CONTROLLERS_SINCE: Final[Mapping[int, int]] = MappingProxyType(
    {
        30: 3,  # CreateAcls
        31: 3,  # DeleteAcls
        33: 2,  # AlterConfigs
        38: 3,  # CreateDelegationToken
        39: 3,  # RenewDelegationToken: no release has this version
        40: 3,  # ExpireDelegationToken: likewise
        44: 2,  # IncrementalAlterConfigs: likewise
        49: 1,  # AlterClientQuotas
    }
)
"""API key -> the version that the KIP adds."""


def for_the_controller_alone(header: RequestHeader, side: BrokerSide) -> bool:
    """Whether the KIP has this request answered with NOT_CONTROLLER by a broker like this one."""
    since = FOR_CONTROLLERS_SINCE.get(header.api_key)
    if since is None or header.api_version < since or side.mode != "zk":
        return False
    controller = side.controller()
    return controller is None or not controller.kraft


# The software of connected clients, as they name it in ApiVersions (KIP-511).
#
# Old clients do not name theirs: they are counted as ``unknown``, so that one can see whether any
# are left before their versions are given up (KIP-590 "Monitoring Metrics").

UNKNOWN: Final = "unknown"
NAME_MAX: Final = 100
"""Longer names are cut in the metrics."""


class ClientSoftware:
    """Names and versions by open connection."""

    def __init__(self) -> None:
        self._of: dict[int, tuple[str, str]] = {}

    def named(self, conn: int, request: m.ApiVersionsRequest, version: int) -> None:
        """A client asked for ApiVersions; only a valid name is taken."""
        if version >= SOFTWARE_SINCE and software_is_named(request, version):
            self._of[conn] = (
                request.client_software_name[:NAME_MAX],
                request.client_software_version[:NAME_MAX],
            )

    def left(self, conn: int) -> None:
        """A connection ended."""
        self._of.pop(conn, None)

    def counted(self, open_count: int) -> dict[tuple[str, str], int]:
        """(name, version) -> connections, of ``open_count`` in all."""
        counted = Counter(self._of.values())
        rest = open_count - counted.total()
        if rest > 0:
            counted[UNKNOWN, UNKNOWN] += rest
        return dict(sorted(counted.items()))


TIMED_OUT: Final = "The controller did not answer in time."
OUTCOMES_AT_LEAST: Final = 16
"""Of what was forwarded: so many are answered though the step is over; who asks on gets no more."""


@dataclass(frozen=True, slots=True)
class BrokerSurroundings:
    """What a broker needs of its process. ``stamp``: monotonic nanoseconds.

    ``faults``: strikes requests, for tests of clients; None: nothing does. ``shared``: the control
    requests of all brokers of the process; None: it has no other broker.
    """

    new_conn: Callable[[], int]
    rng: Random
    stamp: Callable[[], int]
    descriptors: int = INT_MAX
    faults: FaultScript | None = None
    shared: SharedControl | None = None


class BrokerNode:
    """A ``Machine`` of the seam.

    Args:
        config: of the broker.
        side: its mode.
        parts: further parts, called after those of the mode.
        around: what the process gives it.
    """

    def __init__(
        self,
        config: BrokerConfig,
        side: BrokerSide,
        around: BrokerSurroundings,
        parts: Sequence[BrokerPart] = (),
    ) -> None:
        self.config = config
        self.side = side
        self.advertised = offered(config.release, side.mode)
        self.connections = accepting(
            self.advertised,
            config.socket_request_max_bytes,
            around.stamp,
            Population(config.connections, around.descriptors),
            script=around.faults,
            refuse=refused,
            sasl=config.sasl,
            store=ImageCredentials(
                lambda: side.cluster.image, config.tokens.secret, lambda: side.knows_users
            ),
        )
        self.connections.bodies.entries_max = entries_max(self.advertised)
        if around.shared is not None:
            self.connections.bodies.decoder = around.shared.decode
            self.connections.bodies.slicer = around.shared.decoding
        self.forwarding = Forwarding(
            ControllerChannel(
                side.controller,
                spoken(config.release),
                around.new_conn,
                config.request_timeout_ms,
            )
        )
        self.clients = ClientSoftware()
        self.failures = RequestFailures()
        self._rng = around.rng
        self._parts: tuple[BrokerPart, ...] = (*side.parts, self.forwarding, *parts)
        self._forwardable = forwardable(config.release)
        self._creation = TopicCreation(
            self.forwarding, spoken(config.release), config.request_timeout_ms
        )
        self._producer_ids = ProducerIdSource(
            config.node_id, lambda: side.broker_epoch, self.forwarding.ask
        )
        self._outcomes: deque[tuple[Request, Forwarded, PassOn | None]] = deque()
        self._under_way = UnderWay(self.connections)
        self._now_ms = 0
        self._stopping = self._halted = False

    @property
    def deadline_ms(self) -> int | None:
        """When ``step`` is due even if nothing happens."""
        times = [part.deadline_ms for part in self._parts]
        times.append(self.connections.deadline_ms)
        if self._outcomes or self._under_way:
            times.append(0)
        return earliest(times)

    def start(self, now_ms: int) -> list[Effect]:
        """Begin to follow the log, and to register."""
        for part in self._parts:
            part.start(now_ms)
        return self.step([], now_ms)

    def step(self, events: list[Event], now_ms: int) -> list[Effect]:
        """Take events, do what is due, return the effects in order."""
        if self._halted:
            return []
        self._now_ms = now_ms
        self.connections.budget.renew()
        effects = self._under_way.go_on(self._guarded)
        for conn in self.connections.turns():
            effects += self._requests(conn, b"", now_ms)
        for event in events:
            effects += self._event(event, now_ms)
        for part in self._parts:
            part.tick(now_ms)
        self.side.exchange(now_ms)
        gone = self.side.take_taken_away()
        if self.connections.logins is not None:
            self.connections.logins.taken_away(gone)
        effects += self._answers(now_ms)
        for conn in self.connections.tick(now_ms):
            self.clients.left(conn)
            effects.append(Close(conn))
        for part in self._parts:
            effects += part.effects(now_ms)
        if self.side.over is not None:
            effects += self._halt(*self.side.over)
        return effects

    def shutdown(self, now_ms: int) -> list[Effect]:
        """Controlled shutdown, then ``Halt``; a second call stops at once."""
        if self._halted:
            return []
        if self._stopping:
            return self._halt(1, "stopped at once; the controller was not asked")
        self._stopping = True
        self.side.shut_down(now_ms)
        log = Log("info", "stopping: the controller moves what this broker leads", {})
        return [log, *self.step([], now_ms)]

    # ---------------------------------------------------------------- events and requests
    def _event(self, event: Event, now_ms: int) -> list[Effect]:
        match event:
            case Accepted():
                return self.connections.accepted(event, now_ms)
            case Received(conn, data) if self.connections.owns(conn):
                return self._requests(conn, data, now_ms)
            case Closed(conn) if self.connections.owns(conn):
                self.connections.closed(conn)
                self.clients.left(conn)
            case Connected() | Received() | Closed():
                for part in self._parts:
                    part.handle(event, now_ms)
            case _:
                raise AssertionError(f"a broker has no files: {event!r}")
        return []

    def _requests(self, conn: int, data: bytes, now_ms: int) -> list[Effect]:
        requests, closing = self.connections.received(conn, data, now_ms)
        effects: list[Effect] = []
        for request in requests:
            work = self._under_way.in_turn(request, partial(self._request, request, now_ms))
            effects += self._guarded(request, work)
        if not self.connections.owns(conn):
            self.clients.left(conn)
        return effects + closing

    def _request(self, request: Request, now_ms: int) -> Work:
        header, message = request.ticket.header, request.message
        if isinstance(message, ControlRequest):
            return self._reply(request, self.side.take_control_request(message, now_ms))
        if isinstance(message, m.ApiVersionsRequest):
            self.clients.named(request.ticket.conn, message, header.api_version)
        api = served().get(header.api_key)
        if api is None:
            if header.api_key in self._forwardable:
                return self._to_controller(request, request.frame, None, now_ms)
            code = ErrorCode.UNSUPPORTED_VERSION
            return self._refuse(request, code, None)
        if api.division is not None:
            pieces = api.division.pieces(message, header.api_version)
            if pieces is not None:
                return self._divided(api, DividedAnswer(request, pieces, api.division.entries))
        answer = api.function(self.side.cluster.now(), message, self._asked(request, now_ms))
        if isinstance(answer, Generator):
            return self._made(request, answer)
        return self._answered(request, answer, now_ms)

    def _made(self, request: Request, slices: Slices[Any]) -> Slices[list[Effect]]:
        answer = yield from slices
        work = self._answered(request, answer, self._now_ms, long=True)
        return (yield from _slices_of(work))

    def _answered(self, request: Request, answer: Any, now_ms: int, *, long: bool = False) -> Work:
        header, message = request.ticket.header, request.message
        match answer:
            case PassOn():
                if answer.message is not message:
                    return self._part_to_controller(request, answer)
                return self._to_controller(request, request.frame, answer, now_ms)
            case NoAnswer():
                return self._close(request.ticket.conn)
            case Answer(shared=True, response=response):
                return self._sending(request, sharing(header, response))
            case Answer():
                self._create(request, answer, now_ms)
                return self._reply(request, answer.response, long=long)
            case _:
                return self._reply(request, answer, long=long)

    def _divided(self, api: ServedApi, divided: DividedAnswer) -> Slices[list[Effect]]:
        request, cluster = divided.request, self.side.cluster.now()
        for piece in divided.pieces:
            yield
            if piece is None:
                continue
            answer = api.function(cluster, piece, self._asked(request, self._now_ms))
            if isinstance(answer, Generator):
                answer = yield from answer
            if isinstance(answer, Answer):
                self._create(request, answer, self._now_ms)
                answer = answer.response
            yield from divided.add(answer)
        return self._send(request.ticket, divided.payload(), self._now_ms)

    def _asked(self, request: Request, now_ms: int) -> Asked:
        return Asked(
            config=self.config,
            header=request.ticket.header,
            advertised=self.advertised,
            now_ms=now_ms,
            rng=self._rng,
            principal=request.principal.name,
            token_authenticated=request.principal.token_authenticated,
            address=request.peer_address,
            listener=request.listener,
            controller_versions=self.forwarding.controller_versions,
            producer_ids=self._producer_ids,
        )

    def _to_controller(
        self, request: Request, data: bytes, passed_on: PassOn | None, now_ms: int
    ) -> Work:
        header = request.ticket.header
        key = header.api_key
        if self.config.strict_versions and for_the_controller_alone(header, self.side):
            return self._refuse(request, *NOT_CONTROLLER)
        if not self.side.forwards:
            return self._refuse(request, *unforwarded(key))
        self.forwarding.forward(
            data,
            header,
            _client_of(request),
            now_ms,
            lambda outcome: self._outcomes.append((request, outcome, passed_on)),
        )
        return []

    def _part_to_controller(self, request: Request, passed_on: PassOn) -> Slices[list[Effect]]:
        data = yield from encoding_request(request.ticket.header, passed_on.message)
        work = self._to_controller(request, data, passed_on, self._now_ms)
        return (yield from _slices_of(work))

    def _create(self, request: Request, answer: Answer, now_ms: int) -> None:
        if not answer.create:
            return
        if answer.as_broker or not self.side.forwards:
            self._creation.for_broker(answer.create, now_ms)
        else:
            header = request.ticket.header
            self._creation.for_client(answer.create, header, _client_of(request), now_ms)

    # ---------------------------------------------------------------- answers
    def _answers(self, now_ms: int) -> list[Effect]:
        effects: list[Effect] = []
        budget = self.connections.budget
        for done in range(len(self._outcomes)):
            if budget.over and done >= OUTCOMES_AT_LEAST:
                break
            budget.left -= CALL_COST
            one = self._outcomes.popleft()
            effects += self._guarded(one[0], partial(self._answer, *one, now_ms))
        effects += [failure_line(one) for one in self.failures.take()]
        return effects

    def _answer(
        self, request: Request, outcome: Forwarded, passed_on: PassOn | None, now_ms: int
    ) -> Work:
        ticket = request.ticket
        if outcome.error is not None:
            text = TIMED_OUT if outcome.error is ErrorCode.REQUEST_TIMED_OUT else UNEXPECTED
            return self._refuse(request, outcome.error, text)
        if outcome.payload is None:
            return self._close(ticket.conn)
        if outcome.message is None:
            return self._long_answer(request, outcome.payload, passed_on)
        if passed_on is not None:
            return self._joined(request, passed_on, outcome.message)
        return self._send(ticket, outcome.payload, now_ms)

    def _long_answer(
        self, request: Request, payload: bytes, passed_on: PassOn | None
    ) -> Slices[list[Effect]]:
        header = request.ticket.header
        work: Work
        try:
            message = yield from decoding_response(header.api_key, header.api_version, payload)
        except DecodeError:
            work = self._refuse(request, ErrorCode.UNKNOWN_SERVER_ERROR, UNEXPECTED)
        else:
            if passed_on is None:
                return self._send(request.ticket, payload, self._now_ms)
            work = self._joined(request, passed_on, message)
        return (yield from _slices_of(work))

    def _joined(self, request: Request, passed_on: PassOn, message: Any) -> Slices[list[Effect]]:
        work = self._reply(request, (yield from passed_on.join(message)))
        return (yield from _slices_of(work))

    def _guarded(self, request: Request, work: Callable[[], Work]) -> list[Effect]:
        """Do the work; what fails is this caller's answer: no request ends the broker."""
        key = request.ticket.header.api_key
        try:
            made = work()
            return self._under_way.begin(request, made) if isinstance(made, Generator) else made
        except Exception as error:  # noqa: BLE001 - whatever it is
            self.failures.note(key, error)
        try:
            code = ErrorCode.UNKNOWN_SERVER_ERROR
            return self._at_once(request, refused(key, request.message, code, UNEXPECTED))
        except Exception as error:  # noqa: BLE001 - not even an error can be said
            self.failures.note(key, error)
            return self._send(request.ticket, None, self._now_ms)

    def _refuse(self, request: Request, code: ErrorCode, text: str | None) -> Work:
        slices = refusing(request.ticket.header.api_key, request.message, code, text)
        if request.ticket.bytes >= SLICED_BYTES:
            return self._refusing(request, slices)
        return self._reply(request, whole(slices))

    def _refusing(self, request: Request, refusal: Slices[Any]) -> Slices[list[Effect]]:
        work = self._reply(request, (yield from refusal))
        return (yield from _slices_of(work))

    def _reply(self, request: Request, message: Any, *, long: bool = False) -> Work:
        """Answer it; ``long``: the answer may be long, though the request is not."""
        if long or request.ticket.bytes >= SLICED_BYTES:
            return self._sending(request, encoding(request.ticket.header, message))
        return self._at_once(request, message)

    def _at_once(self, request: Request, message: Any) -> list[Effect]:
        payload = encoded(request.ticket.header, message, self.advertised[API_VERSIONS][1])
        self.connections.budget.left -= len(payload) // ENCODED_PER_COST
        return self._send(request.ticket, payload, self._now_ms)

    def _sending(self, request: Request, payload: Slices[bytes]) -> Slices[list[Effect]]:
        return self._send(request.ticket, (yield from payload), self._now_ms)

    def _send(self, ticket: Ticket, payload: bytes | None, now_ms: int) -> list[Effect]:
        effects = self.connections.reply(ticket, payload, now_ms)
        if effects and not self.connections.owns(ticket.conn):
            self.clients.left(ticket.conn)
        return effects

    def _close(self, conn: int) -> list[Effect]:
        """Close a client's connection, so that it asks for the versions again."""
        if not self.connections.owns(conn):
            return []
        self.connections.closed(conn)
        self.clients.left(conn)
        return [Close(conn)]

    def _halt(self, exit_code: int, why: str) -> list[Effect]:
        self._halted = True
        effects: list[Effect] = self.connections.close_all()
        for part in self._parts:
            part.close()
            # Nothing new is sent: the time is not needed.
            effects += [each for each in part.effects(0) if isinstance(each, Close)]
        return [*effects, Halt(exit_code, why)]


def _client_of(request: Request) -> Forwardee:
    return Forwardee(request.ticket.conn, request.principal, request.peer_address)
