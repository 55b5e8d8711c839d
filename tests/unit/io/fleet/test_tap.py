"""The tap around a broker of a fleet."""

from __future__ import annotations

import pytest

from emulator.io.clock import Clock
from emulator.io.fleet.tap import HEARTBEAT, Exchange, Tapped
from emulator.seam import Connect, Effect, Event, Received, Send
from wire import messages as m
from wire.frame import RequestHeader, encode_request, encode_response, framed

NONSENSE = {
    "shorter than a correlation id": framed(b"\0"),
    "a negative length": b"\xff" * 4,
    "an answer cut short": framed((7).to_bytes(4, "big") + b"\0"),
}


class AskingBroker:
    """Connects, and sends one heartbeat; keeps what it receives."""

    deadline_ms: int | None = None

    def __init__(self) -> None:
        self.received: list[bytes] = []

    def start(self, _now_ms: int) -> list[Effect]:
        request = encode_request(
            RequestHeader(HEARTBEAT, 0, 7, "0"), m.BrokerHeartbeatRequest(broker_id=0)
        )
        return [Connect(1, "controller", 9093), Send(1, framed(request))]

    def step(self, events: list[Event], _now_ms: int) -> list[Effect]:
        self.received += [event.data for event in events if isinstance(event, Received)]
        return []

    def shutdown(self, _now_ms: int) -> list[Effect]:
        return []


class SeenExchanges:
    deadline_ms: int | None = None

    def __init__(self) -> None:
        self.seen: list[Exchange] = []

    def tick(self, _now_ms: int) -> None: ...

    def answered(self, seen: Exchange) -> None:
        self.seen.append(seen)

    def stepped(self, _now_ms: int) -> None: ...


def tapped() -> tuple[Tapped, AskingBroker, SeenExchanges]:
    broker, script = AskingBroker(), SeenExchanges()
    tap = Tapped(broker, lambda _host, _port: False, 1_000_000, Clock(), script)
    tap.start(0)
    return tap, broker, script


def test_an_exchange_is_seen_with_its_error() -> None:
    tap, _broker, script = tapped()
    answer = encode_response(HEARTBEAT, 0, 7, m.BrokerHeartbeatResponse(error_code=77))
    tap.step([Received(1, framed(answer))], 1)
    assert [(one.api_key, one.error_code) for one in script.seen] == [(HEARTBEAT, 77)]


@pytest.mark.parametrize("data", NONSENSE.values(), ids=NONSENSE)
def test_what_is_no_answer_is_left_to_the_broker(data: bytes) -> None:
    tap, broker, script = tapped()
    for _ in range(2):
        tap.step([Received(1, data)], 1)
    assert broker.received == [data, data]
    assert script.seen == []
