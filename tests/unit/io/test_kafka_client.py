"""The blocking client: what a broker may say that is no answer."""

from __future__ import annotations

import pytest

from emulator.io.kafka_client import Connection, UnreachableError, ask_controller
from tests.unit.commands.test_elect_leaders import Broker, serving, told
from wire import messages as m


@pytest.mark.parametrize("host", ["a..b", "x" * 64])
def test_a_controller_at_no_host_is_not_reached(host: str) -> None:
    class Misnaming(Broker):
        def answer(self, version: int, request: object) -> object:
            answer = super().answer(version, request)
            if isinstance(answer, m.MetadataResponse):
                answer.brokers[0].host = host
            return answer

    def ask(address: str) -> None:
        name, _, port = address.rpartition(":")
        request = m.ElectLeadersRequest(topic_partitions=None)
        ask_controller(
            [(name, int(port))], request, lowest=0, not_controller=lambda _: False, timeout_s=3.0
        )

    broker = Misnaming(lambda _: told())
    with serving(broker), pytest.raises(UnreachableError, match="not a host name"):
        ask(broker.address)


def test_a_host_that_is_none_is_an_error_of_the_system() -> None:
    with pytest.raises(OSError, match="not a host name"):
        Connection("a..b", 9, 1.0)
