"""Topics are made by whoever is the controller, also where that changes meanwhile."""

from __future__ import annotations

from typing import Any

import pytest

from bench.load.cluster_api import RefusedError, created, topic
from tests.unit.load.fake_broker import FakeBroker, result
from wire.errors import ErrorCode

pytestmark = pytest.mark.asyncio

ORDERS = topic("orders", 3, 2, {})


async def test_a_controller_that_is_none_any_more_is_asked_for_the_next_one() -> None:
    """The one before had carried it out: its answer was lost, and brokers hear of it later."""
    errors = iter([ErrorCode.NOT_CONTROLLER, ErrorCode.TOPIC_ALREADY_EXISTS])

    async def answer(request: Any) -> Any:
        return result(request, next(errors))

    async with FakeBroker(answer) as broker:
        address = f"127.0.0.1:{broker.port}"
        broker.controller = None
        assert not await created(address, [ORDERS]), "there is nobody to ask"
        broker.controller = broker
        assert not await created(address, [ORDERS])
        assert not await created(address, [ORDERS])
        broker.topics = ["orders"]
        assert await created(address, [ORDERS])
    assert next(errors, None) is None


async def test_what_no_controller_would_make_is_an_error_at_once() -> None:
    async def answer(request: Any) -> Any:
        return result(request, ErrorCode.INVALID_REPLICATION_FACTOR)

    async with FakeBroker(answer) as broker:
        with pytest.raises(RefusedError, match="orders: INVALID_REPLICATION_FACTOR"):
            await created(f"127.0.0.1:{broker.port}", [ORDERS])
