"""The start offset of each leader epoch, and the end offset of an epoch for a follower."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator


class LeaderEpochs:
    """Epoch -> start offset, oldest first.

    Invariant: epochs grow strictly, start offsets never fall.
    Source: LeaderEpochFileCache and KafkaMetadataLog.endOffsetForEpoch, Kafka 3.9.
    """

    __slots__ = ("_epochs", "_starts")

    def __init__(self, entries: Iterable[tuple[int, int]] = ()) -> None:
        self._epochs: list[int] = []
        self._starts: list[int] = []
        for epoch, start_offset in entries:
            self.assign(epoch, start_offset)

    def __iter__(self) -> Iterator[tuple[int, int]]:
        return zip(list(self._epochs), list(self._starts), strict=True)

    def __len__(self) -> int:
        return len(self._epochs)

    @property
    def latest(self) -> int:
        """Epoch of the newest entry, 0 when there is none."""
        return self._epochs[-1] if self._epochs else 0

    def assign(self, epoch: int, start_offset: int) -> bool:
        """Record the epoch of a batch at ``start_offset``; True if it is a new epoch."""
        if self._epochs and epoch <= self._epochs[-1]:
            assert epoch == self._epochs[-1], f"epoch {epoch} after {self._epochs[-1]}"
            return False
        assert not self._starts or start_offset >= self._starts[-1], "start offsets never fall"
        self._epochs.append(epoch)
        self._starts.append(start_offset)
        return True

    def end_offset(self, epoch: int, log_end_offset: int) -> tuple[int, int]:
        """Largest known epoch not above ``epoch``, with the offset where it ends.

        Never (-1, -1), which on the wire means "not diverging", so a diverged follower would
        continue. For an epoch older than all known ones: that epoch and the start of the first
        known one. Without any known epoch: (``epoch``, ``log_end_offset``).
        """
        index = bisect_right(self._epochs, epoch)
        if index == len(self._epochs):
            return (self._epochs[-1] if self._epochs else epoch), log_end_offset
        found = epoch if index == 0 else self._epochs[index - 1]
        return found, self._starts[index]

    def epoch_at(self, offset: int) -> int | None:
        """Epoch of the record at ``offset``; None below the first entry."""
        index = bisect_right(self._starts, offset)
        return None if index == 0 else self._epochs[index - 1]

    def truncate_from_start(self, log_start_offset: int) -> None:
        """Drop epochs that end at or below ``log_start_offset``; the epoch at that offset stays."""
        keep = bisect_right(self._starts, log_start_offset) - 1
        if keep >= 0:
            del self._epochs[:keep]
            del self._starts[:keep]
            self._starts[0] = log_start_offset

    def truncate_from_end(self, log_end_offset: int) -> None:
        """Drop epochs that begin at or above ``log_end_offset``."""
        keep = bisect_left(self._starts, log_end_offset)
        del self._epochs[keep:]
        del self._starts[keep:]
