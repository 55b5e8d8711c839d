"""A broker in ZooKeeper mode: who rules it, what its clients see, how it ends."""

from __future__ import annotations

import pytest

from emulator.broker import introspection
from emulator.broker.zookeeper.side import ZooKeeperSide
from emulator.metadata.metadata_version import MetadataVersion
from emulator.trace.exposition import exposition
from emulator.znodes import controller
from emulator.zookeeper.ops import Create
from tests.kit.requests import create_topics
from tests.unit.broker.control import T, lead, live, update
from tests.unit.broker.joined_brokers import CLUSTER_ID
from tests.unit.broker.zookeeper_stage import MIGRATING, PLAIN, ZooKeeperStage
from wire import messages as m
from wire.errors import ErrorCode
from wire.releases import RELEASES, broker_ranges

PATH = "/brokers/ids/1"


@pytest.mark.requirement("M01")
@pytest.mark.parametrize("raw", [PLAIN, MIGRATING])
def test_a_scrape_says_that_its_metadata_is_zookeepers(raw: dict[str, str]) -> None:
    stage = ZooKeeperStage().had_a_cluster()
    (broker,) = stage.running(1, raw=raw)
    shown = exposition(introspection.metrics(broker, stage.joined.now_ms), active=True)
    assert "\nkraft_bridge_broker_metadata_type 1.0\n" in shown
    assert "\nkafka_server_kafkaserver_metadatatype 1.0\n" in shown


def test_it_registers_and_serves_the_cluster_id_of_zookeeper() -> None:
    stage = ZooKeeperStage().had_a_cluster()
    (broker,) = stage.running(1)
    assert PATH in stage.zookeeper.nodes
    told = stage.client().ask(m.MetadataRequest(topics=[]), 12)
    assert told.cluster_id == CLUSTER_ID
    assert told.controller_id == -1
    assert broker.side.broker_epoch >= 0


@pytest.mark.requirement("A02")
def test_metadata_is_what_the_zookeeper_controller_told() -> None:
    stage = ZooKeeperStage().had_a_cluster()
    stage.running(1, 2)
    brokers = [live(one) for one in (1, 2, 5)]
    told = update(("t", T, {0: 2, 1: 1}), brokers=brokers, controller=5, epoch=7)
    assert stage.tell(1, told, 8).error_code == 0
    for _ in range(5):
        answer = stage.client(1).ask(m.MetadataRequest(topics=None), 12)
        assert answer.controller_id == 5
    assert [(one.node_id, one.port) for one in answer.brokers] == [(1, 9001), (2, 9002), (5, 9005)]
    (topic,) = answer.topics
    assert (topic.name, topic.topic_id) == ("t", T)
    assert [(p.partition_index, p.leader_id) for p in topic.partitions] == [(0, 2), (1, 1)]


def test_a_kraft_controller_is_refused_where_the_migration_is_off() -> None:
    stage = ZooKeeperStage().had_a_cluster()
    stage.running(1)
    told = stage.tell(1, update(kraft=True, controller=3000, broker_epoch=5), 8)
    assert told.error_code == ErrorCode.UNKNOWN_SERVER_ERROR


def test_without_migration_what_a_controller_does_is_refused() -> None:
    stage = ZooKeeperStage().had_a_cluster()
    stage.running(1)
    (topic,) = stage.client().ask(create_topics("new", timeout_ms=5_000), 7).topics
    assert topic.error_code == ErrorCode.NOT_CONTROLLER
    quotas = m.AlterClientQuotasRequest(
        entries=[
            m.AlterClientQuotasRequest.EntryData(
                entity=[
                    m.AlterClientQuotasRequest.EntityData(entity_type="user", entity_name="bob")
                ],
                ops=[],
            )
        ]
    )
    (entry,) = stage.client().ask(quotas, 1).entries
    assert entry.error_code == ErrorCode.INVALID_REQUEST
    assert "does not write to ZooKeeper" in entry.error_message


def test_after_an_expiry_the_old_epoch_is_stale() -> None:
    stage = ZooKeeperStage().had_a_cluster()
    (broker,) = stage.running(1)
    side = broker.side
    assert isinstance(side, ZooKeeperSide)
    before = side.broker_epoch
    stage.zookeeper.expire(side.zookeeper.zk.session_id)
    stage.joined.until(lambda: side.broker_epoch > before)
    stale = stage.tell(1, update(broker_epoch=before), 8)
    assert stale.error_code == ErrorCode.STALE_BROKER_EPOCH
    assert stage.tell(1, update(broker_epoch=side.broker_epoch), 8).error_code == 0


def test_a_second_broker_of_the_same_id_ends_and_the_first_stays() -> None:
    stage = ZooKeeperStage().had_a_cluster()
    (first,) = stage.running(1)
    stage.broker(1)
    halt = stage.parties[1].halt
    assert halt.exit_code == 1
    assert "/brokers/ids/1 belongs to session" in halt.why
    assert PATH in stage.zookeeper.nodes
    assert first.side.over is None


def test_a_broker_of_another_cluster_ends() -> None:
    stage = ZooKeeperStage().had_a_cluster()
    stage.broker(1, stored="another-cluster-000000")
    halt = stage.parties[1].halt
    assert "belongs to another cluster" in halt.why


def test_without_zookeeper_the_start_ends_after_the_connection_timeout() -> None:
    stage = ZooKeeperStage()
    stage.joined.cut.add(("zk", 2181))
    stage.broker(1, zookeeper_connection_timeout_ms="5000")
    stage.joined.wait(4_000)
    assert stage.parties[1].halt is None
    stage.joined.wait(4_000)
    halt = stage.parties[1].halt
    assert halt.why == "no connection to ZooKeeper within 5000 ms"


# -------------------------------------------------------------------- the end
def test_it_ends_by_leaving_zookeeper() -> None:
    stage = ZooKeeperStage().had_a_cluster()
    (broker,) = stage.running(1)
    stage.joined.perform(stage.parties[1], broker.shutdown(stage.joined.now_ms))
    stage.joined.until(lambda: stage.parties[1].halt is not None)
    halt = stage.parties[1].halt
    assert halt.exit_code == 0
    assert PATH not in stage.zookeeper.nodes


def test_it_does_not_wait_for_a_controller_with_which_it_is_not_registered() -> None:
    stage = ZooKeeperStage().had_a_cluster()
    (broker,) = stage.running(1)
    told = stage.tell(1, update(kraft=True, controller=3000), 8)
    assert told.error_code == 0, "no epoch is named, so none is compared"
    stage.joined.perform(stage.parties[1], broker.shutdown(stage.joined.now_ms))
    stage.joined.until(lambda: stage.parties[1].halt is not None)
    assert PATH not in stage.zookeeper.nodes


def test_a_silent_follower_is_dropped_after_the_configured_time() -> None:
    stage = ZooKeeperStage().had_a_cluster()
    (broker,) = stage.running(1, replica_lag_time_max_ms="4000")
    side = broker.side
    assert isinstance(side, ZooKeeperSide)
    stage.tell(1, update(brokers=[live(1)]), 8)
    stage.tell(1, lead(), 7)
    hosted = side.replicas.get(("t", 0))
    stage.joined.wait(3_000)
    assert hosted.proposal is None
    stage.joined.wait(2_000)
    assert hosted.proposal.isr == (1,)


def test_the_zookeeper_controller_is_asked_to_move_what_it_leads() -> None:
    """The controller here is broker 2 of ours, which says that it is none: three tries."""
    stage = ZooKeeperStage().had_a_cluster()
    (broker, _) = stage.running(1, 2)
    here = update(brokers=[broker_at(1), broker_at(2)], controller=2)
    assert stage.tell(1, here, 8).error_code == 0
    assert stage.tell(1, lead(), 7).error_code == 0
    stage.joined.perform(stage.parties[1], broker.shutdown(stage.joined.now_ms))
    stage.joined.wait(4_000)
    assert stage.parties[1].halt is None
    assert PATH in stage.zookeeper.nodes
    stage.joined.until(lambda: stage.parties[1].halt is not None)
    refused = [log for log in stage.parties[1].logs if log.event == "controlled shutdown refused"]
    assert [log.fields["tries_left"] for log in refused] == [2, 1, 0]
    assert PATH not in stage.zookeeper.nodes


def broker_at(broker_id: int) -> m.UpdateMetadataRequest.UpdateMetadataBroker:
    kind = m.UpdateMetadataRequest
    endpoint = kind.UpdateMetadataEndpoint(
        port=9092, host=f"broker-{broker_id}", listener="PLAINTEXT"
    )
    return kind.UpdateMetadataBroker(id=broker_id, endpoints=[endpoint])


@pytest.mark.parametrize(
    ("request_", "version", "code"),
    [
        (m.ControlledShutdownRequest(broker_id=2), 3, ErrorCode.STALE_CONTROLLER_EPOCH),
        (m.AlterPartitionRequest(broker_id=2), 3, ErrorCode.NOT_CONTROLLER),
        (m.EnvelopeRequest(client_host_address=b""), 0, ErrorCode.NOT_CONTROLLER),
        (m.AllocateProducerIdsRequest(broker_id=2), 0, ErrorCode.NOT_CONTROLLER),
    ],
)
@pytest.mark.parametrize("raw", [PLAIN, MIGRATING])
def test_it_says_to_everyone_that_it_is_no_controller(
    raw: dict[str, str], request_: object, version: int, code: ErrorCode
) -> None:
    stage = ZooKeeperStage().had_a_cluster()
    stage.running(1, raw=raw)
    assert stage.client().ask(request_, version).error_code == code


@pytest.mark.parametrize("release", RELEASES)
def test_it_lists_what_a_kafka_broker_in_this_mode_lists(release: str) -> None:
    stage = ZooKeeperStage().had_a_cluster()
    stage.running(1, kraftbridge_release=release)
    asking = m.ApiVersionsRequest(client_software_name="t", client_software_version="1")
    answer = stage.client().ask(asking, 3)
    listed = {one.api_key: (one.min_version, one.max_version) for one in answer.api_keys}
    assert {4, 5, 6, 7, 56, 58, 67} <= set(listed)
    known = broker_ranges(release, mode="zk")
    assert {key: known[key] for key in listed} == listed
    # No listener has SASL.
    assert known.keys() - listed.keys() <= {17, 36}


# -------------------------------------------------------------------- migration
def migrated(stage: ZooKeeperStage, *ids: int, **more: str) -> None:
    """All brokers are ours; our controller takes over."""
    stage.running(*ids, raw=MIGRATING, **more)
    stage.controller()
    stage.joined.until(lambda: "/migration" in stage.zookeeper.nodes and holder(stage) == 3000)


def holder(stage: ZooKeeperStage) -> int:
    data = stage.zookeeper.nodes.get("/controller")
    return -1 if data is None else controller.parse(data).broker_id


@pytest.mark.requirement("N02", "N03", "N06")
def test_a_migration_in_which_all_brokers_are_ours() -> None:
    stage = ZooKeeperStage().had_a_cluster(t={0: [1, 2], 1: [2, 1]})
    migrated(stage, 1, 2)
    side = stage.parties[1].machine.side  # type: ignore[attr-defined]
    stage.joined.until(lambda: side.cache.controller is not None and side.cache.controller.kraft)
    stage.joined.wait(3_000)
    answers = [stage.client(1).ask(m.MetadataRequest(topics=None), 12) for _ in range(30)]
    assert {one.controller_id for one in answers} == {1, 2}
    (topic,) = answers[0].topics
    assert [(p.leader_id, p.leader_epoch >= 3) for p in topic.partitions] == [(1, True), (2, True)]
    assert {one.key for one in side.replicas} == {("t", 0), ("t", 1)}
    assert side.broker_epoch == side.registration.epoch


@pytest.mark.requirement("R05")
@pytest.mark.parametrize("release", RELEASES)
def test_clients_are_not_told_of_the_migration_before_or_after_the_take_over(release: str) -> None:
    """A Kafka broker from 3.7 on does tell its clients, while it migrates."""
    level = MetadataVersion.from_ibp(release).level
    stage = ZooKeeperStage(level).had_a_cluster(t={0: [1]})
    more = {"kraftbridge_release": release, "inter_broker_protocol_version": release}
    stage.running(1, raw=MIGRATING, **more)
    answers = [stage.client(1).ask(m.ApiVersionsRequest("a", "1"), 3)]
    stage.controller()
    stage.joined.until(lambda: "/migration" in stage.zookeeper.nodes and holder(stage) == 3000)
    stage.joined.wait(3_000)
    answers.append(stage.client(1).ask(m.ApiVersionsRequest("a", "1"), 3))
    for answer in answers:
        assert answer.zk_migration_ready is False
        assert not answer.unknown_tags


@pytest.mark.requirement("I23")
def test_after_the_take_over_changes_are_forwarded_and_reach_zookeeper() -> None:
    stage = ZooKeeperStage().had_a_cluster(t={0: [1, 2]})
    migrated(stage, 1, 2)
    side = stage.parties[1].machine.side  # type: ignore[attr-defined]
    stage.joined.until(lambda: side.cache.controller is not None and side.cache.controller.kraft)
    (topic,) = stage.client(1).ask(create_topics("made", timeout_ms=5_000), 7).topics
    assert topic.error_code == 0
    stage.joined.until(lambda: side.cache.topic("made") is not None)
    assert "/brokers/topics/made" in stage.zookeeper.nodes


def test_a_migrated_broker_ends_by_the_grant_of_the_kraft_controller() -> None:
    stage = ZooKeeperStage().had_a_cluster(t={0: [1, 2]})
    migrated(stage, 1, 2)
    broker = stage.parties[1].machine
    side = broker.side  # type: ignore[attr-defined]
    stage.joined.until(lambda: side.cache.controller is not None and side.cache.controller.kraft)
    stage.joined.until(lambda: side.registration.life.state.name == "RUNNING")
    stage.joined.wait(3_000)
    stage.joined.perform(stage.parties[1], broker.shutdown(stage.joined.now_ms))
    stage.joined.until(lambda: stage.parties[1].halt is not None)
    halt = stage.parties[1].halt
    assert halt.exit_code == 0
    assert PATH not in stage.zookeeper.nodes
    other = stage.client(2).ask(m.MetadataRequest(topics=None), 12)
    assert [p.leader_id for p in other.topics[0].partitions] == [2]


@pytest.mark.requirement("N04", "N09")
def test_another_protocol_than_the_quorums_level_is_refused_for_ever() -> None:
    stage = ZooKeeperStage(level=14).had_a_cluster()
    stage.running(1, raw=MIGRATING)
    stage.controller()
    stage.joined.wait(120_000)
    assert stage.parties[1].halt is None
    assert holder(stage) == -1
    assert PATH in stage.zookeeper.nodes
    side = stage.parties[1].machine.side  # type: ignore[attr-defined]
    assert side.registration.epoch == -1
    why = [log.fields["why"] for log in stage.parties[1].logs if log.level == "warning"]
    assert "registration refused: UNSUPPORTED_VERSION" in why


@pytest.mark.requirement("N07")
def test_the_id_of_a_controller_is_refused_for_ever() -> None:
    stage = ZooKeeperStage().had_a_cluster()
    stage.running(3000, raw=MIGRATING)
    stage.controller()
    stage.joined.wait(120_000)
    assert stage.parties[3000].halt is None
    side = stage.parties[3000].machine.side  # type: ignore[attr-defined]
    assert side.registration.epoch == -1
    why = [log.fields["why"] for log in stage.parties[3000].logs if log.level == "warning"]
    assert "registration refused: DUPLICATE_BROKER_REGISTRATION" in why


@pytest.mark.requirement("N08")
def test_a_quorum_of_another_cluster_is_asked_for_ever() -> None:
    stage = ZooKeeperStage()
    stage.running(1, raw=MIGRATING)
    stage.controller()
    stage.joined.wait(120_000)
    assert stage.parties[1].halt is None
    side = stage.parties[1].machine.side  # type: ignore[attr-defined]
    assert side.registration.epoch == -1
    assert side.cluster.cluster_id != CLUSTER_ID
    assert side.of_another_cluster
    told = [log for log in stage.parties[1].logs if log.level == "warning"]
    assert "INCONSISTENT_CLUSTER_ID" in [log.fields["why"] for log in told]


def test_a_level_that_matches_is_taken() -> None:
    """What the test above rests on."""
    stage = ZooKeeperStage(level=14).had_a_cluster()
    migrated(stage, 1, inter_broker_protocol_version="3.6")


@pytest.mark.parametrize("release", RELEASES)
def test_every_release_migrates_at_its_own_level(release: str) -> None:
    level = MetadataVersion.from_ibp(release).level
    stage = ZooKeeperStage(level).had_a_cluster(t={0: [1]})
    migrated(stage, 1, kraftbridge_release=release)


def test_a_zookeeper_controller_that_rules_again_is_obeyed_by_its_own_epoch() -> None:
    """A rollback: the epochs of the znode count again."""
    stage = ZooKeeperStage().had_a_cluster(t={0: [1, 2]})
    migrated(stage, 1, 2)
    side = stage.parties[1].machine.side  # type: ignore[attr-defined]
    stage.joined.until(lambda: side.cache.controller is not None and side.cache.controller.kraft)
    again = update(
        brokers=[broker_at(1), broker_at(2)],
        controller=2,
        epoch=99,
        broker_epoch=side.zookeeper.znode.epoch,
    )
    assert stage.tell(1, again, 8).error_code == 0
    assert side.broker_epoch == side.zookeeper.znode.epoch
    assert stage.client(1).ask(m.MetadataRequest(topics=[]), 12).controller_id == 2


def test_status_says_who_rules_and_where_zookeeper_is() -> None:
    stage = ZooKeeperStage().had_a_cluster(t={0: [1, 2]})
    migrated(stage, 1, 2)
    stage.joined.wait(3_000)
    found = introspection.status(stage.parties[1].machine)  # type: ignore[arg-type]
    assert found["zookeeper"] == {
        "server": "zk:2181",
        "connected": True,
        "znode_epoch": stage.zookeeper.machine.model.tree.nodes[PATH].czxid,
        "controller": {"id": 3000, "kraft_epoch": 1, "zookeeper_epoch": 8},
    }
    assert (found["mode"], found["topics"], found["controller"]) == ("zk", 1, "controller:9093")


def test_who_rules_in_zookeeper_is_logged() -> None:
    stage = ZooKeeperStage().had_a_cluster()
    stage.running(1)
    stage.zookeeper.write(Create("/controller", controller.encode(3000, 4, 5)))
    told = [log.fields for log in stage.parties[1].logs if log.event == "controller in zookeeper"]
    assert {"broker_id": 3000, "kraft_epoch": 4} in told


def test_that_there_is_no_controller_is_said_at_the_start() -> None:
    stage = ZooKeeperStage()
    stage.running(1)
    stage.joined.wait(1_000)
    (said,) = [log for log in stage.parties[1].logs if log.event == "controller in zookeeper"]
    assert said.fields["broker_id"] == -1
    assert said.fields["note"] == "this broker never becomes a ZooKeeper controller"
