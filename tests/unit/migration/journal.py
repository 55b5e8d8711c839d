"""A log of one voter and the controller's share of it; commits happen when the world says so."""

from __future__ import annotations

from collections.abc import Sequence
from copy import deepcopy

import msgspec

from emulator.metadata.history import History
from emulator.metadata.idle import ChangeCount
from emulator.metadata.image import Image
from emulator.seam import NO_OTHERS, OtherLimits
from wire import records as r
from wire.digest import batch_digest


class Journal:
    """A log of one voter and the controller's share of it."""

    def __init__(self) -> None:
        self.history = History()
        self.epoch = 1
        self.end = 0
        self.high_watermark = 0
        self.committing = True
        self.under_way = False
        self.log_start_offset = 0
        self.holds: list[tuple[int | None, int | None]] = []
        self.other_limits = NO_OTHERS
        self.appended_bytes = 0
        self.batches: list[tuple[int, list[object]]] = []
        self._epochs: list[tuple[int, int]] = []
        self._times: list[int] = []

    @property
    def tip(self) -> Image:
        return self.history.tip

    @property
    def stable(self) -> Image:
        return self.history.stable

    def epoch_at(self, offset: int) -> int | None:
        found = [epoch for start, epoch in self._epochs if start <= offset]
        return found[-1] if found and offset < self.end else None

    def digest_at(self, offset: int) -> str:
        """Digest of the batch that holds ``offset``, as ``Raft`` gives it."""
        for (base, records), time_ms in zip(self.batches, self._times, strict=True):
            if self.log_start_offset <= offset and base <= offset < base + len(records):
                batch = (base, self.epoch_at(base), time_ms, records)
                return batch_digest(repr(batch).encode())
        return ""

    def backup(self) -> Journal:
        """A copy of the folder, taken now."""
        return deepcopy(self)

    def append(self, records: Sequence[object], now_ms: int, *, atomic: bool = True) -> int:
        if not self._epochs or self._epochs[-1][1] != self.epoch:
            self._epochs.append((self.end, self.epoch))
        self.history.append(records, self.end, self.epoch)
        self.batches.append((self.end, list(records)))
        if not all(isinstance(record, r.NoOpRecord) for record in records):
            self.appended_bytes += sum(len(msgspec.msgpack.encode(record)) for record in records)
        self._times.append(now_ms)
        self.end += len(records)
        return self.end - 1

    def changes_after(self, offset: int) -> ChangeCount:
        return self.history.changes_after(offset)

    def hold(
        self,
        *,
        now_ms: int,
        room: int | None = None,
        hard_room: int | None = None,
        others: OtherLimits = NO_OTHERS,
    ) -> None:
        self.holds.append((room, hard_room))
        self.other_limits = others

    @property
    def blocked(self) -> bool:
        return bool(self.holds) and self.holds[-1][0] == 0
