"""The lines between a driver and its tasks: meeting, stopping, failing, and strangers."""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
import time
from collections.abc import AsyncIterator, Callable, Iterator

import pytest

from bench.tasks.desk import TaskDesk
from bench.tasks.side import LINE_MAX, TaskSide, monotonic_of
from emulator.io.together import Share
from emulator.servers.waiting import wait_for


class Stops:
    """Counts how often an end was asked for."""

    def __init__(self) -> None:
        self.count = 0

    def __call__(self) -> None:
        self.count += 1


@pytest.fixture
def said() -> list[str]:
    return []


@pytest.fixture
def desk(said: list[str]) -> Iterator[TaskDesk]:
    with TaskDesk("127.0.0.1", 2, said.append) as opened:
        yield opened


@contextlib.asynccontextmanager
async def side(desk: TaskDesk, index: int, **last: object) -> AsyncIterator[TaskSide]:
    """A task that ends its line with a last message; without one it is lost."""
    opened, reading = await TaskSide.open(desk.address, desk.token, Share(index, 2), 7)
    try:
        yield opened
    finally:
        reading.cancel()
        await opened.close(**(last or {"done": True}))


async def until(holds: Callable[[], object]) -> None:
    await asyncio.to_thread(wait_for, "what is asked for", holds)


def test_nobody_goes_on_before_all_are_there_and_all_go_on_at_one_time(desk: TaskDesk) -> None:
    async def run() -> None:
        async with side(desk, 0) as first, side(desk, 1) as second:
            assert await first.meet("begin") == 7, "the barrier lies behind"
            assert await second.meet("begin") == 7
            waits = asyncio.ensure_future(first.meet("topics"))
            done, _ = await asyncio.wait([waits], timeout=0.1)
            assert not done
            there_ns = time.monotonic_ns()
            times = await asyncio.gather(waits, second.meet("topics"))
        assert abs(times[0] - times[1]) < 5_000_000
        assert min(times) > there_ns

    asyncio.run(run())
    assert desk.failure is None


def test_lines_of_the_tasks_are_told_with_their_numbers(desk: TaskDesk, said: list[str]) -> None:
    async def run() -> None:
        async with side(desk, 1) as one:
            one.report("half")
        await until(lambda: said)

    asyncio.run(run())
    assert said == ["task 1: half"]


def test_an_end_is_heard_by_those_that_run_and_by_those_that_come_later(desk: TaskDesk) -> None:
    async def run() -> None:
        early, late = Stops(), Stops()
        async with side(desk, 0) as first:
            first.watch(early)
            await until(lambda: 0 in desk._lines)
            desk.stop("orderly")
            await until(lambda: early.count == 1)
            async with side(desk, 1) as second:
                await until(lambda: second._asked == 1)
                second.watch(late)
                assert late.count == 1
                desk.stop("now")
                await until(lambda: early.count == late.count == 2)

    asyncio.run(run())


@pytest.mark.parametrize(
    ("last", "why"),
    [({"failed": "no <disk>", "kind": "OSError"}, "no <disk>"), ({"nothing": 1}, "it was lost")],
)
def test_the_first_failure_ends_the_others_at_once(
    desk: TaskDesk, last: dict[str, object], why: str
) -> None:
    async def run() -> None:
        stops = Stops()
        async with side(desk, 0) as other:
            other.watch(stops)
            await until(lambda: 0 in desk._lines)
            async with side(desk, 1, **last):
                pass
            await until(lambda: stops.count == 2)

    asyncio.run(run())
    assert str(desk.failure) == f"task 1 on 127.0.0.1: {why}"


def test_a_task_ends_when_its_driver_is_gone() -> None:
    async def run() -> None:
        stops = Stops()
        with TaskDesk("127.0.0.1", 1, lambda _line: None) as desk:
            opened, reading = await TaskSide.open(desk.address, desk.token, Share(), 0)
            opened.watch(stops)
            await until(lambda: 0 in desk._lines)
        await until(lambda: stops.count == 2)
        opened.report("nobody hears it")
        await reading
        await opened.close(done=True)

    asyncio.run(run())


@pytest.mark.parametrize(
    "sent",
    [
        b"",
        b"GET / HTTP/1.1\r\n\r\n",
        b"[]\n",
        b"\xff\xfe\n",
        b'{"hello": 0, "token": "no"}\n{"failed": "x", "kind": "y"}\n',
        b'{"hello": 0, "token": null}\n',
        b'{"hello": 0}\n',
        b"x" * (LINE_MAX + 10),
        b"[" * 100_000 + b"\n",
    ],
    ids=["nothing", "http", "list", "no text", "token", "null", "none", "long", "deep"],
)
def test_strangers_change_nothing(desk: TaskDesk, sent: bytes) -> None:
    with socket.create_connection(desk.address, 300) as stranger:
        with contextlib.suppress(OSError):
            stranger.sendall(sent)
            stranger.shutdown(socket.SHUT_WR)
        with contextlib.suppress(OSError):
            assert stranger.recv(10) == b""
    assert desk.failure is None


def test_a_stranger_that_says_nothing_does_not_hold_up_the_end() -> None:
    with contextlib.ExitStack() as stack:
        with TaskDesk("127.0.0.1", 1, lambda _line: None) as desk:
            stranger = stack.enter_context(socket.create_connection(desk.address, 300))
            wait_for("the stranger", lambda: len(desk._accepted) == 1)
        assert stranger.recv(10) == b""


def test_a_task_that_says_nonsense_is_lost(desk: TaskDesk) -> None:
    with socket.create_connection(desk.address, 300) as task:
        task.sendall(json.dumps({"hello": 0, "token": desk.token}).encode() + b"\n{]\n")
        with contextlib.suppress(OSError):
            while task.recv(100):
                pass
    assert desk.failure.kind == "lost"


def test_an_instant_of_the_wall_clock_is_one_of_the_monotonic_one() -> None:
    ahead_ns = monotonic_of(time.time_ns() + 1_000_000_000) - time.monotonic_ns()
    assert ahead_ns == pytest.approx(1_000_000_000, abs=50_000_000)
