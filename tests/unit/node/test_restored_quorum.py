"""All voters of a migrating quorum get old copies of their folders; ZooKeeper has more."""

from __future__ import annotations

from emulator.migration.authority import Authority
from emulator.node.role import Role
from emulator.znodes import migration
from tests.unit.node.migrating_quorum import MigratingQuorum
from tests.unit.node.test_quorum import IDS

ELECTIONS = 20


def stands_at(quorum: MigratingQuorum) -> int:
    return migration.parse(quorum.data(migration.PATH)).kraft_metadata_offset


def test_a_restored_quorum_stays_refused_however_far_its_elections_bring_its_log():
    """Each election appends; the log grows beyond what ZooKeeper holds, and must not be trimmed."""
    quorum = MigratingQuorum(metadata_log_max_snapshot_interval_ms="1000")
    quorum.migrate()
    quorum.joined.wait(5_000)
    quorum.wait_written()
    quorum.kill(*IDS)
    copies = {each: dict(files) for each, files in quorum.files.items()}
    for each in IDS:
        quorum.start(each)
    assert quorum.change(quorum.migrate(), "late") == 0
    quorum.wait_written()
    quorum.kill(*IDS)
    quorum.files = copies
    for each in IDS:
        quorum.start(each)
    del quorum.writes[:]

    def leader() -> int | None:
        return next((one for one in quorum.parties if quorum.node(one).raft.is_leader), None)

    for _ in range(ELECTIONS):
        quorum.joined.until(lambda: leader() is not None)
        quorum.joined.wait(2_500)
        chosen = leader()
        assert chosen is not None
        assert quorum.node(chosen).role.now is Role.SILENT
        assert quorum.driver(chosen).authority is Authority.REFUSED
        quorum.kill(chosen)
        quorum.start(chosen)
    assert quorum.node(chosen).raft.log_end_offset > stands_at(quorum) + ELECTIONS
    assert quorum.writes == []
    assert "/config/users/late" in quorum.zookeeper.nodes
