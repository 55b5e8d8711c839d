"""What the environment lacks is said before anything is made."""

from __future__ import annotations

import io
import os
import sys
import threading
import time
from types import SimpleNamespace

import pytest

from emulator.servers.waiting import wait_for
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


@pytest.fixture
def checkout(monkeypatch, tmp_path):
    """An empty one, with what was made in it, and what was said."""
    (tmp_path / "venv").mkdir()
    made, said = [], io.StringIO()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(
        bootstrap,
        "sys",
        SimpleNamespace(
            argv=["bootstrap.py", "venv", "lock"], stderr=said, version_info=sys.version_info
        ),
    )
    monkeypatch.setattr(bootstrap, "make", lambda *given: made.append(given))
    return SimpleNamespace(made=made, said=said, installed=tmp_path / "venv" / ".installed")


def test_what_was_made_is_marked(checkout):
    bootstrap.main()
    assert checkout.made == [("venv", "lock")]
    first = checkout.installed.stat().st_mtime_ns
    bootstrap.main()
    assert len(checkout.made) == 2, "the lock file is newer"
    assert checkout.installed.stat().st_mtime_ns > first
    assert checkout.said.getvalue() == ""


def test_a_second_make_waits_for_the_first_and_makes_nothing(checkout):
    with bootstrap.alone():
        second = threading.Thread(target=bootstrap.main)
        second.start()
        wait_for("its sentence", lambda: "waits for it" in checkout.said.getvalue())
        assert second.is_alive()
        checkout.installed.touch()
        # Times of files may be behind the time of day.
        late = time.time() - 1
        os.utime(checkout.installed, (late, late))
    second.join()
    assert checkout.made == []


def test_a_second_make_makes_what_the_first_one_could_not(checkout):
    with bootstrap.alone():
        second = threading.Thread(target=bootstrap.main)
        second.start()
        wait_for("its sentence", lambda: "waits for it" in checkout.said.getvalue())
    second.join()
    assert checkout.made == [("venv", "lock")]
    assert checkout.installed.exists()
