"""Topics are made by whoever is the controller; a call that is interrupted leaves nothing."""

from __future__ import annotations

import asyncio
import gc
from itertools import count
from typing import Any

import pytest

from bench.load.cluster_api import RefusedError, created, topic
from bench.load.connection import Connection
from tests.unit.load.fake_broker import FakeBroker, result
from wire import messages as m
from wire.errors import ErrorCode

pytestmark = pytest.mark.asyncio

ORDERS = topic("orders", 3, 2, {})


async def test_a_controller_that_is_none_any_more_is_asked_for_the_next_one() -> None:
    """The one before had carried it out: its answer was lost, and brokers hear of it later."""
    refusals = [
        ErrorCode.NOT_CONTROLLER,
        ErrorCode.INVALID_REPLICATION_FACTOR,
        ErrorCode.TOPIC_ALREADY_EXISTS,
    ]
    errors = iter(refusals)

    async def answer(request: Any) -> Any:
        return result(request, next(errors))

    async with FakeBroker(answer) as broker:
        address = f"127.0.0.1:{broker.port}"
        broker.controller = None
        assert not await created(address, [ORDERS]), "there is nobody to ask"
        broker.controller = broker
        for _ in refusals:
            assert not await created(address, [ORDERS])
        broker.topics = ["orders"]
        assert await created(address, [ORDERS])
    assert next(errors, None) is None


@pytest.mark.parametrize(
    ("number", "name"),
    [(ErrorCode.POLICY_VIOLATION, "POLICY_VIOLATION"), (12_345, "UNKNOWN_SERVER_ERROR")],
)
async def test_what_no_controller_would_make_is_an_error_at_once(number: int, name: str) -> None:
    async def answer(request: Any) -> Any:
        return result(request, number)

    async with FakeBroker(answer) as broker:
        with pytest.raises(RefusedError, match=f"orders: {name}"):
            await created(f"127.0.0.1:{broker.port}", [ORDERS])


async def test_a_ctrl_c_before_anybody_waits_for_an_answer_prints_nothing_of_asyncio() -> None:
    """Python raises it wherever the program is, here between a request and the wait for it."""

    async def answer(_: Any) -> Any:
        raise AssertionError("nothing is asked")

    heard: list[Any] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, told: heard.append(told))
    async with FakeBroker(answer) as broker:
        connection = await Connection.open(("127.0.0.1", broker.port), "me", count(1))
        perform = connection._perform

        def interrupted() -> None:
            connection._perform = perform  # type: ignore[method-assign]
            raise KeyboardInterrupt

        connection._perform = interrupted  # type: ignore[method-assign]
        call = connection.call(m.MetadataRequest())
        with pytest.raises(KeyboardInterrupt):
            call.send(None)
        connection.close()
        del call
        gc.collect()
    assert heard == []
