"""The resident memory of a process and all that it has started. Linux only."""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Self

_PAGE: Final = os.sysconf("SC_PAGE_SIZE")
_EVERY_S: Final = 0.5


@dataclass(frozen=True, slots=True)
class Memory:
    """Resident bytes of the processes of a tree, by what they run; shared pages count in each."""

    java: int = 0
    others: int = 0

    @property
    def total(self) -> int:
        """Of all."""
        return self.java + self.others


def memory_of(root: int) -> Memory:
    """Memory of a process and its descendants now; empty if the process has ended."""
    children: defaultdict[int, list[int]] = defaultdict(list)
    found: dict[int, tuple[str, int]] = {}
    for path in Path("/proc").iterdir():
        if not path.name.isdigit():
            continue
        # It may end between the two.
        with contextlib.suppress(OSError, ValueError, IndexError):
            begin, _, rest = (path / "stat").read_text().rpartition(")")
            pid = int(path.name)
            fields = rest.split()
            found[pid] = begin.partition("(")[2], int(fields[21]) * _PAGE
            children[int(fields[1])].append(pid)
    java = others = 0
    waiting = [root] if root in found else []
    while waiting:
        pid = waiting.pop()
        waiting += children[pid]
        name, resident = found[pid]
        if name == "java":
            java += resident
        else:
            others += resident
    return Memory(java, others)


def bytes_below(folder: Path) -> int:
    """What the files below a folder take on the disk."""
    total = 0
    for path, _, names in os.walk(folder):
        for name in names:
            with contextlib.suppress(OSError):
                total += Path(path, name).stat().st_blocks * 512
    return total


class Watched:
    """Looks at a process tree, and at a folder, twice a second; the greatest of each is kept.

    Args:
        root: id of the process.
        folder: what it writes.
    """

    def __init__(self, root: int, folder: Path) -> None:
        self.memory = Memory()
        self.disk = 0
        self._root = root
        self._folder = folder
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._look, name="watched", daemon=True)

    def __enter__(self) -> Self:
        """Begin."""
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        """End."""
        self._over.set()
        self._thread.join()

    def _look(self) -> None:
        while True:
            self.memory = max(self.memory, memory_of(self._root), key=lambda each: each.total)
            begin_s = time.monotonic()
            self.disk = max(self.disk, bytes_below(self._folder))
            # Many files: not more than a tenth of the time.
            took_s = time.monotonic() - begin_s
            if self._over.wait(max(_EVERY_S, 9 * took_s)):
                return
