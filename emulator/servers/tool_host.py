"""Kafka's command-line tools in one Java process that stays: a start of Java for each costs 2 s.

The tools are Kafka's own main classes, unmodified; `ToolHost` only keeps them from ending the
process and hands back what they print.
"""

from __future__ import annotations

import struct
import subprocess
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Final, Self

from emulator.servers.jars import CLIENT_RELEASES, client_jars
from emulator.servers.java import QUICK_START, archive_flags, find_java
from emulator.servers.java_tools import class_path, compile_java, quiet_log4j
from emulator.servers.waiting import PATIENCE_S

_SOURCE: Final = Path(__file__).with_name("ToolHost.java")


@dataclass(frozen=True, slots=True)
class Printed:
    """How a tool ended."""

    code: int
    out: str
    err: str


class ToolHost:
    """A Java process that runs one tool at a time; as a context manager started and ended.

    Args:
        release: whose tools, of `emulator.servers.jars.RELEASES` or `CLIENT_RELEASES`.
        sources: ``.java`` files of more main classes, compiled against the same jars.
    """

    def __init__(self, release: str = "3.9.2", sources: Sequence[Path] = ()) -> None:
        self._release = release
        self._sources = (_SOURCE, *sources)
        self._child: subprocess.Popen[bytes] | None = None
        self._lock = threading.Lock()

    def start(self) -> Self:
        """Start Java; it ends with us, however we end, as its input does.

        Raises:
            JavaNotFoundError, JarsMissingError, JavaToolError: it cannot be.
        """
        jars = client_jars(self._release)
        classes = compile_java(self._sources, jars)
        # The jars first: they alone are what the class-data archive was made of.
        path = class_path([*jars, classes])
        flags = [f"-Dlog4j.configuration=file:{quiet_log4j()}", *self._archive()]
        self._child = subprocess.Popen(
            [find_java().executable, *QUICK_START, "-Xmx256m", *flags, "-cp", path, "ToolHost"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        return self

    def _archive(self) -> list[str]:
        return [] if self._release in CLIENT_RELEASES else archive_flags(self._release)

    def run(self, main: str, *arguments: str | Path, timeout_s: float = PATIENCE_S) -> Printed:
        """Run a main class to its end.

        Args:
            main: such as ``org.apache.kafka.tools.TopicCommand``.
            arguments: as on the command line.
            timeout_s: then the whole process is killed, and the next run starts another.

        Raises:
            TimeoutError: it did not end in time.
        """
        with self._lock:
            if self._child is None or self._child.poll() is not None:
                self.start()
            assert self._child is not None
            guard = threading.Timer(timeout_s, self._child.kill)
            guard.start()
            try:
                return self._ask([main, *map(str, arguments)])
            except (EOFError, BrokenPipeError) as error:
                raise TimeoutError(f"{main} did not end within {timeout_s:g} s") from error
            finally:
                guard.cancel()

    def _ask(self, words: list[str]) -> Printed:
        assert self._child is not None
        assert self._child.stdin is not None
        assert self._child.stdout is not None
        texts = [word.encode() for word in words]
        frame = b"".join(struct.pack(">i", len(text)) + text for text in texts)
        self._child.stdin.write(struct.pack(">i", len(texts)) + frame)
        self._child.stdin.flush()
        answer = self._child.stdout
        code = _number(answer)
        return Printed(code, _text(answer), _text(answer))

    def close(self) -> None:
        """End it."""
        child, self._child = self._child, None
        if child is not None:
            child.kill()
            child.communicate()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.close()


def _number(stream: IO[bytes]) -> int:
    return int(struct.unpack(">i", _exactly(stream, 4))[0])


def _text(stream: IO[bytes]) -> str:
    return _exactly(stream, _number(stream)).decode(errors="replace")


def _exactly(stream: IO[bytes], count: int) -> bytes:
    data = stream.read(count)
    if len(data) < count:
        raise EOFError
    return data
