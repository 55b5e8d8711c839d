"""Somebody takes the claim from a controller: it notices, and nobody restarts one of several."""

from dataclasses import replace
from random import Random
from types import SimpleNamespace

import pytest

from emulator.migration.side import MigrationSide
from emulator.simulation.checkers.base import EPOCH
from emulator.simulation.checkers.chain import EpochsGrow
from emulator.simulation.clients.taking import TAKING
from emulator.simulation.faults.taken import OperatorOfOne
from emulator.simulation.models.zookeeper_watches import WatchedZooKeeper
from emulator.simulation.run import KINDS
from emulator.simulation.scenarios.scenario import Scenario, planned
from emulator.zookeeper.ops import EPHEMERAL, Create, Delete, SetData

THREE = Scenario(controllers=3, topics=3, changes=20, change_every_ms=200, faults_within_ms=4_000)
ONE = replace(THREE, controllers=1)


@pytest.mark.requirement("E01", "E07")
@pytest.mark.parametrize("name", TAKING)
@pytest.mark.parametrize("state", ["ZK_MIGRATION", "DUAL_WRITE"])
def test_three_go_on_by_themselves(simulator, name, state):
    noticed = 0
    for seed in range(2):
        run = simulator(seed, replace(THREE, faults=(f"{name}@{state}+200/a", "lost-replies/b")))
        run.run()
        world = run.world
        assert world.traffic.load.acknowledged > 5 or run.refusal
        assert [host.lives for host in world.controllers.values()] == [1, 1, 1]
        noticed += any("gives its leadership up" in line for line in world.scheduler.lines)
    assert noticed or name != "epoch-bumped"


@pytest.mark.parametrize("name", TAKING)
def test_one_is_restarted_by_who_reads_its_status(simulator, name):
    for seed in range(2):
        run = simulator(seed, replace(ONE, faults=(f"{name}@DUAL_WRITE+200/a", "lost-replies/b")))
        run.run()
        (host,) = run.world.controllers.values()
        deposed = sum(" deposed why=" in line for line in run.world.scheduler.lines)
        assert host.lives == 1 + deposed
        assert any(isinstance(one, OperatorOfOne) for one in run.world.onlookers)


def test_a_leader_that_leads_on_though_it_was_deposed_is_noticed(simulate, monkeypatch):
    monkeypatch.setattr(MigrationSide, "over_because", "")
    report = simulate(0, replace(THREE, faults=("epoch-bumped@DUAL_WRITE+200/a",)))
    assert report.invariant == "comes-to-rest"


@pytest.mark.parametrize("kind", sorted(KINDS.keys() - {"quorum", "operator"}))
def test_every_kind_that_has_a_zookeeper_draws_them_all(kind):
    names = {planned(one, 0).name for seed in range(300) for one in KINDS[kind](seed).faults}
    assert names >= set(TAKING)


def test_a_restored_ensemble_has_the_tree_and_the_sessions_of_the_backup():
    model = WatchedZooKeeper(Random(1))
    for op in (Create("/a", b"1"), Create("/b", b"1"), SetData("/b", b"2")):
        model.tree.write(op, 7, 0)
    backup = model.back_up()
    before, zxid = model.tree.nodes["/b"].stat(), model.tree.zxid
    for op in (SetData("/b", b"3"), Delete("/a"), Create("/c", b"", flags=EPHEMERAL)):
        model.tree.write(op, 7, 0)
    model.restore(backup, 5)
    nodes = model.tree.nodes
    assert {path: nodes[path].data for path in ("/a", "/b")} == {"/a": b"1", "/b": b"2"}
    assert nodes["/b"].stat() == before, "versions too"
    assert "/c" not in nodes
    assert model.tree.zxid > zxid, "so that clients that have seen more are served"
    model.tree.write(SetData("/b", b"4"), 7, 6)
    model.restore(backup, 7)
    assert nodes["/b"].data == b"2", "a backup may be taken again"


def test_an_epoch_that_others_raised_is_never_written_lower():
    claims = object.__new__(EpochsGrow)
    claims.claims = [(3, 1)]
    nodes = {EPOCH: SimpleNamespace(data=b"5")}
    world = SimpleNamespace(seed=1, onlookers=[claims], tree=SimpleNamespace(nodes=nodes))
    operator = OperatorOfOne(world)
    assert operator._epochs() == (5, 5)
    nodes[EPOCH].data = b"2"
    assert operator._epochs() == (2, 3)
