"""Lines at the foot of a terminal that are drawn again and again; what is printed stays above them.

Nothing is drawn where nothing can be drawn over: in a pipe or a file, on a dumb terminal, in CI. A
frame is one write. The cursor is never hidden, so however a program ends there is nothing to
restore. No line fills the width, so the ``^C`` that a terminal echoes breaks none. A window that
has become narrower breaks the lines that stand there: how many rows are erased is counted by the
width that it has now. The foot takes half of the window at most, so that they are in it still.
"""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Callable, Iterator
from typing import Final, Self

from rich.cells import cell_len
from rich.console import Console, Group, RenderableType
from rich.text import Text

_EVERY_S: Final = 0.25
_SPARE: Final = 3
"""Columns that stay free: for ``^C``, and the last one, after which a terminal wraps."""
_SIZE: Final = (80, 24)
"""Of a terminal that does not know its own."""


def drawable(console: Console) -> bool:
    """Whether a console is a terminal on which lines may be drawn over."""
    return console.is_terminal and not console.is_dumb_terminal and "CI" not in os.environ


class Foot:
    """Draws until its ``with`` block ends, and then leaves nothing.

    Args:
        console: where it is drawn.
        shown: makes what is shown now; called in a thread, under a lock.
        drawn: whether it is drawn at all; see :func:`drawable`.
    """

    def __init__(
        self, console: Console, shown: Callable[[], RenderableType], *, drawn: bool = True
    ) -> None:
        self.drawn = drawn
        self._console = console
        self._shown = shown
        self._cells: list[int] = []
        """How long each line is that stands there."""
        self._lock = threading.RLock()
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._redraw, name="foot", daemon=True)

    def __enter__(self) -> Self:
        if self.drawn:
            self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        if self.drawn:
            self._thread.join()
            self._write(self._erasing())

    @contextlib.contextmanager
    def above(self) -> Iterator[None]:
        """What is printed in the block stays, above the foot."""
        if not self.drawn:
            yield
            return
        with self._lock:
            self._write(self._erasing())
            try:
                yield
            finally:
                if self._thread.is_alive() and not self._over.is_set():
                    self.draw()

    def draw(self) -> None:
        """Draw it anew, in the place of what stands there."""
        with self._lock:
            erasing = self._erasing()
            columns, rows = self._size()
            with self._console.capture() as captured:
                # A text that is printed by itself loses how it is to be cut.
                self._console.print(Group(self._shown()), width=max(1, columns - _SPARE))
            made = captured.get().rstrip("\n").split("\n")[-max(1, rows // 2) :]
            lines = [line.rstrip(" ") for line in made]
            self._cells = [cell_len(Text.from_ansi(line).plain) for line in lines]
            self._write(erasing + "\n".join(lines))

    def _redraw(self) -> None:
        while not self._over.is_set():
            self.draw()
            self._over.wait(_EVERY_S)

    def _erasing(self) -> str:
        """What takes away the lines that stand there, the cursor being behind the last of them."""
        if not self._cells:
            return ""
        columns, _ = self._size()
        rows = sum(max(1, -(-cells // columns)) for cells in self._cells)
        self._cells = []
        up = f"\x1b[{rows - 1}A" if rows > 1 else ""
        return f"\r{up}\x1b[J"

    def _size(self) -> tuple[int, int]:
        with contextlib.suppress(OSError):
            columns, rows = os.get_terminal_size(self._console.file.fileno())
            if columns and rows:
                return columns, rows
        return _SIZE

    def _write(self, text: str) -> None:
        # A terminal that is gone changes nothing about what is judged, nor about the exit code.
        with contextlib.suppress(OSError):
            self._console.file.write(text)
            self._console.file.flush()
