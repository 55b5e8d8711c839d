"""What a demonstration needs of this machine, looked at before anything is started or written."""

from __future__ import annotations

import contextlib
import os
import platform
import resource
import shutil
import signal
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from bench.demo.stage import RELEASE, Options
from emulator.servers.jars import kafka_jars, zookeeper_jars
from emulator.servers.java import find_java

CONTAINER: Final = (
    "make package SETS=none && docker build -f compose/Dockerfile -t kraft-bridge . && "
    "docker run -it kraft-bridge kraft-bridge demo"
)
_MB: Final = 1_000_000
# Measured: 87 MB of a run of 60 s with 25 changes/s, of them 20 before the load, 3 of Spark's own.
_WITHOUT_LOAD_MB: Final = 150.0
_MB_PER_S: Final = 0.5
_MB_PER_CHANGE: Final = 0.04
_FULL_MB: Final = 10.0
_LIMITS: Final = {"-n": ("open files", 1_024), "-u": ("processes and threads", 1_024)}
"""Option of ulimit -> what it is of, and how many are needed."""
_LOOK_S: Final = 1.0
_UNFIT: Final = frozenset(',\\"#%?*[]{}:\n\r\t')
"""Kafka separates folders by commas; the others have a meaning in files, URLs or patterns."""


class NotHereError(RuntimeError):
    """A demonstration cannot run here; the message is one sentence that says what to do."""


def look(options: Options) -> None:
    """See whether a demonstration can run here.

    Args:
        options: its folder need not be there yet.

    Raises:
        NotHereError: no Linux; a folder whose name is unfit, that is none, or whose disk has too
            little room; too few open files or threads are allowed.
        JavaNotFoundError: no Java that the servers run with.
        JarsMissingError: their jars were not fetched.
    """
    folder = options.out.absolute()
    problem = (
        not_linux(platform.system())
        or unfit(folder)
        or no_folder(folder)
        or too_little(folder, free_mb(folder), needed_mb(options.seconds, options.rate))
        or too_few(allowed())
    )
    if problem:
        raise NotHereError(problem)
    find_java()
    kafka_jars(RELEASE)
    zookeeper_jars()


def not_linux(system: str) -> str:
    """What to do on another system than Linux; empty on Linux."""
    if system == "Linux":
        return ""
    return f"The demonstration runs on Linux only, this is {system}; in its container: {CONTAINER}"


def unfit(folder: Path) -> str:
    """What to do about a name that servers would read as another; empty if it is fine."""
    found = sorted(_UNFIT.intersection(str(folder)))
    if not found:
        return ""
    shown = " and ".join(repr(one) for one in found)
    return f"{folder} has {shown} in its name, which Kafka or Spark misreads: give another --out"


def no_folder(folder: Path) -> str:
    """What to do where something else has the name of a folder; empty if nothing has."""
    there = _there(folder)
    return "" if there.is_dir() else f"{there} is not a folder: give another --out"


def needed_mb(seconds: float, rate: float) -> float:
    """Room that a run needs, in MB, from the length of its load and its changes per second."""
    return _WITHOUT_LOAD_MB + seconds * (_MB_PER_S + rate * _MB_PER_CHANGE)


def free_mb(folder: Path) -> float:
    """Room on the disk of a folder, which need not be there yet, in MB."""
    return shutil.disk_usage(_there(folder)).free / _MB


def _there(folder: Path) -> Path:
    return next(each for each in (folder, *folder.parents) if each.exists())


def too_little(folder: Path, free: float, needed: float) -> str:
    """What to do if a disk has less room than is needed, in MB; empty if it has enough."""
    if free >= needed:
        return ""
    return (
        f"The disk of {folder} has {free:.0f} MB free and the demonstration needs {needed:.0f} MB: "
        "free some, or give a folder of another disk by --out"
    )


def allowed() -> dict[str, int]:
    """What this process and its children may have, by the option of ``ulimit``.

    Java raises its limit of open files to the hard one; of threads root has no limit.
    """
    found = {"-n": resource.getrlimit(resource.RLIMIT_NOFILE)[1]}
    if os.geteuid():
        found["-u"] = resource.getrlimit(resource.RLIMIT_NPROC)[0]
    return found


def too_few(limits: Mapping[str, int]) -> str:
    """What to do if less than a demonstration needs is allowed; empty if it is enough."""
    for option, most in limits.items():
        what, needed = _LIMITS[option]
        if most != resource.RLIM_INFINITY and most < needed:
            return (
                f"{most} {what} are allowed here and the demonstration needs {needed}: raise the "
                f"limit by 'ulimit {option} {needed}'"
            )
    return ""


def full(folder: Path) -> str:
    """What to do if the disk of a folder is full by now; empty if it is not."""
    free = free_mb(folder)
    if free >= _FULL_MB:
        return ""
    return (
        f"the disk of {folder} is full ({free:.0f} MB free), and servers end without room: "
        "free some, or give a folder of another disk by --out, and run it again"
    )


@contextlib.contextmanager
def room_watched(folder: Path) -> Iterator[list[str]]:
    """Inside, a disk that gets full ends this process's work as SIGTERM does.

    Servers without room end or hang, and what is waited for then does not come.

    Yields:
        What to do about it, once it was full: what ends then makes room again.
    """
    over = threading.Event()
    reasons: list[str] = []

    def watch() -> None:
        while not over.wait(_LOOK_S):
            if reason := full(folder):
                reasons.append(reason)
                os.kill(os.getpid(), signal.SIGTERM)
                return

    thread = threading.Thread(target=watch, name="room", daemon=True)
    thread.start()
    try:
        yield reasons
    finally:
        over.set()
