"""One connection and one queue per ZooKeeper-mode broker, over bytes.

Owns the outbound connections to brokers, their queues, reconnects, replies. Does not use images:
``propagation.py`` decides what to send and to which broker.

Source: ControllerChannelManager.RequestSendThread, Kafka 3.9. As there: no ApiVersions is sent
(versions follow metadata.version), one request is in flight per broker, a socket failure is retried
after 100 ms for as long as the broker is registered and unfenced, and a reply with an error is
logged and counted, not retried: the next change or the next registration repairs it. Not in Kafka:
what a broker failed as a whole is sent again (``replies.py``).

Nor is this in Kafka: a broker that is fenced with a request unanswered keeps its connection until
the answer is there. If it is unfenced meanwhile, it goes on there. On a second connection the
broker could act on a new request first and on the old one, still under way, afterwards; an
UpdateMetadata carries nothing by which it would see that.

Nor does Kafka merge what waits for a broker that is behind (``merging.py``). A request is queued as
it is if none of its kind waits. What comes beyond is merged, and queued when all before it has been
answered: what is queued is sent, so a broker that is always behind gets on. If more than
:data:`~emulator.migration.propagation.merging.ENTRIES_MAX` entries wait all the same, they are
dropped, and nothing is put until the broker has answered what is queued. Then it gets everything,
as if it had just joined.
"""

from __future__ import annotations

import heapq
from collections import Counter, deque
from collections.abc import Callable, Iterator, Mapping
from itertools import count
from typing import Final

import msgspec

from emulator.config.listeners import HostPort
from emulator.config.sasl import OPEN_ACCESS, PeerAccess
from emulator.migration.propagation import merging
from emulator.migration.propagation.merging import Later
from emulator.migration.propagation.replies import (
    FAILED_AGAIN,
    HalfDone,
    RepairKind,
    Repairs,
    StraySearch,
    cannot_look_for_strays,
    error_name,
    failed_as_a_whole,
    logging_errors,
    pause_after,
)
from emulator.migration.propagation.unreached import Outdated, Unreached
from emulator.net.channel import (
    Answered,
    Broken,
    ChannelConfig,
    EndedBy,
    Opened,
    OutboundChannel,
    Turn,
    Unanswered,
)
from emulator.net.control import (
    VERSIONS,
    ControlRequest,
    ControlResponse,
    Question,
    Told,
    api_of,
)
from emulator.net.greeting import Greeting
from emulator.net.login import Login
from emulator.seam import Closed, Connected, Effect, Event, Log, Received, Slices, earlier
from wire import messages as m
from wire.constant import Constant

RECONNECT_MS: Final = 100
CONNECT_TIMEOUT_MS: Final = 10_000
"""``socket.connection.setup.timeout.ms``. Without it, while a network drops packets, the
next attempt would wait until the kernel gives up, minutes after the network works again."""
QUESTION_TRIES: Final = 3
"""So often a broker is asked what it shows. The question goes ahead of the requests after it, and
what it can repair matters less than they do."""
REPLY_TIMEOUT_MS: Final = 30_000
"""``request.timeout.ms``: as in Kafka it is sent again then, though the broker may be at it."""


LONG_BYTES: Final = 16 * 1024
"""Of a body that many brokers get. Each of them is sent a copy."""
BROKER_BYTES: Final = 40
"""Of a live broker in an UpdateMetadata, about: of 1,000 brokers each change names all."""
UNANSWERED_MAX: Final = 128
"""Of long requests: what 1,000 brokers of one process, or of one network, get at the same time
keeps their heartbeats waiting."""
UNANSWERED_BYTES_MAX: Final = 128 * 1024 * 1024
"""Of all such copies that are on their way: with 1,000 brokers all of them would be 0.7 GB, here
and again where they are read."""
LONG_SLOT_MS: Final = 1_000
"""A broker that does not answer keeps others waiting for no longer than that."""


class Peer(msgspec.Struct, frozen=True):
    """The address on which a broker listens for its controller, and its broker epoch.

    A change of any field opens a new connection and drops the queue of the former one.
    """

    broker_id: int
    epoch: int
    host: str
    port: int


class _Line(msgspec.Struct):
    """A broker and the channel to it."""

    peer: Peer
    channel: OutboundChannel[Told]
    """Its tickets are the requests."""
    later: Later
    """What waits until the channel has an answer to all that is queued there."""
    cut: bool = False
    """``later`` was dropped, and the broker has not answered what is queued."""
    conn: int | None = None
    """The id of the connection in events."""
    refused: bool = False
    """Whether the log says that the broker refuses the login."""
    failed: int = 0
    """How often in a row the broker failed the request that was sent last, as a whole."""
    asked_in_vain: int = 0
    """How often a question had no answer, or none that can be read."""
    strays: StraySearch = msgspec.field(default_factory=StraySearch)
    long: bool = False
    """Whether a long request was ever put."""
    turn: tuple[bool, int] = (False, 0)
    """Whether it leaves, and its place among all that were peers, or left, before it."""
    alarm_ms: int | None = None
    """The earliest time at which :class:`_Alarms` has it."""

    @property
    def outstanding(self) -> int:
        """Requests put and not answered."""
        return self.channel.outstanding + self.later.count


class _Alarms:
    """Which lines are due: nobody looks at all of them, as there may be thousands.

    A line is entered when its deadline comes nearer. When it moves on, as with each request, the
    old entry stays until its time, and is then replaced.
    """

    def __init__(self) -> None:
        self._heap: list[tuple[int, int, _Line]] = []
        self._count = count()
        self._new: list[_Line] = []
        """Lines whose limits begin with the next :meth:`take`, as the time was not known."""

    @property
    def deadline_ms(self) -> int | None:
        """The earliest deadline of all lines."""
        while self._heap:
            at_ms, _, line = self._heap[0]
            if at_ms == line.alarm_ms == line.channel.deadline_ms:
                return at_ms
            self._drop()
        return None

    def begin(self, line: _Line) -> None:
        """A line is dialled, and has no deadline yet."""
        self._new.append(line)

    def follow(self, line: _Line) -> None:
        """The deadline of a line may have changed."""
        due_ms = line.channel.deadline_ms
        if due_ms is not None and (line.alarm_ms is None or due_ms < line.alarm_ms):
            line.alarm_ms = due_ms
            heapq.heappush(self._heap, (due_ms, next(self._count), line))

    def take(self, now_ms: int) -> list[_Line]:
        """Remove the lines that are new or due, in the order of their turns."""
        due = {id(line): line for line in self._new}
        self._new.clear()
        while (at_ms := self.deadline_ms) is not None and at_ms <= now_ms:
            _, _, line = heapq.heappop(self._heap)
            line.alarm_ms = None
            due[id(line)] = line
        return sorted(due.values(), key=lambda line: line.turn)

    def clear(self) -> None:
        """There are no lines any more."""
        self._heap.clear()
        self._new.clear()

    def _drop(self) -> None:
        """Remove the first entry, whose time is not that of its line any more."""
        at_ms, _, line = heapq.heappop(self._heap)
        if at_ms == line.alarm_ms:
            line.alarm_ms = None
            self.follow(line)


def _bytes_of(request: Told | None) -> int:
    """Of a body that is encoded for many brokers; 0: it is short, or one broker's own."""
    if request is None or isinstance(request, Question):
        return 0
    states, size = request.topic_states, 0
    if isinstance(request, m.UpdateMetadataRequest):
        size = BROKER_BYTES * len(request.live_brokers)
    if isinstance(states, Constant):
        size += len(states.encoded.get(VERSIONS[type(request)], b""))
    return size


class _OnTheWay:
    """The long requests that are on their way, and the lines whose next one has to wait for them.

    Not in Kafka, where the requests of 1,000 brokers are in memory at the same time.
    """

    def __init__(self) -> None:
        self._sent: dict[int, tuple[int, int]] = {}
        """Id of a line -> until when it counts, and bytes; oldest first."""
        self._bytes = 0
        self.waiting: dict[int, _Line] = {}

    @property
    def deadline_ms(self) -> int:
        """When a line that waits may send: when the oldest one does not count any more, or now."""
        return next(iter(self._sent.values()))[0] if self._full else 0

    @property
    def _full(self) -> bool:
        return self._bytes >= UNANSWERED_BYTES_MAX or len(self._sent) >= UNANSWERED_MAX

    def waits(self, line: _Line, now_ms: int) -> bool:
        """Whether the next request of a line has to wait; else, if it is long, it counts."""
        size = _bytes_of(line.channel.next)
        if size < LONG_BYTES:
            return False
        self.end(line)
        if self._full:
            self.waiting[id(line)] = line
            return True
        self._sent[id(line)] = now_ms + LONG_SLOT_MS, size
        self._bytes += size
        return False

    def end(self, line: _Line) -> None:
        """The request of a line is answered, or lost."""
        self._bytes -= self._sent.pop(id(line), (0, 0))[1]

    def forget(self, line: _Line) -> None:
        """A line is closed."""
        self.end(line)
        self.waiting.pop(id(line), None)

    def take(self, now_ms: int) -> _Line | None:
        """Remove the line that has waited longest, if it may send."""
        while self._sent and next(iter(self._sent.values()))[0] <= now_ms:
            self._bytes -= self._sent.pop(next(iter(self._sent)))[1]
        if not self.waiting or self._full:
            return None
        return self.waiting.pop(next(iter(self.waiting)))


class Channels:
    """The queues of all ZooKeeper-mode brokers.

    Invariants: a broker ends in the state of one that got all requests in the order they were put;
    at most one is unanswered per broker; a request whose reply was lost is sent again, since each
    of the three requests may be applied twice without harm; no request is sent to a life of a
    broker that may still act on an earlier one; what one broker has not answered is bounded.
    """

    def __init__(
        self, node_id: int, new_conn: Callable[[], int], access: PeerAccess = OPEN_ACCESS
    ) -> None:
        """No channel yet; ``access``: how connections to brokers are secured."""
        self._config = ChannelConfig(
            client_id=str(node_id),
            connect_ms=CONNECT_TIMEOUT_MS,
            reply_ms=REPLY_TIMEOUT_MS,
            retry_ms=RECONNECT_MS,
            greeting=None if access.login is None else Greeting(login=Login.of(access.login)),
            tls=access.tls,
            sliced=True,
        )
        self._new_conn = new_conn
        self._lines: dict[int, _Line] = {}
        self._leaving: dict[int, _Line] = {}
        """Brokers that are no peers now and have not answered a request; they get no other one."""
        self._by_conn: dict[int, _Line] = {}
        self._alarms = _Alarms()
        self._on_the_way = _OnTheWay()
        self._turn_numbers: Iterator[int] = count()
        self.caught_up: set[int] = set()
        """Brokers whose queue was dropped and that have answered since: they need everything."""
        self._looking: deque[Slices[list[Effect]]] = deque()
        """Long answers, whose errors are looked for in slices."""
        self.shown: dict[int, m.MetadataResponse] = {}
        """Broker id -> its answer what it shows its clients; the owner takes it out."""
        self.outdated, self.unreached = Outdated(), Unreached(REPLY_TIMEOUT_MS, CONNECT_TIMEOUT_MS)
        self.repairs, self.half_done = Repairs(), HalfDone()
        self.may_be_older = True
        """Whether brokers may be older than 3.7; see ``logging_errors``."""
        self.sent_count = 0
        self.error_count = 0
        self.reconnect_count = 0
        self.outcomes: Counter[tuple[str, str]] = Counter()
        """API and ``answered``, ``error`` or ``lost`` -> how many requests sent ended so."""

    @property
    def peers(self) -> Mapping[int, Peer]:
        """Broker id -> the peer a channel exists for."""
        return {broker_id: line.peer for broker_id, line in self._lines.items()}

    @property
    def queued(self) -> int:
        """Requests put and not answered yet, over all brokers."""
        return sum(line.outstanding for line in self._lines.values())

    @property
    def waiting(self) -> Mapping[int, int]:
        """Broker id -> requests put and not answered yet."""
        return {broker_id: line.outstanding for broker_id, line in self._lines.items()}

    @property
    def cut_count(self) -> int:
        """Number of brokers whose queue was dropped because they do not answer."""
        return sum(line.cut for line in self._lines.values())

    @property
    def open(self) -> bool:
        """Whether there is a channel."""
        return bool(self._lines or self._leaving)

    def cut(self, broker_id: int) -> bool:
        """Whether only requests with everything are put for the broker."""
        line = self._lines.get(broker_id)
        return line is not None and line.cut

    def resume(self, broker_id: int) -> None:
        """The broker is getting everything: requests are put for it again."""
        self.caught_up.discard(broker_id)
        line = self._lines.get(broker_id)
        if line is not None:
            line.cut = False

    @property
    def deadline_ms(self) -> int | None:
        """When :meth:`tick` wants to be called."""
        if self._looking:
            return 0
        due_ms = self._alarms.deadline_ms
        return earlier(due_ms, self._on_the_way.deadline_ms) if self._on_the_way.waiting else due_ms

    def owns(self, conn: int) -> bool:
        """Whether an event of this connection is ours."""
        return conn in self._by_conn

    def set_peers(self, peers: Mapping[int, Peer]) -> list[Effect]:
        """Open, keep and close channels so that exactly ``peers`` have one.

        Args:
            peers: broker id -> peer, only registered, migrating and unfenced ZooKeeper-mode brokers
                (U05).
        """
        effects: list[Effect] = []
        for broker_id in [*self._lines]:
            if peers.get(broker_id) != self._lines[broker_id].peer:
                line = self._lines.pop(broker_id)
                self.caught_up.discard(broker_id)
                line.cut = False
                if broker_id not in peers and line.channel.waiting_for_answer:
                    line.channel.withdraw()
                    line.later.clear()
                    self._leaving[broker_id] = line
                    line.turn = (True, next(self._turn_numbers))
                    self.unreached.forget(broker_id)
                else:
                    effects += self._close(line)
        for broker_id, peer in peers.items():
            left = self._leaving.pop(broker_id, None)
            if left is not None and left.peer == peer:
                self._lines[broker_id] = left
                left.turn = (False, next(self._turn_numbers))
            elif left is not None:
                # Another life of the broker, which refuses requests for the former one.
                effects += self._close(left)
            if broker_id not in self._lines:
                address = (peer.host, peer.port)
                channel: OutboundChannel[Told] = OutboundChannel(
                    address, self._config, self._new_conn, count()
                )
                line = self._lines[broker_id] = _Line(peer, channel, Later(broker_id))
                line.turn = (False, next(self._turn_numbers))
                channel.dial()
                self._alarms.begin(line)
                effects += self._effects(line, None)
        return effects

    def put(self, broker_id: int, request: Told, now_ms: int) -> list[Effect]:
        """Queue a request; dropped when the broker has no channel, as in Kafka, or was cut off.

        What it names must not be changed any more.
        """
        line = self._lines.get(broker_id)
        if line is None or line.cut:
            return []
        if line.later or any(type(one) is type(request) for one in line.channel.waiting):
            line.later.put(request)
        else:
            self._queue(line, request)
        effects = self._effects(line, now_ms)
        if line.later.entries <= merging.ENTRIES_MAX:
            return effects
        return effects + self._cut(line, now_ms)

    def close(self) -> list[Effect]:
        """Close every channel and drop every queue."""
        lines = [*self._lines.values(), *self._leaving.values()]
        self._lines.clear()
        self._leaving.clear()
        self._alarms.clear()
        self.caught_up.clear()
        self._looking.clear()
        self.shown.clear()
        self.half_done.clear()
        return [effect for line in lines for effect in self._close(line)]

    def handle(self, event: Event, now_ms: int) -> list[Effect]:
        """Take an event of one of our connections."""
        if not isinstance(event, Connected | Received | Closed):
            return []
        line = self._by_conn.get(event.conn)
        if line is None:
            return []
        effects = self._turns(line, line.channel.handle(event, now_ms), now_ms)
        effects += self._left(line)
        return effects + self._next_long(now_ms) if self._on_the_way.waiting else effects

    def tick(self, now_ms: int) -> list[Effect]:
        """Reconnect, and give up on connections and replies that are too late."""
        effects = self._look_on()
        for line in self._alarms.take(now_ms):
            effects += self._turns(line, line.channel.tick(now_ms), now_ms)
            effects += self._left(line)
        return effects + self._next_long(now_ms) if self._on_the_way.waiting else effects

    def _next_long(self, now_ms: int) -> list[Effect]:
        """Send the long requests that may be sent now."""
        effects: list[Effect] = []
        while (line := self._on_the_way.take(now_ms)) is not None:
            effects += self._effects(line, now_ms)
        return effects

    def _look_on(self) -> list[Effect]:
        """Look at a slice of the oldest long answer; returns the lines of what it says."""
        if not self._looking:
            return []
        try:
            next(self._looking[0])
        except StopIteration as end:
            self._looking.popleft()
            effects: list[Effect] = end.value
            return effects
        return []

    def _queue(self, line: _Line, request: Told, *, first: bool = False) -> None:
        line.long = line.long or _bytes_of(request) >= LONG_BYTES
        line.channel.put(request, request, VERSIONS[type(request)], first=first)

    def _go_on(self, line: _Line) -> None:
        """Queue what waits next, if everything queued has been answered."""
        if line.later and not line.channel.outstanding:
            for request in line.later.take():
                self._queue(line, request)

    def _cut(self, line: _Line, now_ms: int) -> list[Effect]:
        """Drop what is not queued; the answers to what is show that the broker answers."""
        about = {"requests": line.outstanding, "entries": line.later.entries}
        line.later.clear()
        line.cut = True
        waited = f"{about['entries']} entries waited"
        self.repairs.note(RepairKind.QUEUE_DROPPED, line.peer.broker_id, "any", waited, now_ms)
        text = "broker does not answer control requests; its queue is dropped until it answers"
        return [Log("warning", text, {"broker": line.peer.broker_id, **about})]

    def _left(self, line: _Line) -> list[Effect]:
        """Close the channel of a broker that is no peer, once it has answered all."""
        if line.channel.waiting_for_answer or self._leaving.get(line.peer.broker_id) is not line:
            return []
        del self._leaving[line.peer.broker_id]
        return self._close(line)

    def _close(self, line: _Line) -> list[Effect]:
        line.channel.close()
        line.later.clear()
        self._on_the_way.forget(line)
        self.outdated.forget(line.peer.broker_id)
        self.unreached.forget(line.peer.broker_id)
        return self._effects(line, None)

    def _effects(self, line: _Line, now_ms: int | None) -> list[Effect]:
        self._go_on(line)
        later = line.long and now_ms is not None and self._on_the_way.waits(line, now_ms)
        sent = line.channel.sent
        effects = line.channel.effects(None if later else now_ms)
        self.sent_count += line.channel.sent - sent
        if line.conn != line.channel.conn:
            if line.conn is not None:
                del self._by_conn[line.conn]
            line.conn = line.channel.conn
            if line.conn is not None:
                self._by_conn[line.conn] = line
        self._alarms.follow(line)
        return effects

    def _turns(self, line: _Line, turns: list[Turn[Told]], now_ms: int) -> list[Effect]:
        effects: list[Effect] = []
        again: list[Told] = []
        if turns and line.long:
            self._on_the_way.end(line)
        for turn in turns:
            match turn:
                case Answered(ticket=request, message=m.MetadataResponse() as response):
                    line.asked_in_vain = 0
                    self.shown[line.peer.broker_id] = response
                    self.outcomes[api_of(request), "answered"] += 1
                case Answered(ticket=request, message=response):
                    assert not isinstance(request, Question)
                    logs, repeated = self._answered(line, request, response, now_ms)
                    effects += logs
                    again += repeated
                case Unanswered(ticket=request):
                    self.outcomes[api_of(request), "lost"] += 1
                    given_up = self._given_up(line, request)
                    effects += given_up
                    again += [] if given_up else [request]
                case Broken(by, why):
                    self.reconnect_count += 1
                    self.error_count += by is EndedBy.NONSENSE
                    about: dict[str, object] = {"broker": line.peer.broker_id, "why": why}
                    effects.append(Log("debug", "connection to a broker lost", about))
                    if by is EndedBy.REFUSAL and not line.refused:
                        line.refused = True
                        effects.append(Log("warning", "a broker refuses the login", about))
                case Opened():
                    line.refused = False
        if self._leaving.get(line.peer.broker_id) is line:
            again.clear()
        for request in reversed(again):
            self._queue(line, request, first=True)
        broker_id = line.peer.broker_id
        if turns and self._lines.get(broker_id) is line:
            at = HostPort(line.peer.host, line.peer.port)
            waiting = line.outstanding if isinstance(turns[-1], Broken) else 0
            effects += self.unreached.follow(broker_id, at, turns, now_ms, waiting)
        if line.cut and not line.outstanding and broker_id not in self.caught_up:
            self.caught_up.add(broker_id)
            text = "broker answers control requests again; it gets FULL requests"
            effects.append(Log("info", text, {"broker": broker_id}))
        return [*effects, *self._effects(line, now_ms)]

    def _answered(
        self, line: _Line, request: ControlRequest, response: object, now_ms: int
    ) -> tuple[list[Effect], list[Told]]:
        """What is logged of an answer, and what is sent again before all else."""
        assert isinstance(response, ControlResponse), type(response)
        broker_id = line.peer.broker_id
        if not cannot_look_for_strays(request, response):
            effects = self._errors(line, request, response, now_ms)
            again = self._failed(line, request, response, now_ms)
            return effects, [*again, *line.strays.answered(request, response)]
        self.error_count += 1
        self.outcomes[api_of(request), "error"] += 1
        repeated, log = line.strays.failed(broker_id, request)
        kind = RepairKind.FULL_AS_INCREMENTAL if repeated else RepairKind.FULL_AGAIN
        self._note(kind, line, "FULL LeaderAndIsr", response, now_ms)
        looked = self._look_at(self._half_done(broker_id, request, response, now_ms))
        return [log, *looked], [*repeated]

    def _failed(
        self, line: _Line, request: ControlRequest, response: object, now_ms: int
    ) -> list[Told]:
        pause_ms = pause_after(response, line.failed)
        if pause_ms is not None:
            self._note(RepairKind.SENT_AGAIN, line, api_of(request), response, now_ms)
        elif line.failed >= FAILED_AGAIN and failed_as_a_whole(response):
            self._note(RepairKind.GIVEN_UP, line, api_of(request), response, now_ms)
        line.failed = 0 if pause_ms is None else line.failed + 1
        if pause_ms is None:
            return []
        line.channel.pause(now_ms + pause_ms)
        return [request]

    def _given_up(self, line: _Line, request: Told) -> list[Effect]:
        """Count a question without an answer; a warning if it is not asked again."""
        if not isinstance(request, Question):
            return []
        line.asked_in_vain = (line.asked_in_vain + 1) % QUESTION_TRIES
        if line.asked_in_vain:
            return []
        text = "broker does not say which topics it shows; it may show deleted ones until a restart"
        return [Log("warning", text, {"broker": line.peer.broker_id, "tries": QUESTION_TRIES})]

    def _errors(
        self, line: _Line, request: ControlRequest, response: object, now_ms: int
    ) -> list[Effect]:
        assert isinstance(response, ControlResponse), type(response)
        self.outdated.answered(line.peer.broker_id, request, response, now_ms)
        return self._look_at(self._looked_at(line.peer.broker_id, request, response, now_ms))

    def _look_at(self, looking: Slices[list[Effect]]) -> list[Effect]:
        """Look at an answer once the ones before it have been looked at."""
        self._looking.append(looking)
        return self._look_on() if len(self._looking) == 1 else []

    def _half_done(
        self, broker_id: int, request: ControlRequest, response: ControlResponse, now_ms: int
    ) -> Slices[list[Effect]]:
        """What the broker has left half done, or does now."""
        if failed_as_a_whole(response):
            yield from self.half_done.failed(broker_id, request)
        elif not response.error_code:
            self.half_done.done(broker_id, request, now_ms)
        return []

    def _note(
        self, kind: RepairKind, line: _Line, request: str, response: object, now_ms: int
    ) -> None:
        assert isinstance(response, ControlResponse), type(response)
        error = error_name(response.error_code)
        self.repairs.note(kind, line.peer.broker_id, request, error, now_ms)

    def _looked_at(
        self, broker_id: int, request: ControlRequest, response: ControlResponse, now_ms: int
    ) -> Slices[list[Effect]]:
        """Count the errors of an answer; returns the lines about them."""
        whole = failed_as_a_whole(response)
        if whole or self.half_done.brokers:
            yield from self._half_done(broker_id, request, response, now_ms)
        logs, errors = yield from logging_errors(
            broker_id, request, response, older=self.may_be_older
        )
        for one in logs if not whole else ():
            if one.level == "info":
                continue
            error = str(one.fields["error"])
            self.repairs.note(RepairKind.ERRORS, broker_id, api_of(request), error, now_ms)
        self.error_count += errors
        self.outcomes[api_of(request), "error" if errors else "answered"] += 1
        return [*logs]
