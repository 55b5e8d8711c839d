"""CPU use of this program and its children, and of all other processes. Linux only."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

QUIET_CORES: Final = 0.5
"""Maximum CPU of other processes for a row to count as quiet."""

_FULL: Final = 0.9
"""Share of the cores in use from which on a machine is full."""
_TICK_S: Final = 1 / os.sysconf("SC_CLK_TCK")
_LOOK_S: Final = 1.0


def process_cpu_s(pid: int) -> float:
    """Seconds of CPU a process has used so far, its ended children's included.

    Raises:
        FileNotFoundError: there is no such process.
    """
    return sum(map(int, _fields(Path(f"/proc/{pid}/stat"))[11:15])) * _TICK_S


def _fields(stat: Path) -> list[bytes]:
    """Of a process, from its state on; before it stands its name, which may be any bytes."""
    return stat.read_bytes().rpartition(b")")[2].split()


def machine_cpu_s() -> float:
    """Seconds that the cores which this process may use were busy since the machine started."""
    lines = {
        name: values
        for name, *values in map(str.split, Path("/proc/stat").read_text().splitlines())
    }
    # In a container the cores may be shown by numbers of its own; then it is shown no others.
    mine = [f"cpu{number}" for number in os.sched_getaffinity(0)]
    ticks = 0
    for name in mine if lines.keys() >= {*mine} else ["cpu"]:
        user, nice, system, _, _, irq, softirq, steal = map(int, lines[name][:8])
        ticks += user + nice + system + irq + softirq + steal
    return ticks * _TICK_S


def cores() -> int:
    """How many cores this process may use."""
    return len(os.sched_getaffinity(0))


def tree_cpu_s() -> float:
    """Seconds of CPU of this process and of all below it, the ended ones included."""
    children: dict[int, list[int]] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):  # it has ended, or is not shown
            parent = int(_fields(stat)[1])
            children.setdefault(parent, []).append(int(stat.parent.name))
    left, total = [os.getpid()], 0.0
    while left:
        pid = left.pop()
        left += children.get(pid, [])
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            total += process_cpu_s(pid)
    return total


@dataclass(frozen=True, slots=True)
class Sharing:
    """How the cores that this process may use were shared between two readings."""

    cores: int
    ours: float
    """Cores that this process and all below it used."""
    others: float
    """Cores that other programs used."""

    @property
    def busy(self) -> bool:
        """Whether other programs used the machine, or its cores were all busy."""
        return self.others >= QUIET_CORES or self.ours + self.others >= _FULL * self.cores

    def __str__(self) -> str:
        return f"other programs used {self.others:.1f} of {self.cores} cores, ours {self.ours:.1f}"


class Shared:
    """Begins to measure when made; the processes below this one may end, and others begin."""

    def __init__(self) -> None:
        self._began = time.monotonic()
        self._machine, self._ours = machine_cpu_s(), tree_cpu_s()

    def read(self) -> Sharing:
        """How the cores were shared since it was made."""
        wall_s = max(_TICK_S, time.monotonic() - self._began)
        ours = (tree_cpu_s() - self._ours) / wall_s
        machine = (machine_cpu_s() - self._machine) / wall_s
        # Ticks of 10 ms are summed, so a quiet machine may give a value slightly below 0.
        return Sharing(cores(), ours, max(0.0, machine - ours))


@dataclass(frozen=True, slots=True)
class Usage:
    """CPU used between two readings."""

    wall_s: float
    cpu_s: dict[str, float]
    """Name of a process -> seconds of CPU; ``client`` is this program."""
    ours_cores: float
    """Cores that this process and all below it used, named or not."""
    others_cores: float
    """Cores that other programs used."""

    @property
    def busy(self) -> float:
        """Share of the cores that this process may use which was used, by whatever process."""
        return (self.ours_cores + self.others_cores) / cores()


class Meter:
    """Begins to measure when made.

    Args:
        processes: name -> process id, of children that run throughout and are shown by name.
    """

    def __init__(self, processes: Mapping[str, int]) -> None:
        self._pids = {**processes, "client": os.getpid()}
        self._began = time.monotonic()
        self._shared = Shared()
        self._before = self._look()

    def usage(self) -> Usage:
        """What was used since it was made."""
        now = self._look()
        cpu_s = {name: now[name] - self._before[name] for name in now}
        sharing = self._shared.read()
        return Usage(time.monotonic() - self._began, cpu_s, sharing.ours, sharing.others)

    def _look(self) -> dict[str, float]:
        return {name: process_cpu_s(pid) for name, pid in self._pids.items()}


def wait_quiet(patience_s: float) -> float:
    """Wait until other programs are idle for a second, at most ``patience_s``.

    Args:
        patience_s: seconds; 0: do not wait.

    Returns:
        Cores that others used in the last second looked at; 0 if it did not look.
    """
    end = time.monotonic() + patience_s
    others = 0.0
    while time.monotonic() < end:
        shared = Shared()
        time.sleep(_LOOK_S)
        others = shared.read().others
        if others < QUIET_CORES:
            break
    return others


def description() -> str:
    """The machine in a few words."""
    model = "unknown processor"
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            model = line.partition(":")[2].strip()
            break
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    return f"{os.cpu_count()} cores ({model}), {memory:.0f} GiB"
