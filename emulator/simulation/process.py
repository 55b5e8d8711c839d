"""One life of a controller process: the real ``Node``, on a simulated disk and network.

Does what ``emulator/io/run.py`` does, in the same order: events of one turn are one step, file
effects happen as they are listed, bytes leave after them. A crash may come between any two effects.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from random import Random

from emulator.config.load import Config
from emulator.migration.dual_write.modes import Mode
from emulator.node.machine import Node
from emulator.raft.format import MetaProperties
from emulator.seam import (
    Accepted,
    AppendFile,
    Close,
    Closed,
    Connect,
    Connected,
    DeleteFile,
    DiskFailed,
    Effect,
    Event,
    Halt,
    Log,
    Received,
    ReplaceFile,
    Row,
    Send,
    Synced,
    SyncFile,
    TruncateFile,
)
from emulator.simulation.disk import SimulatedDisk
from emulator.simulation.network import Network
from emulator.simulation.scheduler import MS, Scheduler

TURN_US = 100
"""From something happening to the step that takes it: more may come in the same turn."""
STEP_US = 50
SYNC_US = (200, 4 * MS)
LISTENER = "CONTROLLER"
LOOPBACK = b"\x7f\x00\x00\x01"


class Process:
    """See the module's docstring.

    ``watch`` is called after every step, before its effects are performed; ``died`` once, with the
    exit code or None for a crash.
    """

    def __init__(  # noqa: PLR0917  # what a process is made of, and what it runs in
        self,
        name: str,
        config: Config,
        identity: MetaProperties,
        disk: SimulatedDisk,
        scheduler: Scheduler,
        network: Network,
        rng: Random,
        *,
        watch: Callable[[Process], None],
        died: Callable[[Process, int | None], None],
    ) -> None:
        self.name = name
        self.alive = True
        self.frozen = False
        self.disk = disk
        self.steps = 0
        self._scheduler = scheduler
        self._network = network
        self._rng = rng
        self._watch = watch
        self._died = died
        self._events: list[Event] = []
        self._turn_us: int | None = None
        self._crash_in: int | None = None
        self.node = Node(
            config,
            identity,
            disk.files,
            rng=Random(rng.getrandbits(64)),
            stamp=lambda: scheduler.now_ns,
            new_conn=network.new_conn,
            now_ms=scheduler.now_ms,
        )

    def start(self) -> None:
        """Listen, and let the node begin."""
        listener = self.node.config.controller_listener
        self._network.listen((listener.host, listener.port), self)
        self._after(self.node.start(self._scheduler.now_ms))

    def shutdown(self) -> None:
        """Ask for an orderly stop."""
        if self.alive:
            self._after(self.node.shutdown(self._scheduler.now_ms))

    def crash_after(self, effects: int) -> None:
        """Die after so many more effects, between two of them or two steps."""
        self._crash_in = effects

    def crash(self) -> None:
        """Die now: the disk forgets what was not synced, connections close as they do then."""
        if not self.alive:
            return
        self._end()
        self._scheduler.tell(self.name, f"crashed; disk kept {self.disk.crash(self._rng)}")
        self._died(self, None)

    def freeze(self) -> None:
        """Stop running, as a paused machine does; what arrives waits."""
        self.frozen = True
        self._scheduler.tell(self.name, "frozen")

    @property
    def deposed(self) -> bool:
        """The node knows that somebody else has claimed the cluster, and writes no more."""
        driver = self.node.driver
        return driver is not None and driver.write_behind.mode is Mode.DEPOSED

    def thaw(self) -> None:
        """Run on."""
        self.frozen = False
        self._turn_us = None
        self._scheduler.tell(self.name, "thawed")
        self._due(TURN_US)

    # ---------------------------------------------------------------- a network party
    def accepted(self, conn: int) -> None:
        """A broker connected."""
        self._event(Accepted(conn, LISTENER, LOOPBACK))

    def connected(self, conn: int) -> None:
        """ZooKeeper or a broker accepted."""
        self._event(Connected(conn))

    def received(self, conn: int, data: bytes) -> None:
        """Bytes for the next step."""
        self._event(Received(conn, data))

    def closed(self, conn: int, why: str) -> None:
        """A connection is gone."""
        self._event(Closed(conn, why))

    # ---------------------------------------------------------------- the shell
    def _event(self, event: Event) -> None:
        if self.alive:
            self._events.append(event)
            self._due(TURN_US)

    def _due(self, delay_us: int) -> None:
        """See that a turn begins within ``delay_us``."""
        at_us = self._scheduler.now_us + delay_us
        if self._turn_us is None or at_us < self._turn_us:
            self._turn_us = at_us
            self._scheduler.after(delay_us, lambda: self._turn(at_us))

    def _turn(self, at_us: int) -> None:
        if not self.alive or self._turn_us != at_us or self.frozen:
            return
        self._turn_us = None
        events, self._events = self._events, []
        self._after(self.node.step(events, self._scheduler.now_ms))

    def _after(self, effects: list[Effect]) -> None:
        self.steps += 1
        self._watch(self)
        self._perform(effects)
        if not self.alive:
            return
        deadline_ms = self.node.deadline_ms
        if deadline_ms is not None:
            self._due(max(STEP_US, (deadline_ms - self._scheduler.now_ms) * MS))

    def _perform(self, effects: Iterable[Effect]) -> None:
        """Files in order, then bytes, then closings: as the shell does it."""
        outgoing: dict[int, list[bytes]] = {}
        closing: list[int] = []
        last: Halt | None = None
        for effect in effects:
            if self._crashes():
                return
            match effect:
                case Send(conn, data):
                    outgoing.setdefault(conn, []).append(data)
                case Close(conn):
                    closing.append(conn)
                case Halt():
                    last = effect
                case _:
                    try:
                        self._one(effect)
                    except OSError as error:
                        self._disk_failed(error)
                        return
        for conn, parts in outgoing.items():
            if self._crashes():
                return
            self._network.send(self, conn, b"".join(parts))
        for conn in closing:
            self._network.close(self, conn)
        if last is not None:
            self._scheduler.tell(self.name, f"halts with {last.exit_code}: {last.why}")
            self._end()
            self._died(self, last.exit_code)

    def _one(self, effect: Effect) -> None:
        match effect:
            case Connect(conn, host, port):
                self._network.connect(self, conn, (host, port))
            case Log(level, event, fields):
                if level != "debug":
                    said = " ".join(f"{key}={value}" for key, value in fields.items())
                    self._scheduler.tell(self.name, f"{event} {said}".rstrip())
            case AppendFile():
                self.disk.append(effect)
            case SyncFile(path, token):
                self._sync(path, token)
            case ReplaceFile():
                self.disk.replace(effect)
            case TruncateFile():
                self.disk.truncate(effect)
            case DeleteFile():
                self.disk.delete(effect)
            case Row():
                pass
            case _:
                raise TypeError(f"unknown effect {effect!r}")

    def _sync(self, path: str, token: int) -> None:
        size = self.disk.size(path)

        def done() -> None:
            if not self.alive:
                return
            try:
                self.disk.synced(path, size)
            except OSError as error:
                self._disk_failed(error)
            else:
                self._event(Synced(token))

        self._scheduler.after(self._rng.randint(*SYNC_US), done)

    def _disk_failed(self, error: OSError) -> None:
        self._scheduler.tell(self.name, f"disk failed: {error}")
        self._event(DiskFailed(str(error)))

    def _crashes(self) -> bool:
        if self._crash_in is None:
            return False
        self._crash_in -= 1
        if self._crash_in > 0:
            return False
        self._crash_in = None
        self.crash()
        return True

    def _end(self) -> None:
        self.alive = False
        self._events.clear()
        self._network.abandon(self)
