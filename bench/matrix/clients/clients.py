"""The clients: each lists the names of its calls and makes one call at a time."""

from __future__ import annotations

import json
import os
import selectors
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Protocol

from emulator.servers.jars import cache_dir
from emulator.servers.process import ProcessError
from emulator.servers.waiting import PATIENCE_S

ROOT: Final = Path(__file__).resolve().parents[3]
_ANSWER_S: Final = PATIENCE_S


class Client(Protocol):
    """One client of one version, used on one cluster after the other."""

    @property
    def name(self) -> str:
        """As in the table."""

    def begin(self, bootstrap: str) -> Sequence[str]:
        """Connect; returns the names of its calls, in order."""

    def ask(self, call: str) -> str:
        """Make a call; returns its result or error as text."""

    def end(self) -> None:
        """Disconnect."""


@dataclass
class PythonClient:
    """A library in a process of its own.

    Args:
        name: library and version.
        module: below `bench.matrix.clients.python`, what `serve`s its calls.
        python: the interpreter of the environment that has the library.
    """

    name: str
    module: str
    python: Path = field(default_factory=lambda: Path(sys.executable))
    _bootstrap: str = ""
    _child: subprocess.Popen[str] | None = None

    def begin(self, bootstrap: str) -> Sequence[str]:
        """Start the process and let it connect."""
        self._bootstrap = bootstrap
        return self._start()

    def ask(self, call: str) -> str:
        """Make a call; if no answer comes in time, restart the process for the next call."""
        if self._child is None:
            self._start()
        assert self._child is not None
        assert self._child.stdin is not None
        try:
            self._child.stdin.write(json.dumps({"call": call}) + "\n")
            self._child.stdin.flush()
            return str(self._read()["text"])
        except (OSError, EOFError, TimeoutError) as error:
            self.end()
            return f"NO ANSWER: {type(error).__name__} {error}"

    def end(self) -> None:
        """End the process."""
        child, self._child = self._child, None
        if child is not None:
            child.kill()
            child.communicate()

    def _start(self) -> Sequence[str]:
        self._child = subprocess.Popen(
            [self.python, "-m", f"bench.matrix.clients.python.{self.module}", self._bootstrap],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            start_new_session=True,
        )
        try:
            calls: Sequence[str] = self._read()["calls"]
        except (EOFError, TimeoutError) as error:
            self.end()
            raise ProcessError(f"{self.name} cannot connect to {self._bootstrap}") from error
        return calls

    def _read(self) -> Mapping[str, Any]:
        assert self._child is not None
        assert self._child.stdout is not None
        with selectors.DefaultSelector() as waiting:
            waiting.register(self._child.stdout, selectors.EVENT_READ)
            if not waiting.select(_ANSWER_S):
                raise TimeoutError(f"{_ANSWER_S:g} s")
        line = self._child.stdout.readline()
        if not line:
            raise EOFError("the process ended")
        answer: Mapping[str, Any] = json.loads(line)
        return answer


def environment(name: str) -> Path:
    """The interpreter of an environment that ``python -m tools.clients`` made."""
    return cache_dir() / "clients" / name / "bin" / "python"
