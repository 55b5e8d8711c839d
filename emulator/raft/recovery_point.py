"""Writes ``recovery-point``: what of the log was durable, and what committed, at that moment.

With one voter it is written at an orderly stop. With several it is also written every few seconds
while the log grows: their batches do not show which of them one sync covered (see ``recovery``), so
without it any damage in the last segment would look like a torn end. There it also keeps what is
committed over a restart, and the snapshot that is about to replace the log.

Effects are performed in their order and each replace is durable before the next begins. So the file
is written before the log is cut, and after it has grown.
"""

from __future__ import annotations

import math
from typing import Final

from emulator.raft import layout
from emulator.raft.layout import RecoveryPoint, SnapshotId
from emulator.raft.log import MetadataLog
from emulator.seam import Effect, ReplaceFile

RECOVERY_POINT_MS: Final = 5_000
"""How old the file may become while the log grows. Each time costs two fsyncs."""


class RecoveryPointFile:
    """See the module's docstring.

    Args:
        log: whose durable end is written.
        found: what the file says; None: there is none.
        alone: whether this node is the only voter.
    """

    def __init__(self, log: MetadataLog, found: RecoveryPoint | None, *, alone: bool) -> None:
        self.committed = 0 if found is None else found.committed
        """What was known to be committed when the file was written last."""
        self._log = log
        self._alone = alone
        self._on_disk = found
        self.due_ms: float = math.inf if alone else 0
        """When the file is old; never with one voter."""

    def renew(self, committed_end: int, now_ms: int) -> list[Effect]:
        """The file is old: write down what is durable, and note when it is old again."""
        self.due_ms = now_ms + RECOVERY_POINT_MS
        return self.write(committed_end)

    def write(self, committed_end: int) -> list[Effect]:
        """Write down what is durable now."""
        return self._write(self._log.durable_end, committed_end)

    def cutting(self, offset: int, committed_end: int) -> list[Effect]:
        """Before the log is cut: from ``offset`` on it may soon be gone."""
        return self._write(min(offset, self._log.durable_end), committed_end)

    def replacing(self, snapshot: SnapshotId, committed_end: int) -> list[Effect]:
        """Before a snapshot is written that replaces the log.

        Once both files are there, nothing of the log is needed any more.
        """
        return self._write(self._log.durable_end, committed_end, snapshot)

    def _write(
        self, durable: int, committed_end: int, replacing: SnapshotId | None = None
    ) -> list[Effect]:
        # A leader may know more to be committed than its own disk has.
        committed = 0 if self._alone else min(committed_end, durable)
        point = RecoveryPoint(durable, committed, replacing)
        if point == self._on_disk:
            return []
        self._on_disk, self.committed = point, committed
        return [ReplaceFile(layout.RECOVERY_POINT, layout.render_recovery_point(*point))]
