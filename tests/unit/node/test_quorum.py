"""Three nodes of ours as one quorum, joined in memory: who leads answers, the others follow."""

from __future__ import annotations

from itertools import count, pairwise
from random import Random
from types import SimpleNamespace
from typing import Any

import pytest

from emulator.config import load as config
from emulator.config.load import Config
from emulator.controller.queue.heartbeats import Heartbeats
from emulator.controller.queue.journal import Journal
from emulator.metadata.history import History
from emulator.metadata.metadata_version import FEATURE_NAME
from emulator.node.machine import Node
from emulator.node.peers import NoPeers, Peers
from emulator.raft.format import MetaProperties, render_bootstrap_checkpoint
from emulator.raft.layout import BOOTSTRAP_CHECKPOINT, VOTER_STATE
from emulator.raft.quorum_state import NEW_QUORUM
from emulator.seam import Effect, Row
from emulator.trace.rows import PipelineStage, RangeRow
from tests.kit.joined import Joined, Party
from tests.kit.requests import quota
from tests.unit.node.test_machine import World
from wire import records as r
from wire.errors import ErrorCode
from wire.record_serde import encode_record

CLUSTER = "MkU3OEVBNTcwNTJENDM2Qg"
IDS = (3000, 3001, 3002)
VOTERS = ",".join(f"{each}@host-{each}:9093" for each in IDS)


class Quorum:
    """Three nodes; ``parties`` holds those that are up."""

    level = 21
    """The metadata.version that they are formatted with."""

    def __init__(self, joined: Joined | None = None, **more: str) -> None:
        self.joined = joined or Joined()
        self.parties: dict[int, Party] = {}
        level = r.FeatureLevelRecord(name=FEATURE_NAME, feature_level=self.level)
        formatted = {
            BOOTSTRAP_CHECKPOINT: render_bootstrap_checkpoint([encode_record(level, 0)], 0),
            VOTER_STATE: NEW_QUORUM,
        }
        self.files: dict[int, dict[str, bytes]] = {each: dict(formatted) for each in IDS}
        self._more = more
        self._lives = count()
        for each in IDS:
            self.start(each)

    def start(self, node_id: int) -> None:
        raw = {
            "process.roles": "controller",
            "node.id": str(node_id),
            "controller.quorum.voters": VOTERS,
            "listeners": f"CONTROLLER://host-{node_id}:9093",
            "controller.listener.names": "CONTROLLER",
            "listener.security.protocol.map": "CONTROLLER:PLAINTEXT",
            "log.dirs": "data",
            **{name.replace("_", "."): value for name, value in self._more.items()},
        }
        node = Node(
            self.configured(raw),
            MetaProperties(CLUSTER, node_id, node_id.to_bytes(16, "big")),
            self.files[node_id],
            rng=Random(node_id * 100 + next(self._lives)),
            stamp=lambda: self.joined.now_ms * 1_000_000,
            new_conn=self.joined.new_conn,
            now_ms=self.joined.now_ms,
        )
        name = str(node_id)
        at = {(f"host-{node_id}", 9093): "CONTROLLER"}
        self.parties[node_id] = self.joined.join(name, node, at, self.files[node_id])

    def configured(self, raw: dict[str, str]) -> Config:
        return config.load(raw)[0]

    def kill(self, *node_ids: int) -> None:
        for node_id in node_ids:
            party = self.parties.pop(node_id)
            self.joined.leave(party)
            self.files[node_id] = dict(party.files)
            self.joined.settle()

    def node(self, node_id: int) -> Node:
        machine = self.parties[node_id].machine
        assert isinstance(machine, Node)
        return machine

    @property
    def leader(self) -> int:
        """Wait for the one that may be asked."""
        self.joined.until(lambda: len(self.active()) == 1)
        return self.active()[0]

    def active(self) -> list[int]:
        return [each for each in self.parties if self.node(each).active]

    def change(self, node_id: int, user: str) -> int:
        """Ask a node for a quota; the error code of its answer."""
        asker = self.joined.ask((f"host-{node_id}", 9093))
        answer = asker.ask(quota(1e6, user), 1)
        return int(answer.entries[0].error_code)

    def quotas(self, node_id: int) -> set[str]:
        """Users with a quota in the metadata that a node shows."""
        found = self.node(node_id).controller.stable.client_quotas
        return {part.name for entity in found for part in entity if part.name}

    def wait_equal(self) -> None:
        """Wait until all show the same, at the end of the leader's log."""
        end = self.node(self.leader).raft.log_end_offset - 1
        self.joined.until(
            lambda: all(self.node(each).controller.stable.offset >= end for each in self.parties)
        )
        shown = [self.quotas(each) for each in self.parties]
        assert all(each == shown[0] for each in shown)


@pytest.mark.requirement("P04")
def test_one_of_three_leads_and_the_others_follow_and_refuse():
    quorum = Quorum()
    leader = quorum.leader
    assert quorum.change(leader, "ann") == 0
    others = [each for each in IDS if each != leader]
    for each in others:
        assert quorum.change(each, "bob") == ErrorCode.NOT_CONTROLLER
    quorum.wait_equal()
    assert quorum.quotas(others[0]) == {"ann"}


def test_every_node_is_registered_at_the_leader_also_after_a_restart():
    quorum = Quorum()
    leader = quorum.leader

    def registered() -> bool:
        found = quorum.node(quorum.leader).controller.stable.controllers
        return {each: one.incarnation_id for each, one in found.items()} == {
            each: quorum.node(each).controller.config.incarnation_id for each in IDS
        }

    quorum.joined.until(registered)
    other = next(each for each in IDS if each != leader)
    quorum.kill(other)
    quorum.start(other)
    assert not registered()
    quorum.joined.until(registered)
    before = quorum.node(leader).controller.tip.offset
    quorum.joined.wait(5_000)
    after = quorum.node(leader).controller.tip.offset
    assert after - before <= 11, "NoOps alone: nobody registers again"


def test_another_goes_on_where_a_leader_died_which_follows_when_it_is_back():
    quorum = Quorum()
    for number in range(4):
        leader = quorum.leader
        assert quorum.change(leader, f"user-{number}") == 0
        quorum.kill(leader)
        assert quorum.change(quorum.leader, f"again-{number}") == 0
        quorum.start(leader)
        quorum.wait_equal()
    assert quorum.quotas(quorum.leader) == {
        f"{name}-{number}" for name in ("user", "again") for number in range(4)
    }


def test_a_leader_whose_followers_are_gone_refuses_those_who_wait_and_leads_no_more():
    quorum = Quorum()
    leader = quorum.leader
    others = [each for each in IDS if each != leader]
    for each in others:
        quorum.kill(each)
    assert quorum.change(leader, "ann") == ErrorCode.NOT_CONTROLLER
    assert quorum.active() == []
    assert quorum.quotas(leader) == set()
    quorum.start(others[0])
    assert quorum.change(quorum.leader, "bob") == 0
    quorum.start(others[1])
    quorum.wait_equal()
    # It was refused and not withdrawn: whether the next leader has it nobody can say.
    assert quorum.quotas(others[1]) in ({"bob"}, {"ann", "bob"})


def test_one_that_lost_its_folder_gets_the_leaders_snapshot():
    quorum = Quorum(metadata_log_max_record_bytes_between_snapshots="1000")
    for number in range(40):
        assert quorum.change(quorum.leader, f"user-{number}") == 0
    leader = quorum.leader
    quorum.joined.until(lambda: quorum.node(leader).raft.latest_snapshot is not None)
    other = next(each for each in IDS if each != leader)
    quorum.kill(other)
    files = quorum.files[other]
    quorum.files[other] = {BOOTSTRAP_CHECKPOINT: files[BOOTSTRAP_CHECKPOINT]}
    quorum.start(other)
    quorum.wait_equal()
    assert quorum.node(other).raft.latest_snapshot is not None
    assert quorum.node(other).raft.log_start_offset > 0
    assert quorum.quotas(other) == {f"user-{number}" for number in range(40)}
    events = [line.event for line in quorum.parties[other].logs]
    assert "the log begins at a snapshot" in events


def test_a_node_that_is_stopped_hands_over_at_once():
    quorum = Quorum()
    leader = quorum.leader
    assert quorum.change(leader, "ann") == 0
    begin = quorum.joined.now_ms
    party = quorum.parties[leader]
    quorum.joined.perform(party, party.machine.shutdown(begin))
    quorum.joined.settle()
    assert party.halt.exit_code == 0
    quorum.kill(leader)
    assert quorum.leader != leader
    assert quorum.joined.now_ms - begin < 1_000, "before a timeout"


def test_rows_of_the_trace_go_on_where_they_ended_when_another_leads():
    """The mark is unknown to a new leader at first; what a follower cut off is no row."""

    class Rows(Joined):
        def __init__(self) -> None:
            super().__init__()
            self.rows: dict[tuple[str, int], list[RangeRow]] = {}

        def perform(self, party: Party, effects: list[Effect]) -> None:
            for effect in effects:
                if isinstance(effect, Row) and isinstance(effect.row, RangeRow):
                    key = party.name, effect.row.stage
                    self.rows.setdefault(key, []).append(effect.row)
            super().perform(party, effects)

    joined = Rows()
    quorum = Quorum(joined, kraftbridge_trace_dir="trace")
    died = quorum.leader
    assert quorum.change(died, "ann") == 0
    quorum.wait_equal()
    quorum.kill(died)
    first = quorum.leader
    assert quorum.change(first, "eve") == 0
    (other,) = quorum.parties.keys() - {first}
    quorum.kill(other)
    assert quorum.change(first, "lost") == ErrorCode.NOT_CONTROLLER
    quorum.start(died)
    quorum.start(other)
    quorum.wait_equal()
    assert quorum.change(quorum.leader, "bob") == 0
    quorum.wait_equal()
    rows = joined.rows[str(first), PipelineStage.COMMITTED]
    assert rows[0].first_offset == 0
    for before, after in pairwise(rows):
        assert after.first_offset == before.last_offset + 1
    epochs = [row.leader_epoch for row in rows]
    led = [epoch for epoch in epochs if epoch is not None]
    assert epochs[0] is None, "it followed"
    assert led
    assert led == sorted(led)
    for name in quorum.parties:
        if name != first:
            others = joined.rows[str(name), PipelineStage.COMMITTED]
            assert not set(led) & {row.leader_epoch for row in others}, "one leads in an epoch"
    for row in [*rows, *joined.rows[str(first), PipelineStage.APPENDED]]:
        assert row.first_offset <= row.last_offset


def test_a_new_leader_authorises_by_the_acls_it_knows():
    """Its own high watermark is unknown until a voter, perhaps one it authorises, has fetched."""
    log: Any = SimpleNamespace(high_watermark=-1, caught_up=False)
    journal = Journal(log, History(), Heartbeats(9_000))
    assert not journal.loaded
    log.high_watermark = 0
    journal.advance()
    assert not journal.loaded, "its leader has said that more is committed"
    log.caught_up = True
    journal.advance()
    log.high_watermark, log.caught_up = -1, False
    assert journal.loaded


def test_a_quorum_of_one_has_nobody_to_talk_to():
    node = World().node
    assert isinstance(node.peers, NoPeers)
    assert node.peers.deadline_ms is None
    assert isinstance(Quorum().node(IDS[0]).peers, Peers)
