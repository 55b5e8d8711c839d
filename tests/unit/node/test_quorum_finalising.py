"""Three controllers are restarted without the flag, one by one: the last restart finalises."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from emulator.config.load import Config
from emulator.controller.machine import Controller
from emulator.metadata.migration_state import MigrationState
from emulator.migration.states import State
from emulator.node.introspection import finalisation
from emulator.node.machine import Node
from emulator.node.readiness import not_ready_because
from emulator.node.role import Role
from tests.unit.node.migrating_quorum import BROKER, MigratingQuorum
from tests.unit.node.test_quorum import CLUSTER, IDS
from wire import messages as m
from wire import records as r
from wire.errors import ErrorCode
from wire.record_serde import decode_record


class FinalisingQuorum(MigratingQuorum):
    """A migrated quorum whose broker runs in KRaft mode."""

    def rolled(self) -> int:
        """Migrate, and restart the broker in KRaft mode; who leads."""
        leader = self.migrate()
        self.joined.wait(10_000)
        assert self.register_kraft() == 0
        self.wait_written()
        self.wait_equal()
        return leader

    def register_kraft(self, broker_id: int = BROKER) -> int:
        kind = m.BrokerRegistrationRequest
        request = kind(
            broker_id=broker_id,
            cluster_id=CLUSTER,
            incarnation_id=b"k" * 16,
            listeners=[kind.Listener(name="PLAINTEXT", host="broker", port=9092)],
            features=[
                kind.Feature(
                    name="metadata.version", min_supported_version=1, max_supported_version=21
                )
            ],
            is_migrating_zk_broker=False,
            log_dirs=[b"d" * 16],
        )
        asker = self.joined.ask((f"host-{self.leader}", 9093))
        return int(asker.ask(request, 4 if self.level >= 17 else 1).error_code)

    def wait_written(self) -> None:
        """Until ZooKeeper has every change; NoOps may go on."""

        def written(node_id: int) -> bool:
            driver = self.node(node_id).driver
            if driver is None or driver.state is not State.DUAL_WRITE:
                return False
            return driver.status(self.joined.now_ms).lag_changed_records == 0

        self.joined.until(lambda: any(map(written, self.parties)))

    def stop(self, node_id: int) -> None:
        """SIGTERM, until the process is gone."""
        party = self.parties[node_id]
        self.joined.perform(party, party.machine.shutdown(self.joined.now_ms))
        self.joined.settle()
        self.joined.until(lambda: party.halt is not None, 5_000)
        self.kill(node_id)

    def restart(self, node_id: int, *, flag: bool = False) -> None:
        (self.without_flag.discard if flag else self.without_flag.add)(node_id)
        self.start(node_id)

    def states(self) -> set[MigrationState]:
        return {self.node(each).controller.stable.migration_state for each in self.parties}

    def finals(self, node: Node) -> int:
        return sum(
            decode_record(value)[0] == r.ZkMigrationStateRecord(zk_migration_state=3)
            for batch in node.raft.read(0, node.raft.log_end_offset - 1)
            if not batch.is_control
            for _, value in batch.records
        )

    def missing(self, node_id: int) -> list[tuple[str, str]]:
        found = self.node(node_id).migration.missing
        return [(one.lack.value, one.subject) for one in found]

    def final(self) -> None:
        """Every node shows the final record, which stands in each log once."""
        self.joined.until(lambda: self.states() == {MigrationState.POST_MIGRATION}, 20_000)
        self.wait_equal()
        assert {self.finals(self.node(each)) for each in self.parties} == {1}


LAST = MigrationState.MIGRATION
FINAL = MigrationState.POST_MIGRATION


@pytest.mark.parametrize("leader_last", [True, False], ids=["leader last", "leader first"])
@pytest.mark.parametrize("level", [14, 21])
@pytest.mark.requirement("F07", "F08")
def test_the_restart_of_the_last_one_finalises(level: int, leader_last: bool) -> None:
    quorum = FinalisingQuorum(level=level)
    leader = quorum.rolled()
    others = [each for each in IDS if each != leader]
    order = [*others, leader] if leader_last else [leader, *others]
    for node_id in order[:-1]:
        quorum.stop(node_id)
        quorum.joined.wait(3_000)
        assert quorum.states() == {LAST}
        quorum.restart(node_id)
        quorum.joined.wait(5_000)
        quorum.wait_equal()
        assert quorum.states() == {LAST}
        assert not_ready_because(quorum.node(node_id), quorum.joined.now_ms) == ""
    (last,) = [each for each in IDS if each not in quorum.without_flag]
    assert quorum.leader == last
    quorum.wait_written()
    assert quorum.differences() == {}
    quorum.stop(last)
    quorum.joined.wait(5_000)
    waits = quorum.leader
    assert quorum.states() == {LAST}, "unknown counts as missing"
    kind = "controller_with_flag" if level == 21 else "controller_unknown"
    assert quorum.missing(waits) == [(kind, str(last))]
    assert quorum.change(waits, "ann") == 0
    count = len(quorum.writes)
    quorum.restart(last)
    quorum.final()
    assert len(quorum.writes) == count
    assert quorum.change(quorum.leader, "bob") == 0
    assert all(quorum.node(each).zk is None for each in IDS)


def test_the_stores_are_compared_when_the_last_broker_has_left_zookeeper_mode() -> None:
    """What somebody wrote to ZooKeeper meanwhile does not stand below the mark."""
    quorum = FinalisingQuorum()
    leader = quorum.migrate()
    quorum.wait_written()
    quorum.put("/config/topics/a", b'{"version":1,"config":{"retention.ms":"1"}}')
    quorum.joined.wait(10_000)
    assert quorum.differences() != {}
    assert quorum.register_kraft() == 0
    quorum.joined.until(lambda: quorum.differences() == {}, 5_000)
    quorum.stop(leader)
    mark = quorum.node(quorum.leader).controller.stable.mark
    assert mark.read_ms > quorum.joined.now_ms - 5_000


def named(quorum: FinalisingQuorum, leader: int) -> set[tuple[str, str]]:
    """The controllers that its ``/status`` names as missing."""
    told = finalisation(quorum.node(leader))
    assert told is not None
    return {(one["why"], one["subject"]) for one in told["missing"] if one["subject"] != "mark"}


@pytest.mark.parametrize("level", [14, 21])
def test_the_leader_names_the_controllers_whose_present_process_has_the_flag(
    level: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It named one that had just been restarted without, and below 3.7 all as unknown."""
    quorum = FinalisingQuorum(level=level)
    leader = quorum.rolled()
    flagged = {("controller_with_flag", str(each)) for each in IDS}
    assert named(quorum, leader) == flagged
    other = next(each for each in IDS if each != leader)
    before = quorum.node(leader).controller.stable.controllers.get(other)
    quorum.stop(other)
    quorum.restart(other)
    inquiry = quorum.node(leader).peers.inquiry
    quorum.joined.until(lambda: not inquiry.voters[other].migrating, 10_000)
    image = quorum.node(leader).controller.stable
    if before is not None:  # as long as its new registration is not in the log
        image = replace(image, controllers=image.controllers.set(other, before))
        monkeypatch.setattr(Controller, "stable", image)
    assert named(quorum, leader) == flagged - {("controller_with_flag", str(other))}


def test_with_a_comparison_that_does_not_end_no_mark_is_left() -> None:
    quorum = FinalisingQuorum()
    leader = quorum.migrate()
    quorum.wait_written()
    quorum.joined.wait(10_000)
    quorum.cut_zookeeper()
    assert quorum.register_kraft() == 0
    told = finalisation(quorum.node(leader))
    assert "was not read since the last broker left" in told["no_mark_because"]
    quorum.stop(leader)
    quorum.heal_zookeeper()
    assert quorum.node(quorum.leader).controller.stable.mark is None


def test_a_foreign_claim_right_before_the_mark_is_seen() -> None:
    """Nothing is left to write, so no multi would check it."""
    quorum = FinalisingQuorum()
    leader = quorum.rolled()
    quorum.put("/controller_epoch", b"99")
    quorum.stop(leader)
    quorum.joined.wait(3_000)
    assert quorum.node(quorum.leader).controller.stable.mark is None


def test_who_stops_names_those_with_the_flag_as_successors() -> None:
    """Whatever their ids are: one without the flag would hand it on at once."""
    quorum = FinalisingQuorum()
    quorum.rolled()
    for _ in range(3):
        leader = quorum.leader
        other, third = sorted(each for each in IDS if each != leader)
        quorum.stop(other)
        quorum.restart(other)
        quorum.joined.wait(3_000)
        quorum.wait_equal()
        before = quorum.node(leader).raft.leader_epoch
        quorum.stop(leader)
        assert quorum.wait_for(State.DUAL_WRITE) == third
        assert quorum.node(third).raft.leader_epoch == before + 1
        for each in (leader, other):
            if each in quorum.parties:
                quorum.stop(each)
            quorum.restart(each, flag=True)
        quorum.joined.wait(3_000)


def test_a_leader_without_the_flag_gives_way_to_one_with_it_and_zookeeper_gets_all() -> None:
    quorum = FinalisingQuorum()
    leader = quorum.rolled()
    other, third = (each for each in IDS if each != leader)
    for each in (other, leader):
        quorum.stop(each)
        quorum.restart(each)
        quorum.joined.wait(3_000)
    quorum.wait_for(State.DUAL_WRITE)
    assert quorum.leader == third
    quorum.stop(third)
    assert quorum.change(quorum.leader, "ann") == 0
    assert "/config/users/ann" not in quorum.zookeeper.nodes
    before = quorum.node(quorum.leader).raft.leader_epoch
    quorum.restart(third, flag=True)
    assert quorum.wait_for(State.DUAL_WRITE) == third
    assert quorum.node(third).raft.leader_epoch == before + 1, "named to stand first"
    quorum.wait_written()
    assert "/config/users/ann" in quorum.zookeeper.nodes
    assert quorum.differences() == {}
    assert quorum.states() == {LAST}


def test_after_the_death_of_the_last_one_with_the_flag_the_others_wait_and_refuse() -> None:
    """It left no mark, so nobody knows what ZooKeeper has; it comes back with the flag."""
    quorum = FinalisingQuorum()
    leader = quorum.rolled()
    others = [each for each in IDS if each != leader]
    for each in others:
        quorum.stop(each)
        quorum.restart(each)
        quorum.joined.wait(3_000)
    assert quorum.leader == leader
    quorum.kill(leader)
    quorum.joined.wait(10_000)
    (waits,) = [each for each in others if quorum.node(each).raft.is_leader]
    assert quorum.node(waits).role.now is Role.SILENT
    assert quorum.change(waits, "ann") == ErrorCode.NOT_CONTROLLER
    assert ("no_mark", "mark") in quorum.missing(waits)
    quorum.restart(leader, flag=True)
    assert quorum.wait_for(State.DUAL_WRITE) == leader
    quorum.stop(leader)
    quorum.restart(leader)
    quorum.final()


@pytest.mark.requirement("F12")
def test_with_a_broker_in_zookeeper_mode_nobody_finalises() -> None:
    quorum = FinalisingQuorum()
    leader = quorum.migrate()
    for each in [*(each for each in IDS if each != leader), leader]:
        quorum.stop(each)
        quorum.restart(each)
        quorum.joined.wait(3_000)
    quorum.joined.wait(20_000)
    assert quorum.states() == {LAST}
    (waits,) = [each for each in IDS if quorum.node(each).raft.is_leader]
    assert ("zookeeper_broker", str(BROKER)) in quorum.missing(waits)
    assert quorum.node(waits).role.now is Role.SILENT


def test_one_with_the_flag_that_follows_lets_zookeeper_go() -> None:
    """A leader by Kafka's rule finalises while others have the flag."""
    quorum = FinalisingQuorum()
    leader = quorum.rolled()
    quorum._more["kraftbridge_finalization"] = "kafka"
    other, third = (each for each in IDS if each != leader)
    quorum.stop(other)
    quorum.restart(other)
    quorum.joined.wait(3_000)
    quorum.kill(third)
    quorum.kill(leader)
    quorum.start(third)
    quorum.joined.until(lambda: FINAL in quorum.states() or quorum.leader == third, 20_000)
    if quorum.leader == third:
        quorum.wait_for(State.DUAL_WRITE)
        quorum.stop(third)
        quorum.start(third)
    quorum.final()
    count = len(quorum.writes)
    zk = quorum.node(third).zk
    assert zk is None or not zk.connected
    assert not_ready_because(quorum.node(third), quorum.joined.now_ms) == ""
    quorum.start(leader)
    quorum.joined.wait(5_000)
    assert quorum.states() == {FINAL}
    assert len(quorum.writes) == count


class Tried(FinalisingQuorum):
    """One voter is started with the flag again when all others run without, below a mark."""

    def tried(self) -> tuple[int, list[int]]:
        """Restart all but the leader without the flag, and stop it; it, and the others."""
        third = self.rolled()
        others = [each for each in IDS if each != third]
        for each in others:
            self.stop(each)
            self.restart(each)
            self.joined.wait(3_000)
        self.wait_for(State.DUAL_WRITE)
        self.stop(third)
        self.joined.wait(5_000)
        return third, others


def test_a_voter_with_the_flag_that_cannot_lead_costs_seconds_below_a_mark() -> None:
    """The others serve, and give way to it more and more rarely; the status names it."""
    quorum = Tried()
    third, others = quorum.tried()
    quorum.cut_zookeeper()
    quorum.restart(third, flag=True)
    served = 0
    for _ in range(150):
        quorum.joined.wait(1_000)
        served += bool(set(quorum.active()) & set(others))
    assert served > 150 * 0.8
    texts = [(finalisation(quorum.node(each)) or {}).get("waits_for", "") for each in others]
    (told,) = filter(None, texts)
    assert f"controller {third} has" in told
    assert quorum.states() == {LAST}
    quorum.heal_zookeeper()
    quorum.joined.until(lambda: quorum.driver(third).state is State.DUAL_WRITE, 700_000)


class Elsewhere(Tried):
    """``elsewhere``: nodes whose chroot is another one."""

    elsewhere: frozenset[int] = frozenset()

    def configured(self, raw: dict[str, str]) -> Config:
        if int(raw["node.id"]) in self.elsewhere:
            raw |= {"zookeeper.connect": "zk:2181/elsewhere"}
        return super().configured(raw)


@pytest.mark.slow
def test_so_does_one_with_another_chroot_which_cannot_claim() -> None:
    quorum = Elsewhere()
    third, others = quorum.tried()
    quorum.elsewhere = frozenset({third})
    quorum.restart(third, flag=True)
    refused, longest = 0, 0
    for _ in range(560):
        quorum.joined.wait(1_000)
        refused = 0 if set(quorum.active()) & set(others) else refused + 1
        longest = max(longest, refused)
    assert 5 < longest <= 30
    assert quorum.states() == {LAST}


@pytest.mark.parametrize("level", [14, 21])
def test_one_that_comes_back_with_the_flag_right_before_the_end_keeps_it_open(level: int) -> None:
    """Its last answer was of the process before, and less than 5 s old."""
    quorum = Tried(level=level, kraftbridge_finalise_hold="true")
    third, _others = quorum.tried()
    quorum.restart(third)
    quorum.joined.until(lambda: [one for one, _ in quorum.missing(quorum.leader)] == ["held"])
    waits = quorum.leader
    other = next(each for each in IDS if each != waits)
    quorum.joined.wait(5_500)
    quorum.kill(other)
    quorum.restart(other, flag=True)
    assert quorum.missing(waits) == [("held", "hold")], "it has not asked again yet"
    quorum.node(waits).release_hold()
    quorum.joined.wait(3_000)
    assert quorum.states() == {LAST}
