"""The file ``status.url`` of a node's folder: where the running node serves metrics and status.

A port may be a free one, so this file says which. It is written when the address is bound and
removed before it is closed; a process that was killed leaves it, and a copied folder has that of
another node: whoever reads it compares the node id in the answer.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable
from pathlib import Path
from typing import Final

from emulator.seam import Log

STATUS_URL: Final = "status.url"
"""Name of the file."""
_CHARACTERS_MAX: Final = 1_000


class StatusUrl:
    """Writes the file; :meth:`close` removes it. One of an earlier process is removed at once.

    What only shows a node never ends it: a file that cannot be written is a line of the log.

    Args:
        folder: of the node.
        log: takes that line.
    """

    def __init__(self, folder: Path, log: Callable[[Log], None]) -> None:
        self._path = folder / STATUS_URL
        self._part = folder / (STATUS_URL + ".part")  # removed at a start (emulator/io/disk.py)
        self._log = log
        self.close()

    def write(self, url: str) -> None:
        """Replace the file by one that only this user may read."""
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
        try:
            with os.fdopen(os.open(self._part, flags, 0o600), "w") as file:
                os.fchmod(file.fileno(), 0o600)
                file.write(url + "\n")
            self._part.replace(self._path)
        except OSError as error:
            self.close()
            text = "the address of metrics and status cannot be written to the folder"
            why = f"{self._path}: {error.strerror or error}"
            self._log(Log("warning", text, {"url": url, "why": why}))

    def close(self) -> None:
        """Remove the file, also an unfinished one."""
        for path in (self._path, self._part):
            with contextlib.suppress(OSError):
                path.unlink()


def read(folder: Path) -> str:
    """The address in a node's folder, not checked in any way.

    Raises:
        OSError: there is none, or it may not be read.
        ValueError: it is no text.
    """
    with (folder / STATUS_URL).open(encoding="ascii") as file:
        return file.read(_CHARACTERS_MAX).strip()
