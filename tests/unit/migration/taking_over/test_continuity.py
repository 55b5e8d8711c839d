"""Whether our log is the one that ZooKeeper follows, by offset, epoch and batch."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest

from emulator.migration.taking_over.continuity import broken, current
from emulator.znodes import migration, own

OURS, THEIRS = "of our log", "of another log"
TRIMMED = "our log begins after it, although a controller keeps the batch"


@dataclass
class Log:
    """A log from ``log_start_offset`` to ``high_watermark``, in epoch 3 from offset 50 on."""

    log_start_offset: int = 0
    high_watermark: int = 200
    other: set[int] = field(default_factory=set)
    """Offsets where it holds another batch."""

    def epoch_at(self, offset: int) -> int | None:
        if not self.log_start_offset <= offset < self.high_watermark:
            return None
        return 3 if offset >= 50 else 2

    def digest_at(self, offset: int) -> str:
        if self.epoch_at(offset) is None:
            return ""
        return THEIRS if offset in self.other else OURS


def said(offset: int = 100, epoch: int = 3) -> migration.MigrationZnode:
    return migration.MigrationZnode(3000, 7, offset, epoch)


def mine(offset: int = 100, log_offset: int = -1, digest: str = OURS) -> own.OwnZnode:
    return own.OwnZnode(3000, 3, 9, 4, offset, 3, digest=digest, log_offset=log_offset)


@pytest.mark.parametrize(
    ("znode", "of_one_multi"), [(None, False), (mine(100), True), (mine(99), False)]
)
def test_which_multi_wrote_our_znode(znode: own.OwnZnode | None, of_one_multi: bool) -> None:
    assert current(said(), znode) is of_one_multi


@pytest.mark.parametrize(
    ("log", "migration_says", "own_says", "witnessed", "reasons"),
    [
        # Everything is there and alike.
        (Log(), said(), mine(), False, []),
        (Log(), said(), None, False, []),
        (Log(), said(-1), None, False, []),
        (Log(), said(), mine(100, 150), False, []),
        # Another epoch, the end, another batch.
        (Log(), said(epoch=2), None, False, [(migration.PATH, "our log has epoch 3 there")]),
        (Log(high_watermark=100), said(), None, False, [(migration.PATH, "our log ends before")]),
        (Log(other={100}), said(), mine(), False, [(migration.PATH, "another batch")]),
        (Log(other={150}), said(), mine(100, 150), False, [(own.PATH, "another batch")]),
        # What another multi wrote is compared as far back as our log goes, and no further.
        (Log(other={90}), said(), mine(90), False, [(own.PATH, "another batch")]),
        (Log(95), said(), mine(90), False, []),
        (Log(95), said(), mine(90), True, []),
        # Its own controller keeps the batch: it is missing only where a log was restored.
        (Log(120), said(), mine(), False, [(migration.PATH, TRIMMED)]),
        (Log(120), said(), mine(digest=""), False, []),
        (Log(160), said(), mine(100, 150), False, [(own.PATH, TRIMMED)]),
        # Of several voters one may have loaded a snapshot: a majority stands for the batch.
        (Log(120), said(), mine(), True, []),
        (Log(160), said(), mine(100, 150), True, []),
        # What is still in the log is compared all the same.
        (Log(120, other={150}), said(), mine(100, 150), True, [(own.PATH, "another batch")]),
    ],
)
def test_what_excludes_our_log(
    log: Log,
    migration_says: migration.MigrationZnode,
    own_says: own.OwnZnode | None,
    witnessed: bool,
    reasons: list[tuple[str, str]],
) -> None:
    found = broken(migration_says, own_says, log, witnessed=witnessed)
    assert [one.subject for one in found] == [path for path, _ in reasons]
    for one, (_, why) in zip(found, reasons, strict=True):
        assert why in one.text
        assert one.fatal
