"""The driver's terms: it leads, it resigns in any state, it leads again; followers only read."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from emulator.migration.dual_write.modes import Mode
from emulator.migration.states import State
from emulator.seam import Effect, Log
from emulator.zookeeper.ops import Create, GetChildren, GetData, Multi, MultiRead, Sync
from tests.unit.migration.stories import A, put_topic
from tests.unit.migration.world import NODE_ID, World, differences
from wire import records as r

OTHER = 3001
READS = (GetChildren, GetData, MultiRead, Sync)
STATES = [
    State.WAIT_FOR_BROKERS,
    State.BECOME_CONTROLLER,
    State.ZK_MIGRATION,
    State.SYNC_KRAFT_TO_ZK,
    State.KRAFT_CONTROLLER_TO_BROKER_COMM,
    State.DUAL_WRITE,
]


class OneOfSeveral(World):
    """One of two voters. From the state ``at`` on, what it sends to ZooKeeper is on its way."""

    def __init__(self, at: State | None = None, **settings: Any) -> None:
        self.at = at
        self.submitted: list[object] = []
        super().__init__(**settings)
        self.cluster(1, 2)
        put_topic(self)
        self.bootstrap()

    def start_process(self) -> None:
        self.settings = replace(self.settings, voters=frozenset({NODE_ID, OTHER}))
        super().start_process()
        submit = self.zk.submit

        def noted(tag: object, request: Any, now_ms: int) -> list[Effect]:
            if not isinstance(request, READS):
                self.submitted.append(request)
            return submit(tag, request, now_ms)

        self.zk.submit = noted  # type: ignore[method-assign]

    def follow(self) -> OneOfSeveral:
        """Start, and lead nothing."""
        self.perform(self.driver.start(self.now_ms))
        self.perform(self.zk.start(self.now_ms))
        self.settle()
        return self

    def lead(self) -> None:
        self.perform(self.driver.became_leader(self.journal.epoch, self.now_ms))
        self.settle()

    def resign(self) -> None:
        self.perform(self.driver.resigned(self.now_ms))
        self.settle()

    def others(self) -> None:
        """The other controller registers as ready."""
        self.append(r.RegisterControllerRecord(controller_id=OTHER, zk_migration_ready=True))

    def logged(self, line: Log) -> None:
        super().logged(line)
        if self.at is not None and self.states[-1:] == [self.at.value]:
            self.held, self.at = self.held or [], None


def begun(at: State | None = None, **settings: Any) -> OneOfSeveral:
    world = OneOfSeveral(at, **settings).follow()
    world.lead()
    world.others()
    world.register(1)
    world.register(2)
    world.advance(1_000)
    return world


@pytest.mark.requirement("T07")
def test_who_follows_writes_nothing_whatever_the_log_says():
    world = OneOfSeveral()
    before = dict(world.model.tree.nodes)
    world.follow()
    assert world.driver.state is State.INACTIVE
    world.others()
    world.register(1)
    world.append(*world.topic("b", A, (1,)), r.ZkMigrationStateRecord(zk_migration_state=1))
    world.reach(State.INACTIVE, 60_000)
    assert world.submitted == []
    assert world.model.tree.nodes.keys() == before.keys()


def test_a_leader_that_followed_creates_what_is_missing_alone():
    world = OneOfSeveral().follow()
    world.put("/admin/delete_topics")
    world.put("/consumers")
    world.lead()
    created = [each.path for each in world.submitted if isinstance(each, Create)]
    assert "/migration" in created
    assert "/admin" not in created
    assert "/brokers/ids" not in created
    assert set(created) <= world.paths
    count = len(world.submitted)
    world.resign()
    world.lead()
    world.advance(5_000)
    assert len(world.submitted) == count, "it is known to be there"


def test_nothing_is_created_in_the_zookeeper_of_another_cluster_by_a_later_leader():
    world = OneOfSeveral().follow()
    world.put("/cluster/id", b'{"version":"1","id":"AAAAAAAAAAAAAAAAAAAAAA"}')
    world.lead()
    world.advance(5_000)
    assert world.submitted == []
    assert world.driver.state is State.WAIT_FOR_CONTROLLER_QUORUM


def test_the_guards_are_asked_before_the_other_voters_have_registered():
    """They register with a leader that may speak, and the claim waits for them."""
    world = OneOfSeveral().follow()
    assert world.driver.authority.name == "UNPROVEN"
    world.lead()
    assert world.driver.state is State.WAIT_FOR_CONTROLLER_QUORUM
    assert world.driver.authority.name == "GRANTED"
    (waiting,) = world.driver.status(world.now_ms).waiting
    assert waiting.reason.subject == str(OTHER)
    world.others()
    assert world.driver.state is State.WAIT_FOR_BROKERS


def test_a_refusal_of_the_guards_is_told_while_the_others_have_not_registered():
    world = OneOfSeveral().follow()
    world.put("/migration", b'{"version":0,"kraft_metadata_offset":77,"kraft_controller_id":9,'
              b'"kraft_metadata_epoch":3,"kraft_controller_epoch":3}')  # fmt: skip
    world.lead()
    assert world.driver.authority.name == "REFUSED"
    world.advance(20_000)
    (waiting,) = world.driver.status(world.now_ms).waiting
    assert waiting.reason.why.value == "other_log"
    world.put("/migration", b'{"version":0,"kraft_metadata_offset":-1,"kraft_controller_id":-1,'
              b'"kraft_metadata_epoch":-1,"kraft_controller_epoch":-1}')  # fmt: skip
    world.advance(6_000)
    assert world.driver.authority.name == "GRANTED"


@pytest.mark.parametrize("state", STATES, ids=lambda state: state.name)
@pytest.mark.parametrize("arrives", [False, True], ids=["lost", "arrives late"])
def test_it_resigns_in_every_state_and_leads_again(state, arrives):
    world = begun(state)
    assert state.value in world.states
    world.resign()
    assert world.driver.state is State.INACTIVE
    assert world.driver.write_behind.mode is Mode.STOPPED
    count = len(world.submitted)
    world.register(1)
    if arrives:
        world.release()
    else:
        world.held = None
        world.cut()
    world.advance(10_000)
    assert len(world.submitted) == count, "nothing is written between two terms"
    assert world.driver.state is State.INACTIVE
    world.journal.epoch += 1
    world.append(r.NoOpRecord())  # as each term begins with a record
    world.lead()
    world.reach(State.DUAL_WRITE, 10_000)
    world.append(*world.topic("b", b"B" * 16, (1, 2)))
    world.advance(1_000)
    assert differences(world) == {}


def test_one_that_was_deposed_says_nothing_of_it_when_it_follows():
    world = begun()
    world.put("/controller_epoch", b"9")
    world.append(*world.topic("b", b"B" * 16, (1, 2)))
    world.advance(1_000)
    assert world.driver.write_behind.mode is Mode.DEPOSED
    world.resign()
    assert world.driver.write_behind.mode is Mode.STOPPED
    assert world.driver.status(world.now_ms).waiting == ()


def test_a_copy_that_is_interrupted_is_not_aborted_by_who_leads_no_more():
    world = OneOfSeveral(migration_min_batch_size=1).follow()
    append = world.journal.append

    def stalling(records: list[object], now_ms: int, *, atomic: bool = True) -> int:
        if isinstance(records[0], r.BeginTransactionRecord):
            world.journal.committing = False
        return append(records, now_ms, atomic=atomic)

    world.lead()
    world.others()
    world.journal.append = stalling  # type: ignore[method-assign]
    world.register(1)
    world.register(2)
    world.reach(State.ZK_MIGRATION, 100)
    end = world.journal.end
    world.resign()
    world.advance(5_000)
    assert world.journal.end == end
    assert not [each for each in world.submitted if isinstance(each, Multi)][2:]
