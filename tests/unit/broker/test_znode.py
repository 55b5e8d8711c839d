"""A broker's registration in ZooKeeper, by a model of ZooKeeper."""

from __future__ import annotations

import json
from random import Random
from typing import Any

import pytest

from emulator.broker.zookeeper.znode import RETRY_MS
from emulator.metadata.brokers import Endpoint
from emulator.seam import Closed, Synced
from emulator.simulation.models.zookeeper_watches import WatchedZooKeeper
from emulator.znodes import brokers, cluster, controller
from emulator.znodes.reader import TOP_LEVEL
from emulator.zookeeper.ops import EPHEMERAL, Create, Delete, SetData
from tests.unit.broker.zookeeper_world import CLUSTER, PartWorld, about

PATH = "/brokers/ids/0"
RECORDED = json.loads(
    '{"features":{},"listener_security_protocol_map":{"INTERNAL":"PLAINTEXT","CLIENT":"PLAINTEXT",'
    '"SASLP":"SASL_PLAINTEXT"},"endpoints":["INTERNAL://127.0.0.1:29090",'
    '"CLIENT://127.0.0.1:29190","SASLP://127.0.0.1:19290"],"rack":"r0","jmx_port":-1,'
    '"port":29090,"host":"127.0.0.1","version":5,"timestamp":"1795217750064"}'
)
"""What a Kafka 3.9.2 broker wrote; a 3.4.1 broker with the same listeners writes the same."""


def written(world: PartWorld) -> dict[str, Any]:
    data = world.model.tree.nodes[PATH].data
    assert data is not None
    loaded: dict[str, Any] = json.loads(data)
    return loaded


def test_the_znode_is_the_one_that_a_kafka_broker_writes() -> None:
    endpoints = (
        Endpoint("INTERNAL", "127.0.0.1", 29090, 0),
        Endpoint("CLIENT", "127.0.0.1", 29190, 0),
        Endpoint("SASLP", "127.0.0.1", 19290, 2),
    )
    assert json.loads(brokers.encode(endpoints, "r0", 1795217750064)) == RECORDED


def test_without_a_plaintext_listener_there_is_no_host_for_old_clients() -> None:
    only = (Endpoint("S", "h", 9093, 1),)
    found = json.loads(brokers.encode(only, None, 1))
    assert (found["host"], found["port"]) == (None, -1)
    assert "rack" not in found
    assert found["listener_security_protocol_map"] == {"S": "SSL"}


def test_an_address_of_version_6_is_read_back_as_it_was() -> None:
    endpoint = Endpoint("IN", "::1", 9092, 0)
    assert brokers.parse(PATH, brokers.encode((endpoint,), None, 1)).endpoints == (endpoint,)


def test_an_empty_zookeeper_gets_all_that_the_first_kafka_broker_makes() -> None:
    world = PartWorld().start()
    tree = world.model.tree
    assert set(TOP_LEVEL) <= set(tree.nodes)
    assert cluster.parse(tree.nodes["/cluster/id"].data) == CLUSTER
    node = tree.nodes[PATH]
    assert node.ephemeral_owner == world.part.zk.session_id
    assert node.version == 1
    assert world.part.znode.registered
    assert world.part.znode.epoch == node.czxid
    assert world.part.znode.cluster_id == CLUSTER
    assert written(world)["timestamp"] == str(world.now_ms)


def test_the_id_of_a_cluster_that_exists_is_taken() -> None:
    world = PartWorld()
    for path in ("/cluster", "/brokers"):
        world.write(Create(path, None))
    world.write(Create("/cluster/id", cluster.encode("another-cluster-000000")))
    world.start()
    assert world.part.znode.cluster_id == "another-cluster-000000"
    assert world.part.znode.registered


def test_a_broker_of_another_cluster_does_not_start() -> None:
    world = PartWorld(about(stored="mine"))
    world.write(Create("/cluster", None))
    world.write(Create("/cluster/id", cluster.encode("theirs")))
    world.start()
    assert PATH not in world.nodes
    assert world.part.znode.over == (
        "/cluster/id is theirs, but meta.properties says mine: this broker belongs to another "
        "cluster; check zookeeper.connect"
    )


def test_an_unreadable_cluster_id_ends_the_start() -> None:
    world = PartWorld()
    world.write(Create("/cluster", None))
    world.write(Create("/cluster/id", b"{"))
    world.start()
    assert world.part.znode.over.startswith("/cluster/id")


@pytest.mark.requirement("N07")
def test_a_live_znode_of_another_session_ends_the_start() -> None:
    first = PartWorld().start()
    second = PartWorld(model=first.model, first_conn=1_000).start()
    assert not second.part.znode.registered
    assert second.part.znode.over is not None
    assert "/brokers/ids/0 belongs to session" in second.part.znode.over
    assert first.model.tree.nodes[PATH].ephemeral_owner == first.part.zk.session_id
    second.cut()
    second.advance(10_000)
    assert not second.part.znode.registered


def test_a_persistent_znode_in_its_place_ends_the_start_and_stays() -> None:
    world = PartWorld()
    for path in ("/brokers", "/brokers/ids", PATH):
        world.write(Create(path, b"by hand"))
    world.start()
    assert world.part.znode.over is not None
    assert world.model.tree.nodes[PATH].data == b"by hand"


def test_a_lost_connection_changes_neither_znode_nor_epoch() -> None:
    world = PartWorld().start()
    epoch = world.part.znode.epoch
    world.cut()
    world.advance(3_000)
    assert world.part.zk.connected
    assert world.part.zk.generation == 2
    assert world.part.znode.epoch == epoch
    assert world.model.tree.nodes[PATH].czxid == epoch


def test_after_an_expiry_it_registers_again_with_a_new_epoch() -> None:
    world = PartWorld().start()
    epoch = world.part.znode.epoch
    world.expire()
    world.advance(3_000)
    assert world.part.znode.registered
    assert world.part.znode.epoch > epoch
    assert world.model.tree.nodes[PATH].czxid == world.part.znode.epoch


def test_while_zookeeper_is_away_the_epoch_stays_the_last_one() -> None:
    world = PartWorld().start()
    epoch = world.part.znode.epoch
    world.cut_off = True
    world.expire()
    world.advance(5_000)
    assert not world.part.zk.connected
    assert PATH not in world.nodes
    assert world.part.znode.epoch == epoch


def test_a_registration_whose_answer_was_lost_is_recognised() -> None:
    world = PartWorld().start()
    world.cut_off = True
    world.expire()
    world.cut_off = False
    world.loses_reply = lambda: PATH in world.nodes
    world.advance(1_500)
    assert PATH in world.nodes
    assert not world.part.znode.registered
    world.loses_reply = lambda: False
    world.cut()
    world.advance(3_000)
    assert world.part.znode.registered
    assert world.part.znode.epoch == world.model.tree.nodes[PATH].czxid


def test_a_registration_that_fails_after_an_expiry_is_tried_again() -> None:
    world = PartWorld().start()
    world.cut_off = True
    world.expire()
    world.write(Create(PATH, b"another broker"), session=99)
    world.cut_off = False
    world.advance(4 * RETRY_MS)
    assert world.part.znode.over is None
    assert not world.part.znode.registered
    assert [log.event for log in world.logs].count("registration in zookeeper failed") >= 2
    world.write(Delete(PATH))
    world.advance(2 * RETRY_MS)
    assert world.part.znode.registered


def test_what_an_expired_session_of_ours_has_left_is_replaced() -> None:
    """ZooKeeper may answer that a session has expired before its znodes are gone."""
    world = PartWorld().start()
    session = world.part.zk.session_id
    world.cut_off = True
    world.expire()
    world.write(Create(PATH, b"left", flags=EPHEMERAL), session=session)
    world.cut_off = False
    world.advance(3_000)
    assert world.part.znode.registered
    assert world.model.tree.nodes[PATH].ephemeral_owner == world.part.zk.session_id


def test_leaving_removes_the_znode_at_once() -> None:
    world = PartWorld().start()
    world.part.leave(world.now_ms)
    world.perform(world.part.effects(world.now_ms))
    assert world.part.gone
    assert PATH not in world.nodes


# -------------------------------------------------------------------- /controller
def test_the_holder_of_controller_is_followed() -> None:
    world = PartWorld().start()
    watch = world.part.controller
    assert watch.holder is None
    world.write(Create("/controller_epoch", b"1"))
    zk_controller = b'{"version":2,"brokerid":1,"timestamp":"5","kraftControllerEpoch":-1}'
    world.write(Create("/controller", zk_controller))
    assert (watch.holder.broker_id, watch.kraft, watch.epoch) == (1, False, 1)
    world.write(SetData("/controller_epoch", b"2"))
    world.write(SetData("/controller", controller.encode(3000, 4, 6)))
    assert (watch.holder.broker_id, watch.kraft, watch.epoch) == (3000, True, 2)
    world.write(Delete("/controller"))
    assert watch.holder is None
    world.write(Create("/controller", zk_controller))
    assert (watch.holder.broker_id, watch.kraft) == (1, False)


def test_a_change_while_the_connection_is_lost_is_seen_afterwards() -> None:
    world = PartWorld().start()
    world.write(Create("/controller", controller.encode(3000, 4, 6)))
    world.cut()
    world.cut_off = True
    world.write(Delete("/controller"))
    world.cut_off = False
    world.advance(3_000)
    assert world.part.controller.holder is None


def test_what_is_not_of_its_connection_is_ignored() -> None:
    world = PartWorld().start()
    for event in (Synced(1), Closed(77, "of another")):
        world.part.handle(event, world.now_ms)
    assert world.part.effects(world.now_ms) == []


def test_a_controller_that_may_not_be_read_is_logged() -> None:
    world = PartWorld().start()
    world.write(Create("/controller", controller.encode(3000, 4, 6)))
    world.model.tree.locked.add("/controller")
    world.cut()
    world.advance(3_000)
    assert "NO_AUTH" in {line.fields.get("why") for line in world.logs}


def test_rubbish_in_controller_is_told_and_watched() -> None:
    world = PartWorld().start()
    world.write(Create("/controller_epoch", b"one"))
    world.write(Create("/controller", b"{"))
    assert world.part.controller.holder is None
    told = [log.event for log in world.logs]
    assert "cannot read /controller in zookeeper" in told
    assert "controller epoch" in told
    world.write(SetData("/controller", controller.encode(3000, 4, 6)))
    assert world.part.controller.holder is not None


# -------------------------------------------------------------------- /feature
def test_finalised_features_have_the_version_of_their_znode_as_epoch() -> None:
    world = PartWorld().start()
    features = world.part.features
    assert (features.epoch, features.levels) == (-1, {})
    world.write(Create("/feature", b'{"features":{},"version":2,"status":1}'))
    assert (features.epoch, features.levels) == (0, {})
    some = b'{"features":{"f":{"max_version_level":3}},"version":2,"status":1}'
    world.write(SetData("/feature", some))
    assert (features.epoch, features.levels) == (1, {"f": 3})
    world.write(SetData("/feature", some.replace(b'"status":1', b'"status":0')))
    assert (features.epoch, features.levels) == (-1, {})
    world.write(SetData("/feature", b"{"))
    assert features.epoch == -1
    assert "cannot read /feature in zookeeper" in [log.event for log in world.logs]
    world.write(SetData("/feature", some))
    assert (features.epoch, features.levels) == (4, {"f": 3})


def test_two_brokers_have_two_znodes() -> None:
    model = WatchedZooKeeper(Random(7))
    first = PartWorld(about(0), model).start()
    second = PartWorld(about(1), model, first_conn=1_000).start()
    assert first.part.znode.registered
    assert second.part.znode.registered
    assert {PATH, "/brokers/ids/1"} <= set(model.tree.nodes)
