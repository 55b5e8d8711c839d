"""Brokers in KRaft mode that meet a metadata.version which their release does not support."""

import pytest

from emulator.controller.api import update_features
from emulator.simulation.facts import METADATA_VERSION
from emulator.simulation.scenario import Scenario
from wire import messages as m

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
    key = m.UpdateFeaturesRequest.FeatureUpdateKey(
        feature=METADATA_VERSION, max_version_level=14, upgrade_type=UPGRADE
    )
    met[0].ask(m.UpdateFeaturesRequest(feature_updates=[key], timeout_ms=4_000), 1, lambda _: None)
    until(world, lambda: not any(broker.alive for broker in met))
    until(world, lambda: not world.facts.brokers)
    for broker in met:
        assert any(
            broker.name in line and "ended with 1: metadata.version 14" in line
            for line in world.scheduler.lines
        )
