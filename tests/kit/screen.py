"""What a person sees of what a program writes to a terminal: a pair of ptys, and a screen.

The screen knows what a program of ours may send: text, line ends, the cursor up, the rest of the
screen erased, colours. Anything else is an error. It wraps as terminals do, and when it becomes
narrower or wider it wraps what stands there anew, as most terminals do.
"""

from __future__ import annotations

import codecs
import fcntl
import io
import os
import re
import struct
import termios
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

_PIECE: Final = re.compile(r"\x1b\[([0-9;?]*)([A-Za-z])|(.)", re.DOTALL)


_GOES_ON: Final = re.compile(r" +(?! |\d+\.\d s  )")


def unfolded(lines: list[str]) -> list[str]:
    """Lines before they were folded: what goes on below one is indented, and has no time."""
    found: list[str] = []
    for line in lines:
        if found and _GOES_ON.match(line):
            found[-1] += f" {line.strip()}"
        else:
            found.append(line)
    return found


class ScreenError(AssertionError):
    """A program wrote what this screen does not know."""


class Screen:
    """Rows of text, as many as were ever written, of which the lower ``height`` are seen."""

    def __init__(self, width: int, height: int = 24) -> None:
        self.width, self.height = width, height
        self._rows: list[list[str]] = [[]]
        self._wrapped: set[int] = set()
        """Rows that go on in the next one."""
        self._row = self._column = 0
        self.escapes = 0
        """How many escape sequences came."""

    def feed(self, text: str) -> None:
        """Show more."""
        for given, kind, one in _PIECE.findall(text):
            if one == "\x1b":
                raise ScreenError(f"not known: {text!r}")
            if one:
                self._put(one)
            else:
                self.escapes += 1
                self._obey(given, kind)

    def _put(self, one: str) -> None:
        if one == "\r":
            self._column = 0
        elif one == "\n":
            self._column = 0
            self._next()
        elif one.isprintable():
            if self._column == self.width:
                self._wrapped.add(self._row)
                self._column = 0
                self._next()
            row = self._rows[self._row]
            row += " " * (self._column + 1 - len(row))
            row[self._column] = one
            self._column += 1
        else:
            raise ScreenError(f"not known: {one!r}")

    def _next(self) -> None:
        self._row += 1
        if self._row == len(self._rows):
            self._rows.append([])

    def _obey(self, given: str, kind: str) -> None:
        if kind == "A":
            self._row = max(0, len(self._rows) - self.height, self._row - int(given or 1))
        elif kind == "J" and given in {"", "0"}:
            del self._rows[self._row + 1 :]
            del self._rows[self._row][self._column :]
            self._wrapped = {row for row in self._wrapped if row < self._row}
        elif kind != "m":
            raise ScreenError(f"not known: ESC [ {given}{kind}")

    def resize(self, width: int) -> None:
        """Another width; the cursor stays behind the text that is before it."""
        logical: list[list[str]] = [[]]
        ends = -1
        for number, row in enumerate(self._rows):
            if number == self._row:
                at, ends = len(logical) - 1, len(logical[-1]) + self._column
            logical[-1] += row
            if number not in self._wrapped:
                logical.append([])
        logical.pop()
        self.width, self._rows, self._wrapped = width, [], set()
        for number, line in enumerate(logical):
            first = len(self._rows)
            parts = [line[i : i + width] for i in range(0, max(1, len(line)), width)]
            self._rows += parts
            self._wrapped |= set(range(first, first + len(parts) - 1))
            if number == at:
                within = min(ends // width, len(parts) - 1)
                self._row, self._column = first + within, ends - within * width

    @property
    def text(self) -> list[str]:
        """All lines as they were written: what was wrapped is one line. Empty ends are left out."""
        lines, before = [], ""
        for number, row in enumerate(self._rows):
            before += "".join(row)
            if number not in self._wrapped:
                lines.append(before.rstrip())
                before = ""
        while lines and not lines[-1]:
            lines.pop()
        return lines


class _Counted(io.FileIO):
    """A file that knows how many bytes were written to it."""

    count = 0

    def write(self, data: Any) -> int:
        written = super().write(data) or 0
        self.count += written
        return written


class Terminal:
    """A pty; whatever is written to ``stream`` comes to the screen as it is."""

    def __init__(self, width: int, height: int = 24) -> None:
        self.screen = Screen(width, height)
        self._ours, theirs = os.openpty()
        modes = termios.tcgetattr(theirs)
        modes[1] &= ~termios.OPOST  # a line end stays one byte
        termios.tcsetattr(theirs, termios.TCSANOW, modes)
        self._raw = _Counted(theirs, "w")
        self.stream = io.TextIOWrapper(io.BufferedWriter(self._raw), "utf-8", write_through=True)
        self._shown = 0
        self._wrong: ScreenError | None = None
        self._news = threading.Condition()
        self._set(width)
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def _set(self, width: int) -> None:
        size = struct.pack("HHHH", self.screen.height, width, 0, 0)
        fcntl.ioctl(self._raw.fileno(), termios.TIOCSWINSZ, size)

    def _read(self) -> None:
        decoder = codecs.getincrementaldecoder("utf-8")()
        while True:
            try:
                data = os.read(self._ours, 65_536)
            except OSError:  # the other side is closed
                return
            with self._news:
                try:
                    self.screen.feed(decoder.decode(data))
                except ScreenError as error:
                    self._wrong = self._wrong or error
                self._shown += len(data)
                self._news.notify_all()

    def settle(self) -> list[str]:
        """Wait until all that was written is on the screen; returns its lines."""
        self.stream.flush()
        with self._news:
            self._news.wait_for(lambda: self._shown >= self._raw.count)
            if self._wrong is not None:
                raise self._wrong
            return self.screen.text

    def resize(self, width: int) -> None:
        """Another width, once all that was written is shown."""
        self.settle()
        with self._news:
            self.screen.resize(width)
            self._set(width)

    def close(self) -> None:
        """Close it, once all that was written is shown."""
        self.settle()
        self.stream.close()
        self._thread.join()
        os.close(self._ours)


@contextmanager
def terminal(width: int, height: int = 24) -> Iterator[Terminal]:
    """A terminal until the end of the block."""
    found = Terminal(width, height)
    try:
        yield found
    finally:
        found.close()
