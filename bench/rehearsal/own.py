"""What a rehearsal needs of nodes with files of their own; ``bench.verbs.own_nodes`` has them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol


@dataclass(slots=True)
class OwnFound:
    """``refused``: node, and why it does not take part. ``unseen``: what ours could not show."""

    refused: list[str] = field(default_factory=list)
    unseen: list[str] = field(default_factory=list)


class OwnNodes(Protocol):
    """All nodes of which there is a file."""

    def play(self, folder: Path, note: Callable[[str], None]) -> OwnFound:
        """Start them, migrate them without a topic, and end them.

        Args:
            folder: of the run; nothing stays there.
            note: takes lines of progress.

        Raises:
            ProcessError: they cannot be judged, as something else than their files is to blame.
            OSError, KazooException, KazooTimeoutError: the same.
        """
