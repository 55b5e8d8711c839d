"""How far a run is: it goes on there after an interruption."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Final

_KEPT: Final = ("seed", "done", "wrong", "seconds", "judged_frames")


class State:
    """The seed, how many frames each API and version has got, and what was wrong.

    Args:
        path: of a file, written now and then, where a run goes on.
        seed: of a run that begins anew.
    """

    def __init__(self, path: Path, seed: int) -> None:
        self._path = path
        self.seed = seed
        self.done: dict[str, int] = {}
        self.wrong: dict[str, str] = {}
        """Kind of fault -> the text of its first case."""
        self.seconds = 0.0
        self.judged_frames = 0
        """Those after which the memory of warm processes was judged."""
        try:
            kept = json.loads(path.read_text())
        except (OSError, ValueError):
            return
        for name in _KEPT:
            setattr(self, name, kept[name])

    @property
    def frames(self) -> int:
        """Of all APIs and versions."""
        return sum(self.done.values())

    def keep(self) -> None:
        """Write the file."""
        self._path.parent.mkdir(parents=True, exist_ok=True)
        draft = self._path.with_suffix(".draft")
        draft.write_text(json.dumps({name: getattr(self, name) for name in _KEPT}, indent=1))
        draft.replace(self._path)


def rate(state: State) -> float:
    """Frames a second."""
    return state.frames / max(state.seconds, 1e-9)
