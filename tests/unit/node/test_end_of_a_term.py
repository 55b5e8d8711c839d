"""What a node still does for ZooKeeper, brokers and callers when its term ends."""

from __future__ import annotations

import pytest

from emulator.migration.states import State
from emulator.node.role import GIVES_UP_MS_MIN
from emulator.raft.layout import TOPIC, TOPIC_ID
from emulator.seam import Effect, Send
from tests.kit.joined import Party
from tests.unit.node.migrating_quorum import MigratingQuorum, in_dual_write
from tests.unit.node.test_quorum import CLUSTER, IDS
from wire import messages as m
from wire.errors import ErrorCode


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


def test_the_migration_takes_nothing_as_leader_after_it_was_handed_over():
    """SIGTERM: Raft resigns, and what ZooKeeper had answered before is still to be taken."""
    quorum, leader = in_dual_write()
    node, party = quorum.node(leader), quorum.parties[leader]
    taken, exchange = [0], node.migration.exchange

    def checked(now_ms: int) -> list[Effect]:
        taken[0] += 1
        assert node.raft.is_leader or quorum.driver(leader).state is State.INACTIVE
        return exchange(now_ms)

    node.migration.exchange = checked  # type: ignore[method-assign]
    quorum.joined.perform(party, node.shutdown(quorum.joined.now_ms))
    quorum.joined.settle()
    quorum.joined.until(lambda: party.halt is not None, 4_000)
    assert taken[0] > 1


@pytest.mark.parametrize("copied", [False, True])
def test_a_leader_that_must_not_lead_tells_brokers_nothing_until_it_resigns(copied):
    """Nobody has the flag any more: nobody has asked ZooKeeper whether this is its log."""
    quorum = MigratingQuorum()
    if copied:
        quorum.migrate()
        quorum.wait_written()
    else:
        quorum.wait_ready()
        quorum.wait_equal()
    quorum.kill(*IDS)
    quorum.without_flag.update(IDS)
    for each in IDS:
        quorum.start(each)

    def unfit() -> list[int]:
        nodes = {each: quorum.node(each) for each in IDS}
        return [each for each, node in nodes.items() if node.raft.is_leader]

    for _ in range(3):
        quorum.joined.until(lambda: bool(unfit()))
        leader = unfit()[0]
        asker = quorum.joined.ask((f"host-{leader}", 9093))
        told = (
            asker.ask(fetch(quorum.node(leader).raft.leader_epoch), 17).responses[0].partitions[0]
        )
        assert told.error_code == ErrorCode.BROKER_NOT_AVAILABLE
        assert told.current_leader.leader_id == -1
        quorum.joined.wait(GIVES_UP_MS_MIN)


def fetch(epoch: int) -> m.FetchRequest:
    """What an observer asks."""
    partition = m.FetchRequest.FetchPartition(
        current_leader_epoch=epoch, fetch_offset=0, last_fetched_epoch=0
    )
    topic = m.FetchRequest.FetchTopic(topic_id=TOPIC_ID, topic=TOPIC, partitions=[partition])
    return m.FetchRequest(
        cluster_id=CLUSTER,
        replica_state=m.FetchRequest.ReplicaState(replica_id=1),
        max_bytes=1 << 20,
        topics=[topic],
    )
