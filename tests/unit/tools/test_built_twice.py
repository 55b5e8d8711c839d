"""What is built of one commit: the same bytes each time, all that a run needs, and the commit."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
PACKAGES = ("emulator", "wire", "bench")
pytestmark = pytest.mark.skipif(not (ROOT / ".git").exists(), reason="not a git checkout")


def git(folder: Path, *arguments: str) -> str:
    done = subprocess.run(
        ["git", *arguments], cwd=folder, check=True, capture_output=True, text=True
    )
    return done.stdout


def built(source: Path, target: Path, epoch: str) -> Path:
    """Build wheel and sdist of a folder; returns where they are."""
    command = [sys.executable, "-m", "hatchling", "build", "-d", str(target)]
    environment = os.environ | {"SOURCE_DATE_EPOCH": epoch}
    subprocess.run(command, cwd=source, env=environment, check=True, capture_output=True)
    return target


@pytest.fixture(scope="session")
def twice(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Two folders with what was built, each of a clone of its own of the last commit."""
    folder, found = tmp_path_factory.mktemp("built"), []
    epoch = git(ROOT, "log", "-1", "--format=%ct").strip()
    for number in range(2):
        clone = folder / f"clone{number}" / ("deeper" * number)
        git(ROOT, "clone", "-q", str(ROOT), str(clone))
        found.append(built(clone, folder / f"built{number}", epoch))
    return found


def files(wheel: Path) -> dict[str, bytes]:
    with zipfile.ZipFile(wheel) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def the(folder: Path, pattern: str) -> Path:
    (found,) = folder.glob(pattern)
    return found


def test_the_same_bytes_twice(twice: list[Path]) -> None:
    first, second = ({one.name: one.read_bytes() for one in each.iterdir()} for each in twice)
    assert len(first) == 2
    assert first == second


def test_the_wheel_holds_the_files_of_its_packages_and_nothing_else(twice: list[Path]) -> None:
    held = {name for name in files(the(twice[0], "*.whl")) if ".dist-info/" not in name}
    assert held == {*git(ROOT, "ls-tree", "-r", "--name-only", "HEAD", *PACKAGES).split()}


def test_wheel_and_sdist_have_the_commit_and_so_has_a_wheel_of_the_sdist(
    twice: list[Path], tmp_path: Path
) -> None:
    head = git(ROOT, "rev-parse", "HEAD")
    name = "kraft_bridge-0.1.0.dist-info/extra_metadata/commit"
    of_checkout = files(the(twice[0], "*.whl"))
    assert of_checkout[name].decode() == head
    with tarfile.open(the(twice[0], "*.tar.gz")) as archive:
        # The argument of this name came with 3.11.4.
        archive.extraction_filter = getattr(tarfile, "data_filter", None)
        archive.extractall(tmp_path)
    source = the(tmp_path, "kraft_bridge-*")
    assert (source / "COMMIT").read_text() == head
    assert files(the(built(source, tmp_path / "again", "0"), "*.whl")) == of_checkout


def test_a_build_with_changes_says_so_and_one_of_nothing_known_says_nothing(
    twice: list[Path], tmp_path: Path
) -> None:
    clone = twice[0].parent / "clone0"
    (clone / "README.md").write_text("changed")
    changed = files(the(built(clone, tmp_path / "changed", "0"), "*.whl"))
    (text,) = (each for name, each in changed.items() if name.endswith("extra_metadata/commit"))
    assert text.decode() == git(ROOT, "rev-parse", "HEAD").strip() + " and changes\n"
    shutil.rmtree(clone / ".git")
    unknown = files(the(built(clone, tmp_path / "unknown", "0"), "*.whl"))
    assert not [name for name in unknown if "extra_metadata" in name]
