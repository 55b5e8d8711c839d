"""The blocking client: what a broker may say that is no answer."""

from __future__ import annotations

import threading
import time
from types import SimpleNamespace

import pytest

from emulator.io import kafka_client
from emulator.io.kafka_client import Connection, UnreachableError, ask_controller
from tests.unit.commands.test_elect_leaders import Broker, serving, told
from wire import messages as m


@pytest.fixture
def short(monkeypatch: pytest.MonkeyPatch) -> float:
    """A time limit in s, of which 0.2 s are left as soon as the client pauses."""
    limit_s, left_s = 60.0, 0.2
    jumped_s = 0.0

    def pause(_: float) -> None:
        nonlocal jumped_s
        jumped_s += limit_s - left_s if not jumped_s else left_s

    clock = SimpleNamespace(
        monotonic=lambda: time.monotonic() + jumped_s,
        monotonic_ns=lambda: time.monotonic_ns() + int(jumped_s * 1e9),
        sleep=pause,
    )
    monkeypatch.setattr(kafka_client, "time", clock)
    return limit_s


@pytest.mark.parametrize("host", ["a..b", "x" * 64])
def test_a_controller_at_no_host_is_not_reached(host: str, short: float) -> None:
    silent = threading.Event()

    class Misnaming(Broker):
        """Answers Metadata once; an attempt that comes later ends with the client's time."""

        def answer(self, version: int, request: object) -> object:
            answer = super().answer(version, request)
            if isinstance(answer, m.MetadataResponse):
                if self.named:
                    silent.wait()
                self.named = True
                answer.brokers[0].host = host
            return answer

        named = False

    broker = Misnaming(lambda _: told())
    with serving(broker):
        try:
            with pytest.raises(UnreachableError, match=f"^{broker.address}: .*not a host name"):
                ask(broker.address, timeout_s=short)
        finally:
            silent.set()


def test_each_address_has_its_own_reason(unused_tcp_port: int, short: float) -> None:
    silent = threading.Event()

    class Silent(Broker):
        def answer(self, version: int, request: object) -> object:
            silent.wait()
            return super().answer(version, request)

    closed = f"127.0.0.1:{unused_tcp_port}"
    broker = Silent(lambda _: told())
    with serving(broker):
        try:
            with pytest.raises(UnreachableError) as caught:
                ask(closed, broker.address, timeout_s=short)
        finally:
            silent.set()
    first, second = str(caught.value).split("; ")
    assert first.startswith(f"{closed}: ")
    assert "refused" in first
    assert second == f"{broker.address}: timed out"


def ask(*addresses: str, timeout_s: float) -> None:
    bootstrap = [(name, int(port)) for name, port in (one.split(":") for one in addresses)]
    request = m.ElectLeadersRequest(topic_partitions=None)
    ask_controller(
        bootstrap, request, lowest=0, not_controller=lambda _: False, timeout_s=timeout_s
    )


def test_a_host_that_is_none_is_an_error_of_the_system() -> None:
    with pytest.raises(OSError, match="not a host name"):
        Connection("a..b", 9, 1.0)
