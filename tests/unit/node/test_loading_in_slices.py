"""A snapshot that a follower gets is replayed in slices: its Raft goes on meanwhile."""

from __future__ import annotations

from emulator.node.machine import Node
from emulator.node.role import NodeRole, Role
from emulator.raft.layout import BOOTSTRAP_CHECKPOINT, RecoveryError
from emulator.seam import RECORDS_PER_SLICE, Halt, Slices
from tests.unit.node.test_end_of_a_term import fetch
from tests.unit.node.test_quorum import IDS, Quorum
from wire import records as r
from wire.errors import ErrorCode

SLICES = 8


class Held(NodeRole):
    """Replays no slice of its own accord."""

    @property
    def deadline_ms(self) -> int | None:
        return None if self._replay.behind else super().deadline_ms

    def go_on(self) -> None:
        pass


def hold(node: Node) -> None:
    node.role.__class__ = Held


def release(node: Node) -> None:
    node.role.__class__ = NodeRole


class Emptied(Quorum):
    """A leader with a large snapshot, and a follower that lost its folder and is down."""

    def __init__(self) -> None:
        super().__init__(metadata_log_max_record_bytes_between_snapshots="1000")
        self.first = self.leader
        self.emptied, self.third = (each for each in IDS if each != self.first)
        node = self.node(self.first)
        for piece in range(SLICES):
            records = [
                r.ConfigRecord(
                    resource_type=2, resource_name=f"t-{piece}-{number}", name="a", value="b"
                )
                for number in range(RECORDS_PER_SLICE)
            ]
            node.controller.append(records, self.joined.now_ms)
            self.joined.wait(100)
        self.joined.wait(2_000)
        assert node.raft.latest_snapshot is not None
        self.kill(self.emptied)
        files = self.files[self.emptied]
        self.files[self.emptied] = {BOOTSTRAP_CHECKPOINT: files[BOOTSTRAP_CHECKPOINT]}

    def configs(self, node_id: int) -> int:
        return len(self.node(node_id).controller.stable.configs)


def test_a_follower_fetches_on_while_it_replays_a_snapshot():
    quorum = Emptied()
    quorum.start(quorum.emptied)
    node = quorum.node(quorum.emptied)
    hold(node)
    quorum.joined.until(lambda: node.role._replay.behind)
    # From here on each slice takes 400 ms: all of it longer than any timeout of the quorum.
    epoch, slices, lasts = node.raft.leader_epoch, 0, []
    while node.role._replay.behind:
        node.role._replay.go_on()
        slices += 1
        assert quorum.change(quorum.first, f"user-{slices}") == 0
        quorum.joined.wait(400)
        lasts.append(node.raft.log_end_offset)
    assert slices > SLICES // 2, "a slice for each 500 records of the snapshot"
    assert lasts[0] < lasts[len(lasts) // 2] < lasts[-1], "it fetched meanwhile"
    assert node.raft.leader_epoch == epoch
    quorum.joined.wait(1_000)
    quorum.wait_equal()
    assert quorum.configs(quorum.emptied) == quorum.configs(quorum.first)
    assert f"user-{slices}" in quorum.quotas(quorum.emptied)


def test_one_that_is_elected_while_it_replays_a_snapshot_answers_nobody_before_its_end():
    quorum = Emptied()
    quorum.start(quorum.emptied)
    node = quorum.node(quorum.emptied)
    hold(node)
    leader = quorum.node(quorum.first)
    quorum.joined.until(lambda: node.raft.log_end_offset == leader.raft.log_end_offset > 100)
    quorum.joined.wait(1_000)
    quorum.kill(quorum.third)
    assert quorum.change(quorum.first, "ann") == 0
    quorum.joined.wait(1_000)
    quorum.kill(quorum.first)
    quorum.start(quorum.third)
    # The third has no record of that change, so it is not elected.
    quorum.joined.until(lambda: node.raft.is_leader)
    quorum.joined.wait(1_000)
    assert node.role._replay.behind
    assert (node.role.now, node.active) == (Role.PASSIVE, False)
    assert quorum.change(quorum.emptied, "bob") == ErrorCode.NOT_CONTROLLER
    asker = quorum.joined.ask((f"host-{quorum.emptied}", 9093))
    told = asker.ask(fetch(node.raft.leader_epoch), 17).responses[0].partitions[0]
    assert told.error_code == ErrorCode.BROKER_NOT_AVAILABLE
    assert told.current_leader.leader_id == -1
    assert quorum.configs(quorum.emptied) == 0
    epoch = node.raft.leader_epoch
    release(node)
    quorum.joined.until(lambda: node.active, 1_000)
    assert node.raft.leader_epoch == epoch
    assert quorum.change(quorum.emptied, "bob") == 0
    assert asker.ask(fetch(epoch), 17).responses[0].partitions[0].error_code == 0
    assert quorum.configs(quorum.emptied) == SLICES * RECORDS_PER_SLICE
    assert quorum.quotas(quorum.emptied) == {"ann", "bob"}
    quorum.wait_equal()


def test_a_leader_that_cannot_read_the_rest_tells_the_others_and_ends():
    quorum = Quorum()
    leader = quorum.leader
    quorum.wait_equal()
    node, party = quorum.node(leader), quorum.parties[leader]
    epoch = node.raft.leader_epoch

    def damaged() -> Slices[None]:
        yield
        raise RecoveryError("snapshot", None, "no such level")

    node.role._replay.slices = damaged()
    quorum.joined.wait(10)
    assert party.halt == Halt(1, "snapshot: no such level")
    quorum.kill(leader)
    quorum.joined.wait(500)
    (next_one,) = quorum.active()
    assert quorum.node(next_one).raft.leader_epoch == epoch + 1


def test_a_second_snapshot_takes_the_place_of_one_that_is_being_replayed():
    quorum = Emptied()
    quorum.start(quorum.emptied)
    node = quorum.node(quorum.emptied)
    hold(node)
    quorum.joined.until(lambda: node.role._replay.behind)
    for _ in range(SLICES // 2):
        node.role._replay.go_on()
    address = (f"host-{quorum.first}", 9093)
    quorum.joined.cut.add(address)
    for party in (quorum.parties[quorum.emptied],):
        for conn, owner in list(quorum.joined._owner.items()):
            if owner is party:
                quorum.joined.end(conn, "cut")
    first = node.raft.latest_snapshot
    leader = quorum.node(quorum.first)
    for number in range(30):
        leader.controller.append(
            [r.ConfigRecord(resource_type=2, resource_name=f"n-{number}", name="a", value="b")]
            * 40,
            quorum.joined.now_ms,
        )
        quorum.joined.wait(50)
    quorum.joined.cut.discard(address)
    quorum.joined.until(lambda: node.raft.latest_snapshot != first)
    release(node)
    quorum.joined.wait(2_000)
    quorum.wait_equal()
    assert quorum.configs(quorum.emptied) == quorum.configs(quorum.leader)
    assert quorum.configs(quorum.emptied) == SLICES * RECORDS_PER_SLICE + 30
