"""The versions of KIP-590 that never were: for the controller alone, if one wants them."""

from __future__ import annotations

import pytest

from emulator.broker.machine import FOR_CONTROLLERS_SINCE
from tests.kit.requests import quota
from tests.unit.broker.control import live, update
from tests.unit.broker.joined_brokers import Stage
from tests.unit.broker.zookeeper_stage import MIGRATING, ZooKeeperStage
from wire.errors import ErrorCode

STRICT = {"kraftbridge_kip590_strict_versions": "true"}


def zookeeper_rules(**more: str) -> ZooKeeperStage:
    """A migrating broker that was told of a ZooKeeper-mode controller, which answers nothing."""
    stage = ZooKeeperStage().had_a_cluster()
    stage.broker(1, MIGRATING, **more)
    stage.joined.until(lambda: "/brokers/ids/1" in stage.zookeeper.nodes)
    told = update(("t", bytes(15) + b"t", {0: 1}), brokers=[live(1), live(5)], controller=5)
    assert stage.tell(1, told, 8).error_code == ErrorCode.NONE
    return stage


@pytest.mark.requirement("I17", "I18")
def test_the_new_version_is_for_the_controller_alone_and_the_old_one_is_forwarded() -> None:
    stage = zookeeper_rules(**STRICT)
    version = FOR_CONTROLLERS_SINCE[49]
    (refused,) = stage.client().ask(quota(1_000.0, "bob"), version).entries
    assert refused.error_code == ErrorCode.NOT_CONTROLLER
    client = stage.client()
    client.send(quota(1_000.0, "bob"), version - 1)
    assert not client.frames, "it waits for the controller"


@pytest.mark.requirement("I17", "I18")
def test_without_the_setting_every_version_is_forwarded_as_kafka_does() -> None:
    stage = zookeeper_rules()
    client = stage.client()
    client.send(quota(1_000.0, "bob"), FOR_CONTROLLERS_SINCE[49])
    assert not client.frames, "it waits for the controller"


@pytest.mark.requirement("I18")
def test_in_kraft_mode_clients_cannot_ask_the_controller_so_it_has_no_effect() -> None:
    stage = Stage()
    stage.running(1, **STRICT)
    (done,) = stage.client().ask(quota(1_000.0, "bob"), FOR_CONTROLLERS_SINCE[49]).entries
    assert done.error_code == ErrorCode.NONE
    stage.joined.leave(stage.controller)
    stage.joined.wait(1_000)
    client = stage.client()
    client.send(quota(1_000.0, "bob"), FOR_CONTROLLERS_SINCE[49])
    assert not client.frames, "it waits for the controller"
