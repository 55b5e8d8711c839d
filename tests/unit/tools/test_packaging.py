"""What is packaged: types, metadata, and the unit of systemd."""

from __future__ import annotations

import configparser
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
import trove_classifiers
from hatchling.metadata.core import ProjectMetadata
from hatchling.plugin.manager import PluginManager

from emulator.commands.exits import ExitCode
from emulator.node.stopping import DRAIN_MS_MAX, HANDING_OVER_MS_MAX

ROOT = Path(__file__).resolve().parents[3]
UNIT = ROOT / "packaging/kraft-bridge-controller.service"


@pytest.fixture(scope="module")
def metadata() -> ProjectMetadata[PluginManager]:
    return ProjectMetadata(str(ROOT), PluginManager())


def test_every_package_has_its_types(metadata: ProjectMetadata[PluginManager]) -> None:
    packages = metadata.config["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"]
    assert packages
    assert all((ROOT / one / "py.typed").is_file() for one in packages)


def test_the_metadata_is_of_this_repository(metadata: ProjectMetadata[PluginManager]) -> None:
    core = metadata.core
    assert (core.readme_path, core.license_expression) == ("README.md", "Apache-2.0")
    assert core.license_files == ["LICENSE"]
    assert "Apache License" in (ROOT / "LICENSE").read_text()
    assert {*core.classifiers} <= trove_classifiers.classifiers
    assert "Typing :: Typed" in core.classifiers
    lowest = re.search(r"[0-9.]+", core.requires_python)
    assert lowest
    assert f"Programming Language :: Python :: {lowest[0]}" in core.classifiers
    assert core.urls == {}, "there is no host to name"


def settings(section: str) -> dict[str, str]:
    read = configparser.ConfigParser(interpolation=None, strict=False)
    read.optionxform = str  # type: ignore[assignment,method-assign]  # keys keep their letters
    read.read_string(UNIT.read_text())
    return dict(read[section])


def problems(text: str, folder: Path) -> Iterator[str]:
    """What systemd itself says of a unit."""
    file = folder / UNIT.name
    file.write_text(text)
    done = subprocess.run(
        ["systemd-analyze", "verify", str(file)], capture_output=True, text=True, check=False
    )
    yield from (line for line in done.stderr.splitlines() if UNIT.name in line)
    if done.returncode:
        yield f"exit code {done.returncode}"


def test_the_unit_starts_a_controller_and_gives_it_time_to_end() -> None:
    service = settings("Service")
    program, verb, option, file, *_ = service["ExecStart"].split()
    assert (Path(program).name, verb, option) == ("kraft-bridge", "controller", "-c")
    assert Path(file).is_absolute()
    assert int(service["TimeoutStopSec"]) * 1_000 > max(DRAIN_MS_MAX, HANDING_OVER_MS_MAX)
    assert service["RestartPreventExitStatus"] == str(int(ExitCode.WRONG))
    assert (service["UMask"], service["StateDirectoryMode"]) == ("0077", "0700")
    page = (ROOT / "docs/service.md").read_text()
    assert f"`/var/lib/{service['StateDirectory']}`" in page
    assert file in page
    assert f"for {DRAIN_MS_MAX // 1_000} if it is the only one" in page
    assert f"TimeoutStopSec={service['TimeoutStopSec']}" in page


@pytest.mark.skipif(not shutil.which("systemd-analyze"), reason="systemd is not installed")
def test_systemd_finds_nothing_wrong_with_the_unit(tmp_path: Path) -> None:
    program = settings("Service")["ExecStart"].split()[0]
    text = UNIT.read_text().replace(program, shutil.which("true") or "")
    assert list(problems(text, tmp_path)) == []
    for wrong in (("Restart=on-failure", "Restart=sometimes"), ("UMask=", "UMaks=")):
        assert list(problems(text.replace(*wrong), tmp_path))
