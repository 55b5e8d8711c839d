"""Large files, written in a thread: neither the event loop nor syncs of the log wait for them.

A slice at a time, each durable before the next: a sync of the log may have to wait for what the
file system has been given of other files, and that is never much.
"""

from __future__ import annotations

import contextlib
import errno
import os
import threading
from collections.abc import Callable
from pathlib import Path
from queue import SimpleQueue
from typing import Final

from emulator.seam import WriteFile

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
