"""A node on its thread: stops that come early, calls that come late."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Callable, Mapping

import pytest

from emulator.seam import Halt
from emulator.testing.local_node import NodeEndedError, NodeThread


class Served:
    """A node that waits to be stopped."""

    def __init__(self, settled: bool = True) -> None:
        self.settled = settled
        self.requests = 0
        self.over = asyncio.Event()

    def request_shutdown(self) -> None:
        self.requests += 1
        self.over.set()

    async def serve(self, ready: Callable[[], None], sockets: Mapping[str, socket.socket]) -> Halt:
        ready()
        await self.over.wait()
        return Halt(0, "stopped")


def test_a_stop_before_the_start_is_not_lost() -> None:
    go = threading.Event()
    built: list[Served] = []

    def build() -> Served:
        assert go.wait()
        built.append(Served(settled=False))
        return built[0]

    thread = NodeThread("slow", build, {})
    thread.request_stop()
    go.set()
    assert thread.join()
    assert thread.ended.result() == Halt(0, "stopped")
    (node,) = built
    assert node.requests == 1, "a second request would stop it at once"
    with pytest.raises(NodeEndedError, match="stopped"):
        thread.ready.result(0)


def test_a_stop_before_the_thread_runs_is_not_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[threading.Thread] = []

    def keep(thread: threading.Thread) -> None:
        started.append(thread)

    monkeypatch.setattr(threading.Thread, "start", keep)
    thread = NodeThread("late", lambda: Served(settled=False), {})
    with pytest.raises(NodeEndedError, match="not started yet"):
        thread.call(lambda: None)
    thread.request_stop()
    monkeypatch.undo()
    started[0].start()
    assert thread.join()
    assert thread.ended.result() == Halt(0, "stopped")


def test_calls_run_on_the_thread_until_its_end() -> None:
    thread = NodeThread("node", Served, {})
    thread.ready.result()
    assert thread.call(threading.current_thread) is not threading.current_thread()
    with pytest.raises(ZeroDivisionError):
        thread.call(lambda: 1 // 0)
    thread.request_stop()
    assert thread.join()
    with pytest.raises(NodeEndedError, match="stopped"):
        thread.call(lambda: None)


def test_what_cannot_be_built_is_told_to_whoever_waits() -> None:
    def build() -> Served:
        raise KeyError("no node")

    with socket.socket() as bound:
        thread = NodeThread("broken", build, {"A": bound})
        assert thread.join()
        assert bound.fileno() == -1
    with pytest.raises(KeyError):
        thread.ready.result(0)
    assert isinstance(thread.ended.exception(0), KeyError)
