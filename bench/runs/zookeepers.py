"""The ZooKeeper of a row: fresh, warmed up, behind a proxy that delays if the case says so."""

from __future__ import annotations

import contextlib
import os
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final, Self

from bench.runs.scenario import Case
from emulator.servers.jars import zookeeper_jars
from emulator.servers.java import FULL_SPEED
from emulator.servers.java_tools import compile_java
from emulator.servers.ports import free_port, is_open
from emulator.servers.process import ServerProcess
from emulator.servers.seeded import WARM_UP, connected, warm
from emulator.servers.zookeeper import ZooKeeper, ensemble

HEAP_MIB: Final = 1_024
TICK_MS: Final = 2_000
_PROBES: Final = 50
_FSYNC_BYTES: Final = 4_096


class Delay(ServerProcess):
    """A proxy in a process of its own: its work must not slow down the client of the load."""

    def __init__(self, folder: Path, target_port: int, latency_ms: float) -> None:
        super().__init__("delay", folder.absolute())
        self.port = free_port()
        self._target_port = target_port
        self._latency_ms = latency_ms

    def start(self) -> Self:
        """Start it and wait until it listens."""
        arguments = [str(self.port), str(self._target_port), str(self._latency_ms)]
        self.launch([sys.executable, "-m", "bench.runs.delay", *arguments])
        self.wait_until(f"port {self.port}", lambda: is_open(self.port), 30)
        return self


class Servers:
    """The ZooKeeper servers of a row.

    ``hosts`` is what the controller and the brokers connect to, ``direct`` what the bench does.
    """

    def __init__(self, servers: list[ZooKeeper], delay: Delay | None) -> None:
        self.servers = servers
        self.delay = delay
        self.direct = ",".join(one.hosts for one in servers)
        self.hosts = self.direct if delay is None else f"127.0.0.1:{delay.port}"

    def pids(self) -> dict[str, int]:
        """Name -> process id."""
        processes: list[tuple[str, ServerProcess]] = [
            (f"zookeeper-{number}", one) for number, one in enumerate(self.servers)
        ]
        if self.delay is not None:
            processes.append(("delay", self.delay))
        return {name: one.pid for name, one in processes if one.pid is not None and one.alive}

    def leader(self) -> ZooKeeper:
        """The server that leads; the only one, if there is one."""
        for one in self.servers:
            if len(self.servers) == 1 or "Mode: leader" in one.four_letters("srvr"):
                return one
        raise RuntimeError("no server of the ensemble leads")

    def alive(self) -> ZooKeeper:
        """A server that answers.

        Raises:
            RuntimeError: none does.
        """
        for one in self.servers:
            if one.alive and one.answers():
                return one
        raise RuntimeError("no ZooKeeper server answers")

    def transactions(self) -> int | None:
        """Id of the last transaction, None if unknown; see ``ZooKeeper.transactions``."""
        return self.alive().transactions()

    def znodes(self) -> int | None:
        """Persistent znodes; None if unknown."""
        figures = dict(
            line.split("\t", 1)
            for line in self.alive().four_letters("mntr").splitlines()
            if "\t" in line
        )
        return int(figures["zk_znode_count"]) - int(figures["zk_ephemerals_count"])


@contextlib.contextmanager
def running(case: Case, folder: Path, heap_mib: int = HEAP_MIB) -> Iterator[Servers]:
    """Start the servers of a case, warm up their compiler; end them afterwards.

    Raises:
        ProcessError: one did not start.
    """
    with contextlib.ExitStack() as stack:
        servers = ensemble(folder, case.servers) if case.servers > 1 else [_single(folder)]
        for one in servers:
            one.heap, one.java_flags = f"{heap_mib}m", FULL_SPEED
            if case.fsync_ms:
                _slow(one, case.fsync_ms, folder)
            stack.callback(one.kill)
            one.start()
        for one in servers:
            one.wait_started()
        delay = None
        with connected(",".join(one.hosts for one in servers)) as client:
            warm(client)
        if case.latency_ms:
            delay = Delay(folder, servers[0].port, case.latency_ms)
            stack.callback(delay.kill)
            delay.start()
        yield Servers(servers, delay)


def _single(folder: Path) -> ZooKeeper:
    return ZooKeeper(folder / "zookeeper", tick_ms=TICK_MS)


def _slow(server: ZooKeeper, fsync_ms: Sequence[float], folder: Path) -> None:
    """Let each sync of its log take one of these times."""
    delays = folder.absolute() / "fsync-ms"
    delays.parent.mkdir(parents=True, exist_ok=True)
    delays.write_text("".join(f"{each}\n" for each in fsync_ms))
    source = Path(__file__).with_name("SlowLog.java")
    server.classes = (compile_java([source], zookeeper_jars()),)
    server.main = "SlowLog"
    server.java_flags = (*server.java_flags, f"-Dslowlog.delays={delays}")


def write_ms(hosts: str) -> float:
    """Median time of one small write on this way, in ms, connected anew."""
    with connected(hosts) as client:
        return _middle([_timed(lambda: client.set(WARM_UP, b"x")) for _ in range(_PROBES)])


def fsync_ms(folder: Path) -> tuple[float, float]:
    """Median and longest time in ms of one ``fdatasync`` after 4 KiB were written there."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "fsync"
    with path.open("wb", buffering=0) as file:

        def once() -> None:
            file.write(b"x" * _FSYNC_BYTES)
            os.fdatasync(file.fileno())

        times = [_timed(once) for _ in range(_PROBES)]
    path.unlink()
    return _middle(times), max(times)


def _timed(work: object) -> float:
    assert callable(work)
    began = time.perf_counter()
    work()
    return (time.perf_counter() - began) * 1_000


def _middle(values: list[float]) -> float:
    return sorted(values)[len(values) // 2]
