"""The process that holds a controller's folder on this machine: found, stopped, its end awaited.

The kernel says who holds the lock of a folder, so no process is signalled because of a number in a
file: numbers of other machines, of other containers and of former processes mean nothing here.

Its list of locks leaves out those of other containers and of other machines. Where it may be
incomplete the lock itself is tried. On a network file system a lock that seems to be free proves
nothing.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import select
import signal
import struct
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NamedTuple

from emulator.io.disk import FolderLockedError
from emulator.raft import layout

LOCK: Final = ".lock"
LOCKS: Final = Path("/proc/locks")
MOUNTS: Final = Path("/proc/self/mountinfo")
PID_NAMESPACE: Final = Path("/proc/self/ns/pid")
FIRST_NAMESPACE: Final = "pid:[4026531836]"
"""PROC_PID_INIT_INO of Linux: from there the processes of all containers are seen."""
LOCAL: Final = frozenset("bcachefs btrfs ext2 ext3 ext4 f2fs jfs overlay tmpfs xfs zfs".split())
"""File systems on which no other machine can hold a lock."""
TURN_S: Final = 0.1
"""Between two looks at a lock that another one has."""
SHOWS_S: Final = 2.0
"""Within which a controller shows that it was signalled."""
_ESCAPED: Final = re.compile(r"\\([0-7]{3})")
"""A blank in a path there, for one."""
_FLOCK: Final = "hhqqi4x"
"""``struct flock`` of a 64-bit Linux: type, whence, start, length, pid."""


class FolderHolder(NamedTuple):
    """``held``: None if it cannot be known.

    ``pid``: None if the process cannot be seen from here, as it is another user's, another
    container's or another machine's.
    """

    held: bool | None
    pid: int | None


def holder(folder: Path, locks: str | None = None) -> FolderHolder:
    """The holder of a folder's lock.

    Nothing is locked to find out where the kernel's list is complete. Elsewhere a shared lock is
    taken for a moment.

    Args:
        folder: of a node.
        locks: content of ``/proc/locks``, for tests.
    """
    path = folder / LOCK
    try:
        stat = path.stat()
    except (FileNotFoundError, NotADirectoryError):
        return FolderHolder(False, None)
    except OSError:
        return FolderHolder(None, None)
    text = _list() if locks is None else locks
    mount = _mount(path)
    seen = _lockers(path, stat, mount, text or "")
    found = next((pid for pid, holds in seen if holds), None)
    if found is not None or any(holds is None for _, holds in seen):
        return FolderHolder(True, found)
    local = mount is not None and mount.kind in LOCAL
    if text is not None and local and _sees_all():
        return FolderHolder(False, None)
    tried = _tried(path)
    return FolderHolder(tried if local or tried else None, None)


def in_use(folder: Path) -> str:
    """A text: the folder is in use, and by which process if that is seen."""
    pid = holder(folder).pid
    return f"{folder} is in use by {'another process' if pid is None else f'process {pid}'}"


def ends(pid: int, folder: Path) -> bool:
    """Whether a controller of ours is on its way to its end: then it has locked its folder too."""
    try:
        seen = _lockers(folder, folder.stat(), _mount(folder), _list() or "")
    except OSError:
        return False
    return (pid, True) in seen


def _lockers(
    path: Path, stat: os.stat_result, mount: _Mount | None, text: str
) -> list[tuple[int, bool | None]]:
    """Processes that a list of locks names for a file, and whether each has it open."""
    # On btrfs and overlay stat() gives another device than the list, which has the mount's.
    devices = {(os.major(stat.st_dev), os.minor(stat.st_dev)), mount and mount.device}
    pids = [
        one.pid
        for one in _locks(text)
        if one.inode == stat.st_ino and (mount is None or one.device in devices)
    ]
    # The process shows which file it holds: numbers of files need not be of one file alone there.
    return [(pid, _holds(pid, path)) for pid in pids]


def _list() -> str | None:
    """The kernel's list of locks; None: not shown."""
    try:
        return LOCKS.read_text()
    except (OSError, ValueError):
        return None


def _sees_all() -> bool:
    """Whether the list has the locks of all containers."""
    try:
        return str(PID_NAMESPACE.readlink()) == FIRST_NAMESPACE
    except OSError:
        return False


class _Mount(NamedTuple):
    """Kind of a file system, and its device: major and minor number."""

    kind: str
    device: tuple[int, int]


def _mount(path: Path) -> _Mount | None:
    """The file system that a file is on; None if that is not known."""
    try:
        text, real = MOUNTS.read_text(), os.path.realpath(path)
    except (OSError, ValueError):
        return None
    best, found = -1, None
    for line in text.splitlines():
        words = line.split()
        if len(words) < 5 or "-" not in words[:-1]:
            continue
        place = _ESCAPED.sub(lambda found: chr(int(found[1], 8)), words[4]).rstrip("/")
        # Of two mounts at one place the later one covers the earlier one.
        if (real == place or real.startswith(f"{place}/")) and len(place) >= best:
            major, _, minor = words[2].partition(":")
            best = len(place)
            found = _Mount(words[words.index("-") + 1], (int(major), int(minor)))
    return found


def _tried(path: Path) -> bool | None:
    """Whether a file is locked, by ours (flock) or by Java (fcntl); None: unknown.

    The first is asked by taking it, shared, for a moment.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError:
        return None
    try:
        asked = struct.pack(_FLOCK, fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0)
        lock = struct.unpack(_FLOCK, fcntl.fcntl(descriptor, fcntl.F_GETLK, asked))
        if lock[0] != fcntl.F_UNLCK:
            return True
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return None
    finally:
        os.close(descriptor)
    return False


class _Lock(NamedTuple):
    """The holder of a lock, and its file."""

    pid: int
    device: tuple[int, int]
    inode: int


def _locks(text: str) -> Iterator[_Lock]:
    """Each lock, of ours (FLOCK) and of Java (POSIX).

    >>> list(_locks("1: FLOCK  ADVISORY  WRITE 77 fe:01:4711 0 EOF"))
    [_Lock(pid=77, device=(254, 1), inode=4711)]
    """
    for line in text.splitlines():
        words = line.split()
        if len(words) >= 6 and words[1] in {"FLOCK", "POSIX"}:
            with contextlib.suppress(ValueError):
                major, minor, inode = words[5].split(":")
                yield _Lock(int(words[4]), (int(major, 16), int(minor, 16)), int(inode))


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


@dataclass(slots=True)
class _Turn:
    """A lock that another one has; ``since``: when it became ours, monotonic."""

    lock: int
    folder: Path
    since: float | None = None


def _locked(descriptor: int) -> bool:
    """Take a lock; False: another one has it."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        return True
    return True


class Ending:
    """Processes that hold folders and are asked to end, in this order, and whose end is awaited.

    A process is signalled by a descriptor that was opened before the folder was seen to be its:
    another one that got its number meanwhile is not. One that is stopping already is not signalled
    either, as a second signal would cut its orderly stop off: one that shows it (:func:`ends`). One
    that another such object is about to signal is left to it, unless that ends and has not.

    Args:
        holders: number and folder of each, as found earlier.
    """

    def __init__(self, holders: Iterable[tuple[int, Path]]) -> None:
        self._open: dict[int, int] = {}
        self.refused: list[int] = []
        """Ids of processes that this user may not signal."""
        self.others: list[Path] = []
        """Folders that another process holds by now."""
        self.stopping: list[int] = []
        """Ids of processes that were asked to end before."""
        self.left_to_others: list[int] = []
        """Ids of processes that another rollback stops."""
        self._turns: list[int] = []
        self._awaited: dict[int, _Turn] = {}
        """The turns of ``left_to_others``, by the descriptor of the process."""
        for pid, folder in holders:
            try:
                descriptor = os.pidfd_open(pid)
            except ProcessLookupError:
                descriptor = -1
            found = holder(folder)
            if descriptor >= 0 and found.pid == pid:
                self._open[descriptor] = pid
                # In this order: a process that has had its turn has signalled.
                turn = self._turn(folder)
                # In this order: a process that has had its turn has signalled.
                if ends(pid, folder):
                    self.stopping.append(pid)
                elif turn is not None:
                    self.left_to_others.append(pid)
                    self._awaited[descriptor] = _Turn(turn, folder)
                continue
            if descriptor >= 0:
                os.close(descriptor)
            if found.held:
                self.others.append(folder)

    def _turn(self, folder: Path) -> int | None:
        """Keep others from signalling the folder's process, until this one is closed.

        The lock is of a file that the controller does not lock. If another one has it, its
        descriptor here is returned.
        """
        try:
            descriptor = os.open(folder / layout.META_PROPERTIES, os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            return None
        self._turns.append(descriptor)
        return None if _locked(descriptor) else descriptor

    def terminate(self) -> None:
        """Send SIGTERM to all but those that are stopping, or left to others."""
        for descriptor, pid in self._open.items():
            if pid not in self.stopping and pid not in self.left_to_others:
                self._signal(descriptor)

    def _signal(self, descriptor: int) -> None:
        try:
            signal.pidfd_send_signal(descriptor, signal.SIGTERM)
        except ProcessLookupError:
            return
        except PermissionError:
            self.refused.append(self._open[descriptor])

    def wait(
        self, timeout_s: float, taken_over: Callable[[list[int]], None] = lambda _: None
    ) -> tuple[float, list[int]]:
        """Wait for their ends: when the last process ended (monotonic), and which ones still run.

        ``taken_over`` is called with the processes that were left to another rollback, after that
        rollback has ended; they have been signalled here by then.
        """
        waiting, until, last = dict(self._open), time.monotonic() + timeout_s, time.monotonic()
        while waiting and (left := until - time.monotonic()) > 0:
            patience = min(left, TURN_S) if self._awaited else left
            ready, _, _ = select.select(list(waiting), [], [], patience)
            for descriptor in ready:
                last = time.monotonic()
                del waiting[descriptor]
                self._awaited.pop(descriptor, None)
            if taken := self._take_over():
                taken_over(taken)
        return last, sorted(waiting.values())

    def _take_over(self) -> list[int]:
        """Signal what another one was to signal, and has not when it was closed, or has died."""
        taken = []
        for descriptor, turn in list(self._awaited.items()):
            if turn.since is None:
                if not _locked(turn.lock):
                    continue
                turn.since = time.monotonic()
            stops = ends(self._open[descriptor], turn.folder)
            # A process that was signalled right before shows that a moment later.
            if not stops and time.monotonic() - turn.since < SHOWS_S:
                continue
            del self._awaited[descriptor]
            self.left_to_others.remove(self._open[descriptor])
            if not stops:
                self._signal(descriptor)
                taken.append(self._open[descriptor])
        return taken

    def close(self) -> None:
        """Close the descriptors."""
        for descriptor in (*self._open, *self._turns):
            os.close(descriptor)
        self._open.clear()
        self._turns.clear()


def sentence_of(error: FolderLockedError) -> str:
    """One sentence."""
    return (
        f"{in_use(error.folder)}: a node with this folder may run already; end that process first, "
        "or name another folder in log.dirs"
    )
