"""Connecting: whatever goes wrong with one address is the end of that connection only."""

from __future__ import annotations

import asyncio
import gc
from pathlib import Path
from typing import Any

import pytest
import uvloop

from emulator.io.clock import Clock
from emulator.io.disk import Disk
from emulator.io.run import Shell
from emulator.migration.propagation.channels import Channels
from emulator.migration.propagation.requests import peers
from emulator.seam import Accepted, Closed, Connect, Effect, Event, Halt
from tests.unit.controller.world import broker, image_of
from wire import records as r

LOOPS = {"uvloop": uvloop.new_event_loop, "asyncio": asyncio.new_event_loop}


class Dialler:
    """Dials one address and halts when it hears what became of it."""

    def __init__(self, host: str) -> None:
        self.host = host
        self.seen: list[Event] = []

    def start(self, _now_ms: int) -> list[Effect]:
        return [Connect(1, self.host, 9)]

    def step(self, events: list[Event], _now_ms: int) -> list[Effect]:
        self.seen += events
        return [Halt(0, "heard")] if events else []

    def shutdown(self, _now_ms: int) -> list[Effect]:
        return []

    @property
    def deadline_ms(self) -> int | None:
        return None


class Teller(Dialler):
    """Has channels to the brokers of an image, and halts when the first one that can is reached."""

    def __init__(self, channels: Channels) -> None:
        super().__init__("")
        self.channels = channels
        self.effects: list[Effect] = []

    def start(self, _now_ms: int) -> list[Effect]:
        return self.effects

    def step(self, events: list[Event], now_ms: int) -> list[Effect]:
        self.seen += events
        effects = [e for event in events for e in self.channels.handle(event, now_ms)]
        if any(isinstance(e, Accepted) for e in self.seen) and self.channels.reconnect_count > 2:
            effects.append(Halt(0, "reached"))
        return effects + self.channels.tick(now_ms)

    @property
    def deadline_ms(self) -> int | None:
        return self.channels.deadline_ms


def run(machine: Any, folder: Path, loop: str, begin: Any = None) -> Halt:
    async def work() -> Halt:
        shell = Shell(machine, Disk(folder), Clock(), log=lambda _: None, row=lambda _: None)
        if begin is not None:
            begin(shell, await shell.listen("PLAINTEXT", "127.0.0.1", 0))
        # An exception nobody took is told when its task is collected.
        asyncio.get_running_loop().call_later(0.05, gc.collect)
        return await shell.run()

    with asyncio.Runner(loop_factory=LOOPS[loop]) as runner:
        return runner.run(asyncio.wait_for(work(), 300))


@pytest.mark.parametrize("loop", sorted(LOOPS))
@pytest.mark.parametrize("host", ["a..b", "x" * 64, "a\0b", "\u00e9" * 70, ""])
def test_a_host_that_is_none_closes_its_connection(tmp_path: Path, host: str, loop: str) -> None:
    machine = Dialler(host)
    assert run(machine, tmp_path, loop).why == "heard"
    (closed,) = machine.seen
    assert isinstance(closed, Closed)
    assert closed.conn == 1
    assert closed.why


def test_whatever_connecting_raises_closes_the_connection(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object, **__: object) -> None:
        raise RuntimeError("a resolver that is broken")

    monkeypatch.setattr(asyncio.BaseEventLoop, "create_connection", broken)
    machine = Dialler("host")
    run(machine, tmp_path, "asyncio")
    assert machine.seen == [Closed(1, "a resolver that is broken")]


def test_a_log_with_a_host_that_is_none_is_served(tmp_path: Path) -> None:
    """Registrations that were accepted before such hosts were refused."""

    def endpoint(host: str, port: int) -> list[Any]:
        return [r.RegisterBrokerRecord.BrokerEndpoint(name="INTERNAL", host=host, port=port)]

    machine: Teller

    def begin(shell: Shell, port: int) -> None:
        image = image_of(
            broker(1, end_points=endpoint("a..b", 9), is_migrating_zk_broker=True),
            broker(2, end_points=endpoint("127.0.0.1", port), is_migrating_zk_broker=True),
        )
        machine.channels = Channels(3000, shell.new_conn)
        machine.effects = machine.channels.set_peers(peers(image, "INTERNAL"))

    machine = Teller(Channels(3000, lambda: 0))
    assert run(machine, tmp_path, "uvloop", begin).why == "reached"
