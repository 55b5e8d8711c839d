"""The process that holds a controller's folder on this machine: found, stopped, its end awaited.

The kernel says who holds the lock of a folder, so no process is signalled because of a number in a
file: numbers of other machines, of other containers and of former processes mean nothing here.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final, NamedTuple

LOCK: Final = ".lock"
LOCKS: Final = Path("/proc/locks")


class FolderHolder(NamedTuple):
    """``pid``: None if the process cannot be seen from here, as it is another user's."""

    held: bool
    pid: int | None


def holder(folder: Path, locks: str | None = None) -> FolderHolder:
    """Who holds the lock of a folder; nothing is locked to find out.

    Args:
        folder: of a node.
        locks: content of ``/proc/locks``, for tests.

    Raises:
        OSError: the kernel's list of locks cannot be read.
    """
    try:
        inode = (folder / LOCK).stat().st_ino
    except OSError:
        return FolderHolder(False, None)
    text = LOCKS.read_text() if locks is None else locks
    pids = [pid for pid, other in _locks(text) if other == inode]
    # Another file system may have a file of the same number: the process shows which it holds.
    seen = [(pid, _holds(pid, folder / LOCK)) for pid in pids]
    found = next((pid for pid, holds in seen if holds), None)
    return FolderHolder(found is not None or any(holds is None for _, holds in seen), found)


def _locks(text: str) -> Iterator[tuple[int, int]]:
    """Process and inode of each lock, of ours (FLOCK) and of Java (POSIX).

    >>> list(_locks("1: FLOCK  ADVISORY  WRITE 77 fe:01:4711 0 EOF"))
    [(77, 4711)]
    """
    for line in text.splitlines():
        words = line.split()
        if len(words) >= 6 and words[1] in {"FLOCK", "POSIX"}:
            with contextlib.suppress(ValueError):
                yield int(words[4]), int(words[5].rpartition(":")[2])


def _holds(pid: int, path: Path) -> bool | None:
    """Whether a process has a file open; None: it may not be looked at."""
    if pid <= 0:
        return None  # of another pid namespace
    try:
        for entry in Path(f"/proc/{pid}/fd").iterdir():
            with contextlib.suppress(OSError):
                if entry.samefile(path):
                    return True
    except FileNotFoundError:
        return False
    except OSError:
        return None
    return False


class Ending:
    """Processes that are asked to end, in this order, and whose end is awaited.

    A process is signalled by a descriptor: another one that got its number meanwhile is not.
    """

    def __init__(self, pids: Iterable[int]) -> None:
        self._open: dict[int, int] = {}
        self.refused: list[int] = []
        """Those that this user may not signal."""
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                self._open[os.pidfd_open(pid)] = pid

    def terminate(self) -> None:
        """Send SIGTERM to all."""
        for descriptor, pid in self._open.items():
            try:
                signal.pidfd_send_signal(descriptor, signal.SIGTERM)
            except ProcessLookupError:
                continue
            except PermissionError:
                self.refused.append(pid)

    def wait(self, timeout_s: float) -> tuple[float, list[int]]:
        """Wait for their ends: when the last one came (monotonic), and who still runs."""
        waiting, until, last = dict(self._open), time.monotonic() + timeout_s, time.monotonic()
        while waiting and (left := until - time.monotonic()) > 0:
            ready, _, _ = select.select(list(waiting), [], [], left)
            last = time.monotonic()
            for descriptor in ready:
                del waiting[descriptor]
        return last, sorted(waiting.values())

    def close(self) -> None:
        """Close the descriptors."""
        for descriptor in self._open:
            os.close(descriptor)
        self._open.clear()
