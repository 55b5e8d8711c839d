"""A node whose folder another process uses: which, and what to do."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import TYPE_CHECKING

from emulator.commands.exits import ExitCode

if TYPE_CHECKING:
    pass


def run(node: Callable[[], int]) -> int:
    """Run a node; returns its exit code.

    Args:
        node: its whole life; may end with FolderLockedError.
    """
    from emulator.io.disk import FolderLockedError

    try:
        return node()
    except FolderLockedError as error:
        from emulator.io.folder_holder import sentence_of

        sys.stderr.write(f"kraft-bridge: {sentence_of(error)}\n")
        return ExitCode.FOUND
