"""Every kind of znode: read as Kafka wrote it, rendered as Kafka reads it."""

from __future__ import annotations

import json

import pytest

from emulator.metadata.brokers import Endpoint
from emulator.metadata.image import EMPTY
from emulator.metadata.pmap import PMap
from emulator.metadata.producer_ids import ProducerIds
from emulator.metadata.topics import Partition, Topic
from emulator.znodes import brokers, configs, controller, migration, own, producer_id, topics
from emulator.znodes.projection import same, znodes
from emulator.znodes.reader import Tree, TreeNode
from emulator.znodes.tree import ZnodeError
from wire.text import uuid_from_text

ID_TEXT = "TqN7tYUCSVKqqsZOEPcr_Q"
ID = uuid_from_text(ID_TEXT)
PARTITION = Partition(replicas=(2, 0, 1), isr=(0, 1), leader=0, leader_epoch=3, partition_epoch=6)


def tree_with(**nodes: bytes | None) -> Tree:
    tree = Tree()
    for path, data in nodes.items():
        tree.nodes[path] = TreeNode(data, 4)
        parent, _, name = path.rpartition("/")
        tree.lists[parent] = (*tree.lists.get(parent, ()), name)
    return tree


# topics


def test_topic_znode_is_version_3_with_both_lists_always_there() -> None:
    moving = Partition(
        replicas=(1, 2, 3),
        isr=(1,),
        leader=1,
        leader_epoch=0,
        partition_epoch=0,
        adding_replicas=(3,),
        removing_replicas=(1,),
    )
    data = topics.topic_data(Topic("t", ID, PMap({0: PARTITION, 1: moving})))
    assert json.loads(data) == {
        "version": 3,
        "topic_id": ID_TEXT,
        "partitions": {"0": [2, 0, 1], "1": [1, 2, 3]},
        "adding_replicas": {"1": [3]},
        "removing_replicas": {"1": [1]},
    }
    assert b" " not in data
    still = json.loads(topics.topic_data(Topic("t", ID, PMap({0: PARTITION}))))
    assert (still["adding_replicas"], still["removing_replicas"]) == ({}, {})


def test_topic_znode_of_every_version_is_read() -> None:
    v3 = (
        b'{"partitions":{"0":[2,0]},"topic_id":"TqN7tYUCSVKqqsZOEPcr_Q","adding_replicas":{"0":[]},'
        b'"removing_replicas":{},"version":3,"unknown":[1]}'
    )
    assert topics.parse_topic("/t", v3) == topics.ZkTopic(ID, {0: (2, 0)}, {}, {})
    v2 = b'{"version":2,"partitions":{"0":[1]},"adding_replicas":{"0":[1]},"removing_replicas":{}}'
    assert topics.parse_topic("/t", v2) == topics.ZkTopic(topics.NO_ID, {0: (1,)}, {0: (1,)}, {})
    v1 = b'{"version":1,"partitions":{}}'
    assert topics.parse_topic("/t", v1) == topics.ZkTopic(topics.NO_ID, {}, {}, {})


@pytest.mark.parametrize(
    "data",
    [
        None,
        b"",
        b"{",
        b"[]",
        b'{"version":3}',
        b'{"partitions":{"x":[1]}}',
        b'{"partitions":{"-1":[1]}}',
        b'{"partitions":{"0":[-1]}}',
        b'{"partitions":{"0":["1"]}}',
        b'{"partitions":{"0":1}}',
        b'{"partitions":{},"topic_id":"short"}',
        b'{"partitions":{},"topic_id":"\xff"}',
        b'{"partitions":{},"x":' + b"[" * 100_000,
    ],
)
def test_a_malformed_topic_znode_is_named(data: bytes | None) -> None:
    with pytest.raises(ZnodeError, match=r"^/brokers/topics/t: ") as caught:
        topics.parse_topic("/brokers/topics/t", data)
    assert caught.value.path == "/brokers/topics/t"


def test_a_topic_to_import_needs_its_id_and_replicas() -> None:
    path = "/brokers/topics/t"
    with pytest.raises(ZnodeError, match="gone"):
        topics.read_topic(Tree(), "t")
    with pytest.raises(ZnodeError, match="topic_id"):
        topics.read_topic(tree_with(**{path: b'{"version":1,"partitions":{"0":[1]}}'}), "t")
    no_replicas = f'{{"partitions":{{"0":[]}},"topic_id":"{ID_TEXT}"}}'.encode()
    with pytest.raises(ZnodeError, match="partition 0 has no replicas"):
        topics.read_topic(tree_with(**{path: no_replicas}), "t")


def test_state_has_recovery_only_when_recovering() -> None:
    data = topics.state_data(PARTITION, 9)
    assert json.loads(data) == {
        "controller_epoch": 9,
        "leader": 0,
        "version": 1,
        "leader_epoch": 3,
        "isr": [0, 1],
    }
    recovering = Partition((1,), (1,), 1, 2, 3, leader_recovery_state=1)
    assert json.loads(topics.state_data(recovering, 9))["leader_recovery_state"] == 1


def test_state_is_read_with_the_version_of_its_znode() -> None:
    path = topics.state_path("t", 0)
    data = b'{"controller_epoch":1,"leader":-1,"version":1,"leader_epoch":3,"isr":[2]}'
    tree = tree_with(**{path: data})
    assert topics.read_state(tree, "t", 0) == topics.ZkPartitionState(-1, 3, (2,), 1, 0, 4)
    assert topics.read_state(tree, "t", 1) is None
    with pytest.raises(ZnodeError, match=path):
        topics.read_state(tree_with(**{path: b'{"leader":1}'}), "t", 0)


# configs


def test_config_of_the_default_broker_has_no_name_in_the_image() -> None:
    assert configs.broker_config_path("") == "/config/brokers/<default>"
    assert configs.broker_config_path("1") == "/config/brokers/1"
    assert configs.resource_name("<default>") == ""
    assert configs.resource_name("1") == "1"


def test_config_values_are_kept_verbatim() -> None:
    data = configs.config_data({"a": "1,2", "ssl.keystore.password": "x:y,z"})
    assert json.loads(data) == {
        "version": 1,
        "config": {"a": "1,2", "ssl.keystore.password": "x:y,z"},
    }
    assert configs.parse("/p", data) == {"a": "1,2", "ssl.keystore.password": "x:y,z"}
    assert configs.parse("/p", None) == configs.parse("/p", b"") == {}


@pytest.mark.parametrize(
    "data",
    [b"x", b'{"config":{}}', b'{"version":2,"config":{}}', b'{"version":1,"config":{"a":1}}'],
)
def test_a_malformed_config_is_named(data: bytes) -> None:
    with pytest.raises(ZnodeError, match="/config/topics/t"):
        configs.read_topic_config(tree_with(**{"/config/topics/t": data}), "t")


def test_a_broker_config_is_of_a_number_or_the_default() -> None:
    good = b'{"version":1,"config":{"a":"b"}}'
    tree = tree_with(**{"/config/brokers/7": good, "/config/brokers/x": good})
    assert dict(configs.read_broker_config(tree, "7")) == {"a": "b"}
    assert dict(configs.read_broker_config(tree, "<default>")) == {}
    with pytest.raises(ZnodeError, match="neither a broker id"):
        configs.read_broker_config(tree, "x")


@pytest.mark.parametrize(
    ("path", "entity"),
    [
        ("/config/topics/nt1", "topics/nt1"),
        ("/config/topics/a.b_c-d", "topics/a.b_c-d"),
        ("/config/brokers/1", "brokers/1"),
        ("/config/brokers/<default>", "brokers/<default>"),
    ],
)
def test_notification_names_the_entity(path: str, entity: str) -> None:
    op = configs.notification(path)
    assert op.path == "/config/changes/config_change_"
    assert op.flags == 2
    assert json.loads(op.data or b"") == {"version": 2, "entity_path": entity}


def test_names_are_sanitised_as_java_does() -> None:
    assert configs.sanitise("nal@ice x~*ü") == "nal%40ice%20x%7E%2A%C3%BC"


# producer ids


def test_the_producer_block_is_the_last_one_given_out() -> None:
    """So a ZooKeeper controller goes on with the image's next id: none twice, none skipped."""
    data = producer_id.block_data(ProducerIds(7000, 2, 55))
    assert json.loads(data or b"") == {
        "version": 1,
        "broker": 2,
        "block_start": "6000",
        "block_end": "6999",
    }
    block = producer_id.parse(data)
    assert block.block_end + 1 == 7000
    assert producer_id.block_data(ProducerIds()) is None
    assert producer_id.parse(None) is None


@pytest.mark.parametrize(
    "data",
    [
        b"1",
        b'{"version":2,"broker":1,"block_start":"0","block_end":"9"}',
        b'{"version":1,"broker":1,"block_start":0,"block_end":9}',
        b'{"version":1,"broker":1,"block_start":"a","block_end":"9"}',
        b'{"version":1,"broker":1,"block_start":"10","block_end":"9"}',
    ],
)
def test_a_malformed_block_is_named(data: bytes) -> None:
    with pytest.raises(ZnodeError, match="/latest_producer_id_block"):
        producer_id.read(tree_with(**{producer_id.PATH: data}))


# controller, migration, own


@pytest.mark.requirement("Z06", "E03")
def test_controller_is_version_2_with_the_kraft_epoch() -> None:
    data = controller.encode(3000, 5, 1795217855815)
    assert json.loads(data) == {
        "version": 2,
        "brokerid": 3000,
        "timestamp": "1795217855815",
        "kraftControllerEpoch": 5,
    }
    assert controller.parse(data) == controller.ControllerZnode(3000, 5, 1795217855815)


def test_controller_of_a_broker_has_no_kraft_epoch() -> None:
    v1 = b'{"version":1,"brokerid":0,"timestamp":"17"}'
    assert controller.parse(v1) == controller.ControllerZnode(0, -1, 17)
    v2 = b'{"version":2,"brokerid":0,"timestamp":"17","kraftControllerEpoch":-1}'
    assert controller.parse(v2) == controller.ControllerZnode(0, -1, 17)
    assert controller.try_parse(b"{}") is None


@pytest.mark.requirement("Z07")
def test_is_kraft_of_the_older_draft_is_tolerated_and_not_written() -> None:
    draft = b'{"version":2,"brokerid":0,"timestamp":"17","isKRaft":true}'
    assert controller.parse(draft) == controller.ControllerZnode(0, -1, 17)
    assert b"isKRaft" not in controller.encode(1, 2, 3)


@pytest.mark.parametrize("data", [None, b"", b"x", b"1.5", b"\xff"])
def test_a_malformed_controller_epoch_is_named(data: bytes | None) -> None:
    with pytest.raises(ZnodeError, match="/controller_epoch"):
        controller.parse_epoch(data)


def test_controller_epoch_is_a_number_as_text() -> None:
    assert controller.parse_epoch(controller.encode_epoch(42)) == 42
    assert controller.encode_epoch(42) == b"42"


@pytest.mark.requirement("Z01")
def test_migration_has_kafkas_five_keys_as_numbers() -> None:
    data = migration.encode(migration.MigrationZnode(3000, 1, 346, 1))
    assert json.loads(data) == {
        "version": 0,
        "kraft_controller_id": 3000,
        "kraft_controller_epoch": 1,
        "kraft_metadata_offset": 346,
        "kraft_metadata_epoch": 1,
    }
    kafkas = (
        b'{"version":0,"kraft_metadata_offset":346,"kraft_controller_id":3000,'
        b'"kraft_metadata_epoch":1,"kraft_controller_epoch":1}'
    )
    assert migration.parse(kafkas) == migration.MigrationZnode(3000, 1, 346, 1)
    for bad in (kafkas.replace(b'version":0', b'version":1'), b"{}", None, b'{"version":0}'):
        with pytest.raises(ZnodeError, match="/migration"):
            migration.parse(bad)


def test_own_znode_comes_back_and_another_format_is_refused() -> None:
    mine = own.OwnZnode(3000, 5, 42, 17, 346, 4, part=2, reconciling=True)
    data = own.encode(mine)
    assert own.parse(data) == mine
    assert own.try_parse(data.replace(b'"format":1', b'"format":2')) is None
    assert own.try_parse(None) is None


# brokers, admin


def test_a_broker_of_every_version_is_read() -> None:
    v5 = (
        b'{"features":{"metadata.version":{"min_version":1,"max_version":21}},"version":5,'
        b'"listener_security_protocol_map":{"INTERNAL":"PLAINTEXT","SASLP":"SASL_PLAINTEXT"},'
        b'"endpoints":["INTERNAL://127.0.0.1:29090","SASLP://[::1]:19290"],"rack":"r0","jmx_port":-1,'
        b'"port":-1,"host":null,"timestamp":"1"}'
    )
    broker = brokers.parse("/brokers/ids/7", v5, 99)
    assert broker == brokers.ZkBroker(
        7,
        99,
        (Endpoint("INTERNAL", "127.0.0.1", 29090, 0), Endpoint("SASLP", "::1", 19290, 2)),
        "r0",
        {"metadata.version": brokers.FeatureRange(1, 21)},
    )
    v2 = b'{"version":2,"host":"h","port":1,"jmx_port":-1,"endpoints":["SSL://h:1"]}'
    assert brokers.parse("/brokers/ids/7", v2).endpoints == (Endpoint("SSL", "h", 1, 1),)
    v1 = b'{"version":1,"host":"h","port":9092}'
    assert brokers.parse("/brokers/ids/7", v1).endpoints == (Endpoint("PLAINTEXT", "h", 9092, 0),)


@pytest.mark.parametrize(
    "data",
    [
        b"{}",
        b'{"version":6}',
        b'{"version":5,"endpoints":["A://h:1"]}',
        b'{"version":2,"endpoints":["SSL://h:port"]}',
    ],
)
def test_a_malformed_broker_is_named(data: bytes) -> None:
    with pytest.raises(ZnodeError, match="/brokers/ids/7"):
        brokers.parse("/brokers/ids/7", data)


# sameness


@pytest.mark.parametrize(
    ("path", "one", "other", "expected"),
    [
        ("/config/topics/t", b'{"version":1,"config":{}}', b'{"config":{},"version":1}', True),
        ("/config/topics/t", b'{"version":1,"config":{}}', None, True),
        ("/config/topics/t", b"garbage", None, False),
        ("/config/topics/t", b"garbage", b"garbage", True),
        (
            "/brokers/topics/t/partitions/0/state",
            b'{"controller_epoch":1,"leader":0,"version":1,"leader_epoch":3,"isr":[0,1]}',
            (
                b'{"isr":[0,1],"leader":0,"version":1,"leader_epoch":3,"controller_epoch":8,'
                b'"leader_recovery_state":0}'
            ),
            True,
        ),
        (
            "/brokers/topics/t/partitions/0/state",
            b'{"controller_epoch":1,"leader":0,"version":1,"leader_epoch":3,"isr":[0,1]}',
            b'{"controller_epoch":1,"leader":0,"version":1,"leader_epoch":3,"isr":[1,0]}',
            False,
        ),
        ("/brokers/topics/t/partitions", None, b"", True),
        ("/brokers/topics/t/partitions/0", None, b"x", True),
        ("/brokers/topics/t", b'{"partitions":{}}', b'{"version":9,"partitions":{}}', True),
        ("/brokers/topics/t", b'{"partitions":{}}', b'{"partitions":{"0":[1]}}', False),
        ("/anything/else", b"1", b"1 ", False),
    ],
)
def test_same(path: str, one: bytes | None, other: bytes | None, expected: bool) -> None:
    assert same(path, one, other) is expected
    assert same(path, other, one) is expected


def test_an_empty_image_stands_for_an_unused_producer_block() -> None:
    assert znodes(EMPTY, controller_epoch=1) == {"/latest_producer_id_block": None}


@pytest.mark.parametrize("port", [-1, 65_536, 99_999, 2**31])
@pytest.mark.parametrize("version", [1, 2, 5])
def test_a_brokers_port_is_one(version: int, port: int) -> None:
    path = f"{brokers.ROOT}/1"
    document = {
        "version": version,
        "host": "h",
        "port": port,
        "endpoints": [f"PLAINTEXT://h:{port}"],
    }
    with pytest.raises(ZnodeError, match=r"[Pp]ort"):
        brokers.parse(path, json.dumps(document).encode())
    for fit in (0, 65_535):
        text = json.dumps(document).replace(str(port), str(fit))
        (endpoint,) = brokers.parse(path, text.encode()).endpoints
        assert endpoint.port == fit
