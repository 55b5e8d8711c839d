"""What a node still does for ZooKeeper, brokers and callers when its term ends."""

from __future__ import annotations

from emulator.seam import Effect, Send
from tests.kit.joined import Party
from tests.unit.node.migrating_quorum import MigratingQuorum
from tests.unit.node.test_quorum import IDS


def test_what_waits_in_the_client_of_zookeeper_is_not_sent_after_the_term():
    """ZooKeeper is slow, one request at a time: the rest of the first creates waits."""
    quorum = MigratingQuorum(zookeeper_max_in_flight_requests="1")
    held: list[Send] = []
    slow = True

    def answers_late(party: Party, effect: Effect) -> bool:
        if slow and quorum.writes and party is quorum.zookeeper.party and isinstance(effect, Send):
            held.append(effect)
            return True
        return False

    quorum.watched.before = answers_late
    quorum.joined.until(lambda: bool(quorum.writes))
    leader, _ = quorum.writes[0]
    assert "/migration" not in quorum.zookeeper.nodes
    for each in IDS:
        if each != leader:
            quorum.kill(each)
    quorum.joined.wait(4_000)
    assert not quorum.node(leader).raft.is_leader
    slow = False
    for answer in held:
        quorum.joined.send(answer.conn, answer.data)
    quorum.joined.settle()
    quorum.joined.wait(1_000)
    assert "/migration" not in quorum.zookeeper.nodes
