"""Brokers in KRaft mode and controllers that meet a level that their release does not support."""

from dataclasses import replace

import pytest

from emulator.controller.api import update_features
from emulator.raft import RecoveryError
from emulator.simulation.scenarios.scenario import Scenario
from tests.kit.requests import raise_level

UPGRADE = 1


def until(world, holds):
    end_us = world.scheduler.now_us + 60_000_000
    while not holds():
        world.scheduler.step()
        assert world.scheduler.now_us < end_us, "\n".join(world.scheduler.lines[-20:])


@pytest.mark.requirement("J09")
@pytest.mark.parametrize("seed", range(3))
def test_they_unregister_and_end(simulated_world, seed, monkeypatch):
    """The controller looks neither at what its brokers support nor at the migration."""
    monkeypatch.setattr(update_features, "check", lambda *_: None)
    world = simulated_world(seed, Scenario(metadata_version="3.4-IV0", broker_release="3.4"))
    world.begin()
    until(world, lambda: world.traffic.begun)
    for broker in [*world.brokers.values()]:
        world.lives.turn(broker.id)
        broker.shut_down()
    until(
        world,
        lambda: (
            len(world.facts.brokers) == 3
            and not any(b.fenced or b.is_migrating_zk_broker for b in world.facts.brokers.values())
        ),
    )
    met = [*world.brokers.values()]
    assert all(broker.in_kraft_mode for broker in met)
    world.departed.update(broker.id for broker in met)
    met[0].ask(raise_level(14, timeout_ms=4_000), 1, lambda _: None)
    until(world, lambda: not any(broker.alive for broker in met))
    until(world, lambda: not world.facts.brokers)
    for broker in met:
        assert any(
            broker.name in line and "ended with 1: metadata.version 14" in line
            for line in world.scheduler.lines
        )


@pytest.mark.requirement("J07")
def test_a_standby_ends_and_so_does_each_start_of_it(simulated_world, monkeypatch):
    """The leader does not ask what the other voters support; the other two go on."""
    monkeypatch.setattr(update_features, "check", lambda *_: None)
    scenario = Scenario(controllers=3, migration=False, metadata_version="3.5-IV0")
    world = simulated_world(1, scenario)
    world.begin()
    until(world, lambda: world.traffic.begun)
    old = next(each for each in world.controllers if each != world.active.node_id)
    host = world.controllers[old]
    world._configs[old] = replace(world._configs[old], release="3.5")
    life = host.process
    life.kill()
    until(world, lambda: host.process is not life and host.process.alive)
    until(world, lambda: host.process.node.raft.high_watermark == world.committed.end_offset)
    epoch = world.active.process.active_epoch
    answers = []
    request = raise_level(14, timeout_ms=4_000)
    next(iter(world.brokers.values())).ask(request, 1, answers.append)
    why = "metadata.version 14"
    with pytest.raises(RecoveryError, match=why):
        until(world, lambda: False)
    # The process ends with it, as emulator/io/run.py lets none go on.
    host.restarts = False
    host.process.kill()
    world.start_process(host)
    with pytest.raises(RecoveryError, match=why):
        until(world, lambda: False)
    host.process.kill()
    until(world, lambda: bool(answers))
    assert answers[0].error_code == 0
    assert old != world.active.node_id
    assert world.active.process.active_epoch == epoch, "nobody else was disturbed"


def led_by_an_old_one(simulated_world, monkeypatch):
    """Three controllers, of which the one of an older release leads; it has its host."""
    monkeypatch.setattr(update_features, "check", lambda *_: None)
    world = simulated_world(1, Scenario(controllers=3, migration=False, metadata_version="3.5-IV0"))
    old = min(world.controllers)
    world._configs[old] = replace(world._configs[old], release="3.5")
    world.begin()
    until(world, lambda: world.traffic.begun)
    while world.active.node_id != old:
        led = world.active
        led.process.shutdown()
        led.may_halt = "it was asked to stop"
        until(world, lambda led=led: world.active is not led and world.active.process.node.active)

    def all_follow():
        rafts = [one.process.node.raft for one in world.controllers.values() if one.process.alive]
        ends = {raft.high_watermark for raft in rafts if raft.leader_id == old}
        return len(rafts) == len(world.controllers) and ends == {world.committed.end_offset}

    until(world, all_follow)
    return world, world.controllers[old]


def raise_the_level(world, answers):
    request = raise_level(14, timeout_ms=4_000)
    next(iter(world.brokers.values())).ask(request, 1, answers.append)


@pytest.mark.requirement("J08")
def test_a_leader_resigns_and_ends_and_so_does_each_start_of_it(simulated_world, monkeypatch):
    """The others know at once, and need not wait until it is silent."""
    world, host = led_by_an_old_one(simulated_world, monkeypatch)
    life, lines = host.process, len(world.scheduler.lines)
    host.may_halt, host.restarts = "it does not support the level", False
    raise_the_level(world, [])
    until(world, lambda: not life.alive)
    ended_ms = world.scheduler.now_ms
    said = [line for line in world.scheduler.lines[lines:] if host.name in line]
    assert any("halts with 1" in line and "metadata.version 14" in line for line in said)
    until(world, lambda: world.active is not host and world.active.process.node.active)
    fetch_ms = life.node.raft.config.times.fetch_ms
    assert world.scheduler.now_ms - ended_ms < fetch_ms // 2
    with pytest.raises(RecoveryError, match=r"metadata\.version 14"):
        world.start_process(host)
