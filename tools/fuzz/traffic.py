"""Several frames under way at once, or one alone where what it costs is measured."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from threading import Condition

from tools.fuzz.frames import Frame


class Traffic:
    """The frames that are under way, one in each lane."""

    def __init__(self) -> None:
        self._changed = Condition()
        self._under_way: dict[int, Frame] = {}
        self._alone = False

    def enter(self, lane: int, frame: Frame) -> None:
        """A frame goes out, beside others; this waits for the end of what goes on alone."""
        with self._changed:
            self._changed.wait_for(lambda: not self._alone)
            self._under_way[lane] = frame

    def leave(self, lane: int) -> list[Frame]:
        """The frame of a lane is answered; returns those that are still under way."""
        with self._changed:
            self._under_way.pop(lane, None)
            self._changed.notify_all()
            return list(self._under_way.values())

    @contextmanager
    def alone(self) -> Iterator[None]:
        """No frame is under way in a ``with`` block; the caller must have left before."""
        with self._changed:
            self._changed.wait_for(lambda: not self._alone)
            self._alone = True
            try:
                self._changed.wait_for(lambda: not self._under_way)
            except BaseException:
                self._open()
                raise
        try:
            yield
        finally:
            with self._changed:
                self._open()

    def _open(self) -> None:
        self._alone = False
        self._changed.notify_all()
