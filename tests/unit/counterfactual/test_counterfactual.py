"""The rejected order, for the bench: nothing is in the log that ZooKeeper does not hold."""

import pytest

from bench.counterfactual.write_ahead import WriteAheadNode
from bench.counterfactual.write_off import WriteOffNode
from emulator.seam import AppendFile
from emulator.trace.rows import BlockCause
from tests.unit.node import test_machine
from tests.unit.node.test_blocking_example import Example, Line
from wire.errors import ErrorCode


@pytest.fixture
def run(monkeypatch):
    monkeypatch.setattr(test_machine, "Node", WriteAheadNode)
    return Example(10_000)


def created(run, name, at):
    line = Line(at, f"create {name}", 60_000, 0, 0, 0, "NONE")
    run.until(at)
    run.send(at, line)
    return lambda: run.answer(at, line)


def test_a_commit_waits_for_zookeeper_and_the_log_is_written_after_it(run):
    world = run.world
    written = []
    perform = world.perform

    def watched(effects):
        written.extend(one.data for one in effects if isinstance(one, AppendFile))
        perform(effects)

    world.perform = watched
    world.held = []
    answer = created(run, "a", 100)
    assert not any(b"a" in data for data in written)
    assert world.held, "ZooKeeper was asked"
    committed = world.node.raft.high_watermark
    run.until(350)
    with pytest.raises(KeyError):
        answer()
    assert world.node.raft.high_watermark == committed
    assert world.node.blocked_union_ms(world.now_ms) >= 250
    world.release()
    run.until(400)
    at, response = answer()
    assert at == 350
    assert response.topics[0].error_code == ErrorCode.NONE
    assert world.zookeeper.tree.nodes["/brokers/topics/a"]
    assert world.node.raft.high_watermark > committed
    [row] = run.waits
    assert (row.cause, row.api) == (BlockCause.WRITE_AHEAD, "CreateTopics")
    assert (row.end_ns - row.begin_ns) // 1_000_000 == 250
    assert world.node.blocked_union_ms(world.now_ms) >= 250
    assert world.node.driver.write_behind.lag.records == 0


def test_the_ordinary_node_answers_at_once():
    run = Example(10_000)
    run.world.held = []
    answer = created(run, "a", 100)
    assert answer()[0] == 100


def test_with_writing_off_commits_go_on_and_zookeeper_gets_nothing(monkeypatch):
    monkeypatch.setattr(test_machine, "Node", WriteOffNode)
    run = Example(0)
    world = run.world
    before = world.zookeeper.tree.zxid
    answer = created(run, "a", 100)
    run.until(2_000)
    assert answer()[0] == 100
    assert world.zookeeper.tree.zxid == before
    assert world.node.driver.drained


def test_changes_made_meanwhile_are_each_written_once(run):
    world = run.world
    answers = [created(run, name, at) for name, at in (("a", 100), ("b", 101))]
    world.held = []
    answers += [created(run, name, at) for name, at in (("c", 200), ("d", 210), ("e", 220))]
    run.until(300)
    world.release()
    run.until(600)
    for answer in answers:
        assert answer()[1].topics[0].error_code == ErrorCode.NONE
    for name in "abcde":
        assert f"/brokers/topics/{name}/partitions/0/state" in world.zookeeper.tree.nodes
    assert world.node.driver.write_behind.reconcile_count == 1
    assert not world.node.raft.dirty
