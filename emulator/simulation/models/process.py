"""One life of a controller process: the real ``Node``, on a simulated disk and network.

Does what ``emulator/io/run.py`` does, in the same order: events of one turn are one step, file
effects happen as they are listed, bytes leave after them. A crash may come between any two effects.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from random import Random

from emulator.config.load import Config
from emulator.metadata.errors import ActivationRefusedError
from emulator.migration.propagation.gate import PAUSE_US
from emulator.net.faults.script import FaultScript
from emulator.node.finalising import Finalising
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
    FileNotWritten,
    FileWritten,
    Halt,
    Log,
    Received,
    ReplaceFile,
    Row,
    Send,
    Synced,
    SyncFile,
    TruncateFile,
    WriteFile,
)
from emulator.simulation.aftermath import What, Where
from emulator.simulation.models.disk import SimulatedDisk
from emulator.simulation.models.disk_ledger import DiskLedger
from emulator.simulation.models.network import Network
from emulator.simulation.models.scheduler import MS, Scheduler
from emulator.simulation.violation import Violated
from emulator.trace.log_events import listed

STEP_US = 50
WRITES = 8
"""A large file takes so many times as long as a sync, or less."""
LISTENER = "CONTROLLER"
LOOPBACK = b"\x7f\x00\x00\x01"


class Process:
    """See the module's docstring.

    ``watch`` is called after every step with its effects, before they are performed; if it ends the
    process, none of them is. ``died`` is called once, with the exit code or None for a crash;
    ``happened`` when something of it is lost, or its disk refuses. ``listens``: others reach it.
    ``faults``: strikes what it is asked.
    ``sync_us``: shortest and longest time of a sync. ``turn_us``: from something happening to the
    step that takes it; more may come in the same turn.
    """

    def __init__(  # noqa: PLR0917  # what a process is made of, and what it runs in
        self,
        name: str,
        config: Config,
        identity: MetaProperties,
        disk: SimulatedDisk,
        ledger: DiskLedger,
        scheduler: Scheduler,
        network: Network,
        rng: Random,
        *,
        watch: Callable[[Process, list[Effect]], None],
        happened: Callable[[What, Where], None],
        died: Callable[[Process, int | None], None],
        sync_us: tuple[int, int] = (200, 4 * MS),
        turn_us: int = 100,
        calls_per_batch: int = 200,
        pause_us: int = PAUSE_US,
        listens: bool = True,
        faults: FaultScript | None = None,
    ) -> None:
        self.name = name
        self.alive = True
        self.frozen = False
        self.disk = disk
        self.ledger = ledger
        self.sync_us = sync_us
        self._turn_takes_us = turn_us
        self.disk_failed = False
        """An operation of its disk came to nothing."""
        self.last_words = ""
        """What it printed when it would not lead; empty: it did not end that way."""
        self._listens = listens
        self._scheduler = scheduler
        self._network = network
        self._rng = rng
        self._watch = watch
        self._died = died
        self._happened = happened
        self._syncs = 0
        self._writing: dict[str, WriteFile] = {}
        self._events: list[Event] = []
        self._turn_us: int | None = None
        self._crash_in: int | None = None
        self._asked_to_stop = False
        """SIGTERM came while the process did not run."""
        self.node = Node(
            config,
            identity,
            disk.files,
            rng=Random(rng.getrandbits(64)),
            stamp=lambda: scheduler.now_ns,
            new_conn=network.new_conn,
            now_ms=scheduler.now_ms,
            faults=faults,
        )
        self.node.controller.next_batch.calls_max = calls_per_batch
        if self.node.driver is not None:
            self.node.driver.propagation_gate.pause_us = pause_us

    def start(self) -> None:
        """Listen, and let the node begin."""
        listener = self.node.config.controller_listener
        if self._listens:
            self._network.listen((listener.host, listener.port), self)
        self._step(lambda: self.node.start(self._scheduler.now_ms))

    def shutdown(self) -> None:
        """Ask for an orderly stop: a step of its own, behind the effects of one under way."""
        self._scheduler.after(0, self._shut_down)

    def _shut_down(self) -> None:
        if self.alive and self.frozen:
            self._asked_to_stop = True
        elif self.alive:
            self._after(self.node.shutdown(self._scheduler.now_ms))

    def release_hold(self) -> bool:
        """``kraft-bridge finalise --yes``; whether the controller takes the order."""
        side = self.node.migration
        if not self.alive or self.frozen or not (isinstance(side, Finalising) and side.only_held):
            return False
        self.node.release_hold()
        self._due(self._turn_takes_us)
        return True

    def crash_after(self, effects: int) -> None:
        """Die after so many more effects, between two of them or two steps."""
        self._crash_in = effects

    def crash(self) -> None:
        """The machine goes down: the disk forgets what was not synced, connections close."""
        if not self.alive:
            return
        self._end()
        kept = self.disk.crash(self._rng)
        if kept != "all":
            self._happened("lost", "disk")
        self._scheduler.add_line(self.name, f"crashed; disk kept {kept}")
        self._died(self, None)

    def kill(self) -> None:
        """The process ends and the machine stays up: the next life reads what was written."""
        if self.alive:
            self._end()
            self._scheduler.add_line(self.name, "killed")
            self._died(self, None)

    def freeze(self) -> None:
        """Stop running, as a paused machine does; what arrives waits."""
        self.frozen = True
        self._scheduler.add_line(self.name, "frozen")

    @property
    def refuses_because(self) -> str:
        """Why the node says that it writes no more to ZooKeeper, for good; "" if it does not."""
        driver = self.node.driver
        if driver is None:
            return ""
        status = driver.status(self._scheduler.now_ms)
        fatal = [one.reason.text for one in status.waiting if one.reason.fatal]
        return status.deposed_because or (fatal[0] if fatal else "")

    @property
    def active_epoch(self) -> int:
        """The epoch in which its ``/status`` says that it is the active controller; -1: in none."""
        return self.node.raft.leader_epoch if self.node.active else -1

    @property
    def led_epoch(self) -> int:
        """The epoch that it leads, whether it says so to anybody or not; -1: none."""
        return self.node.raft.leader_epoch if self.node.raft.is_leader else -1

    @property
    def migration_state(self) -> str:
        """Where its ``/status`` says the migration stands."""
        driver = self.node.driver
        return "" if driver is None else driver.state.value

    def thaw(self) -> None:
        """Run on."""
        self.frozen = False
        self._turn_us = None
        self._scheduler.add_line(self.name, "thawed")
        self._due(self._turn_takes_us)
        if self._asked_to_stop:
            self.shutdown()

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
            self._due(self._turn_takes_us)

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
        self._step(lambda: self.node.step(events, self._scheduler.now_ms))

    def _step(self, step: Callable[[], list[Effect]]) -> None:
        """The only voter ends if it must not lead, and says why."""
        try:
            effects = step()
        except ActivationRefusedError as error:
            self.last_words = str(error)
            self._scheduler.add_line(self.name, f"ends: {error}")
            self._end()
            self._died(self, 1)
        else:
            self._after(effects)

    def _after(self, effects: list[Effect]) -> None:
        self._watch(self, effects)
        if self.alive:
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
            self._scheduler.add_line(self.name, f"halts with {last.exit_code}: {last.why}")
            self._end()
            self._died(self, last.exit_code)

    def _one(self, effect: Effect) -> None:
        match effect:
            case AppendFile() | ReplaceFile() | WriteFile() | TruncateFile() | DeleteFile():
                self._file(effect)
            case SyncFile(path, token):
                self._sync(path, token)
            case Connect(conn, host, port):
                self._network.connect(self, conn, (host, port))
            case Log(level, event, fields):
                if not listed(level, event):
                    raise Violated("log-lines-listed", f"{self.name}: {effect}")
                if level != "debug":
                    texts = " ".join(f"{key}={value}" for key, value in fields.items())
                    self._scheduler.add_line(self.name, f"{event} {texts}".rstrip())
            case Row():
                pass
            case _:
                raise TypeError(f"unknown effect {effect!r}")

    def _file(
        self, effect: AppendFile | ReplaceFile | WriteFile | TruncateFile | DeleteFile
    ) -> None:
        if effect.path in self._writing:
            self._written(self._writing[effect.path])
        match effect:
            case AppendFile(path, data):
                self.disk.append(effect)
                self.ledger.appended(path, data)
            case ReplaceFile(path, data):
                self.disk.replace(effect)
                self.ledger.replaced(path, data)
            case WriteFile(path):
                self.disk.begin(effect)
                self._writing[path] = effect
                took_us = self._rng.randint(*self.sync_us) * self._rng.randint(1, WRITES)
                self._scheduler.after(took_us, lambda: self._written(effect))
            case TruncateFile(path, size):
                self.disk.truncate(effect)
                self.ledger.truncated(path, size)
            case DeleteFile(path):
                self.disk.delete(effect)
                self.ledger.deleted(path)

    def _written(self, effect: WriteFile) -> None:
        """A large file is done, unless that is known."""
        if not self.alive or self._writing.get(effect.path) is not effect:
            return
        del self._writing[effect.path]
        try:
            self.disk.finish(effect)
        except OSError as error:
            # A node that cannot write the leader's snapshot must end; without its own it goes on.
            self.disk_failed |= not self.node.raft.writes(effect.path)
            self._happened("refused", "disk")
            self._scheduler.add_line(self.name, f"disk failed: {error}")
            self._event(FileNotWritten(effect.path, str(error)))
        else:
            self.ledger.replaced(effect.path, effect.data)
            self._event(FileWritten(effect.path))

    def _sync(self, path: str, token: int) -> None:
        size = self.disk.size(path)
        self._syncs += 1

        def done() -> None:
            self._syncs -= 1
            if not self.alive:
                return
            try:
                self.disk.synced(path, size)
            except OSError as error:
                self._disk_failed(error)
            else:
                self.ledger.synced(path, size)
                self._event(Synced(token))

        self._scheduler.after(self._rng.randint(*self.sync_us), done)

    def _disk_failed(self, error: OSError) -> None:
        self.disk_failed = True
        self._happened("refused", "disk")
        self._scheduler.add_line(self.name, f"disk failed: {error}")
        self._event(DiskFailed(str(error)))

    def _crashes(self) -> bool:
        if self._crash_in is None:
            return False
        self._crash_in -= 1
        if self._crash_in > 0:
            return False
        self._crash_in = None
        self._happened("lost", "process")
        self.crash()
        return True

    def _end(self) -> None:
        self.alive = False
        if self._events or self._syncs or self._writing:
            self._happened("lost", "process")
        self._events.clear()
        self._network.abandon(self)
