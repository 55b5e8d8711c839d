"""A node's folder that forgets what was not synced.

What a crash leaves of bytes appended and not yet synced is any prefix of them, or their number in
zeros where the file system knew the length and not the content. A replaced file is the old one or
the new one, never between (the shell writes, syncs and renames). Files unlinked last may come back,
in the order that a journal keeps: where one stays unlinked, all unlinked before it do. Making a new
file or replacing one syncs the folder, so nothing unlinked before that comes back.
"""

from __future__ import annotations

from collections.abc import Mapping
from random import Random

from emulator.seam import AppendFile, DeleteFile, ReplaceFile, TruncateFile


class Disk:
    """Files by path; for each the bytes there and how many of them are durable.

    Args:
        files: what is there and durable at the beginning.
    """

    def __init__(self, files: Mapping[str, bytes]) -> None:
        self._files = {path: bytearray(data) for path, data in files.items()}
        self._durable = {path: len(data) for path, data in files.items()}
        self._unlinked: dict[str, bytes] = {}

    @property
    def files(self) -> dict[str, bytes]:
        """What a process reads at its start."""
        return {path: bytes(data) for path, data in self._files.items()}

    def size(self, path: str) -> int:
        """Bytes in a file, durable or not; what a sync issued now will cover."""
        return len(self._files.get(path, b""))

    def append(self, effect: AppendFile) -> None:
        """Append, durable only after a sync that was issued later."""
        if effect.path not in self._files:
            self._unlinked.clear()
        self._files.setdefault(effect.path, bytearray()).extend(effect.data)
        self._durable.setdefault(effect.path, 0)

    def synced(self, path: str, size: int) -> None:
        """A sync issued when the file had ``size`` bytes has ended."""
        if path in self._files:
            self._durable[path] = max(self._durable[path], min(size, len(self._files[path])))

    def replace(self, effect: ReplaceFile) -> None:
        """Write a file anew, durable at once."""
        self._files[effect.path] = bytearray(effect.data)
        self._durable[effect.path] = len(effect.data)
        self._unlinked.clear()

    def truncate(self, effect: TruncateFile) -> None:
        """Cut a file, durable at once, and what is before the cut with it."""
        del self._files[effect.path][effect.size :]
        self._durable[effect.path] = len(self._files[effect.path])

    def delete(self, effect: DeleteFile) -> None:
        """Unlink a file."""
        data = self._files.pop(effect.path, None)
        durable = self._durable.pop(effect.path, 0)
        if data is not None:
            self._unlinked[effect.path] = bytes(data[:durable])

    def crash(self, rng: Random) -> str:
        """Lose what was not durable; returns what became of it, for the story."""
        told = []
        for path, data in self._files.items():
            durable = self._durable[path]
            loose = len(data) - durable
            if not loose:
                continue
            kept = rng.choice((0, loose, rng.randrange(loose + 1)))
            zeros = rng.random() < 0.2
            data[durable:] = bytes(kept) if zeros else data[durable : durable + kept]
            told.append(f"{kept}{' zeros' if zeros else ''} of {loose} bytes")
            self._durable[path] = len(data)
        for path, content in reversed(self._unlinked.items()):
            if rng.random() < 0.5:
                break
            self._files[path] = bytearray(content)
            self._durable[path] = len(content)
            told.append(f"{path} came back")
        self._unlinked.clear()
        return ", ".join(told) or "all"
