"""The shell blocks of the pages for users: who runs each, and running those that need no Java.

tools/blocks.toml lists them all. ``python -m tools.blocks`` runs what is listed as *here*, in an
empty folder; `make site` does that too. A server that a block starts runs until the end.
"""

import os
import re
import socket
import subprocess
import sys
import tempfile
import time
import tomllib
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final, NamedTuple, Self

from tools.recorded import ROOT, git

FILE: Final = Path(__file__).with_suffix(".toml")
REASONS: Final = frozenset(
    {
        "changes the machine",
        "needs other machines",
        "needs a cluster of yours",
        "needs what an earlier run has left",
    }
)
"""Why nobody runs a block: the only ones that are taken."""
NOT_RUN_MAX: Final = 0.15
_FENCE: Final = re.compile(r"^ *```(\w*)\n(.*?)^ *```$", re.MULTILINE | re.DOTALL)
_COMMAND: Final = re.compile(
    r"(coproc \w+ { exec )?"
    r"(kraft-bridge|make|docker|curl|useradd|kafka-\w+\.sh|(\.venv/bin/)?pip) "
)
_STAYS: Final = re.compile(r"kraft-bridge (controller|broker|wire record|wire show .*--follow) ")
"""A command that runs until it is ended."""
_NAMED: Final = re.compile(r"`([\w-]+\.properties)`:\n\n```\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_FOLDER: Final = "/var/lib/kraft-bridge"
_PATIENCE_S: Final = 60.0
PORTS: Final = (9092, 9093, 9404, 9405, 19092)


class BlockError(RuntimeError):
    """What is wrong with a block; the message says which and why."""


class Block(NamedTuple):
    """A block of a page: its commands, without the remarks behind them."""

    page: str
    commands: tuple[str, ...]


def blocks(page: str, text: str) -> list[Block]:
    r"""Those of a page that somebody would type.

    >>> blocks("p.md", "```\nmake demo  # once\n```\n")
    [Block(page='p.md', commands=('make demo',))]
    """
    found = []
    for language, code in _FENCE.findall(re.sub(r"\\\n\s*", "", text)):
        lines = [re.sub(r"\s+#.*", "", line).strip() for line in code.splitlines()]
        if language in {"", "sh", "bash"} and any(_COMMAND.match(line) for line in lines):
            found.append(Block(page, tuple(line for line in lines if line)))
    return found


def every() -> list[Block]:
    """Those of all pages for users."""
    names = (git("ls-files", "*.md") or "").split()
    users = [name for name in names if not name.startswith(("docs/dev/", "docs/changes/"))]
    pages = [name for name in users if name not in {"CONTRIBUTING.md", "ARCHITECTURE.md"}]
    return [one for page in pages for one in blocks(page, (ROOT / page).read_text())]


def listed() -> list[dict[str, str]]:
    """What the file says of each: ``page``, ``begins``, and ``here``, ``by`` or ``not_run``."""
    found: list[dict[str, str]] = tomllib.loads(FILE.read_text())["block"]
    return found


def matching(entry: dict[str, str], found: Sequence[Block]) -> list[Block]:
    """The blocks that an entry is about: one, if it is right."""
    page, begins = entry["page"], entry["begins"]
    return [one for one in found if one.page == page and one.commands[0].startswith(begins)]


def problems() -> Iterator[str]:
    """What is wrong with the list; nothing if each block is in it once, with who runs it."""
    found, entries = every(), listed()
    count: Counter[Block] = Counter()
    for entry in entries:
        name = f"{entry['page']}, {entry['begins']}"
        blocks_ = matching(entry, found)
        if len(blocks_) != int(entry.get("times", 1)):
            yield f"{name}: {len(blocks_)} blocks begin so"
        count.update(blocks_)
        if len({"here", "by", "not_run"} & entry.keys()) != 1:
            yield f"{name}: say one of here, by, not_run"
        if "not_run" in entry and entry["not_run"] not in REASONS:
            yield f"{name}: {entry['not_run']} is no reason; these are: {sorted(REASONS)}"
        by = entry.get("by", "make")
        if not by.startswith("make") and not (ROOT / by).is_file():
            yield f"{name}: there is no {by}"
    yield from (f"{one.page}, {one.commands[0]}: not listed" for one in found if one not in count)
    yield from (f"{one.page}, {one.commands[0]}: listed twice" for one in count if count[one] > 1)
    not_run = sum(int(entry.get("times", 1)) for entry in entries if "not_run" in entry)
    if not_run > NOT_RUN_MAX * len(found):
        yield f"{not_run} of {len(found)} blocks are run by nobody; at most {NOT_RUN_MAX:.0%} may"


class Shell:
    """Runs commands in a folder; servers run until the end of the block."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        beside = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
        self.environment = {**os.environ, "PATH": beside, "PYTHONPATH": str(ROOT)}
        self.servers: list[tuple[str, subprocess.Popen[bytes], Path]] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for one in reversed(self.servers):
            one[1].terminate()
            one[1].wait()

    def files(self, page: str) -> None:
        """Write the properties files that a page shows by name."""
        for name, text in _NAMED.findall((ROOT / page).read_text()):
            (self.folder / name).write_text(self._here(text))

    def type(self, command: str) -> None:
        """Start a server, or run a command until it ends with 0, as it may come too early.

        Raises:
            BlockError: it did not within a minute; a server has ended.
        """
        shown = self._here(command)
        if _STAYS.match(command):
            self._start(shown)
            return
        until = time.monotonic() + _PATIENCE_S
        while True:
            done = subprocess.run(
                ["timeout", str(_PATIENCE_S), "bash", "-o", "pipefail", "-c", shown],
                cwd=self.folder,
                env=self.environment,
                capture_output=True,
                text=True,
                check=False,
            )
            for name, server, output in self.servers:
                if server.poll() is not None:
                    raise BlockError(f"{name} has ended: {output.read_text()[-1000:]}")
            if done.returncode == 0:
                return
            if time.monotonic() > until:
                raise BlockError(f"{shown} ended with {done.returncode}: {done.stderr[-1000:]}")
            time.sleep(0.5)

    def _here(self, text: str) -> str:
        return text.replace(_FOLDER, str(self.folder))

    def _start(self, command: str) -> None:
        output = self.folder / f"{len(self.servers)}.txt"
        with output.open("wb") as file:
            server = subprocess.Popen(
                ["bash", "-c", f"exec {command}"],
                cwd=self.folder,
                env=self.environment,
                stdout=file,
                stderr=file,
            )
        self.servers.append((command, server, output))


def taken() -> list[int]:
    """Which of the ports that the pages name another process has."""
    found = []
    for port in PORTS:
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                found.append(port)
    return found


def here() -> list[str]:
    """Run the blocks that are listed so; returns one line for each.

    Raises:
        BlockError: one failed.
    """
    if wrong := list(problems()):
        raise BlockError("\n".join(wrong))
    if ports := taken():
        raise BlockError(f"another process has the ports {ports}, which the pages name")
    lines = []
    found = every()
    with tempfile.TemporaryDirectory() as name, Shell(Path(name)) as shell:
        for entry in (one for one in listed() if "here" in one):
            shell.files(entry["page"])
            for block in matching(entry, found):
                for number, command in enumerate(block.commands):
                    # Between its servers and what looks at them something has to happen.
                    if number and "meanwhile" in entry and not _STAYS.match(command):
                        shell.type(entry["meanwhile"])
                    shell.type(command)
            lines.append(f"{entry['page']}, {entry['begins']}")
    return lines


def main() -> int:
    """Check the list and run; returns the exit code."""
    try:
        print(*here(), sep="\n")
    except BlockError as failed:
        print(f"FAILED: {failed}")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
