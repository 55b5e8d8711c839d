"""Files: appended, synced, replaced, and owned by one process."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from emulator.io.disk import Disk, FolderLockedError
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


def test_an_unfinished_replace_leaves_nothing_behind(tmp_path: Path) -> None:
    (tmp_path / "state.part").write_bytes(b"half")
    disk = Disk(tmp_path)
    assert disk.read_all() == {}
    disk.close()
