"""Files below one node's folder: appends, durable syncs outside the event loop, atomic replaces.

File descriptors are kept in reserve: connections may use up the process's limit, and that must not
appear as a disk failure.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import fcntl
import os
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from queue import SimpleQueue
from typing import Final

from emulator.seam import AppendFile, DeleteFile, ReplaceFile, SyncFile, TruncateFile, WriteFile
from emulator.trace.distribution import Distribution

# Large files, written in a thread: neither the event loop nor syncs of the log wait for them.
#
# A slice at a time, each durable before the next: a sync of the log may have to wait for what the
# file system has been given of other files, and that is never much.

PART: Final = ".part"
"""How the name of a file ends that is not finished."""
_SLICE: Final = 1024 * 1024
LOG_ROOM: Final = 1024 * 1024
"""Bytes that a large file leaves to what is appended while it is written."""


class Worker:
    """One thread that does what blocks, in the order given; it begins with the first work.

    Every commit passes one twice, and the executors of the standard library make a future, two
    locks and a condition for each call.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._queue: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        self._thread: threading.Thread | None = None

    def submit(self, work: Callable[[], None]) -> None:
        """Do this after all that was given before; it must not raise: the thread would end."""
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name=self._name, daemon=True)
            self._thread.start()
        self._queue.put(work)

    def shutdown(self) -> None:
        """Wait until all of it is done; the thread ends."""
        if self._thread is not None:
            self._queue.put(None)
            self._thread.join()
            self._thread = None

    def _run(self) -> None:
        while (work := self._queue.get()) is not None:
            work()


class Abandoned(Exception):  # noqa: N818 - nothing is wrong
    """The folder is closed: the rest of a file is of no use."""


class Writing:
    """One large file on its way; its end may be awaited from the loop.

    Args:
        effect: what to write.
        part: its temporary file, and ``fd`` that is open for writing.
        folder_fd: the folder of both, open.
        fsync: whether anything is made durable.
    """

    def __init__(
        self, effect: WriteFile, part: Path, fd: int, folder_fd: int, *, fsync: bool
    ) -> None:
        self.effect = effect
        self.ended = threading.Event()
        self._part = part
        self._fd = fd
        self._folder_fd = folder_fd
        self._fsync = fsync

    def run(self, closing: threading.Event) -> OSError | None:
        """Write, sync and rename, in the thread; the error if that failed and nothing is changed.

        Raises:
            Abandoned: the folder was closed before the end.
        """
        try:
            try:
                self._look_for_room()
                self._content(closing)
                self._part.replace(self._part.with_name(self._part.name.removesuffix(PART)))
                self._sync(self._folder_fd)
            except Exception:
                # A partial file must not use space on a full disk.
                with contextlib.suppress(OSError):
                    self._part.unlink(missing_ok=True)
                raise
        except OSError as error:
            error.filename = error.filename or str(self._part).removesuffix(PART)
            return error
        except Abandoned:
            raise
        except Exception as error:  # noqa: BLE001 - the thread goes on, and the node says so
            return unexpected(error, str(self._part).removesuffix(PART))
        finally:
            closed(self._fd)
            closed(self._folder_fd)
            self.ended.set()
        return None

    def _look_for_room(self) -> None:
        """Begin nothing that would take the last space: an append to the log would fail meanwhile.

        Raises:
            OSError: there is too little.
        """
        found = os.fstatvfs(self._folder_fd)
        # A file system that does not know its size says 0.
        if found.f_blocks and found.f_bavail * found.f_frsize < len(self.effect.data) + LOG_ROOM:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def _content(self, closing: threading.Event) -> None:
        view = memoryview(self.effect.data)
        while True:
            if closing.is_set():
                raise Abandoned
            rest, view = view[:_SLICE], view[_SLICE:]
            while rest:
                rest = rest[os.write(self._fd, rest) :]
            self._sync(self._fd)
            if not view:
                return

    def _sync(self, fd: int) -> None:
        if self._fsync:
            os.fsync(fd)


def unexpected(error: Exception, file: str) -> OSError:
    """What is not an error of the operating system, such as no memory, as a failure of the disk.

    >>> str(unexpected(MemoryError("no more"), "log/0.log"))
    "[Errno 5] MemoryError: no more: 'log/0.log'"
    """
    return OSError(errno.EIO, f"{type(error).__name__}: {error}", file)


def closed(fd: int) -> None:
    """Close a descriptor of a file that is no longer used; what it says is of no use."""
    with contextlib.suppress(OSError):
        os.close(fd)


class FolderLockedError(Exception):
    """Another process uses this folder (Kafka's ``.lock``)."""

    def __init__(self, folder: Path) -> None:
        super().__init__(f"{folder} is in use by another process")
        self.folder = folder


_RESERVED: Final = 8
"""An operation opens at most two files; a file that is appended to stays open."""

_LOCK_TRIES: Final = 5
_LOCK_PAUSE_S: Final = 0.03


def make_folder(root: Path) -> None:
    """Make a folder, with those above it, unless it is there.

    Raises:
        NotADirectoryError: something else has its name.
        OSError: it cannot be made.
    """
    try:
        root.mkdir(parents=True, exist_ok=True)
    except FileExistsError:
        raise NotADirectoryError(errno.ENOTDIR, "not a folder", str(root)) from None
    except OSError as error:
        why = f"this folder cannot be made: {error.strerror}"
        raise type(error)(error.errno, why, error.filename or str(root)) from error


def failure(error: OSError) -> str:
    """The error text with the file, and what to do when there is no space."""
    if error.errno in {errno.ENOSPC, errno.EDQUOT}:
        return f"{error}; free disk space and start again; everything acknowledged is on the disk"
    return str(error)


class _Reserve:
    """Descriptors that are held open, and closed when the process has no other left."""

    def __init__(self) -> None:
        self._held: list[int] = []
        self.fill()

    def open(self, path: Path, flags: int) -> int:
        """As ``os.open``; if no descriptor is left, a reserved one is closed first."""
        try:
            return os.open(path, flags | os.O_CLOEXEC, 0o644)
        except OSError as error:
            if error.errno not in {errno.EMFILE, errno.ENFILE} or not self._held:
                raise
        os.close(self._held.pop())
        return os.open(path, flags | os.O_CLOEXEC, 0o644)

    def fill(self) -> None:
        """Open reserved descriptors again, as many as possible."""
        with contextlib.suppress(OSError):
            while len(self._held) < _RESERVED:
                self._held.append(os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC))

    def close(self) -> None:
        """Close all of them."""
        while self._held:
            os.close(self._held.pop())


def _lock(fd: int) -> None:
    """Lock a file. ``rollback``, which tests the lock, holds it for a moment."""
    for _ in range(_LOCK_TRIES - 1):
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            time.sleep(_LOCK_PAUSE_S)
        else:
            return
    fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)


def _give_to_owner(fd: int, folder: Path) -> None:
    """A file that root makes belongs to the folder's owner, whose controller must open it later."""
    if os.geteuid() == 0:
        owner = folder.stat()
        with contextlib.suppress(OSError):
            os.fchown(fd, owner.st_uid, owner.st_gid)


def _below(root: Path) -> Iterator[Path]:
    """All but folders below a folder. ``Path.rglob`` leaves out what it cannot list: a log, say."""

    def fail(error: OSError) -> None:
        raise error

    for folder, _, names in os.walk(root, onerror=fail):
        yield from (Path(folder, name) for name in names)


class Disk:
    """Performs file effects below ``root``; one instance owns the folder through Kafka's ``.lock``.

    Args:
        root: the folder; made if it is not there.
        fsync: False: nothing is made durable, only written. For folders of tests: after a crash of
            the machine they hold less than the node has acknowledged.

    Raises:
        FolderLockedError: at construction, when another process holds the lock.
        OSError: from the effects, naming the file; the shell turns it into ``DiskFailed``.
    """

    def __init__(self, root: Path, *, fsync: bool = True) -> None:
        self.root = root
        self._fsync = fsync
        make_folder(root)
        lock = root / ".lock"
        made = not lock.exists()
        self._lock = lock.open("a+b")
        if made:
            _give_to_owner(self._lock.fileno(), root)
        try:
            _lock(self._lock.fileno())
        except OSError as error:
            self._lock.close()
            raise FolderLockedError(root) from error
        self._shown: int | None = None
        self._open: dict[str, int] = {}
        self._reserve = _Reserve()
        self._syncer = Worker("fdatasync")
        self._writer = Worker("large files")
        self._writing: dict[str, Writing] = {}
        self._closing = threading.Event()
        self.sync_ms = Distribution()
        """Time of each ``fdatasync``; nothing where nothing is made durable."""

    def read_all(self) -> dict[str, bytes]:
        """Every file below the folder but the lock: relative path -> content.

        An unfinished replace is listed by its name with empty content, so that it can be removed.

        Raises:
            OSError: a folder cannot be listed, or a file not be read.
        """
        found = {}
        for path in sorted(_below(self.root)):
            name = path.relative_to(self.root).as_posix()
            if path.is_file() and name != ".lock":
                found[name] = b"" if name.endswith(PART) else path.read_bytes()
        return found

    def append(self, effect: AppendFile) -> None:
        """Append to a file, creating it and its folder."""
        with self._naming(effect.path):
            self._await(effect.path)
            fd = self._descriptor(effect.path)
            view = memoryview(effect.data)
            while view:
                view = view[os.write(fd, view) :]

    def sync(self, effect: SyncFile, done: Callable[[int, OSError | None], None]) -> None:
        """``fdatasync`` in the syncer thread; ``done(token, error)`` is called on the loop."""
        loop = asyncio.get_running_loop()
        with self._naming(effect.path):
            fd = self._descriptor(effect.path)
        if not self._fsync:
            loop.call_soon(done, effect.token, None)
            return

        def synced(error: OSError | None, taken_ms: float) -> None:
            self.sync_ms.observe(taken_ms)
            done(effect.token, error)

        def work() -> None:
            error: OSError | None = None
            begin_ns = time.monotonic_ns()
            try:
                os.fdatasync(fd)
            except OSError as failed:
                error = failed
                error.filename = str(self.root / effect.path)
            except Exception as failed:  # noqa: BLE001 - as in large_file
                error = unexpected(failed, str(self.root / effect.path))
            taken_ms = (time.monotonic_ns() - begin_ns) / 1e6
            with contextlib.suppress(RuntimeError):  # the loop is closed: its callers have ended
                loop.call_soon_threadsafe(synced, error, taken_ms)

        self._syncer.submit(work)

    def replace(self, effect: ReplaceFile) -> None:
        """Write, fsync, rename, fsync the folder; if it fails the file is unchanged."""
        path = self.root / effect.path
        part = path.with_name(path.name + PART)
        with self._naming(effect.path):
            self._await(effect.path)
            path.parent.mkdir(parents=True, exist_ok=True)
            try:
                flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC
                with os.fdopen(self._reserve.open(part, flags), "wb", buffering=0) as file:
                    view = memoryview(effect.data)
                    while view:
                        view = view[file.write(view) :]
                    if self._fsync:
                        os.fsync(file.fileno())
            except OSError:
                # A partial file must not use space on a full disk.
                with contextlib.suppress(OSError):
                    part.unlink(missing_ok=True)
                raise
            self._forget(effect.path)
            part.replace(path)
            self._sync_folder(path.parent)

    def write(self, effect: WriteFile, done: Callable[[str, OSError | None], None]) -> None:
        """As :meth:`replace`, in a thread; ``done(path, error)`` is called on the loop.

        An error at once goes to ``done``, too; nothing is raised. A write that has not ended when
        the folder is closed is given up: the file is as it was.
        """
        loop = asyncio.get_running_loop()
        path = self.root / effect.path
        part = path.with_name(path.name + PART)
        try:
            with self._naming(effect.path):
                self._await(effect.path)
                path.parent.mkdir(parents=True, exist_ok=True)
                fd = self._reserve.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
                try:
                    folder_fd = self._reserve.open(path.parent, os.O_RDONLY)
                except OSError:
                    os.close(fd)
                    with contextlib.suppress(OSError):
                        part.unlink(missing_ok=True)
                    raise
        except OSError as error:
            loop.call_soon(done, effect.path, error)
            return
        self._forget(effect.path)
        writing = Writing(effect, part, fd, folder_fd, fsync=self._fsync)
        self._writing[effect.path] = writing

        def ended(error: OSError | None) -> None:
            if self._writing.get(effect.path) is writing:
                del self._writing[effect.path]
            if not self._closing.is_set():
                self._reserve.fill()
            done(effect.path, error)

        def work() -> None:
            with contextlib.suppress(RuntimeError, Abandoned):  # the loop is closed, as in sync
                loop.call_soon_threadsafe(ended, writing.run(self._closing))

        self._writer.submit(work)

    def truncate(self, effect: TruncateFile) -> None:
        """Truncate a file and make that durable."""
        path = self.root / effect.path
        self._await(effect.path)
        with (
            self._naming(effect.path),
            os.fdopen(self._reserve.open(path, os.O_RDWR), "r+b") as file,
        ):
            file.truncate(effect.size)
            if self._fsync:
                os.fsync(file.fileno())

    def delete(self, effect: DeleteFile) -> None:
        """Remove a file if it exists."""
        self._await(effect.path)
        self._forget(effect.path)
        with self._naming(effect.path):
            (self.root / effect.path).unlink(missing_ok=True)

    def show_end(self) -> None:
        """Show other processes that this one is on its way to its end, by a lock of the folder.

        Another signal would cut the orderly stop off: ``rollback`` looks for the lock before it
        sends one. The kernel takes it away with the process, so it is never left behind.
        """
        if self._shown is not None:
            return
        with contextlib.suppress(OSError):  # the stop goes on though it is not shown
            self._shown = self._reserve.open(self.root, os.O_RDONLY)
            fcntl.flock(self._shown, fcntl.LOCK_EX | fcntl.LOCK_NB)

    def close(self) -> None:
        """Wait for pending syncs, give large files up, close every file, release the folder."""
        self._closing.set()
        self._writer.shutdown()
        self._syncer.shutdown()
        for fd in self._open.values():
            os.close(fd)
        self._open.clear()
        self._reserve.close()
        if self._shown is not None:
            os.close(self._shown)
            self._shown = None
        self._lock.close()

    @contextlib.contextmanager
    def _naming(self, name: str) -> Iterator[None]:
        """Add the file to an error, and restore the reserve of descriptors."""
        try:
            yield
        except OSError as error:
            error.filename = error.filename or str(self.root / name)
            raise
        finally:
            self._reserve.fill()

    def _await(self, name: str) -> None:
        """Effects on one file are done in order."""
        writing = self._writing.pop(name, None)
        if writing is not None:
            writing.ended.wait()

    def _descriptor(self, name: str) -> int:
        fd = self._open.get(name)
        if fd is None:
            path = self.root / name
            new = not path.exists()
            path.parent.mkdir(parents=True, exist_ok=True)
            fd = self._open[name] = self._reserve.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
            if new:
                self._sync_folder(path.parent)
        return fd

    def _forget(self, name: str) -> None:
        fd = self._open.pop(name, None)
        if fd is not None:
            self._syncer.submit(partial(closed, fd))

    def _sync_folder(self, folder: Path) -> None:
        if not self._fsync:
            return
        fd = self._reserve.open(folder, os.O_RDONLY)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)
