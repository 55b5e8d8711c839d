"""Checks that our log continues ZooKeeper's: the offset, its epoch, and the batch.

ZooKeeper follows one log. A folder restored from a backup, or a clone of a disk, has the same
cluster id and node id and, after some starts, may have any epoch. Only its records differ. The last
batch that ZooKeeper followed must be in our log, for all epochs, or a comparison would delete
changes that the other log has acknowledged.

The controller's log is never trimmed beyond what ZooKeeper has confirmed (``Raft.keep_from``), so
the batch to compare is in it. Of several voters one may have loaded a snapshot of the leader, and
its log begins after that batch. The majority has just committed a record of this leader: that
proves the log instead of the batch, and the whole tree is compared. Not in Kafka, which
compares nothing.
"""

from __future__ import annotations

from typing import Protocol

from emulator.migration.taking_over.preconditions import Reason, Why
from emulator.znodes import migration, own

CLEAR = "kraft-bridge rollback --clear --yes --config FILES"
"""What deletes the znodes of a migration that has gone back; FILES: of all controllers."""
WAY_OUT = (
    "start the controller with the folder that was used last. If it is lost, ZooKeeper holds the "
    "newest metadata: roll back to ZooKeeper mode (kraft-bridge rollback), format the controllers "
    f"in empty folders, let {CLEAR} delete {migration.PATH} and {own.PATH}, restart the brokers "
    "and migrate again"
)
"""The instruction for a folder whose log is not the one that ZooKeeper follows."""


class LogView(Protocol):
    """The part of our log that the guards use."""

    @property
    def log_start_offset(self) -> int:
        """First offset of the log after the snapshot it begins with."""

    @property
    def high_watermark(self) -> int:
        """Offset of the first record that is not committed."""

    def epoch_at(self, offset: int) -> int | None:
        """Leader epoch of the record at ``offset``; None if the log does not hold it."""

    def digest_at(self, offset: int) -> str:
        """Digest of the batch that holds ``offset``; empty when the log does not hold it."""


def current(znode: migration.MigrationZnode, mine: own.OwnZnode | None) -> bool:
    """Whether the same multi wrote our own znode and ``/migration``."""
    if mine is None:
        return False
    at = (znode.kraft_metadata_offset, znode.kraft_metadata_epoch)
    return (mine.offset, mine.metadata_epoch) == at


def broken(
    znode: migration.MigrationZnode,
    mine: own.OwnZnode | None,
    log: LogView,
    *,
    witnessed: bool = False,
) -> list[Reason]:
    """Why our log is not the one that ZooKeeper follows; empty if it is not excluded.

    Args:
        znode: ``/migration``.
        mine: our own znode. If another multi wrote it, it is compared as far back as the log goes:
            a Kafka controller may have written ``/migration`` since.
        log: our log.
        witnessed: whether a majority of several voters holds it.
    """
    offset, epoch = znode.kraft_metadata_offset, znode.kraft_metadata_epoch
    if mine is None:
        return _compare(migration.PATH, offset, epoch, "", log)
    named = own.log_at(mine)
    kept = current(znode, mine) and not (witnessed and named[0] < log.log_start_offset)
    if kept and named == (offset, epoch):
        return _compare(migration.PATH, offset, epoch, mine.digest, log, kept=True)
    return [
        *_compare(migration.PATH, offset, epoch, "", log),
        *_compare(own.PATH, *named, mine.digest, log, kept=kept),
    ]


def _compare(  # noqa: PLR0917  # a place in a log, and how to look at it
    path: str, offset: int, epoch: int, digest: str, log: LogView, kept: bool = False
) -> list[Reason]:
    why = ""
    if offset < 0:
        return []
    if offset < log.log_start_offset:
        first = log.epoch_at(log.log_start_offset)
        if first is not None and first < epoch:
            why = f"our log begins after it, with the older epoch {first}"
        elif kept and digest:
            return [_trimmed(path, offset, epoch)]
    elif log.epoch_at(offset) is None:
        why = "our log ends before it"
    elif log.epoch_at(offset) != epoch:
        why = f"our log has epoch {log.epoch_at(offset)} there"
    elif digest and log.digest_at(offset) != digest:
        why = "our log has another batch there"
    if not why:
        return []
    text = (
        f"{path} is at offset {offset} of epoch {epoch}; {why}. ZooKeeper follows another log: "
        "this folder was restored from a backup, is a clone, or was formatted again. Continuing "
        f"would delete what that log has acknowledged: {WAY_OUT}"
    )
    return [Reason(Why.OTHER_LOG, path, text, fatal=True)]


def _trimmed(path: str, offset: int, epoch: int) -> Reason:
    """The log cannot be compared, although a controller keeps the position of ZooKeeper."""
    text = (
        f"{path} is at offset {offset} of epoch {epoch}; our log begins after it, although a "
        "controller keeps the batch at that offset. There are two causes. Either ZooKeeper was "
        "restored from an older state, or an earlier release has trimmed our log. Then our log "
        f"holds the newest metadata: stop all other controllers and delete {own.PATH}, and "
        "ZooKeeper is made equal to our log. Or ZooKeeper follows another log. Then continuing "
        f"would delete what that log has acknowledged: {WAY_OUT}"
    )
    return Reason(Why.OTHER_LOG, path, text, fatal=True)
