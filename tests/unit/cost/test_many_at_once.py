"""Many long requests that come at once, each on a connection of its own: no step does them all.

Lines of Python are counted, as in ``test_no_request_costs_more_than_its_size``, and compared with
the same limit: of one step, whatever came in it. So they are of each way that many may come
together: to be read, decided, admitted, refused, or answered.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from emulator.broker.serving.forwarding import Forwarded
from emulator.seam import Accepted, Closed, Effect, Event, Received, Send
from tests.kit.requests import alter_config
from tests.unit.controller.world import create
from tests.unit.cost.cluster import CountedServer, Lines, OurBroker, OurController
from tests.unit.cost.contents import Filler
from tests.unit.cost.test_no_request_costs_more_than_its_size import STEP_LINES, of, ranges
from wire import messages as m
from wire.errors import ErrorCode
from wire.frame import (
    SLICED_BYTES,
    FrameReader,
    RequestHeader,
    decode_response,
    encode_request,
    framed,
)
from wire.schema import layout, lookup, replace

pytestmark = pytest.mark.xdist_group("cost")

COUNT = 300
"""Of each entity that there is."""
MANY = 200
CREATE_TOPICS, FETCH, DESCRIBE_CONFIGS, HEARTBEAT = 19, 1, 32, 63


class Crowd:
    """Connections to a server. ``steps``: the lines of each that is ``counted``; ``sent``: the
    answers, and to whom."""

    def __init__(self, server: CountedServer) -> None:
        self.server = server
        self.steps: list[int] = []
        self.sent: list[tuple[int, bytes]] = []
        self.counted = True
        self.synced = True
        """Whether the disk answers."""
        self._held: list[Event] = []
        self._conn = 100_000

    def open(self, many: int) -> list[int]:
        conns = [*range(self._conn, self._conn + many)]
        self._conn += many
        self.step([Accepted(conn, self.server.listener, b"\x7f\0\0\1") for conn in conns])
        return conns

    def ask(self, frames: list[bytes]) -> list[int]:
        """All in one step, each on a connection of its own; returns these, in order."""
        conns = self.open(len(frames))
        pairs = zip(conns, frames, strict=True)
        self.step([Received(conn, framed(frame)) for conn, frame in pairs])
        return conns

    def step(self, events: list[Event]) -> None:
        self.do(lambda: self.server.machine.step(events, self.server.now_ms))

    def do(self, work: Callable[[], list[Effect]]) -> None:
        effects, lines = Lines().of(work) if self.counted else (work(), 0)
        self.steps.append(lines)
        for effect in effects:
            if isinstance(effect, Send):
                self.sent += [(effect.conn, frame) for frame in FrameReader().feed(effect.data)]
        if isinstance(self.server, OurController):
            self._held += self.server._peers.events_of(effects)
            if self._held and self.synced:
                events, self._held = self._held, []
                self.step(events)

    def go_on(self) -> None:
        while (due := self.server.machine.deadline_ms) is not None and due <= self.server.now_ms:
            self.step([])

    def is_short(self) -> None:
        assert max(self.steps) <= STEP_LINES, max(self.steps)

    @property
    def answered(self) -> list[int]:
        """Connections, in the order of their answers."""
        return [conn for conn, _ in self.sent]

    def codes(self) -> set[int]:
        """Errors that creations of topics were answered."""
        answers = [decode_response(CREATE_TOPICS, 7, frame)[1] for _, frame in self.sent]
        return {topic.error_code for answer in answers for topic in answer.topics}


def filled(which: str, key: int, entries: int) -> Callable[[int], bytes]:
    """Requests of so many entries; topics that are created are other ones each time."""
    version, cls = ranges(which)[key][1], lookup("request", key)
    assert cls is not None

    def frame(number: int) -> bytes:
        first = 1_000 + number * entries if key == CREATE_TOPICS else 0
        made = of(key, version, Filler("known", first, entries).message(layout(cls, version)))
        assert made is not None
        assert len(made) < SLICED_BYTES, "it is read at once"
        return made

    return frame


def wide(number: int) -> bytes:
    """A request of few bytes that makes 250 records."""
    made = of(CREATE_TOPICS, 7, create(f"wide-{number}", 249, 2, timeout_ms=60_000))
    assert made is not None
    return made


REQUESTS = {
    "many topics": filled("controller", CREATE_TOPICS, 90),
    "a topic": filled("controller", CREATE_TOPICS, 1),
    "a wide topic": wide,
    "configs told": filled("controller", DESCRIBE_CONFIGS, 90),
    "configs changed": filled("controller", 44, 90),
    "moves": filled("controller", 45, 290),
    "quotas": filled("controller", 49, 290),
    "the quorum": filled("controller", 55, 600),
}


@pytest.fixture
def crowd() -> Crowd:
    """Before a controller that has compiled the codecs of what is asked here."""
    server = OurController(COUNT)
    for request in REQUESTS.values():
        server.ask(request(1 << 20), counted=False)
    return Crowd(server)


@pytest.mark.parametrize("what", REQUESTS)
def test_no_step_takes_more_of_them_than_it_can(crowd: Crowd, what: str) -> None:
    conns = crowd.ask([REQUESTS[what](number) for number in range(MANY)])
    crowd.go_on()
    crowd.is_short()
    assert sorted(crowd.answered) == conns
    if "a " in what:
        assert crowd.answered == conns, "the oldest first"


def test_what_comes_again_and_again_keeps_nobody_else_waiting(crowd: Crowd) -> None:
    """All who are answered ask again; who asks once has his turn with them, a broker before."""
    frames = [REQUESTS["configs told"](number) for number in range(50)]
    conns = crowd.ask(frames)
    (once, broker) = crowd.open(2)
    epoch = crowd.server.machine.controller.tip.brokers[0].epoch
    beat = m.BrokerHeartbeatRequest(broker_id=0, broker_epoch=epoch, current_metadata_offset=epoch)
    for turn in range(1_000):
        again = [conn for conn in crowd.answered if conn in conns]
        events: list[Event] = [Received(conn, framed(frames[0])) for conn in again]
        if turn == 0:
            events.append(Received(once, framed(of(18, 3, m.ApiVersionsRequest()) or b"")))
        events.append(Received(broker, framed(of(HEARTBEAT, 1, beat) or b"")))
        asked_again = crowd.answered
        crowd.sent.clear()
        crowd.step(events)
        assert broker in crowd.answered, "in the same step"
        if once in crowd.answered:
            break
        assert turn < 100, asked_again
    crowd.is_short()


def waiting(crowd: Crowd, many: int = MANY, what: str = "many topics") -> list[int]:
    """Many whose records are appended and not on the disk."""
    crowd.counted = crowd.synced = False
    conns = crowd.ask([REQUESTS[what](number) for number in range(many)])
    crowd.go_on()
    assert not crowd.answered
    crowd.counted = True
    return conns


def test_many_that_waited_are_answered_in_many_steps(crowd: Crowd) -> None:
    conns = waiting(crowd, 5_000, "a topic")
    crowd.synced = True
    crowd.step([])
    crowd.go_on()
    assert crowd.answered == conns
    crowd.is_short()


def test_many_whose_time_is_over(crowd: Crowd) -> None:
    conns = waiting(crowd)
    crowd.server.now_ms += 60_001
    crowd.go_on()
    assert sorted(crowd.answered) == conns
    assert crowd.codes() == {7}
    crowd.is_short()


def test_many_that_waited_for_a_leader_that_is_none_any_more(crowd: Crowd) -> None:
    conns = waiting(crowd)
    node: Any = crowd.server.machine

    def resigns() -> list[Effect]:
        node.connections.budget.renew()
        node.controller.suspend(crowd.server.now_ms, 7)
        return []

    crowd.do(resigns)
    crowd.step([])
    crowd.go_on()
    assert sorted(crowd.answered) == conns
    assert crowd.codes() == {41}
    crowd.is_short()


def test_many_that_wait_for_zookeeper_when_the_leader_changes(crowd: Crowd) -> None:
    """They are not even looked at in the step in which it does."""
    node: Any = crowd.server.machine
    node.controller.hold(room=0, now_ms=crowd.server.now_ms)
    crowd.counted = False
    conns = crowd.ask([REQUESTS["a topic"](number) for number in range(1_000)])
    crowd.go_on()
    assert len(node.controller.gate) == len(conns)
    crowd.counted = True
    node.connections.budget.renew()
    node.connections.budget.left = 1
    _, lines = Lines().of(lambda: node.controller.suspend(crowd.server.now_ms, 7))
    assert lines < 2 * len(conns)
    assert len(node.controller.gate) == 0
    crowd.go_on()
    assert sorted(crowd.answered) == conns
    assert crowd.codes() == {41}
    crowd.is_short()


@pytest.mark.parametrize("gone", [False, True])
def test_many_that_wait_for_zookeeper(crowd: Crowd, gone: bool) -> None:
    """All of them are let in at once, or have hung up."""
    controller = crowd.server.machine.controller
    controller.hold(room=0, now_ms=crowd.server.now_ms)
    crowd.counted = False
    request = REQUESTS["many topics" if gone else "a wide topic"]
    conns = crowd.ask([request(number) for number in range(MANY)])
    crowd.go_on()
    assert len(controller.gate) == MANY
    crowd.counted = True
    if gone:
        crowd.step([Closed(conn, "reset") for conn in conns])
    else:

        def admitted() -> list[Effect]:
            crowd.server.machine.connections.budget.renew()
            controller.hold(now_ms=crowd.server.now_ms)
            return []

        crowd.do(admitted)
        crowd.step([])
    crowd.go_on()
    assert crowd.answered == ([] if gone else conns)
    assert not crowd.server.machine.counters.waiting
    assert not crowd.server.machine.connections._paused
    crowd.is_short()


@pytest.mark.parametrize("key", [3, 10, DESCRIBE_CONFIGS])
def test_on_a_broker(key: int) -> None:
    server = OurBroker(COUNT)
    request = filled("broker", key, 60)
    server.ask(request(0), counted=False)
    crowd = Crowd(server)
    conns = crowd.ask([request(number) for number in range(MANY)])
    crowd.go_on()
    assert sorted(crowd.answered) == conns
    crowd.is_short()


@pytest.mark.parametrize("server", [OurController, OurBroker])
def test_many_short_requests_of_many_at_once(server: type[OurController | OurBroker]) -> None:
    """They are not even looked for in what came when the step is over; their order stays."""
    crowd = Crowd(server(COUNT))
    head = RequestHeader(api_key=18, api_version=0, correlation_id=0, client_id=None)
    frames = [
        framed(encode_request(replace(head, correlation_id=n), m.ApiVersionsRequest()))
        for n in range(4_000)
    ]
    crowd.server.ask(frames[0][4:], counted=False)
    conns = crowd.open(50)
    data = b"".join(frames)
    crowd.step([Received(conn, data) for conn in conns])
    for _ in range(40):
        crowd.step([])
    crowd.is_short()
    numbers: dict[int, list[int]] = {}
    for conn, answer in crowd.sent:
        numbers.setdefault(conn, []).append(int.from_bytes(answer[:4], "big"))
    assert sorted(numbers) == conns, "each had its turn"
    assert all(some == [*range(len(some))] for some in numbers.values())


def test_many_that_a_broker_forwarded_and_nobody_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Their time is over at once; each gets an error for all that it has asked."""
    crowd, waiting = Crowd(OurBroker(COUNT)), list[Any]()
    machine, request = crowd.server.machine, REQUESTS["many topics"]

    def kept(*args: Any) -> None:
        waiting.append(args[-1])

    monkeypatch.setattr(machine.forwarding, "forward", kept)
    crowd.counted = False
    conns = crowd.ask([request(number) for number in range(2 * MANY)])
    crowd.go_on()
    assert len(waiting) == len(conns)
    late = Forwarded(error=ErrorCode.REQUEST_TIMED_OUT)
    waiting.pop(0)(late)
    crowd.go_on()  # the first of its kind compiles its codec
    crowd.counted = True
    for done in waiting:
        done(late)
    crowd.go_on()
    assert crowd.answered == conns
    assert crowd.codes() == {7}
    crowd.is_short()


def test_a_broker_forwards_what_a_connection_sends_in_its_order(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Also what has to wait until the step is over."""
    crowd = Crowd(OurBroker(COUNT))
    machine, told = crowd.server.machine, list[int]()

    def noted(_data: bytes, header: RequestHeader, *_: object) -> None:
        told.append(header.api_key)

    monkeypatch.setattr(machine.forwarding, "forward", noted)
    (conn,) = crowd.open(1)
    changed = of(44, 1, alter_config(2, "retention.ms", "1", "t0"))
    told_of = [filled("broker", DESCRIBE_CONFIGS, 90)(number) for number in range(4)]
    asked = [one for one in (*told_of, changed, wide(0)) if one is not None]
    crowd.step([Received(conn, b"".join(map(framed, asked)))])
    crowd.go_on()
    assert told == [44, CREATE_TOPICS]
    crowd.is_short()
