"""A quorum of three migrates: the leader writes to ZooKeeper, another goes on where it ended."""

from __future__ import annotations

from dataclasses import replace

import pytest

from emulator.metadata.migration_state import MigrationState
from emulator.migration.states import State
from emulator.node import introspection
from emulator.node.role import Role
from emulator.raft.layout import BOOTSTRAP_CHECKPOINT
from emulator.seam import AppendFile, Effect, Log, Send
from emulator.znodes import controller, migration, own
from tests.kit.joined import Party
from tests.kit.requests import quota
from tests.unit.node.migrating_quorum import MigratingQuorum, in_dual_write
from tests.unit.node.test_end_of_a_term import fetch
from tests.unit.node.test_quorum import IDS
from wire.errors import ErrorCode

STATES = [
    State.WAIT_FOR_CONTROLLER_QUORUM,
    State.WAIT_FOR_BROKERS,
    State.BECOME_CONTROLLER,
    State.ZK_MIGRATION,
    State.SYNC_KRAFT_TO_ZK,
    State.KRAFT_CONTROLLER_TO_BROKER_COMM,
    State.DUAL_WRITE,
]


def holder(quorum: MigratingQuorum) -> controller.ControllerZnode:
    data = quorum.data("/controller")
    assert data is not None
    return controller.parse(data)


def finished(quorum: MigratingQuorum) -> None:
    """Dual write goes on under whoever leads, and both stores agree, a new change included."""
    leader = quorum.migrate()
    assert leader == quorum.leader
    quorum.wait_equal()
    assert quorum.change(leader, "last") == 0
    quorum.wait_written()
    assert quorum.differences() == {}
    assert "/config/users/last" in quorum.zookeeper.nodes
    assert holder(quorum).broker_id == leader
    assert holder(quorum).kraft_epoch == quorum.node(leader).raft.leader_epoch


def test_three_migrate_and_those_who_follow_only_read():
    quorum = MigratingQuorum()
    leader = quorum.migrate()
    assert {each for each, _ in quorum.writes} == {leader}
    finished(quorum)
    others = [each for each in IDS if each != leader]
    for each in others:
        assert quorum.node(each).role.now is Role.FOLLOWING
        assert quorum.driver(each).state is State.INACTIVE
        assert quorum.change(each, "x") == ErrorCode.NOT_CONTROLLER
        assert introspection.status(quorum.node(each), 0)["leader_id"] == leader
        phases = {quorum.driver(node).status(0).phase for node in (leader, each)}
        assert phases == {"hybrid"}
    assert {each for each, _ in quorum.writes} == {leader}


@pytest.mark.parametrize("state", STATES, ids=lambda state: state.name)
@pytest.mark.parametrize("returns", [False, True], ids=["stays away", "returns"])
def test_another_goes_on_when_the_leader_dies_in_a_state_of_its_driver(state, returns):
    quorum = MigratingQuorum()
    dead: list[Party] = []

    def dies(party: Party, effect: Effect) -> bool:
        if dead:
            return party in dead
        match effect:
            case Log(event="migration driver", fields={"to": to}) if to == state.value:
                dead.append(party)
                return True
        return False

    quorum.watched.before = dies
    quorum.joined.until(lambda: bool(dead) or len(quorum.active()) == 1)
    if not dead:
        quorum.wait_ready()
    if not dead:
        quorum.register(answered=False)
        quorum.joined.until(lambda: bool(dead))
    node_id = int(dead[0].name)
    quorum.kill(node_id)
    quorum.watched.before = lambda party, effect: False
    if returns:
        quorum.joined.wait(20)
        quorum.start(node_id)
        finished(quorum)
        return
    # Two are a majority, but before the copy every controller must be there.
    quorum.joined.wait(5_000)
    shown = [quorum.node(each).controller.stable.migration_state for each in quorum.parties]
    if MigrationState.MIGRATION not in shown:
        quorum.start(node_id)
    finished(quorum)


@pytest.mark.parametrize("frame", range(1, 60, 6))
@pytest.mark.parametrize("sent", [False, True], ids=["before", "after"])
def test_another_goes_on_when_the_leader_dies_at_a_request_to_zookeeper(frame, sent):
    """The n-th request of whoever leads is its last, or is not sent any more."""
    quorum = MigratingQuorum()
    seen, dead = 0, list[Party]()

    def dies(party: Party, effect: Effect) -> bool:
        nonlocal seen
        if dead:
            return party in dead
        if not isinstance(effect, Send) or not party.name.isdigit():
            return False
        node = quorum.node(int(party.name)) if int(party.name) in quorum.parties else None
        if node is None or node.zk is None or not node.raft.is_leader:
            return False
        if not node.zk.owns(effect.conn):
            return False
        seen += 1
        if seen < frame:
            return False
        dead.append(party)
        if sent:
            quorum.joined.send(effect.conn, effect.data)
        return True

    quorum.watched.before = dies
    quorum.joined.until(lambda: bool(dead) or len(quorum.active()) == 1)
    if not dead:
        quorum.wait_ready()
    if not dead:
        quorum.register(answered=False)
        quorum.joined.until(lambda: bool(dead), 20_000)
    quorum.kill(int(dead[0].name))
    quorum.watched.before = lambda party, effect: False
    quorum.joined.wait(2_500)
    quorum.start(int(dead[0].name))
    finished(quorum)


@pytest.mark.parametrize("level", [8, 12, 14, 21])
@pytest.mark.parametrize("page", [1, 2])
@pytest.mark.parametrize("written", [False, True], ids=["before", "after"])
def test_a_copy_that_was_cut_by_the_death_of_one_leader_is_made_by_another(level, page, written):
    """With transactions the next leader aborts it; without them its records stay, unfinished."""
    quorum = MigratingQuorum(level=level, zookeeper_metadata_migration_min_batch_size="1")
    seen, dead = 0, list[Party]()

    def dies(party: Party, effect: Effect) -> bool:
        nonlocal seen
        if dead:
            return party in dead
        if not isinstance(effect, AppendFile) or int(party.name) not in quorum.parties:
            return False
        if quorum.driver(int(party.name)).state is not State.ZK_MIGRATION:
            return False
        seen += 1
        if seen < page:
            return False
        if written:
            party.files[effect.path] += effect.data
        dead.append(party)
        return True

    quorum.wait_ready()
    quorum.watched.before = dies
    quorum.register(answered=False)
    quorum.joined.until(lambda: bool(dead), 20_000)
    quorum.kill(int(dead[0].name))
    quorum.watched.before = lambda party, effect: False
    quorum.joined.wait(2_500)
    quorum.start(int(dead[0].name))
    finished(quorum)
    topic = quorum.node(quorum.leader).controller.stable.topic("a")
    assert len(topic.partitions) == 2


@pytest.mark.requirement("E07")
def test_in_dual_write_each_leader_claims_once_and_writes_what_differs():
    quorum = MigratingQuorum()
    epochs = []
    for number in range(3):
        leader = quorum.migrate()
        assert quorum.change(leader, f"user-{number}") == 0
        quorum.wait_written()
        epochs.append(own.parse(quorum.data(own.PATH)).zk_epoch)
        quorum.kill(leader)
        after = quorum.wait_for(State.DUAL_WRITE)
        quorum.wait_written()
        assert quorum.differences() == {}
        assert quorum.driver(after).claim_count == 1
        quorum.start(leader)
        quorum.wait_equal()
        assert quorum.driver(leader).state is State.INACTIVE
    assert epochs == sorted(set(epochs))


def test_a_failover_with_nothing_to_write_writes_hardly_anything():
    quorum, leader = in_dual_write()
    del quorum.writes[:]
    quorum.kill(leader)
    quorum.wait_for(State.DUAL_WRITE)
    quorum.wait_written()
    assert len(quorum.writes) <= 4, quorum.writes
    assert quorum.differences() == {}


def test_a_leader_whose_voters_are_gone_writes_nothing_more_though_it_reaches_zookeeper():
    quorum, leader = in_dual_write()
    for each in IDS:
        if each != leader:
            quorum.kill(each)
    quorum.joined.wait(4_000)
    node = quorum.node(leader)
    assert node.role.now is Role.FOLLOWING
    assert node.zk.connected
    assert quorum.driver(leader).state is State.INACTIVE
    count = len(quorum.writes)
    quorum.joined.wait(10_000)
    assert len(quorum.writes) == count
    for each in IDS:
        if each != leader:
            quorum.start(each)
    finished(quorum)


@pytest.mark.requirement("E01")
def test_a_leader_cut_off_from_the_voters_cannot_write_to_zookeeper_beside_the_next():
    quorum, old = in_dual_write()
    asker = quorum.joined.ask((f"host-{old}", 9093))
    quorum.watched.isolate(quorum.parties[old])
    asker.send(quota(1e6, "lost"), 1)
    tip = quorum.node(old).controller.tip
    assert tip.offset > quorum.node(old).controller.stable.offset, "appended, never committed"
    others = [each for each in IDS if each != old]
    quorum.joined.until(lambda: any(quorum.node(each).active for each in others))
    new = next(each for each in others if quorum.node(each).active)
    assert quorum.node(new).raft.leader_epoch > quorum.node(old).raft.leader_epoch
    assert quorum.change(new, "ann") == 0
    quorum.joined.wait(5_000)
    assert quorum.node(old).role.now is Role.FOLLOWING
    assert quorum.driver(old).state is State.INACTIVE
    quorum.watched.apart.clear()
    # Its epoch is higher now, so there may be one more election.
    quorum.joined.wait(5_000)
    finished(quorum)
    assert "/config/users/ann" in quorum.zookeeper.nodes
    assert "/config/users/lost" not in quorum.zookeeper.nodes
    quorum.wait_equal()
    assert quorum.quotas(old) == {"ann", "last"}


def test_a_leader_that_is_stopped_writes_what_is_left_and_resigns_then():
    quorum, leader = in_dual_write()
    assert quorum.change(leader, "ann") == 0
    begin, party = quorum.joined.now_ms, quorum.parties[leader]
    quorum.joined.perform(party, party.machine.shutdown(begin))
    quorum.joined.settle()
    quorum.joined.until(lambda: party.halt is not None, 3_000)
    assert party.halt.exit_code == 0
    assert "/config/users/ann" in quorum.zookeeper.nodes
    quorum.kill(leader)
    assert quorum.leader != leader
    assert quorum.joined.now_ms - begin < 2_000
    quorum.wait_for(State.DUAL_WRITE)
    quorum.start(leader)
    finished(quorum)


def test_a_leader_that_is_stopped_while_zookeeper_is_away_hands_over_after_two_seconds():
    quorum, leader = in_dual_write()
    quorum.cut_zookeeper()
    assert quorum.change(leader, "ann") == 0
    begin, party = quorum.joined.now_ms, quorum.parties[leader]
    quorum.joined.perform(party, party.machine.shutdown(begin))
    quorum.joined.settle()
    quorum.joined.wait(1_500)
    assert quorum.node(leader).raft.is_leader
    assert quorum.change(leader, "bob") == ErrorCode.NOT_CONTROLLER
    quorum.joined.until(lambda: party.halt is not None, 2_000)
    assert party.halt.exit_code == 0
    quorum.kill(leader)
    quorum.heal_zookeeper()
    quorum.joined.wait(3_000)
    quorum.start(leader)
    finished(quorum)
    assert quorum.quotas(quorum.leader) >= {"ann"}


def test_a_voter_that_loaded_a_snapshot_behind_which_zookeeper_stands_claims():
    """Its log does not hold the batch that ZooKeeper stands at: the majority vouches for it."""
    quorum, leader = in_dual_write(metadata_log_max_record_bytes_between_snapshots="1000")
    quorum.cut_zookeeper()
    for number in range(40):
        assert quorum.change(leader, f"user-{number}") == 0
    quorum.joined.wait(1_000)
    assert quorum.leader == leader
    for other in [each for each in IDS if each != leader]:
        quorum.kill(other)
        files = quorum.files[other]
        quorum.files[other] = {BOOTSTRAP_CHECKPOINT: files[BOOTSTRAP_CHECKPOINT]}
        quorum.start(other)
        quorum.wait_equal()
        stands_at = migration.parse(quorum.data(migration.PATH)).kraft_metadata_offset
        assert quorum.node(other).raft.log_start_offset > stands_at
    quorum.kill(leader)
    quorum.heal_zookeeper()
    quorum.joined.wait(3_000)
    finished(quorum)
    assert "/config/users/user-39" in quorum.zookeeper.nodes


def test_the_logs_of_all_voters_stay_bounded_in_dual_write():
    quorum = MigratingQuorum(metadata_log_max_record_bytes_between_snapshots="1000")
    leader = quorum.migrate()
    for number in range(120):
        assert quorum.change(leader, f"user-{number}") == 0
        quorum.joined.wait(20)
    quorum.wait_written()
    quorum.wait_equal()
    end = quorum.node(leader).raft.log_end_offset
    for each in IDS:
        assert quorum.node(each).raft.log_start_offset > end // 2


@pytest.mark.requirement("U07", "U10")
def test_a_voter_without_the_flag_does_not_lead_a_migration_and_stays_up():
    quorum, leader = in_dual_write()
    other, third = (each for each in IDS if each != leader)
    quorum.kill(other)
    quorum.without_flag.add(other)
    quorum.start(other)
    quorum.wait_equal()
    # So that it is elected first: the third one has a shorter log.
    quorum.kill(third)
    assert quorum.change(leader, "ann") == 0
    quorum.joined.wait(500)
    quorum.kill(leader)
    quorum.start(third)
    refused = "gives its leadership up"
    quorum.joined.until(
        lambda: refused in [line.event for line in quorum.parties[other].logs], 20_000
    )
    assert quorum.wait_for(State.DUAL_WRITE) == third
    assert quorum.parties[other].halt is None
    quorum.wait_written()
    # Elected a second time, it gives way again.
    quorum.start(leader)
    quorum.wait_equal()
    quorum.kill(leader)
    assert quorum.change(third, "bob") == 0
    quorum.joined.wait(500)
    quorum.kill(third)
    quorum.start(leader)
    quorum.joined.until(
        lambda: [line.event for line in quorum.parties[other].logs].count(refused) >= 2, 20_000
    )
    assert quorum.wait_for(State.DUAL_WRITE) == leader
    assert quorum.parties[other].halt is None
    quorum.wait_written()
    assert quorum.differences() == {}
    assert {"/config/users/ann", "/config/users/bob"} <= quorum.zookeeper.nodes.keys()


def test_a_voter_whose_zookeeper_is_another_clusters_leaves_the_lead_to_others():
    quorum = MigratingQuorum()
    first = quorum.leader
    driver = quorum.driver(first)
    # As its own zookeeper.connect would show it.
    driver._conversations._settings = replace(driver._settings, cluster_id="A" * 22)
    quorum.joined.until(lambda: driver.waits.own_fault != "" or quorum.active() != [first])
    finished(quorum)
    assert quorum.leader != first


def test_where_nobody_may_lead_there_are_few_elections():
    """Before the copy nobody without the flag does; after it one of them waits to finalise."""
    quorum = MigratingQuorum()
    quorum.wait_ready()
    quorum.wait_equal()
    quorum.kill(*IDS)
    quorum.without_flag.update(IDS)
    for each in IDS:
        quorum.start(each)
    quorum.joined.wait(10_000)
    before = max(quorum.node(each).raft.leader_epoch for each in IDS)
    quorum.joined.wait(30_000)
    assert quorum.active() == []
    epoch = max(quorum.node(each).raft.leader_epoch for each in IDS)
    assert epoch <= before + 33, "each once in 3 s"
    assert all(quorum.parties[each].halt is None for each in IDS)


def test_the_only_one_that_may_lead_leads_soon_though_two_with_its_log_must_not():
    """Each told the other two that it resigned, and they elected one another."""
    quorum, leader = in_dual_write()
    quorum.wait_equal()
    quorum.kill(*IDS)
    fit = leader
    quorum.without_flag.update(each for each in IDS if each != fit)
    for each in quorum.without_flag:
        quorum.start(each)
    quorum.joined.wait(5_000)
    quorum.start(fit)
    begin = quorum.joined.now_ms
    assert quorum.wait_for(State.DUAL_WRITE) == fit
    assert quorum.joined.now_ms - begin < 15_000


def formatted() -> MigratingQuorum:
    """Nobody is up, and nothing is in the logs."""
    quorum = MigratingQuorum()
    quorum.kill(*IDS)
    assert not any(path.endswith(".log") for each in IDS for path in quorum.files[each])
    return quorum


def test_a_voter_without_the_flag_begins_no_log_while_another_has_it():
    """It would begin without a migration, and nobody could add one with these folders."""
    quorum = formatted()
    quorum.without_flag.add(IDS[0])
    for each in IDS:
        quorum.start(each)
    # So that it wins the first election.
    first = quorum.node(IDS[0]).raft._member.election
    first._timer_ms = quorum.joined.now_ms + 1
    quorum.joined.wait(1)
    refused = "gives its leadership up"
    quorum.joined.until(
        lambda: refused in [line.event for line in quorum.parties[IDS[0]].logs], 3_000
    )
    told = next(line.fields for line in quorum.parties[IDS[0]].logs if line.event == refused)
    assert "it would begin without a migration" in str(told["why"])
    assert quorum.leader != IDS[0]
    assert 0 < int(str(told["epoch"])) < quorum.node(quorum.leader).raft.leader_epoch
    states = {quorum.node(each).controller.tip.migration_state for each in IDS}
    assert states == {MigrationState.PRE_MIGRATION}


@pytest.mark.parametrize("up", [IDS, IDS[:2]])
def test_a_quorum_without_the_flag_begins_a_log_without_a_migration(up):
    """Soon, also while one voter cannot be reached."""
    quorum = formatted()
    quorum.without_flag.update(IDS)
    for each in up:
        quorum.start(each)
    begin = quorum.joined.now_ms
    leader = quorum.leader
    assert quorum.joined.now_ms - begin < 4_000
    assert quorum.node(leader).controller.tip.migration_state is MigrationState.NONE
    assert quorum.change(leader, "ann") == 0
    asker = quorum.joined.ask((f"host-{leader}", 9093))
    told = asker.ask(fetch(quorum.node(leader).raft.leader_epoch), 17).responses[0].partitions[0]
    assert told.error_code == 0, "brokers are served then"
