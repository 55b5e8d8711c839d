"""What a node keeps in memory of its log ends where the log begins."""

from __future__ import annotations

from emulator.metadata.idle import IdleOffsets
from tests.unit.node.test_machine import World

EVERY_MS = 3_000
ALONE = {
    "zookeeper.metadata.migration.enable": "false",
    "metadata_log_max_snapshot_interval_ms": str(EVERY_MS),
}


def test_which_offsets_changed_nothing_is_forgotten_with_the_log() -> None:
    world = World(**ALONE)
    world.advance(EVERY_MS)
    history = world.node.history
    # As if every second record so far were a NoOp: one run each.
    history._idle = IdleOffsets(-1)
    end = history.tip.offset
    for offset in range(end % 2, end + 1, 2):
        history._idle.add(offset, offset)
    before = len(history._idle._firsts)
    assert before > 2
    world.advance(10 * EVERY_MS)
    assert world.node.raft.log_start_offset > end
    assert len(history._idle._firsts) <= 2
    assert sum(history.changes_after(history.tip.offset)) == 0
