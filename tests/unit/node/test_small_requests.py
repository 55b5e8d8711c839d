"""What small requests have in common is done once for all of them: counted, not timed."""

from __future__ import annotations

from typing import Any

import pytest

from emulator.controller.turns import Turns
from tests.unit.controller.world import create
from tests.unit.node.test_no_request_ends_the_node import Peers
from wire import messages as m


@pytest.fixture
def peers() -> Peers:
    return Peers()


def test_what_appends_nothing_is_done_without_slices(
    peers: Peers, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun: list[object] = []
    real = Turns.begin

    def begin(self: Turns, call: Any, slices: Any) -> None:
        begun.append(call.message)
        real(self, call, slices)

    monkeypatch.setattr(Turns, "begin", begin)
    beat = m.BrokerHeartbeatRequest(broker_id=0, broker_epoch=peers.image.brokers[0].epoch)
    assert peers.ask(beat, 63, 1).error_code == 0
    assert not begun
    assert peers.ask(create("sliced", 1, 1), 19, 7).topics[0].error_code == 0
    assert len(begun) == 1
