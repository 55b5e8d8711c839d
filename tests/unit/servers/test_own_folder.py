"""A name below the temporary folder that anybody may take first."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest

from emulator.servers import own_folder as module
from emulator.servers import ports
from emulator.servers.own_folder import own_folder, private_folder


@pytest.fixture
def name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    private_folder.cache_clear()
    return tmp_path / f"kraft-bridge-{os.getuid()}"


def open_to_all(at: Path) -> None:
    at.mkdir()
    at.chmod(0o777)


def linked(at: Path) -> None:
    (at.parent / "elsewhere").mkdir(mode=0o700)
    at.symlink_to(at.parent / "elsewhere")


TAKEN: dict[str, Callable[[Path], object]] = {
    "a file": Path.touch,
    "a folder that anybody can write": open_to_all,
    "a link to a folder of this user": linked,
    "a link to nowhere": lambda at: at.symlink_to(at.parent / "nothing"),
}


def test_it_is_made_for_this_user_alone_and_found_again(name: Path) -> None:
    assert own_folder() == own_folder() == private_folder(1) == name
    assert name.stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize("take", TAKEN.values(), ids=list(TAKEN))
def test_what_another_could_have_made_is_not_used(
    name: Path, take: Callable[[Path], object]
) -> None:
    take(name)
    assert own_folder() is None
    made = private_folder(1)
    assert made not in {name, name.parent / "elsewhere"}
    assert made.stat().st_mode & 0o777 == 0o700
    assert private_folder(1) == made


def test_a_folder_of_another_user_is_not_used(name: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    uid = os.getuid()
    name.mkdir(mode=0o700)
    assert own_folder() == name
    monkeypatch.setattr(module.os, "getuid", lambda: uid + 1)
    name.rename(name.with_name(f"kraft-bridge-{uid + 1}"))
    assert own_folder() is None
    ports._claims.cache_clear()
    assert ports._claims(-1) is None, "nor is the file of ports in it opened"
    ports._claims.cache_clear()
