"""Files: appended, synced, replaced, and owned by one process."""

from __future__ import annotations

import asyncio
import errno
import fcntl
import gc
import os
import resource
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from emulator.io.disk import Disk, FolderLockedError, failure
from emulator.seam import AppendFile, DeleteFile, ReplaceFile, SyncFile, TruncateFile


def test_what_was_written_is_read_back(tmp_path: Path) -> None:
    disk = Disk(tmp_path / "node")
    disk.append(AppendFile("log/0.log", b"abc"))
    disk.append(AppendFile("log/0.log", b"def"))
    disk.replace(ReplaceFile("state", b"1"))
    disk.replace(ReplaceFile("state", b"2"))
    disk.truncate(TruncateFile("log/0.log", 4))
    disk.append(AppendFile("gone", b"x"))
    disk.delete(DeleteFile("gone"))
    disk.delete(DeleteFile("never there"))
    disk.close()
    again = Disk(tmp_path / "node")
    assert again.read_all() == {"log/0.log": b"abcd", "state": b"2"}
    again.close()


def test_a_folder_that_cannot_be_listed_does_not_pass_for_an_empty_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A node would start without its log."""
    disk = Disk(tmp_path)
    disk.append(AppendFile("log/0.log", b"abc"))
    listed = os.scandir

    def scandir(folder: str) -> Iterator[os.DirEntry[str]]:
        if Path(folder).name == "log":
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), folder)
        return listed(folder)

    monkeypatch.setattr(os, "scandir", scandir)
    with pytest.raises(PermissionError, match="log"):
        disk.read_all()
    disk.close()


def test_a_file_replaced_after_appends_takes_new_appends(tmp_path: Path) -> None:
    disk = Disk(tmp_path)
    disk.append(AppendFile("f", b"old"))
    disk.replace(ReplaceFile("f", b"new"))
    disk.append(AppendFile("f", b"er"))
    disk.close()
    assert (tmp_path / "f").read_bytes() == b"newer"


def test_a_folder_belongs_to_one_process(tmp_path: Path) -> None:
    disk = Disk(tmp_path)
    with pytest.raises(FolderLockedError, match="in use by another process"):
        Disk(tmp_path)
    disk.close()
    Disk(tmp_path).close()


def test_a_folder_that_showed_its_end_may_be_closed_twice(tmp_path: Path) -> None:
    """The second time it closes no descriptor that somebody else has got meanwhile."""
    disk = Disk(tmp_path)
    disk.show_end()
    disk.close()
    others = [os.open(os.devnull, os.O_RDONLY) for _ in range(20)]
    disk.close()
    for one in others:
        os.close(one)


def test_who_only_asks_whether_a_folder_is_locked_keeps_nobody_from_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asks = os.open(tmp_path / ".lock", os.O_CREAT | os.O_RDONLY)
    fcntl.flock(asks, fcntl.LOCK_SH)
    pauses: list[float] = []

    def paused(pause_s: float) -> None:
        pauses.append(pause_s)
        if len(pauses) == 2:
            fcntl.flock(asks, fcntl.LOCK_UN)

    with monkeypatch.context() as patch:
        patch.setattr(time, "sleep", paused)
        Disk(tmp_path).close()
    os.close(asks)
    assert len(pauses) == 2


def test_a_sync_reports_its_token_on_the_loop(tmp_path: Path) -> None:
    async def work() -> tuple[int, OSError | None]:
        disk = Disk(tmp_path)
        disk.append(AppendFile("f", b"x"))
        done: asyncio.Future[tuple[int, OSError | None]] = (
            asyncio.get_running_loop().create_future()
        )
        disk.sync(SyncFile("f", 7), lambda token, error: done.set_result((token, error)))
        try:
            return await done
        finally:
            disk.close()

    assert asyncio.run(work()) == (7, None)


def test_an_unfinished_replace_is_known_by_its_name(tmp_path: Path) -> None:
    (tmp_path / "state.part").write_bytes(b"half")
    disk = Disk(tmp_path)
    assert disk.read_all() == {"state.part": b""}
    disk.close()


def test_a_replace_that_fails_leaves_the_file_and_no_half(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk = Disk(tmp_path)
    disk.replace(ReplaceFile("state", b"1"))

    def fail(_: int) -> None:
        raise OSError(errno.EIO, "Input/output error")

    with monkeypatch.context() as patch:
        patch.setattr("os.fsync", fail)
        with pytest.raises(OSError, match=r"\[Errno 5\] Input/output error: '.*/state'"):
            disk.replace(ReplaceFile("state", b"2"))
    assert disk.read_all() == {"state": b"1"}
    disk.close()


@contextmanager
def no_descriptor_left() -> Iterator[None]:
    """As when connections have used up all that the process may have."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(soft, 512), hard))
    held: list[int] = []
    # What other tests have left would close descriptors in the middle.
    gc.collect()
    gc.disable()
    try:
        with suppress(OSError):
            while True:
                held.append(os.open(os.devnull, os.O_RDONLY))
        yield
    finally:
        for fd in held:
            os.close(fd)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        gc.enable()


def test_files_are_written_when_no_descriptor_is_left(tmp_path: Path) -> None:
    disk = Disk(tmp_path)
    disk.append(AppendFile("log/0", b"a"))
    with no_descriptor_left():
        with pytest.raises(OSError, match="Too many open files"):
            os.open(os.devnull, os.O_RDONLY)
        for number in range(6):
            disk.replace(ReplaceFile(f"log/{number}.checkpoint", b"whole"))
            disk.replace(ReplaceFile(f"log/{number}", b""))
            disk.append(AppendFile(f"log/{number}", b"b"))
            disk.truncate(TruncateFile("log/0", 1))
        with pytest.raises(OSError, match="Too many open files"):
            os.open(os.devnull, os.O_RDONLY)
    disk.close()
    again = Disk(tmp_path)
    assert again.read_all()["log/5"] == b"b"
    assert again.read_all()["log/5.checkpoint"] == b"whole"
    again.close()


def test_a_full_disk_is_told_with_the_file_and_what_to_do() -> None:
    disk_full = OSError(errno.ENOSPC, "No space left on device", "folder/0.log")
    assert failure(disk_full) == (
        "[Errno 28] No space left on device: 'folder/0.log'; "
        "free disk space and start again; everything acknowledged is on the disk"
    )


def test_an_append_to_a_full_device_tells_which_file(tmp_path: Path) -> None:
    (tmp_path / "0.log").symlink_to("/dev/full")
    disk = Disk(tmp_path)
    with pytest.raises(OSError, match=r"No space left on device: '.*/0\.log'"):
        disk.append(AppendFile("0.log", b"x"))
    disk.close()


def test_a_lock_that_root_makes_is_the_folders_owners(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else a command that root has run would keep the controller from starting."""
    given: list[tuple[int, int]] = []
    monkeypatch.setattr("os.geteuid", lambda: 0)
    monkeypatch.setattr("os.fchown", lambda _fd, user, group: given.append((user, group)))
    for _ in range(2):
        Disk(tmp_path).close()
    owner = tmp_path.stat()
    assert given == [(owner.st_uid, owner.st_gid)], "once, when it is made"
