"""Build what is installed, and try it: ``python -m tools.package``; exit code 1: a check failed.

Built is the last commit, of a clone of its own, and that twice: wheel and sdist must have the same
bytes. Beside them in the folder of ``--out`` are written ``sbom.cdx.json`` (CycloneDX, of what the
wheel with all extras installs), ``notes.md`` (docs/changes, as towncrier puts them together) and
``SHA256SUMS``. Then the wheel is installed with each set of extras; see ``tools.installed``.
"""

import argparse
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
import tomllib
import zipfile
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from emulator.servers.java import JavaNotFoundError, find_java
from tools import installed
from tools.recorded import ROOT, changed, commit, git

PACKAGES = ("emulator", "wire", "bench")
ENVIRONMENTS = ROOT / ".cache" / "package"
ALL = "all"


class PackageError(RuntimeError):
    """What a check found; the message says it."""


def run(command: Sequence[str | Path], folder: Path = ROOT, **environment: str) -> str:
    """What a program prints.

    Raises:
        PackageError: it ended otherwise than with 0.
    """
    done = subprocess.run(
        command,
        cwd=folder,
        env=os.environ | environment,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        words = " ".join(map(str, command))
        raise PackageError(f"{words} ended with {done.returncode}: {done.stderr[-2000:]}")
    return done.stdout


def build(folder: Path, epoch: str) -> Path:
    """Clone the last commit into a folder, and build it; returns the folder with what was built."""
    source, target = folder / "source", folder / "built"
    run(["git", "clone", "-q", ROOT, source])
    hatchling = [sys.executable, "-m", "hatchling", "build", "-d", str(target)]
    run(hatchling, source, SOURCE_DATE_EPOCH=epoch)
    return target


def digests(folder: Path) -> dict[str, str]:
    """The name of each file of a folder and its SHA-256."""
    files = sorted(one for one in folder.iterdir() if one.is_file())
    return {one.name: hashlib.sha256(one.read_bytes()).hexdigest() for one in files}


def build_twice(out: Path, epoch: str) -> str:
    """Build in two folders of other names, compare, and move the first to ``out``."""
    with tempfile.TemporaryDirectory() as first, tempfile.TemporaryDirectory() as second:
        one, other = build(Path(first), epoch), build(Path(second) / "deeper", epoch)
        if digests(one) != digests(other):
            raise PackageError(f"the bytes differ: {digests(one)}, then {digests(other)}")
        for file in one.iterdir():
            shutil.move(file, out / file.name)
    return ", ".join(f"{file.name} {file.stat().st_size:,} B" for file in sorted(out.iterdir()))


def contents(wheel: Path) -> str:
    """Compare the files of the wheel with those of the commit."""
    with zipfile.ZipFile(wheel) as archive:
        held = {name for name in archive.namelist() if ".dist-info/" not in name}
    wanted = set((git("ls-tree", "-r", "--name-only", "HEAD", *PACKAGES) or "").split())
    if held != wanted:
        raise PackageError(f"too many: {sorted(held - wanted)}; missing: {sorted(wanted - held)}")
    return f"{len(held)} files, those of {', '.join(PACKAGES)} in the commit"


def environment(name: str) -> Path:
    """The programs of packaging/NAME.txt, in an environment that is made anew if it has changed."""
    pins = ROOT / "packaging" / f"{name}.txt"
    folder = ENVIRONMENTS / name
    mark = folder / "installed.txt"
    if not mark.exists() or mark.read_bytes() != pins.read_bytes():
        run([sys.executable, "-m", "venv", "--clear", folder])
        run([folder / "bin/pip", "install", "-q", "--require-hashes", "-r", pins])
        mark.write_bytes(pins.read_bytes())
    return folder / "bin"


def notes(out: Path, version: str, date: str) -> str:
    """Write the release notes; each file of docs/changes must be in them."""
    command: list[str | Path] = [
        environment("tools") / "towncrier",
        "build",
        "--draft",
        "--version",
        version,
        "--date",
        date,
    ]
    text = run(command)
    told = [line for line in text.splitlines() if line.startswith("- ")]
    files = [one for one in (ROOT / "docs/changes").glob("*.md") if one.name != "README.md"]
    if len(told) != len(files):
        raise PackageError(f"{len(files)} files in docs/changes, {len(told)} entries in the notes")
    (out / "notes.md").write_text(text[text.index("## ") :].rstrip() + "\n")
    return f"{len(told)} changes"


def sbom(out: Path, python: Path) -> str:
    """Write what an environment holds, as CycloneDX; the wheel itself is the main component."""
    file = out / "sbom.cdx.json"
    options = ["--output-reproducible", "--of", "JSON", "--mc-type", "application"]
    source: list[str | Path] = ["--pyproject", ROOT / "pyproject.toml", "-o", file]
    run([environment("tools") / "cyclonedx-py", "environment", *options, *source, python])
    names = installed.names_in(file)
    if missing := {"kazoo", "msgspec", "pyspark"} - names:
        raise PackageError(f"{file.name} lacks {missing}")
    return f"{len(names)} components"


def sets(extras: Sequence[str]) -> dict[str, list[str]]:
    """Each set of extras by its name: none, each alone, all."""
    return {"none": [], **{one: [one] for one in extras}, ALL: list(extras)}


def try_it(out: Path, wheel: Path, name: str, extras: list[str]) -> str:
    """Install the wheel with a set of extras and run verbs; of all extras also the SBOM."""
    with tempfile.TemporaryDirectory() as folder:
        home = installed.install(Path(folder) / "venv", wheel, extras, run)
        java = "java" in extras or has_java()
        ran = installed.run_verbs(home, Path(folder), spark="spark" in extras, java=java)
        if name == ALL:
            ran += f"; sbom.cdx.json: {sbom(out, home / 'python')}"
    return ran


def has_java() -> bool:
    """Whether this machine has a Java that Spark runs with."""
    try:
        find_java()
    except JavaNotFoundError:
        return False
    return True


def main() -> int:
    """Do each step and say what it found; returns the exit code."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    every = sets(sorted(project["optional-dependencies"]))
    parser = argparse.ArgumentParser(prog="python -m tools.package")
    parser.add_argument("--out", type=Path, default=ROOT / "dist", help="made anew")
    parser.add_argument("--sets", default=",".join(every), help="of extras that are tried")
    given = parser.parse_args()
    head = commit()
    if head is None:
        sys.stderr.write("make package builds a commit: run it in a git checkout\n")
        return 2
    epoch, date = run(["git", "log", "-1", "--format=%ct %cs"]).split()
    for name in changed(head) or ():
        sys.stderr.write(f"not in the package, as it is not committed: {name}\n")
    shutil.rmtree(given.out, ignore_errors=True)
    given.out.mkdir(parents=True)
    wheel = given.out / f"kraft_bridge-{project['version']}-py3-none-any.whl"
    steps: dict[str, Callable[[], str]] = {
        "built twice, the same bytes": lambda: build_twice(given.out, epoch),
        "the wheel holds what it has to": lambda: contents(wheel),
        "release notes": lambda: notes(given.out, project["version"], date),
    } | {
        f"installed with extras: {name}": partial(try_it, given.out, wheel, name, every[name])
        for name in given.sets.split(",")
    }
    failed = [name for name, step in steps.items() if not run_step(name, step)]
    sums = "".join(f"{digest}  {name}\n" for name, digest in digests(given.out).items())
    (given.out / "SHA256SUMS").write_text(sums)
    verdict = f"FAILED: {'; '.join(failed)}" if failed else f"OK: {len(steps)} checks"
    print(f"package {verdict}; commit {head}; {given.out}")
    return 1 if failed else 0


def run_step(name: str, step: Callable[[], str]) -> bool:
    """Do a step, and print its result; False if it failed."""
    try:
        found = step()
    except (PackageError, installed.VerbError, OSError) as error:
        print(f"FAILED {name}: {error}", flush=True)
        return False
    print(f"OK     {name}: {found}", flush=True)
    return True


if __name__ == "__main__":
    sys.exit(main())
