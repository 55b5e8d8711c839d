"""The two images of the wheel, each built twice: ``make images``; exit code 1: a check failed.

Both builds begin from the base image alone. They must have the same list of files, with the same
owners, modes and SHA-256; times are not compared. ``--wheel`` only sees that dist/ has the wheel of
the last commit, as `make compose` needs it. Lists of files go to the folder of ``--out``.
"""

import argparse
import hashlib
import json
import os
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from bench.compose.engine import Engine, EngineError, base_image, find
from tools.recorded import ROOT, commit

BUILD_S = 1800.0
ASK_S = 120.0
SHOWN_MAX = 20


class ImageError(RuntimeError):
    """What is wrong with an image; the message says it."""


class Image(NamedTuple):
    """One of the images.

    ``bytes_max``: on top of its base; 0 is no limit. ``lacks``: names that no file of it may have.
    """

    name: str
    dockerfile: str
    bytes_max: int = 0
    lacks: tuple[str, ...] = ()


IMAGES = (
    Image("kraft-bridge-only", "packaging/Dockerfile", 130_000_000, ("java", "pyspark", "pip")),
    Image("kraft-bridge", "compose/Dockerfile"),
)
"""The product alone, and what compose/ runs."""


def wheel_of(dist: Path, head: str | None) -> Path | None:
    """The wheel in a folder if it is the only one and of a commit; else None."""
    wheels = list(dist.glob("*.whl"))
    if head is None or len(wheels) != 1:
        return None
    with zipfile.ZipFile(wheels[0]) as archive:
        written = [name for name in archive.namelist() if name.endswith("/extra_metadata/commit")]
        found = archive.read(written[0]).decode().strip() if written else ""
    return wheels[0] if found == head else None


def see_wheel() -> Path:
    """The wheel of the last commit in dist/; it is built if it is not there.

    Raises:
        ImageError: it cannot be built.
    """
    dist, head = ROOT / "dist", commit()
    if found := wheel_of(dist, head):
        return found
    command = [sys.executable, "-m", "tools.package", "--sets", "none"]
    done = subprocess.run(command, cwd=ROOT, check=False)
    if done.returncode == 0 and (found := wheel_of(dist, head)):
        return found
    raise ImageError("dist/ has no wheel of the last commit: 'make package SETS=none' says why")


def files(tar: tarfile.TarFile) -> Iterator[str]:
    """A line for each file of an exported image: kind, mode, owner, content, path."""
    for one in tar:
        content = one.linkname
        if one.isreg():
            opened = tar.extractfile(one)
            content = hashlib.sha256(opened.read()).hexdigest() if opened else ""
        kind = one.type.decode()
        yield f"{kind} {one.mode:04o} {one.uid}:{one.gid} {content or '-'} {one.name}"


def ask(engine: Engine, *words: str, timeout_s: float = ASK_S) -> str:
    """What the engine's program prints.

    Raises:
        ImageError: it ended otherwise than with 0.
    """
    code, output = engine.run([engine.build[0], *words], timeout_s)
    if code:
        raise ImageError(f"{engine.build[0]} {' '.join(words)} ended with {code}: {output[-2000:]}")
    return output.strip()


@contextmanager
def container(engine: Engine, image: str) -> Iterator[str]:
    """A container of an image, which is never started; gives its id."""
    made = ask(engine, "create", image).split()[-1]
    try:
        yield made
    finally:
        ask(engine, "rm", made)


def listed(engine: Engine, image: str) -> list[str]:
    """The files of an image, in the order of their paths."""
    with (
        container(engine, image) as made,
        subprocess.Popen(
            [engine.build[0], "export", made],
            stdout=subprocess.PIPE,
            env={**os.environ, **engine.environment},
        ) as exporting,
        tarfile.open(fileobj=exporting.stdout, mode="r|") as tar,
    ):
        return sorted(files(tar), key=lambda line: line.split(" ", 4)[4])


def differences(first: Sequence[str], second: Sequence[str]) -> list[str]:
    """The paths whose lines are not in both lists."""
    return sorted({line.split(" ", 4)[4] for line in {*first} ^ {*second}})


def build(engine: Engine, image: Image, tag: str) -> list[str]:
    """Build an image from its base alone; returns its files.

    Raises:
        ImageError: it failed.
    """
    words = ["-f", image.dockerfile, "-t", tag, "--no-cache", "."]
    code, output = engine.run([*engine.build, *words], BUILD_S)
    if code:
        raise ImageError(f"{image.dockerfile} cannot be built: {output[-3000:]}")
    return listed(engine, tag)


def judge(image: Image, more: int, user: str, said: str, head: str | None) -> None:
    """See that an image is what it has to be.

    Args:
        image: which.
        more: its size beyond that of its base, in bytes.
        user: that its processes run as.
        said: what ``--version`` prints.
        head: the last commit.

    Raises:
        ImageError: it is not.
    """
    if image.bytes_max and more > image.bytes_max:
        raise ImageError(f"{image.name}: {more:,} B on its base, {image.bytes_max:,} may be")
    if user in {"", "0", "root"}:
        raise ImageError(f"{image.name} runs as root")
    if head is None or head not in said:
        raise ImageError(f"{image.name} is not of {head}: {said}")


def lacking(image: Image, lines: Sequence[str]) -> None:
    """See that an image has none of the programs that it has to lack.

    Raises:
        ImageError: it has one.
    """
    if found := [one for one in lines if one.rsplit("/", 1)[-1] in image.lacks]:
        raise ImageError(f"{image.name} has what it must not have: {found[:SHOWN_MAX]}")


def twice(engine: Engine, image: Image, out: Path) -> str:
    """Build an image twice, compare and judge it; returns what was found, in words.

    Raises:
        ImageError: it is not what it has to be.
    """
    again = f"{image.name}:again"
    first = build(engine, image, image.name)
    (out / f"{image.name}.files").write_text("\n".join(first) + "\n")
    second = build(engine, image, again)
    (out / f"{image.name}.again.files").write_text("\n".join(second) + "\n")
    ask(engine, "rmi", again)
    if wrong := differences(first, second):
        raise ImageError(f"{image.name}: {len(wrong)} files differ: {wrong[:SHOWN_MAX]}")
    lacking(image, first)
    (about,) = json.loads(ask(engine, "image", "inspect", image.name))
    (base,) = json.loads(ask(engine, "image", "inspect", "docker.io/library/debian:bookworm-slim"))
    ran = ["run", "--rm", "--network", "none", "--entrypoint", "kraft-bridge"]
    said = ask(engine, *ran, image.name, "--version")
    more = about["Size"] - base["Size"]
    judge(image, more, about["Config"]["User"], said, commit())
    return f"{len(first):,} files, the same twice; {more:,} B on its base of {base['Size']:,} B"


def main() -> int:
    """Build and compare; returns the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tools.images", description=__doc__)
    parser.add_argument("--out", type=Path, default=ROOT / "out/images")
    parser.add_argument("--wheel", action="store_true", help="only see that there is the wheel")
    names = [one.name for one in IMAGES]
    parser.add_argument("--only", choices=names, help="this image; default: both")
    given = parser.parse_args()
    given.out.mkdir(parents=True, exist_ok=True)
    try:
        see_wheel()
        if given.wheel:
            return 0
        engine = find()
        base_image(engine)
        for image in IMAGES:
            if given.only in {None, image.name}:
                print(f"OK     {image.name}: {twice(engine, image, given.out)}", flush=True)
    except (EngineError, ImageError) as failed:
        print(f"FAILED: {failed}", flush=True)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
