"""The shell: what a failing machine and a peer that does not read do to it."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from pathlib import Path

import pytest
import uvloop

from emulator.io import run
from emulator.io.clock import Clock
from emulator.io.disk import Disk
from emulator.io.run import Shell
from emulator.io.tcp import TcpConnection
from emulator.seam import (
    Accepted,
    AppendFile,
    Close,
    Closed,
    DiskFailed,
    Effect,
    Event,
    FileNotWritten,
    FileWritten,
    Halt,
    Log,
    Received,
    Send,
    WriteFile,
)
from tests.kit.served import turns

HALT: list[Effect] = [Halt(0, "done")]


class Machine:
    """Answers each event as ``on_event`` says."""

    def __init__(self, on_event: Callable[[Event], list[Effect]]) -> None:
        self.on_event = on_event
        self.seen: list[Event] = []
        self.deadline: Callable[[], int | None] = lambda: None

    def start(self, _now_ms: int) -> list[Effect]:
        return []

    def step(self, events: list[Event], _now_ms: int) -> list[Effect]:
        self.seen += events
        return [effect for event in events for effect in self.on_event(event)]

    def shutdown(self, _now_ms: int) -> list[Effect]:
        raise AssertionError("broken while it stops")

    @property
    def deadline_ms(self) -> int | None:
        return self.deadline()


def serve(
    machine: Machine, folder: Path, visit: Callable[[Shell, int], None]
) -> tuple[Halt, list[Log]]:
    """Run the machine behind one listener; ``visit`` gets the shell and the port."""
    logs: list[Log] = []

    async def work() -> Halt:
        disk = Disk(folder)
        shell = Shell(machine, disk, Clock(), log=logs.append, row=lambda _: None)
        port = await shell.listen("CONTROLLER", "127.0.0.1", 0)
        loop = asyncio.get_running_loop()
        loop.call_soon(visit, shell, port)
        return await shell.run()

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(asyncio.wait_for(work(), 300)), logs


def refuse(_event: Event) -> list[Effect]:
    raise AssertionError("broken in a step")


def test_a_machine_that_breaks_ends_the_run(tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match="broken in a step"):
        serve(Machine(refuse), tmp_path, lambda shell, _: shell.emit(Closed(1, "")))


def test_a_machine_that_breaks_on_a_signal_ends_the_run(tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match="broken while it stops"):
        serve(Machine(refuse), tmp_path, lambda shell, _: shell.request_shutdown())


def test_a_machine_without_a_deadline_to_tell_ends_the_run(tmp_path: Path) -> None:
    machine = Machine(lambda _: [])

    def broken() -> int:
        raise AssertionError("no deadline")

    def visit(shell: Shell, _port: int) -> None:
        machine.deadline = broken
        shell.emit(Closed(1, ""))

    with pytest.raises(AssertionError, match="no deadline"):
        serve(machine, tmp_path, visit)


def test_a_callback_that_breaks_ends_the_run(tmp_path: Path) -> None:
    def visit(_shell: Shell, _port: int) -> None:
        raise AssertionError("in a callback")

    with pytest.raises(AssertionError, match="in a callback"):
        serve(Machine(lambda _: []), tmp_path, visit)


def test_a_peer_that_does_not_read_is_closed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run, "UNSENT_BYTES_MAX", 100_000)
    client = socket.socket()

    def on_event(event: Event) -> list[Effect]:
        match event:
            case Received(conn=conn):
                return [Send(conn, bytes(20_000_000))]
            case Closed():
                return HALT
        return []

    def visit(_shell: Shell, port: int) -> None:
        client.connect(("127.0.0.1", port))
        client.sendall(b"ask")

    machine = Machine(on_event)
    with client:
        halt, logs = serve(machine, tmp_path, visit)
    assert [halt] == HALT
    (line,) = logs
    assert (line.level, line.event) == ("warning", "closing a connection whose peer does not read")


def test_nothing_is_read_from_a_peer_that_does_not_read(tmp_path: Path) -> None:
    """Its second request is seen only when the answer to the first has been taken."""
    client = socket.socket()
    answer_bytes = 20_000_000
    loops: list[asyncio.AbstractEventLoop] = []

    def on_event(event: Event) -> list[Effect]:
        match event:
            case Received(conn=conn, data=b"first"):
                client.sendall(b"second")
                loops[0].call_later(0.2, take)
                return [Send(conn, bytes(answer_bytes))]
            case Received(data=b"second"):
                return HALT
        return []

    def take() -> None:
        assert len(machine.seen) == 2, "only the connection and the first request"
        client.setblocking(True)
        loops[0].run_in_executor(None, read_all)

    def read_all() -> None:
        left = answer_bytes
        while left:
            left -= len(client.recv(left))

    def visit(_shell: Shell, port: int) -> None:
        loops.append(asyncio.get_running_loop())
        client.connect(("127.0.0.1", port))
        client.sendall(b"first")

    machine = Machine(on_event)
    with client:
        halt, _ = serve(machine, tmp_path, visit)
    assert [halt] == HALT
    assert isinstance(machine.seen[0], Accepted)


def open_descriptors() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


def test_a_peer_that_does_not_read_takes_no_descriptor_for_good_once_it_is_closed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A transport that is closed waits for its peer to read, however long that takes."""
    monkeypatch.setattr(run, "LINGERING_MAX", 2)
    monkeypatch.setattr(run, "LINGER_S", 1.0)
    answer = b"x" * 20_000_000
    machine = Machine(
        lambda event: (
            [Send(event.conn, answer), Close(event.conn)] if isinstance(event, Received) else []
        )
    )
    lost = asyncio.Semaphore(0)
    counts: list[int] = []
    gone = Shell._gone

    def noted(self: Shell, conn: int) -> None:
        gone(self, conn)
        lost.release()

    monkeypatch.setattr(Shell, "_gone", noted)
    tasks: list[asyncio.Task[None]] = []

    def visit(shell: Shell, port: int) -> None:
        tasks.append(asyncio.get_running_loop().create_task(peers(shell, port)))

    async def peers(shell: Shell, port: int) -> None:
        before = open_descriptors()
        many = [await asyncio.open_connection("127.0.0.1", port, limit=1_000) for _ in range(5)]
        for _, writer in many:
            writer.write(b"?")
        for most in (3, 2):
            for _ in range(most):
                await asyncio.wait_for(lost.acquire(), 300)
            counts.append(open_descriptors() - before)
        for _, writer in many:
            writer.transport.abort()
        machine.on_event = lambda _: HALT
        shell.emit(Closed(0, ""))

    serve(machine, tmp_path, visit)
    assert counts == [5 + 2, 5], "the clients' own are among them"


def test_nobody_stays_connected_to_a_shell_that_has_ended(tmp_path: Path) -> None:
    """Such a connection kept the event loop from its end: EBUSY, instead of how the node ended."""
    deaf, late = socket.socket(), socket.socket()
    ports: list[int] = []
    left: list[TcpConnection] = []

    def on_event(event: Event) -> list[Effect]:
        match event:
            case Received(conn=conn):
                # The kernel takes it at once; the event loop sees it after this step.
                late.connect(("127.0.0.1", ports[0]))
                return [Send(conn, bytes(20_000_000)), *HALT]
        return []

    async def work() -> None:
        shell = Shell(Machine(on_event), Disk(tmp_path), Clock(), log=print, row=print)
        ports.append(await shell.listen("CONTROLLER", "127.0.0.1", 0))
        deaf.connect(("127.0.0.1", ports[0]))
        deaf.sendall(b"ask")
        await shell.run()
        await turns()
        left.extend(shell._peers.values())
        for one in left:
            assert one.transport is not None
            one.transport.abort()

    with deaf, late, asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(work())
    assert left == []


class Timers:
    """The timers of an event loop, called by hand; the clock is its own too."""

    def __init__(self) -> None:
        self.now = 1_000
        self.set: list[tuple[int, Callable[[], None]]] = []
        self.turns = 0

    def now_ms(self) -> int:
        return self.now

    def call_later(self, delay: float, call: Callable[[], None]) -> asyncio.TimerHandle:
        timer = self.now + round(delay * 1000), call
        self.set.append(timer)

        class Handle:
            def cancel(_self) -> None:  # noqa: N805
                self.set.remove(timer)

        return Handle()  # type: ignore[return-value]

    def call_soon(self, _turn: Callable[[], None]) -> None:
        self.turns += 1

    def pass_to(self, now: int) -> None:
        self.now = now
        for timer in [one for one in self.set if one[0] <= now]:
            self.set.remove(timer)
            timer[1]()


def test_a_timer_is_set_anew_only_for_an_earlier_deadline(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each request moves a deadline on; a timer that calls too early asks again, without a step."""
    timers, machine = Timers(), Machine(lambda _: [])
    monkeypatch.setattr(asyncio, "get_running_loop", lambda: timers)
    disk = Disk(tmp_path)
    shell = Shell(machine, disk, timers, log=[].append, row=[].append)  # type: ignore[arg-type]
    times: list[list[int]] = []
    for deadline in (3_000, 3_001, 9_000, 2_000, 4_000, None):
        machine.deadline = lambda: deadline  # noqa: B023 - asked at once
        shell._arm()
        times.append([at for at, _ in timers.set])
    assert times == [[3_000], [3_000], [3_000], [2_000], [2_000], [2_000]]
    machine.deadline = lambda: 4_000
    timers.pass_to(2_000)
    assert (timers.turns, [at for at, _ in timers.set]) == (0, [4_000])
    timers.pass_to(4_000)
    assert (timers.turns, timers.set) == (1, [])
    disk.close()


def test_a_large_file_that_cannot_be_begun_stops_nothing_that_follows(tmp_path: Path) -> None:
    """Unlike any other file effect; one that fails in the thread is reported in the same way."""
    (tmp_path / "taken").write_bytes(b"no folder")
    wanted = WriteFile("taken/7.checkpoint", b"7")

    def on_event(event: Event) -> list[Effect]:
        match event:
            case Closed():
                return [wanted, AppendFile("log/0.log", b"abc")]
            case FileNotWritten():
                return [WriteFile("log/8.checkpoint", b"8")]
            case FileWritten():
                return [AppendFile("taken/0.log", b"abc")]
            case DiskFailed():
                return HALT
        return []

    machine = Machine(on_event)
    serve(machine, tmp_path, lambda shell, _: shell.emit(Closed(1, "")))
    assert (tmp_path / "log/0.log").read_bytes() == b"abc"
    _, failed, written, last = machine.seen
    assert isinstance(failed, FileNotWritten)
    assert (failed.path, "taken" in failed.why) == (wanted.path, True)
    assert written == FileWritten("log/8.checkpoint")
    assert isinstance(last, DiskFailed)
