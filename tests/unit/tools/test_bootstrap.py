"""What the environment lacks is said before anything is made."""

from __future__ import annotations

import io
import json
import os
import platform
import subprocess
import sys
import threading
import time
from pathlib import Path
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
    monkeypatch.setattr(sys, "argv", ["bootstrap.py", str(tmp_path / "venv"), "lock", ""])
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
            argv=["bootstrap.py", "venv", "lock", ""], stderr=said, version_info=sys.version_info
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


@pytest.fixture
def pythons(monkeypatch, tmp_path):
    """Put these on PATH: name -> the folder of its files, able, seconds; None: it is broken."""

    def be(*found):
        folders = []
        for number, (name, answer) in enumerate(found):
            folder = tmp_path / f"path{number}"
            folder.mkdir()
            prefix, able, seconds = answer or ("", False, 0)
            printed = json.dumps([prefix, "3.11.9", able, seconds])
            text = f"echo '{printed}'" if answer else "echo no such version; exit 127"
            (folder / name).write_text(f"#!/bin/sh\n{text}\n")
            (folder / name).chmod(0o755)
            folders.append(str(folder))
        monkeypatch.setenv("PATH", os.pathsep.join([*folders, "/nowhere"]))
        return [f"{folder}/{name}" for folder, (name, _) in zip(folders, found, strict=True)]

    return be


def test_the_fastest_build_is_taken_and_the_line_says_why(pythons):
    slow, _, _, fast, _ = pythons(
        ("python3.11", ("/slow", True, 0.030)),
        ("python3.11", None),
        ("python3.11", ("/unable", False, 0.001)),
        ("python3.11", ("/fast", True, 0.020)),
        ("python3.13", ("/untried", True, 0.002)),
    )
    path, why = bootstrap.fastest()
    assert path == fast
    others = f"; a loop takes there, with 1 for this one: 1.50 {slow}"
    assert why == f"Python 3.11.9, {fast}{others} (PYTHON=... takes another)"


def test_of_builds_that_are_equally_fast_the_first_one_is_taken(pythons):
    first, *_ = pythons(
        ("python3.11", ("/one", True, 0.0200)),
        ("python3.11", ("/two", True, 0.0195)),
        ("python3.11", ("/one", True, 0.0100)),
    )
    assert bootstrap.fastest()[0] == first, "the third one is the first one by another name"


def test_another_version_is_taken_where_the_first_one_is_not_there(pythons):
    _, later = pythons(("python3.11", None), ("python3.13", ("/later", True, 0.0200)))
    assert bootstrap.fastest()[0] == later


def test_where_none_can_make_an_environment_none_is_taken(pythons):
    pythons(("python3.12", None))
    assert bootstrap.fastest() == (None, "")


def test_the_loop_tells_what_is_chosen_by():
    done = subprocess.run(
        [sys.executable, "-I", "-c", bootstrap.LOOP], capture_output=True, check=True
    )
    prefix, version, able, seconds = json.loads(done.stdout)
    assert (prefix, version) == (sys.base_prefix, platform.python_version())
    assert isinstance(able, bool)
    assert seconds > 0


@pytest.mark.parametrize(
    ("given", "made", "run"),
    [
        ([], False, "/fast"),
        ([], True, "venv/bin/python"),
        (["/mine/python3.12"], False, "/mine/python3.12"),
        (["/mine/python3.12"], True, "/mine/python3.12"),
    ],
)
def test_it_goes_on_with_the_python_that_is_given_there_or_chosen(
    monkeypatch, tmp_path, given, made, run
):
    begun = []

    def become(*command):
        begun.append(command)
        raise SystemExit

    target = "venv"
    monkeypatch.chdir(tmp_path)
    if made:
        own = tmp_path / "venv" / "bin" / "python"
        own.parent.mkdir(parents=True)
        own.touch()
    program = str(Path(bootstrap.__file__).absolute())
    monkeypatch.setattr(bootstrap, "fastest", lambda: ("/fast", "it is"))
    monkeypatch.setattr(bootstrap.os, "execvp", become)
    monkeypatch.setattr(sys, "argv", ["bootstrap.py", target, "lock", *given])
    with pytest.raises(SystemExit):
        bootstrap.main()
    assert begun == [(run, [run, program, target, "lock", ""])]
