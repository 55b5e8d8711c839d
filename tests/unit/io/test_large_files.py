"""Large files: written in a thread, whole or not at all, in order with all else on their path."""

from __future__ import annotations

import asyncio
import errno
import os
import subprocess
import sys
import threading
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from emulator.io.disk import LOG_ROOM, Disk
from emulator.seam import AppendFile, DeleteFile, ReplaceFile, SyncFile, WriteFile

MIB = 1 << 20
LARGE = bytes(range(256)) * (2 * MIB // 256) + b"end"
NAME = "log/7.checkpoint"
WAIT_S = 20.0


class Ends:
    """What was reported of large files."""

    def __init__(self) -> None:
        self.found: list[tuple[str, OSError | None]] = []
        self._more = asyncio.Event()

    def __call__(self, path: str, error: OSError | None) -> None:
        self.found.append((path, error))
        self._more.set()

    async def wait(self, count: int) -> None:
        while len(self.found) < count:
            self._more.clear()
            await asyncio.wait_for(self._more.wait(), WAIT_S)


class Gate:
    """``os.fsync`` of the threads waits here, and fails if it is told to."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.opened = threading.Event()
        self.reached = threading.Event()
        self.error: Exception | None = None
        self.count = 0
        self._loop = threading.get_ident()
        self._fsync = os.fsync
        monkeypatch.setattr("os.fsync", self)

    def __call__(self, fd: int) -> None:
        if threading.get_ident() != self._loop:
            self.count += 1
            self.reached.set()
            assert self.opened.wait(WAIT_S)
            if self.error is not None:
                raise self.error
        self._fsync(fd)


def run(folder: Path, story: Callable[[Disk, Ends], Awaitable[None]]) -> Ends:
    """A story with one disk, which is closed at its end."""

    async def whole() -> Ends:
        disk, ends = Disk(folder), Ends()
        try:
            await story(disk, ends)
        finally:
            disk.close()
        return ends

    return asyncio.run(whole())


def content(folder: Path) -> dict[str, bytes]:
    """All that a start would find."""
    disk = Disk(folder)
    try:
        return disk.read_all()
    finally:
        disk.close()


@pytest.mark.parametrize("data", [b"x", LARGE[:MIB], LARGE], ids=["small", "one slice", "more"])
def test_a_large_file_is_whole_when_it_is_reported(tmp_path: Path, data: bytes) -> None:
    async def story(disk: Disk, ends: Ends) -> None:
        disk.write(WriteFile(NAME, data), ends)
        await ends.wait(1)
        assert (tmp_path / NAME).read_bytes() == data

    assert run(tmp_path, story).found == [(NAME, None)]
    assert content(tmp_path) == {NAME: data}


def test_what_fails_at_once_is_reported_and_not_raised(tmp_path: Path) -> None:
    (tmp_path / "log").write_text("a file, and no folder")

    async def story(disk: Disk, ends: Ends) -> None:
        disk.write(WriteFile(NAME, b"x"), ends)
        assert ends.found == [], "not in the middle of the step"
        await ends.wait(1)

    [(path, error)] = run(tmp_path, story).found
    assert path == NAME
    assert isinstance(error, OSError)
    assert str(tmp_path / "log") in str(error)


def test_the_loop_and_the_log_go_on_meanwhile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate = Gate(monkeypatch)

    async def story(disk: Disk, ends: Ends) -> None:
        disk.write(WriteFile(NAME, LARGE), ends)
        assert await asyncio.to_thread(gate.reached.wait, WAIT_S)
        synced: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        disk.append(AppendFile("log/0.log", b"abc"))
        disk.sync(SyncFile("log/0.log", 3), lambda token, _: synced.set_result(token))
        disk.replace(ReplaceFile("log/quorum-state", b"1"))
        assert await asyncio.wait_for(synced, WAIT_S) == 3
        assert not (tmp_path / NAME).exists(), "not before it is durable"
        assert not ends.found
        gate.opened.set()
        await ends.wait(1)
        assert gate.count == 4, "three slices and the folder"

    run(tmp_path, story)
    found = content(tmp_path)
    assert found == {NAME: LARGE, "log/0.log": b"abc", "log/quorum-state": b"1"}


def test_two_at_once_are_both_written_in_order(tmp_path: Path) -> None:
    async def story(disk: Disk, ends: Ends) -> None:
        disk.write(WriteFile(NAME, LARGE), ends)
        disk.write(WriteFile("log/8.checkpoint", b"8"), ends)
        await ends.wait(2)

    found = run(tmp_path, story).found
    assert found == [(NAME, None), ("log/8.checkpoint", None)]
    assert content(tmp_path) == {NAME: LARGE, "log/8.checkpoint": b"8"}


@pytest.mark.parametrize("last", ["replaced", "written", "deleted", "appended"])
def test_what_follows_on_the_same_path_is_done_after_it(tmp_path: Path, last: str) -> None:
    async def story(disk: Disk, ends: Ends) -> None:
        disk.write(WriteFile(NAME, LARGE), ends)
        match last:
            case "replaced":
                disk.replace(ReplaceFile(NAME, b"later"))
            case "written":
                disk.write(WriteFile(NAME, b"later"), ends)
            case "deleted":
                disk.delete(DeleteFile(NAME))
            case _:
                disk.append(AppendFile(NAME, b"later"))
        await ends.wait(2 if last == "written" else 1)

    run(tmp_path, story)
    expected = {"deleted": {}, "appended": {NAME: LARGE + b"later"}}
    assert content(tmp_path) == expected.get(last, {NAME: b"later"})


@pytest.mark.parametrize("number", [errno.EIO, errno.ENOSPC])
def test_a_failure_in_the_thread_is_reported_with_the_file_and_leaves_what_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    gate = Gate(monkeypatch)
    gate.opened.set()

    async def story(disk: Disk, ends: Ends) -> None:
        disk.replace(ReplaceFile(NAME, b"before"))
        gate.error = OSError(number, os.strerror(number))
        disk.write(WriteFile(NAME, LARGE), ends)
        await ends.wait(1)

    ((path, error),) = run(tmp_path, story).found
    assert path == NAME
    assert (error.errno, error.filename) == (number, str(tmp_path / NAME))
    assert content(tmp_path) == {NAME: b"before"}


def test_what_is_no_error_of_the_system_is_reported_too_and_the_thread_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate = Gate(monkeypatch)
    gate.opened.set()

    async def story(disk: Disk, ends: Ends) -> None:
        disk.replace(ReplaceFile(NAME, b"before"))
        gate.error = MemoryError("no more")
        disk.write(WriteFile(NAME, LARGE), ends)
        await ends.wait(1)
        assert disk.read_all() == {NAME: b"before"}
        gate.error = None
        disk.write(WriteFile("log/8.checkpoint", b"8"), ends)
        await ends.wait(2)

    failed, after = run(tmp_path, story).found
    assert str(failed[1]) == f"[Errno 5] MemoryError: no more: '{tmp_path / NAME}'"
    assert after == ("log/8.checkpoint", None)


def test_so_is_one_of_a_sync(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(_fd: int) -> None:
        raise MemoryError("no more")

    async def synced(disk: Disk, token: int) -> OSError | None:
        done: asyncio.Future[OSError | None] = asyncio.get_running_loop().create_future()
        disk.sync(SyncFile("log/0.log", token), lambda _, error: done.set_result(error))
        return await asyncio.wait_for(done, WAIT_S)

    async def story(disk: Disk, _ends: Ends) -> None:
        disk.append(AppendFile("log/0.log", b"abc"))
        with monkeypatch.context() as patched:
            patched.setattr("os.fdatasync", broken)
            assert "MemoryError: no more" in str(await synced(disk, 1))
        assert await synced(disk, 2) is None

    run(tmp_path, story)


def test_closing_the_folder_gives_it_up_and_leaves_no_half(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate = Gate(monkeypatch)

    async def story(disk: Disk, ends: Ends) -> None:
        disk.replace(ReplaceFile(NAME, b"before"))
        disk.write(WriteFile(NAME, LARGE), ends)
        assert await asyncio.to_thread(gate.reached.wait, WAIT_S)
        asyncio.get_running_loop().call_later(0.05, gate.opened.set)
        threading.Timer(0.05, gate.opened.set).start()

    assert run(tmp_path, story).found == []
    assert gate.count == 1, "one of three slices"
    assert content(tmp_path) == {NAME: b"before"}


def test_a_process_that_is_killed_leaves_a_half_that_is_known_by_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate = Gate(monkeypatch)

    async def story(disk: Disk, ends: Ends) -> None:
        disk.write(WriteFile(NAME, LARGE), ends)
        assert await asyncio.to_thread(gate.reached.wait, WAIT_S)
        assert disk.read_all() == {f"{NAME}.part": b""}
        gate.opened.set()
        await ends.wait(1)

    run(tmp_path, story)


def test_one_that_would_take_the_last_space_is_not_begun(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is appended to the log meanwhile would find none, which ends a node."""
    real, left = os.fstatvfs, len(LARGE) + LOG_ROOM

    def small(fd: int) -> os.statvfs_result:
        found = list(real(fd))
        found[1:5] = [1, left, left, left]
        return os.statvfs_result(found)

    async def story(disk: Disk, ends: Ends) -> None:
        nonlocal left
        disk.write(WriteFile(NAME, LARGE), ends)
        await ends.wait(1)
        left -= 1
        disk.write(WriteFile("log/8.checkpoint", LARGE), ends)
        await ends.wait(2)

    monkeypatch.setattr("os.fstatvfs", small)
    fits, fails = run(tmp_path, story).found
    assert fits == (NAME, None)
    assert (fails[1].errno, fails[1].filename) == (errno.ENOSPC, str(tmp_path / "log/8.checkpoint"))
    assert content(tmp_path) == {NAME: LARGE}


BOUNDED = """
import asyncio, resource, sys
from pathlib import Path
from emulator.io.disk import Disk
from emulator.seam import AppendFile, WriteFile

async def story():
    disk, ended = Disk(Path(sys.argv[1])), asyncio.get_running_loop().create_future()
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))
    disk.write(WriteFile("log/7.checkpoint", bytes(150_000)), lambda *end: ended.set_result(end))
    path, error = await ended
    disk.append(AppendFile("log/0.log", b"abc"))
    disk.close()
    print(path, error.errno, error.filename.endswith(path))

asyncio.run(story())
"""


def test_one_that_the_system_ends_in_the_middle_leaves_nothing(tmp_path: Path) -> None:
    command = [sys.executable, "-c", BOUNDED, str(tmp_path)]
    ended = subprocess.run(command, capture_output=True, text=True, check=True)
    assert ended.stdout.split() == [NAME, str(errno.EFBIG), "True"]
    assert content(tmp_path) == {"log/0.log": b"abc"}
