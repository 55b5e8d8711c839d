"""What the environment lacks is said before anything is made."""

from __future__ import annotations

import sys
from types import SimpleNamespace

import pytest

from tools import bootstrap


@pytest.fixture
def disks(monkeypatch):
    """Let each folder have a disk: folder -> device, GB free."""

    def be(found):
        monkeypatch.setattr(
            bootstrap.os, "stat", lambda folder: SimpleNamespace(st_dev=found[folder][0])
        )
        monkeypatch.setattr(
            bootstrap.shutil, "disk_usage", lambda folder: SimpleNamespace(free=found[folder][1])
        )

    return be


def test_too_little_room_is_one_sentence_and_nothing_is_made(monkeypatch, tmp_path):
    monkeypatch.setattr(bootstrap.shutil, "disk_usage", lambda _: SimpleNamespace(free=1e9))
    monkeypatch.setattr(sys, "argv", ["bootstrap.py", str(tmp_path / "venv"), "lock"])
    with pytest.raises(SystemExit, match=r"has 1\.0 GB free and .* need \d\.\d GB there") as ended:
        bootstrap.main()
    assert "\n" not in ended.value.code
    assert list(tmp_path.iterdir()) == []


def test_temporary_files_need_room_too_on_the_same_disk_or_on_another(disks):
    disks({"here": (1, 3e9), "there": (1, 3e9)})
    assert "The disk of here has 3.0 GB free" in bootstrap.too_little("here", "there")
    disks({"here": (1, 3e9), "there": (2, 3e9)})
    assert bootstrap.too_little("here", "there") is None
    disks({"here": (1, 3e9), "there": (2, 1e9)})
    assert "The disk of there has 1.0 GB free" in bootstrap.too_little("here", "there")
