"""Producer ids: blocks from the controller, and what is given away of them."""

from __future__ import annotations

from typing import Any

import pytest

from emulator.broker.serving.producer_ids import RETRY_MS, ProducerIdSource
from tests.unit.controller.world import World
from wire import messages as m
from wire.errors import ErrorCode


class Source:
    """Ids, and the requests that wait for a test's answer."""

    def __init__(self) -> None:
        self.waiting: list[tuple[Any, Any]] = []
        self.now_ms = 0
        self.ids = ProducerIdSource(1, lambda: 17, self._ask)

    def _ask(self, request: Any, then: Any, now_ms: int) -> None:
        assert now_ms == self.now_ms
        self.waiting.append((request, then))

    def claim(self) -> int | None:
        return self.ids.claim(self.now_ms)

    def answer(self, answer: Any) -> None:
        _, then = self.waiting.pop(0)
        then(answer, self.now_ms)


def block(start: int, length: int = 1_000) -> m.AllocateProducerIdsResponse:
    return m.AllocateProducerIdsResponse(producer_id_start=start, producer_id_len=length)


def test_the_first_producer_comes_too_early_and_asks_for_a_block_once():
    source = Source()
    assert source.claim() is None
    assert source.claim() is None
    assert [request for request, _ in source.waiting] == [
        m.AllocateProducerIdsRequest(broker_id=1, broker_epoch=17)
    ]
    source.answer(block(5_000))
    assert [source.claim(), source.claim()] == [5_000, 5_001]


def test_the_next_block_is_asked_for_at_nine_tenths():
    source = Source()
    source.claim()
    source.answer(block(0, 10))
    assert [source.claim() for _ in range(9)] == [*range(9)]
    assert source.waiting == []
    assert source.claim() == 9
    source.answer(block(70, 10))
    assert source.claim() == 70


def test_a_used_up_block_without_the_next_gives_nothing():
    source = Source()
    source.claim()
    source.answer(block(0, 2))
    assert [source.claim(), source.claim(), source.claim()] == [0, 1, None]
    assert len(source.waiting) == 1


REFUSALS = [
    None,
    m.AllocateProducerIdsResponse(error_code=ErrorCode.STALE_BROKER_EPOCH),
    block(0, 0),
    block(0, -3),
    block(-1),
    block(2**63 - 10),
]


@pytest.mark.parametrize("answer", REFUSALS)
def test_what_is_no_block_is_asked_for_again_after_a_pause(answer: Any):
    source = Source()
    source.claim()
    source.answer(answer)
    source.now_ms += RETRY_MS - 1
    assert source.claim() is None
    assert source.waiting == []
    source.now_ms += 1
    assert source.claim() is None
    source.answer(block(3))
    assert source.claim() == 3


def test_two_brokers_of_one_controller_never_give_the_same_id():
    world = World().join(1, 2)
    sources = [
        ProducerIdSource(
            one,
            lambda one=one: world.tip.brokers[one].epoch,
            lambda request, then, now_ms: then(world.ask(request), now_ms),
        )
        for one in (1, 2)
    ]
    given = [source.claim(0) for _ in range(2_500) for source in sources]
    ids = [one for one in given if one is not None]
    assert len(ids) == len(set(ids)) >= 4_900
