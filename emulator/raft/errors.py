"""The errors of the metadata log."""

from __future__ import annotations


class RecoveryError(Exception):
    """Files on disk are damaged; the node must not start.

    Truncating the file here could drop acknowledged records, so an operator must decide.

    Attributes:
        path: the file, relative to the node's folder.
        position: byte position inside it, or None when the file as a whole is meant.
        why: one sentence, with the remedy.
        found: the same without it.
        remedy: what the only voter can do; empty if nothing is known.
    """

    def __init__(self, path: str, position: int | None, found: str, remedy: str = "") -> None:
        place = path if position is None else f"{path} at byte {position}"
        self.why = f"{found}; {remedy}" if remedy else found
        super().__init__(f"{place}: {self.why}")
        self.path = path
        self.position = position
        self.found = found
        self.remedy = remedy


class AppendRefusedError(ValueError):
    """A batch is invalid for readers of the log; nothing was appended."""
