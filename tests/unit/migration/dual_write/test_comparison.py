"""A comparison that an operator asks for: what others did to the tree is named, and repaired."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from msgspec.structs import replace

from emulator.metadata.configs import TOPIC
from emulator.metadata.image import EMPTY
from emulator.migration.dual_write import comparison
from emulator.migration.dual_write.backlog import Backlog
from emulator.migration.dual_write.comparison import Compared, Comparing, Comparison, why_not
from emulator.migration.dual_write.modes import Mode
from emulator.migration.dual_write.unit import COMPARED_PIECES_PER_STEP
from emulator.migration.plan import PAUSE, Piece
from emulator.migration.position import Position
from emulator.migration.tree_diff import Difference
from emulator.znodes.tree import Tree, TreeNode
from emulator.zookeeper.ops import Create, Delete, SetData
from tests.unit.migration.stories import A, B
from tests.unit.migration.test_write_behind import config
from tests.unit.migration.world import World, differences, migration_offset
from wire import records as r

STATE = "/brokers/topics/a/partitions/0/state"
FOREIGN = {
    "/brokers/topics/b/partitions/0/state": "missing",
    "/brokers/topics/b/partitions/0": "missing",
    "/brokers/topics/b/partitions": "missing",
    "/brokers/topics/b": "missing",
    "/config/topics/a": "differs",
    STATE: "differs",
    "/config/users/eve": "extra",
    "/brokers/topics/ghost": "extra",
}


def world_of(**settings: int) -> World:
    world = World(**settings).dual_write()
    world.append(*world.topic("a", A, (1, 2), (2, 1)))
    world.append(*world.topic("b", B, (1, 2)))
    world.append(config(TOPIC, "a", "retention.ms", "5"))
    world.advance(2_000)
    assert differences(world) == {}
    return world


def tamper(world: World) -> None:
    """Somebody deletes a topic, changes a config and an ISR, makes a user and half a topic."""
    for path in list(FOREIGN)[:4]:
        world.remove(path)
    world.put("/config/topics/a", b'{"version":1,"config":{"retention.ms":"6"}}')
    world.put(STATE, world.data(STATE).replace(b'"isr":[1,2]', b'"isr":[1]'))  # type: ignore[union-attr]
    world.put("/config/users/eve", b'{"version":1,"config":{"producer_byte_rate":"1"}}')
    world.put("/brokers/topics/ghost", b'{"version":1,"partitions":{}}')
    world.put("/admin/reassign_partitions", b"{}")
    world.put("/isr_change_notification/isr_change_1", b"{}")


def asked(world: World, *, dry_run: bool = False) -> Comparison:
    one = Comparison(dry_run=dry_run)
    world.driver.write_behind.comparing.ask(one)
    return one


def compared(world: World, *, dry_run: bool = False) -> Comparison:
    one = asked(world, dry_run=dry_run)
    world.advance(2_000)
    assert one.progress is Compared.DONE, (one.progress, one.why)
    return one


def kinds(one: Comparison) -> dict[str, str]:
    return {each.path: each.kind for each in one.differences}


def writes(world: World) -> list[str]:
    """Paths of data operations since the last look."""
    found = [op.path for ops in world.multis for op in ops]
    world.multis.clear()
    chain = {"/controller_epoch", "/kraft_bridge", "/migration"}
    return [path for path in found if path not in chain and "/config/changes/" not in path]


def test_equal_trees_differ_in_nothing_and_nothing_is_written() -> None:
    world = world_of()
    world.multis.clear()
    one = compared(world)
    assert one.equal
    assert writes(world) == []
    assert one.offset == world.journal.stable.offset


def test_a_dry_run_names_what_others_did_and_writes_nothing() -> None:
    world = world_of()
    tamper(world)
    world.multis.clear()
    one = compared(world, dry_run=True)
    assert kinds(one) == FOREIGN
    assert not one.equal
    assert one.counts == {"missing": 4, "differs": 2, "extra": 2}
    assert world.multis == []
    assert world.driver.write_behind.mode is Mode.RUNNING


def test_what_others_did_is_named_and_repaired_and_nothing_else_is_written() -> None:
    world = world_of()
    tamper(world)
    world.multis.clear()
    one = compared(world)
    assert kinds(one) == FOREIGN
    assert set(writes(world)) == set(FOREIGN)
    assert differences(world) == {}
    assert migration_offset(world) == world.journal.stable.offset
    assert world.data("/admin/reassign_partitions") == b"{}", "Kafka's, and not ours to write"
    assert world.data("/isr_change_notification/isr_change_1") == b"{}"
    assert compared(world).equal, "and a second time there is nothing"


def test_a_step_of_a_dry_run_ends_where_the_source_pauses_and_takes_some_pieces_else(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    taken: list[int] = []

    def source(*_args: object, **_kwargs: object) -> Iterator[Piece]:
        for number in range(20):
            taken.append(number)
            # Not the same list: a piece without operations is no pause.
            yield PAUSE if number < 3 else []

    monkeypatch.setattr(comparison, "compare", source)
    one = Comparison(dry_run=True)
    one.look(Tree(), EMPTY, ())
    steps = []
    while one.busy:
        before = len(taken)
        one.step()
        steps.append(len(taken) - before)
    assert steps[:4] == [1, 1, 1, COMPARED_PIECES_PER_STEP]
    assert (sum(steps), one.equal) == (20, True)


def test_only_a_comparison_that_waits_takes_the_tree() -> None:
    """A tree that is read at another time, as after a doubt, is written and noted by nobody."""
    backlog, comparing, tree = Backlog(lambda piece: piece), Comparing(), Tree()
    assert comparing.unit(tree, backlog, 1, 0) is not None
    one = Comparison(dry_run=True)
    comparing.ask(one)
    assert comparing.unit(tree, backlog, 1, 0) is None
    assert one.busy
    assert comparing.unit(tree, backlog, 1, 0) is not None
    one.fail("over")
    assert comparing.unit(tree, backlog, 1, 0) is not None
    assert one.ended
    backlog.begin(replace(EMPTY, offset=9, epoch=1), Position(3, 1))
    comparing.ask(waits := Comparison(dry_run=True))
    backlog.full_unit(tree, 1, 0)
    assert not backlog.settled
    assert comparing.unit(tree, backlog, 1, 0) is not None
    assert (waits.busy, comparing.waits) == (False, True)


def test_changes_that_are_committed_meanwhile_are_no_differences_and_are_written() -> None:
    world = world_of()
    tamper(world)
    world.held = []
    world.append(config(TOPIC, "b", "retention.ms", "7"))
    one = asked(world)
    world.append(config(TOPIC, "b", "retention.ms", "8"))
    world.release()
    world.append(config(TOPIC, "a", "retention.bytes", "9"))
    world.advance(2_000)
    assert kinds(one) == FOREIGN
    assert differences(world) == {}


@pytest.mark.parametrize("dry_run", [False, True])
def test_a_connection_that_is_lost_meanwhile_changes_nothing(dry_run: bool) -> None:
    world = world_of(write_behind_multi_ops=3)
    tamper(world)
    one = asked(world, dry_run=dry_run)
    for _ in range(6):
        world.dropping_replies = True
        world.settle()
        world.cut()
        world.advance(50)
    world.advance(10_000)
    assert one.progress is Compared.DONE
    assert kinds(one) == FOREIGN
    assert (differences(world) == {}) is not dry_run


def test_it_ends_with_the_term() -> None:
    world = world_of()
    one = asked(world)
    world.driver.resigned(world.now_ms)
    assert (one.progress, one.why) == (Compared.FAILED, "this controller leads no more")


def test_a_claim_that_is_lost_meanwhile_is_said() -> None:
    world = world_of()
    tamper(world)
    world.model.tree.write(SetData("/controller_epoch", b"99"), 1, world.now_ms)
    one = asked(world)
    world.advance(5_000)
    assert one.progress is Compared.FAILED
    assert "another controller has claimed the cluster" in one.why


def test_when_nothing_can_be_compared() -> None:
    assert why_not(Mode.RUNNING, reconciled=True) == ""
    for mode in (Mode.STOPPED, Mode.DEPOSED, Mode.POISONED):
        assert why_not(mode, reconciled=True)
    assert why_not(Mode.RECONCILING, reconciled=False)


def test_a_comparison_does_not_end_while_a_repair_is_refused() -> None:
    world = world_of()
    tamper(world)
    world.model.tree.read_only.add("/config/topics/a")
    one = asked(world)
    world.advance(5_000)
    assert one.progress is Compared.LOOKING
    assert world.driver.write_behind.mode is Mode.POISONED
    world.model.tree.read_only.clear()
    world.append(r.NoOpRecord())
    world.advance(60_000)
    assert one.progress is Compared.DONE
    assert kinds(one) == FOREIGN
    assert differences(world) == {}


def test_a_znode_that_is_deleted_and_made_anew_counts_once_as_recreated() -> None:
    tree = Tree()
    for path in ("/config/topics/a", "/config/topics/b"):
        tree.nodes[path] = TreeNode(b"{}", 0)
    both = [Delete("/config/topics/a"), Delete("/config/topics/b")]
    again = [Create("/config/topics/a", b"{}"), Create("/config/topics/a", b"{}")]
    one = Comparison()
    pieces: list[Piece] = [[tuple(both)], [tuple(again)]]
    assert list(one.noting(tree, pieces)) == pieces
    assert kinds(one) == {"/config/topics/a": "recreated", "/config/topics/b": "extra"}
    assert {kind: count for kind, count in one.counts.items() if count} == {
        "recreated": 1,
        "extra": 1,
    }


def test_all_differences_are_counted_and_the_first_are_listed() -> None:
    one = Comparison()
    for number in range(10_002):
        one._note(Difference(f"/{number}", "missing", None, b""))
    assert (one.counts["missing"], len(one.differences)) == (10_002, 10_000)
