"""The properties of a broker of a fleet."""

from __future__ import annotations

from emulator.config.broker import load_broker
from emulator.config.zookeeper import DIGEST
from emulator.io.fleet.settings import SET_BY_THE_FLEET, FleetSettings

EXTRA = {DIGEST: "kafka:secret", "zookeeper.set.acl": "false", "num.partitions": "3"}


def settings(controller: str | None, zookeeper: str | None) -> FleetSettings:
    return FleetSettings("127.0.0.1", controller, zookeeper, None, "3.9", EXTRA, "INTERNAL")


def test_a_broker_that_was_rolled_to_kraft_mode_has_nothing_of_zookeeper() -> None:
    made = settings("c:9093", "z:2181")
    before, warnings = load_broker(made.properties(1, 9092, kraft=False), "here")
    assert before.zookeeper.security.digest is not None
    assert warnings == ()
    after, warnings = load_broker(made.properties(1, 9092, kraft=True), "here")
    assert (after.zookeeper, after.num_partitions, warnings) == (None, 3, ())


def test_what_the_fleet_sets_is_known() -> None:
    """So that ``-X`` does not take one of them for all brokers."""
    made = [settings("c:9093", "z:2181"), settings(None, "z:2181")]
    given = {key for one in made for key in one.properties(1, 9092, kraft=False)}
    given |= {*made[0].properties(1, 9092, kraft=True)}
    assert given - {*EXTRA} - {"listener.security.protocol.map"} <= SET_BY_THE_FLEET
