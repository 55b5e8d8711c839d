"""Kafka's Java clients and command-line tools, each release in one Java process that stays."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from bench.matrix.readers.outcome import plain
from bench.matrix.readers.tools import FILES, TOOLS, Line, script
from emulator.servers.tool_host import ToolHost

_SOURCES: Final = Path(__file__).with_name("java")
_MOVED: Final = {"kafka-acls": "org.apache.kafka.tools.AclCommand"}
"""Main classes that are elsewhere in Kafka 4."""


def host(release: str) -> ToolHost:
    """The Java process of a release, for both kinds of client below."""
    first = release.startswith("0.")
    sources = ["Shown", "FirstCalls" if first else "AdminCalls"]
    return ToolHost(release, [_SOURCES / f"{source}.java" for source in sources])


@dataclass
class AdminClient:
    """`FirstCalls` or `AdminCalls`.

    Args:
        release: of the client.
        java: its process.
    """

    release: str
    java: ToolHost
    _bootstrap: str = ""

    @property
    def name(self) -> str:
        """As in the table."""
        return f"Java client {self.release}"

    def begin(self, bootstrap: str) -> Sequence[str]:
        """Connect; returns the names of its calls."""
        self._bootstrap = bootstrap
        return self._run().splitlines()

    def ask(self, call: str) -> str:
        """Make a call; if no answer comes in time, restart the process for the next call."""
        try:
            return self._run(call)
        except TimeoutError as error:
            return f"NO ANSWER: {error}"

    def end(self) -> None:
        """The process stays; it connects to the next cluster with the first call there."""

    def _run(self, *words: str) -> str:
        main = "FirstCalls" if self.release.startswith("0.") else "AdminCalls"
        printed = self.java.run(main, self._bootstrap, *words)
        return printed.out if printed.code == 0 else f"{printed.out}{printed.err}"


@dataclass
class Tools:
    """The script of command-line tools, ``bench/matrix/readers/script.txt``.

    Args:
        release: of the tools.
        java: their process.
        folder: for the files that lines name.
    """

    release: str
    java: ToolHost
    folder: Path
    _bootstrap: str = ""
    _lines: dict[str, Line] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """As in the table."""
        return f"tools {self.release}"

    def begin(self, bootstrap: str) -> Sequence[str]:
        """The lines that ask a broker; a line that occurs twice gets a number at its end."""
        self._bootstrap = bootstrap
        self.folder.mkdir(parents=True, exist_ok=True)
        for name, content in FILES.items():
            (self.folder / f"{name}.json").write_text(json.dumps(content))
        self._lines = {}
        for line in script():
            call = f"{line.tool} {line.words}"
            while call in self._lines:
                call += " (again)"
            if not line.controller:
                self._lines[call] = line
        return list(self._lines)

    def ask(self, call: str) -> str:
        """Run the line."""
        line = self._lines[call]
        words = re.sub(
            r"\{file:(\w+)\}", lambda found: str(self.folder / f"{found[1]}.json"), line.words
        )
        main = TOOLS[line.tool]
        if not self.release.startswith("3."):
            main = _MOVED.get(line.tool, main)
        try:
            done = self.java.run(main, "--bootstrap-server", self._bootstrap, *words.split())
        except TimeoutError as error:
            return f"NO ANSWER: {error}"
        text = f"{done.out}\n{done.err}".replace(str(self.folder), "<folder>")
        # Offsets and lags change from run to run.
        numbers = line.numbers and line.tool != "kafka-metadata-quorum"
        return f"exit code {done.code}\n" + plain(_LOGGING.sub("", text), numbers=numbers)

    def end(self) -> None:
        """The process stays."""


_LOGGING: Final = re.compile(r"^\S+ main ERROR .*$", re.MULTILINE)
"""Lines that log4j prints about its own configuration in Kafka 4."""
