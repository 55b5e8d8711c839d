"""A node's folder on a machine that may lose power, and whose disk may fail or fill.

Every file exists twice: what a process reads (the page cache) and what is on the medium. Appends
change the first; a sync brings the pages that are dirty to the second. When the machine goes down,
the medium is what stays, with more or less of what was not synced: any prefix of it, its number of
bytes in zeros where the file system knew the length and not the content, or, with
``DiskFaults.reordered``, any subset of its pages. A process that ends while the machine stays up
loses nothing: the next one reads the cache.

A replaced file is the old one or the new one, never between (the shell writes, syncs and renames).
Of a large file that is being written, a temporary file holds some.
Files unlinked last may come back, in the order that a journal keeps: where one stays unlinked, all
unlinked before it do. Making a new file or replacing one syncs the folder, so nothing unlinked
before that comes back.

A sync that fails reports it once: the pages that were not written count as clean afterwards, a
later sync succeeds without them, and they are gone with the machine, or earlier, when the cache
drops them as it may drop any clean page (fsync(2) on ext4 and xfs).

What is on the medium may be damaged (``flip``): a later read gets other bytes than were synced.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Mapping
from copy import deepcopy
from dataclasses import dataclass, field
from random import Random
from typing import Final, Literal, TypeAlias

from emulator.seam import AppendFile, DeleteFile, ReplaceFile, TruncateFile, WriteFile

PAGE: Final = 512
"""What a disk writes whole: a sector. Pages of a cache are larger, and often heal what is lost."""

Operation: TypeAlias = Literal["append", "sync", "replace", "truncate"]


@dataclass(slots=True)
class DiskFaults:
    """How often a disk fails; chances from 0 to 1, each drawn from a random stream of its own.

    Attributes:
        seed: of all streams; the same seed and the same operations fail in the same way.
        errors: chance of EIO, by operation.
        reordered: chance that a machine going down keeps any subset of unsynced pages.
        leftover: chance that a failed replace leaves half of its temporary file behind.
        dropped: chance that a failed sync is followed by a cache without the pages it gave up.
    """

    seed: int
    errors: Mapping[Operation, float] = field(default_factory=dict)
    reordered: float = 0.0
    leftover: float = 0.5
    dropped: float = 0.0
    _streams: dict[str, Random] = field(default_factory=dict, init=False)

    def stream(self, name: str) -> Random:
        """The random numbers for one kind of fault."""
        found = self._streams.get(name)
        if found is None:
            found = self._streams[name] = Random(f"{self.seed} {name}")
        return found

    def happens(self, name: str, chance: float) -> bool:
        """Draw from that stream; a chance of 0 draws nothing."""
        return chance > 0 and self.stream(name).random() < chance


@dataclass(slots=True)
class _DiskFile:
    data: bytearray
    medium: bytearray
    dirty: set[int] = field(default_factory=set)
    """Pages that the next sync writes."""

    def append(self, data: bytes) -> None:
        if data:
            self.dirty.update(
                range(len(self.data) // PAGE, (len(self.data) + len(data) - 1) // PAGE + 1)
            )
            self.data += data

    def write(self, pages: set[int], size: int) -> None:
        """Bring those pages to the medium, as far as they lie below ``size``."""
        self.medium += bytes(max(0, size - len(self.medium)))
        for page in pages:
            begin, end = page * PAGE, min((page + 1) * PAGE, size)
            if begin < end:
                self.medium[begin:end] = self.data[begin:end]

    def read_again(self, pages: set[int]) -> None:
        """The cache has dropped those pages; what is on the medium is read in their place."""
        for page in pages:
            begin, end = page * PAGE, min((page + 1) * PAGE, len(self.data))
            held = bytes(self.medium[begin:end])
            self.data[begin:end] = held + bytes(end - begin - len(held))

    def cleaned(self, size: int) -> set[int]:
        """The dirty pages a sync of ``size`` bytes covers; those it covers whole are clean now."""
        covered = {page for page in self.dirty if page * PAGE < size}
        self.dirty -= {page for page in covered if min((page + 1) * PAGE, len(self.data)) <= size}
        return covered


class SimulatedDisk:
    """Files by path.

    Args:
        files: what is there and durable at the beginning.

    Attributes:
        faults: None: the disk never fails.
        capacity: bytes of all files together, above which there is no space; None: no bound.

    Raises:
        OSError: from the operations, when one fails; a failed append may have written a part.
    """

    def __init__(self, files: Mapping[str, bytes]) -> None:
        self._files = {
            path: _DiskFile(bytearray(data), bytearray(data)) for path, data in files.items()
        }
        self._unlinked: dict[str, bytes] = {}
        self._planned: dict[str, tuple[int, int]] = {}
        self.faults: DiskFaults | None = None
        self.capacity: int | None = None

    @property
    def files(self) -> dict[str, bytes]:
        """What a process reads at its start."""
        return {path: bytes(file.data) for path, file in self._files.items()}

    def read(self, path: str) -> bytes | None:
        """What a process would read of one file; None if there is none."""
        file = self._files.get(path)
        return None if file is None else bytes(file.data)

    @property
    def used(self) -> int:
        """Bytes of all files together."""
        return sum(len(file.data) for file in self._files.values())

    def clone(self) -> SimulatedDisk:
        """A copy of the folder as it is at this moment, with what of it is durable.

        The copy fails no more: faults are those of the machine it came from.
        """
        copy = SimulatedDisk({})
        copy.restore(self)
        return copy

    def restore(self, backup: SimulatedDisk) -> None:
        """Become what ``backup`` is; faults and capacity stay as they are here."""
        self._files = deepcopy(backup._files)
        self._unlinked = dict(backup._unlinked)

    def fail_next(self, operation: Operation, number: int = errno.EIO, *, after: int = 0) -> None:
        """Let one operation fail with an error number, after so many that succeed."""
        self._planned[operation] = (after, number)

    def will_fail(self, operation: Operation) -> bool:
        """Whether a failure that was asked for is still to come."""
        return operation in self._planned

    def flip(self, path: str, at: int, bit: int) -> None:
        """Damage one bit of a file, in the cache and on the medium; a second time mends it."""
        file = self._files[path]
        for content in (file.data, file.medium):
            content[at] ^= 1 << bit

    def size(self, path: str) -> int:
        """Bytes in a file, durable or not; what a sync issued now will cover."""
        return len(self._files[path].data) if path in self._files else 0

    def append(self, effect: AppendFile) -> None:
        """Append, durable only after a sync that was issued later."""
        if effect.path not in self._files:
            self._unlinked.clear()
            self._files[effect.path] = _DiskFile(bytearray(), bytearray())
        file = self._files[effect.path]
        room = self._room(len(effect.data))
        if (number := self._fails("append")) is not None:
            room = self._stream("append part").randrange(min(room, len(effect.data)) + 1)
            file.append(effect.data[:room])
            raise _error(number, effect.path)
        file.append(effect.data[:room])
        if room < len(effect.data):
            raise _error(errno.ENOSPC, effect.path)

    def synced(self, path: str, size: int) -> None:
        """A sync issued when the file had ``size`` bytes has ended.

        Raises:
            OSError: it failed; some of the pages were written, none is dirty any more.
        """
        file = self._files.get(path)
        if file is None:
            return
        size = min(size, len(file.data))
        number = self._fails("sync")
        pages = file.cleaned(size)
        if number is None:
            file.write(pages, size)
            del file.medium[len(file.data) :]
            return
        draw = self._stream("sync pages")
        reached = draw.choice((size, min(size, len(file.medium))))
        written = {page for page in sorted(pages) if draw.random() < 0.5}
        file.write(written, reached)
        if self.faults is not None and self.faults.happens("dropped", self.faults.dropped):
            file.read_again(pages - file.dirty - written)
        raise _error(number, path)

    def begin(self, effect: WriteFile) -> None:
        """Begin a large file: what of it may be there when the process ends before it is done."""
        half = self._room(len(effect.data) // 2)
        self._files[f"{effect.path}.part"] = _DiskFile(bytearray(effect.data[:half]), bytearray())

    def finish(self, effect: WriteFile) -> None:
        """The large file that was begun is whole and durable, under its name.

        Raises:
            OSError: it is not; nothing has changed.
        """
        self._files.pop(f"{effect.path}.part", None)
        self.replace(effect)

    def replace(self, effect: ReplaceFile | WriteFile) -> None:
        """Write a file anew, durable at once."""
        number = self._fails("replace")
        if number is None and self._room(len(effect.data)) < len(effect.data):
            number = errno.ENOSPC
        if number is not None:
            self._leave_part(effect)
            raise _error(number, effect.path)
        self._files[effect.path] = _DiskFile(bytearray(effect.data), bytearray(effect.data))
        self._unlinked.clear()

    def truncate(self, effect: TruncateFile) -> None:
        """Cut a file, durable at once, and what is before the cut with it."""
        file = self._files[effect.path]
        number = self._fails("truncate")
        del file.data[effect.size :]
        file.dirty = {page for page in file.dirty if page * PAGE < effect.size}
        if number is not None:
            raise _error(number, effect.path)
        file.write(file.cleaned(effect.size), effect.size)
        del file.medium[effect.size :]

    def delete(self, effect: DeleteFile) -> None:
        """Unlink a file."""
        file = self._files.pop(effect.path, None)
        if file is not None:
            self._unlinked[effect.path] = bytes(file.medium)

    def crash(self, rng: Random) -> str:
        """The machine goes down: lose what was not durable; returns what became of it."""
        changes = []
        for path, file in self._files.items():
            if file.data != file.medium:
                changes.append(self._lose(file, rng))
            self._files[path] = _DiskFile(file.medium, bytearray(file.medium))
        for path, content in reversed(self._unlinked.items()):
            if rng.random() < 0.5:
                break
            self._files[path] = _DiskFile(bytearray(content), bytearray(content))
            changes.append(f"{path} came back")
        self._unlinked.clear()
        return ", ".join(changes) or "all"

    def _lose(self, file: _DiskFile, rng: Random) -> str:
        """Bring to the medium what a machine going down may have written by then."""
        durable = len(file.medium)
        loose = len(file.data) - durable
        if (
            loose > 0
            and self.faults is not None
            and self.faults.happens("reordered", self.faults.reordered)
        ):
            draw = self.faults.stream("reordered pages")
            reached = durable + draw.choice((loose, loose, draw.randrange(loose + 1)))
            kept = {page for page in sorted(file.dirty) if draw.random() < 0.5}
            file.write(kept, reached)
            return f"{len(kept)} of {len(file.dirty)} pages in {reached - durable} of {loose} bytes"
        if loose <= 0:
            return "nothing new, lost pages and failed cuts are as on the medium"
        part = rng.choice((0, loose, rng.randrange(loose + 1)))
        zeros = rng.random() < 0.2
        file.medium += bytes(part) if zeros else file.data[durable : durable + part]
        return f"{part}{' zeros' if zeros else ''} of {loose} bytes"

    def _room(self, wanted: int) -> int:
        """How many of so many bytes there is space for."""
        return wanted if self.capacity is None else max(0, min(wanted, self.capacity - self.used))

    def _fails(self, operation: Operation) -> int | None:
        """The error number with which this operation fails now."""
        planned = self._planned.pop(operation, None)
        if planned is not None:
            after, number = planned
            if after == 0:
                return number
            self._planned[operation] = (after - 1, number)
        if self.faults is None:
            return None
        chance = self.faults.errors.get(operation, 0.0)
        return errno.EIO if self.faults.happens(operation, chance) else None

    def _leave_part(self, effect: ReplaceFile | WriteFile) -> None:
        if self.faults is not None and self.faults.happens("leftover", self.faults.leftover):
            half = bytearray(effect.data[: self._room(len(effect.data) // 2)])
            self._files[f"{effect.path}.part"] = _DiskFile(half, bytearray())

    def _stream(self, name: str) -> Random:
        return Random(name) if self.faults is None else self.faults.stream(name)


def _error(number: int, path: str) -> OSError:
    return OSError(number, os.strerror(number), path)
