"""Files below one node's folder: appends, durable syncs off the loop, atomic replaces."""

from __future__ import annotations

import asyncio
import fcntl
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from emulator.seam import AppendFile, DeleteFile, ReplaceFile, SyncFile, TruncateFile


class FolderLockedError(Exception):
    """Another process uses this folder (Kafka's ``.lock``)."""


class Disk:
    """Performs file effects below ``root``; one instance owns the folder through Kafka's ``.lock``.

    Raises:
        FolderLockedError: at construction, when another process holds the lock.
        OSError: from the effects; the shell turns it into ``DiskFailed``.
    """

    def __init__(self, root: Path) -> None:
        self.root = root
        root.mkdir(parents=True, exist_ok=True)
        self._lock = (root / ".lock").open("a+b")
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            self._lock.close()
            raise FolderLockedError(f"{root} is in use by another process") from error
        self._open: dict[str, int] = {}
        self._syncer = ThreadPoolExecutor(1, thread_name_prefix="fdatasync")

    def read_all(self) -> dict[str, bytes]:
        """Every file below the folder: relative path -> content; no lock, no temporaries."""
        found = {}
        for path in sorted(self.root.rglob("*")):
            name = path.relative_to(self.root).as_posix()
            if path.is_file() and name != ".lock" and not name.endswith(".part"):
                found[name] = path.read_bytes()
        return found

    def append(self, effect: AppendFile) -> None:
        """Append to a file, creating it and its folder."""
        fd = self._descriptor(effect.path)
        view = memoryview(effect.data)
        while view:
            view = view[os.write(fd, view) :]

    def sync(self, effect: SyncFile, done: Callable[[int, OSError | None], None]) -> None:
        """``fdatasync`` in the syncer thread; ``done(token, error)`` is called on the loop."""
        loop = asyncio.get_running_loop()
        fd = self._descriptor(effect.path)

        def work() -> None:
            error: OSError | None = None
            try:
                os.fdatasync(fd)
            except OSError as failure:
                error = failure
            loop.call_soon_threadsafe(done, effect.token, error)

        self._syncer.submit(work)

    def replace(self, effect: ReplaceFile) -> None:
        """Write, fsync, rename, fsync the folder."""
        path = self.root / effect.path
        path.parent.mkdir(parents=True, exist_ok=True)
        part = path.with_name(path.name + ".part")
        with part.open("wb") as file:
            file.write(effect.data)
            file.flush()
            os.fsync(file.fileno())
        self._forget(effect.path)
        part.replace(path)
        self._sync_folder(path.parent)

    def truncate(self, effect: TruncateFile) -> None:
        """Cut a file and make the cut durable."""
        with (self.root / effect.path).open("r+b") as file:
            file.truncate(effect.size)
            os.fsync(file.fileno())

    def delete(self, effect: DeleteFile) -> None:
        """Remove a file if it exists."""
        self._forget(effect.path)
        (self.root / effect.path).unlink(missing_ok=True)

    def close(self) -> None:
        """Wait for pending syncs, close every file, release the folder."""
        self._syncer.shutdown()
        for fd in self._open.values():
            os.close(fd)
        self._open.clear()
        self._lock.close()

    def _descriptor(self, name: str) -> int:
        fd = self._open.get(name)
        if fd is None:
            path = self.root / name
            new = not path.exists()
            path.parent.mkdir(parents=True, exist_ok=True)
            fd = self._open[name] = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
            if new:
                self._sync_folder(path.parent)
        return fd

    def _forget(self, name: str) -> None:
        fd = self._open.pop(name, None)
        if fd is not None:
            self._syncer.submit(os.close, fd)

    @staticmethod
    def _sync_folder(folder: Path) -> None:
        fd = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)
