"""A broker's channel to the controller: one request at a time, and who is asked next."""

from __future__ import annotations

from itertools import count
from typing import Any

from emulator.broker.controller_channel import LOOK_AGAIN_MS, ControllerChannel, ControllerNode
from emulator.net.channel import Answered, ChannelConfig, EndedBy, Unanswered
from emulator.net.greeting import Greeting, listed
from emulator.seam import Close, Closed, Connect, Connected, Effect, Received, Send
from wire import messages as m
from wire.errors import ErrorCode
from wire.frame import FrameReader, RequestHeader, decode_request, encode_response, framed
from wire.releases import controller_ranges

CONFIG = ChannelConfig(
    client_id="1",
    connect_ms=1_000,
    reply_ms=30_000,
    retry_ms=50,
    greeting=Greeting(m.ApiVersionsRequest(client_software_name="x", client_software_version="1")),
)
A = ControllerNode("a", 1, CONFIG)
B = ControllerNode("b", 1, CONFIG)
ASK = m.AllocateProducerIdsRequest(broker_id=1)
GIVEN = m.AllocateProducerIdsResponse(producer_id_len=1_000)
MOVED = m.AllocateProducerIdsResponse(error_code=ErrorCode.NOT_CONTROLLER)


class Peers:
    """A channel, and controllers whose ApiVersions are answered at once."""

    def __init__(self, *nodes: ControllerNode | None, release: str = "3.9", **limits: Any) -> None:
        self.known = list(nodes)
        ranges = controller_ranges(release)
        self.channel = ControllerChannel[str](self._find, ranges, count(1).__next__, **limits)
        self.now_ms = 0
        self.outcomes: list[Any] = []
        self.log: list[Any] = []
        self.asked: list[tuple[RequestHeader, Any]] = []
        self.offers = controller_ranges("3.9")

    def _find(self) -> ControllerNode | None:
        return self.known[0] if len(self.known) == 1 else self.known.pop(0)

    def put(self, *tickets: str, request: Any = ASK, **limits: Any) -> None:
        for ticket in tickets:
            self.channel.put(request, ticket, self.now_ms, **limits)
        self.go_on()

    def wait(self, ms: int) -> None:
        self.now_ms += ms
        self.go_on()

    def go_on(self) -> None:
        self.outcomes += self.channel.tick(self.now_ms)
        for effect in self.channel.effects(self.now_ms):
            self._perform(effect)

    def event(self, event: Any) -> None:
        self.outcomes += self.channel.handle(event, self.now_ms)
        self.go_on()

    def _perform(self, effect: Effect) -> None:
        match effect:
            case Connect(conn, host):
                self.log.append(host)
                self.event(Connected(conn))
            case Send(_, data):
                for frame in FrameReader().feed(data):
                    header, request = decode_request(frame)
                    if isinstance(request, m.ApiVersionsRequest):
                        versions = m.ApiVersionsResponse(api_keys=listed(self.offers))
                        self._reply(header, versions)
                    else:
                        self.asked.append((header, request))
            case Close(conn):
                self.log.append(f"close {conn}")

    def _reply(self, header: RequestHeader, answer: Any) -> None:
        payload = encode_response(header.api_key, header.api_version, header.correlation_id, answer)
        assert self.channel.conn is not None
        self.event(Received(self.channel.conn, framed(payload)))

    def answer(self, answer: Any) -> None:
        self._reply(self.asked[-1][0], answer)

    @property
    def tickets(self) -> list[str]:
        return [each.ticket for each in self.outcomes if isinstance(each, Answered)]

    @property
    def lost(self) -> list[tuple[str, EndedBy]]:
        return [(one.ticket, one.by) for one in self.outcomes if isinstance(one, Unanswered)]


def test_no_connection_is_made_before_the_first_request():
    peers = Peers(A)
    peers.go_on()
    assert peers.log == []
    assert peers.channel.deadline_ms is None
    peers.put("one")
    assert peers.log == ["a"]


def test_one_request_is_in_flight_at_a_time():
    peers = Peers(A)
    peers.put("one", "two")
    assert len(peers.asked) == 1
    peers.answer(GIVEN)
    assert peers.tickets == ["one"]
    assert len(peers.asked) == 2
    peers.answer(GIVEN)
    assert peers.tickets == ["one", "two"]
    assert peers.channel.outstanding == 0
    assert peers.log == ["a"]


def test_not_controller_looks_again_and_sends_the_same_request_first():
    peers = Peers(A, B)
    peers.put("one", "two")
    peers.answer(MOVED)
    assert peers.outcomes == []
    assert peers.log == ["a", "close 1"]
    assert peers.channel.deadline_ms == CONFIG.retry_ms
    peers.wait(50)
    assert peers.log == ["a", "close 1", "b"]
    peers.answer(GIVEN)
    peers.answer(GIVEN)
    assert peers.tickets == ["one", "two"]


def test_not_controller_of_one_partition_counts_too():
    peers = Peers(A)
    partition = m.AlterPartitionResponse.PartitionData(error_code=ErrorCode.NOT_CONTROLLER)
    topic = m.AlterPartitionResponse.TopicData(partitions=[partition])
    peers.put("one", request=m.AlterPartitionRequest())
    peers.answer(m.AlterPartitionResponse(topics=[topic]))
    assert peers.outcomes == []
    peers.wait(50)
    assert len(peers.asked) == 2


def test_a_lost_connection_sends_the_request_again():
    peers = Peers(A)
    peers.put("one")
    assert peers.channel.conn is not None
    peers.event(Closed(peers.channel.conn, "gone"))
    assert peers.outcomes == []
    peers.wait(49)
    assert len(peers.asked) == 1
    peers.wait(1)
    peers.answer(GIVEN)
    assert peers.tickets == ["one"]
    assert len(peers.asked) == 2


def test_an_answer_that_never_comes_is_asked_for_again():
    peers = Peers(A)
    peers.put("one")
    assert peers.channel.deadline_ms == CONFIG.reply_ms
    peers.wait(CONFIG.reply_ms)
    peers.wait(50)
    assert len(peers.asked) == 2
    assert peers.outcomes == []


def test_nobody_known_is_asked_for_every_100_ms():
    peers = Peers(None, None, A)
    peers.put("one")
    assert peers.log == []
    assert peers.channel.deadline_ms == LOOK_AGAIN_MS
    peers.wait(100)
    assert peers.log == []
    peers.wait(100)
    assert peers.log == ["a"]


def test_a_request_is_given_up_when_its_time_is_over():
    peers = Peers(None, give_up_ms=1_000)
    peers.put("one")
    peers.wait(500)
    peers.put("two")
    peers.wait(500)
    assert peers.lost == [("one", EndedBy.TIME)]
    assert peers.channel.deadline_ms is not None
    peers.wait(500)
    assert peers.lost[1:] == [("two", EndedBy.TIME)]


def test_a_request_that_is_in_flight_is_not_given_up():
    peers = Peers(A, give_up_ms=1_000)
    peers.put("one")
    peers.wait(2_000)
    peers.answer(GIVEN)
    assert peers.tickets == ["one"]
    assert peers.lost == []


def test_without_a_limit_a_request_waits_for_ever():
    peers = Peers(None)
    peers.put("one")
    peers.wait(10**9)
    assert peers.outcomes == []
    assert peers.channel.outstanding == 1


def test_a_request_is_sent_in_a_version_of_the_release():
    peers = Peers(A, release="3.4")
    peers.put("one", request=m.AlterPartitionRequest())
    assert peers.asked[0][0].api_version == 2
    peers.answer(m.AlterPartitionResponse())
    peers.put("two", request=m.AlterPartitionRequest(), version_max=1)
    assert peers.asked[1][0].api_version == 1


def test_a_request_that_the_controller_does_not_know_is_reported_and_the_next_is_sent():
    peers = Peers(A)
    peers.offers = {key: low_high for key, low_high in peers.offers.items() if key != 56}
    peers.channel.put(m.AlterPartitionRequest(), "one", 0)
    peers.put("two")
    assert peers.lost == [("one", EndedBy.VERSIONS)]
    peers.answer(GIVEN)
    assert peers.tickets == ["two"]
    assert peers.channel.versions == peers.offers


def test_a_kraft_controller_in_place_of_a_zookeeper_one_gets_a_new_connection():
    of_zookeeper = ControllerNode("z", 1, CONFIG, kraft=False)
    peers = Peers(of_zookeeper)
    peers.put("one")
    peers.known = [B]
    peers.go_on()
    assert peers.log == ["z", "close 1", "b"]
    assert len(peers.asked) == 2


def test_another_kraft_controller_is_noticed_by_its_answer_only():
    peers = Peers(A)
    peers.put("one")
    peers.known = [B]
    peers.go_on()
    assert peers.log == ["a"]


def test_a_closed_channel_reports_all_its_requests():
    peers = Peers(A)
    peers.put("one", "two")
    lost = peers.channel.close()
    assert [(one.ticket, one.by) for one in lost if isinstance(one, Unanswered)] == [
        ("one", EndedBy.OWNER),
        ("two", EndedBy.OWNER),
    ]
    peers.go_on()
    assert peers.log == ["a", "close 1"]
    assert peers.channel.deadline_ms is None


def test_a_request_that_the_common_version_cannot_carry_is_reported_and_the_next_is_sent():
    peers = Peers(A)
    peers.offers = {**peers.offers, 62: (0, 0)}
    peers.put("one", request=m.BrokerRegistrationRequest(is_migrating_zk_broker=True))
    assert peers.channel.deadline_ms == 0
    assert peers.channel.outstanding == 1
    peers.go_on()
    assert peers.lost == [("one", EndedBy.VERSIONS)]
    peers.put("two")
    peers.answer(GIVEN)
    assert peers.tickets == ["two"]
