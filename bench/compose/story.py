"""``make compose``: build the image, and run every command of ``compose/README.md``.

Everything is taken down at the end, whatever happened; after ``--only migration`` its trace is
left, for ``--only analysis``. Exit code 1: a command failed, or did not say or leave what it has
to, or a container or a volume is left, or nothing here runs containers.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from bench.compose import stories
from bench.compose.engine import Engine, EngineError, base_image, check_ports, find
from bench.compose.stories import Command
from bench.lines import print_line
from emulator.servers.waiting import wait_for

_COMMAND_S: Final = 600.0
_BUILD_S: Final = 1800.0
_HEALTHY_S: Final = 90.0
_PAGE_S: Final = 10.0
_DOWN: Final = (
    "docker compose -f compose/analysis.yaml down",
    "docker compose -f compose/migration.yaml down",
)
_FORGET: Final = "docker compose -f compose/migration.yaml down --volumes"
_REPORT_BYTES_MIN: Final = 20_000
_PROJECT: Final = "kraft-bridge-"
_NAMELESS: Final = re.compile("[0-9a-f]{64}")


class StoryError(RuntimeError):
    """A command did not do what it has to; the message names it."""


def play(engine: Engine, commands: Sequence[Command], folder: Path) -> None:
    """Run commands in their order.

    Raises:
        EngineError: a port is taken.
        StoryError: one failed.
    """
    for one in commands:
        begun = time.monotonic()
        words = engine.words(one.text)
        print_line(f"$ {one.text}")
        check_ports(engine, one.text)
        limit = _BUILD_S if one in stories.BUILD else _COMMAND_S
        try:
            code, output = engine.run(words, limit)
        except subprocess.TimeoutExpired as late:
            raise StoryError(f"{one.text}: {late}") from late
        missing = [each for each in one.expected if each not in output]
        if code != 0 or missing:
            raise StoryError(f"{one.text} ended with {code}, without {missing}:\n{output[-4000:]}")
        if " > " in one.text:
            _kept(folder / one.text.partition(" > ")[2], output)
        if one.healthy:
            _all_healthy(engine, one.text.split()[3])
        for url in one.opens:
            _opened(url)
        print_line(f"OK {time.monotonic() - begun:.1f} s")


def volumes(engine: Engine) -> frozenset[str]:
    """Names of all volumes of the machine; one without a name of its own has 64 hex digits."""
    _, output = engine.run([_program(engine), "volume", "ls", "-q"], _COMMAND_S)
    return frozenset(output.split())


def nothing_left(engine: Engine, before: frozenset[str]) -> None:
    """See that no container and no volume of the stories is there.

    Args:
        engine: as the stories were run.
        before: the volumes before the stories; volumes with other names are of other programs.

    Raises:
        StoryError: one is left.
    """
    if left := _containers(engine):
        raise StoryError(f"containers are left: {left}")
    here = volumes(engine)
    ours = {name for name in here if name.startswith(_PROJECT)}
    ours |= {name for name in here - before if _NAMELESS.fullmatch(name)}
    if ours:
        raise StoryError(f"volumes are left: {sorted(ours)}")


def main() -> int:
    """Build, play the stories, take everything down; returns the exit code."""
    parser = argparse.ArgumentParser(prog="python -m bench.compose.story", description=__doc__)
    parser.add_argument(
        "--logs", type=Path, help="folder for what each container said, before it is taken down"
    )
    parser.add_argument("--only", choices=stories.STORIES, help="this one; default: all")
    given = parser.parse_args()
    try:
        engine = find()
        base_image(engine)
        _stories(engine, [given.only] if given.only else list(stories.STORIES), given.logs)
    except (EngineError, StoryError, TimeoutError) as error:
        sys.stderr.write(f"{error}\n")
        return 1
    except KeyboardInterrupt:
        sys.stderr.write("interrupted: what ran was taken down\n")
        return 130
    left = "the image and the trace" if given.only == "migration" else "the image"
    print_line(f"compose OK: {given.only or 'both stories'}; nothing is left but {left}")
    return 0


def _stories(engine: Engine, names: Sequence[str], logs: Path | None) -> None:
    """Play stories, and take down what they started.

    Raises:
        EngineError: a port is taken.
        StoryError: a command failed, or something is left.
    """
    _down(engine, forget="migration" in names)
    before = volumes(engine)
    with tempfile.TemporaryDirectory() as folder:
        try:
            for name in names:
                play(engine, stories.STORIES[name], Path(folder))
        finally:
            if logs is not None:
                _keep_logs(engine, logs)
            _down(engine, forget="analysis" in names)
    if "analysis" in names:
        nothing_left(engine, before)


def _kept(path: Path, text: str) -> None:
    path.write_text(text)
    if len(text) < _REPORT_BYTES_MIN or "</html>" not in text:
        raise StoryError(f"{path.name} is no report: {text[:400]!r}")


def _opened(url: str) -> None:
    try:
        with urllib.request.urlopen(url, timeout=_PAGE_S) as answer:  # noqa: S310 - of this machine
            answer.read()
    except OSError as error:
        raise StoryError(f"{url} does not open on this machine: {error}") from error
    print_line(f"  {url} opens")


def _down(engine: Engine, *, forget: bool) -> None:
    for command in (*_DOWN, *([_FORGET] if forget else [])):
        engine.run(engine.words(command), _COMMAND_S)


def _program(engine: Engine) -> str:
    return engine.build[0]


def _containers(engine: Engine, project: str = _PROJECT) -> list[str]:
    listed = ["ps", "--all", "--format", "{{.Names}}"]
    _, output = engine.run([_program(engine), *listed], _COMMAND_S)
    return [name for name in output.split() if name.startswith(project)]


def _keep_logs(engine: Engine, folder: Path) -> None:
    """Of the containers that are left: of all where a command failed."""
    folder.mkdir(parents=True, exist_ok=True)
    for name in _containers(engine):
        output = engine.run([_program(engine), "logs", name], _COMMAND_S)[1]
        (folder / f"{name}.log").write_text(output)


def _all_healthy(engine: Engine, file: str) -> None:
    """Wait until each health check holds; podman is asked to run them: nothing else may."""
    project = f"kraft-bridge-{Path(file).stem}"
    names = _containers(engine, project)
    if not names:
        raise StoryError(f"no container of {project} runs")

    def holds(name: str) -> bool:
        if _program(engine) == "podman":
            return engine.run(["podman", "healthcheck", "run", name], 60)[0] == 0
        shown = ["docker", "inspect", "--format", "{{.State.Health.Status}}", name]
        return engine.run(shown, 60)[1].strip() == "healthy"

    for name in names:
        wait_for(f"health of {name}", lambda each=name: holds(each), _HEALTHY_S)  # type: ignore[misc]  # mypy infers no type for a default
    print_line(f"  {len(names)} health checks hold")


if __name__ == "__main__":
    sys.exit(main())
