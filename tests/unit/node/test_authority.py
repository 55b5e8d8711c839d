"""A controller that is refused, deposed, or not confirmed yet harms nobody."""

from __future__ import annotations

from typing import Any

import pytest

from emulator.migration.authority import SILENT
from emulator.node import introspection
from emulator.node.readiness import not_ready_because
from emulator.raft.layout import TOPIC, TOPIC_ID
from emulator.seam import Accepted, Received
from emulator.zookeeper.ops import Create, Delete, SetData
from tests.kit.requests import create_topics
from tests.unit.node.test_machine import CALLER, IDENTITY, World, cluster, dual_writing
from wire import messages as m
from wire import records as r
from wire.errors import ErrorCode
from wire.frame import RequestHeader, decode_response, encode_request, framed

SESSION_MS = 18_000
BROKER = 1


def send(world: World, message: object, key: int, version: int) -> None:
    header = RequestHeader(api_key=key, api_version=version, correlation_id=1, client_id="me")
    data = framed(encode_request(header, message))
    events: list[Any] = [Received(CALLER, data)]
    if not world.node.connections.owns(CALLER):
        events.insert(0, Accepted(CALLER, "CONTROLLER", b"\x7f\x00\x00\x01"))
    world.perform(world.node.step(events, world.now_ms))


def answer(world: World, key: int, version: int) -> Any:
    (found,) = world.answers
    world.answers.clear()
    return decode_response(key, version, found[4:])[1]


def fetch(offset: int, epoch: int, last: int) -> m.FetchRequest:
    """What an observer asks that knows ``epoch`` and holds a log up to ``offset``."""
    partition = m.FetchRequest.FetchPartition(
        current_leader_epoch=epoch, fetch_offset=offset, last_fetched_epoch=last
    )
    topic = m.FetchRequest.FetchTopic(topic_id=TOPIC_ID, topic=TOPIC, partitions=[partition])
    return m.FetchRequest(
        cluster_id=IDENTITY.cluster_id,
        replica_state=m.FetchRequest.ReplicaState(replica_id=BROKER),
        max_wait_ms=500,
        max_bytes=1 << 20,
        topics=[topic],
    )


def fetched(world: World, offset: int, epoch: int, last: int) -> m.FetchResponse.PartitionData:
    """What such an observer is told."""
    send(world, fetch(offset, epoch, last), 1, 17)
    if not world.answers:
        world.advance(500)
    found: m.FetchResponse = answer(world, 1, 17)
    return found.responses[0].partitions[0]


def told(partition: m.FetchResponse.PartitionData) -> tuple[int, int, int, int]:
    """Error, leader, its epoch, and the epoch from which the follower must cut."""
    leader = partition.current_leader
    return (
        partition.error_code,
        leader.leader_id,
        leader.leader_epoch,
        partition.diverging_epoch.epoch,
    )


def heartbeat(world: World) -> int:
    beat = m.BrokerHeartbeatRequest(broker_id=BROKER, broker_epoch=5, current_metadata_offset=1)
    send(world, beat, 63, 1)
    return int(answer(world, 63, 1).error_code)


def registration(world: World) -> int:
    request = m.BrokerRegistrationRequest
    asked = request(
        broker_id=BROKER,
        cluster_id=IDENTITY.cluster_id,
        incarnation_id=b"i" * 16,
        listeners=[request.Listener(name="PLAINTEXT", host="h", port=9092, security_protocol=0)],
        features=[
            request.Feature(name="metadata.version", min_supported_version=1,
                            max_supported_version=21)
        ],
        is_migrating_zk_broker=True,
        log_dirs=[b"d" * 16],
    )  # fmt: skip
    send(world, asked, 62, 4)
    return int(answer(world, 62, 4).error_code)


def phase(world: World) -> str:
    migration = introspection.status(world.node, world.now_ms)["migration"]
    return str(migration["phase"])


def with_broker(**more: str) -> World:
    """In dual write, with a broker that is unfenced and no longer heard of."""
    world = dual_writing(**more)
    broker = r.RegisterBrokerRecord(
        broker_id=BROKER, broker_epoch=5, fenced=False, is_migrating_zk_broker=True
    )
    world.node.controller.append([broker], world.now_ms)
    world.node.controller.heartbeats.register(BROKER, world.now_ms)
    world.perform(world.node.step([], world.now_ms))
    world.advance(500)
    return world


def restored() -> tuple[World, World]:
    """The right process, ended, and one on a copy of its folder that is a start and a topic old."""
    first = with_broker()
    backup = dict(first.files)
    right = World(first.files, first.zookeeper)
    right.advance(2_000)
    topic = r.TopicRecord(name="acknowledged", topic_id=b"a" * 16)
    right.node.controller.append([topic], right.now_ms)
    right.advance(10_000)
    old = World(backup, first.zookeeper)
    old.advance(2_000)
    return right, old


def test_a_restored_folder_tells_followers_nothing() -> None:
    """The broker has read the right log in an epoch that the restored one has too."""
    right, old = restored()
    epoch, end = right.node.raft.leader_epoch, right.node.raft.log_end_offset
    assert old.node.raft.leader_epoch == epoch, "as after a backup that is one start old"
    silent = (ErrorCode.BROKER_NOT_AVAILABLE, -1, epoch, -1)
    assert told(fetched(old, end, epoch, epoch)) == silent
    grown = fetched(old, old.node.raft.log_end_offset - 1, epoch, epoch)
    assert (told(grown), grown.records) == (silent, b""), "another log's record at that offset"
    assert told(fetched(old, end, epoch - 1, epoch - 1))[1:3] == (-1, epoch - 1)
    assert told(fetched(old, 0, 0, 0)) == (ErrorCode.BROKER_NOT_AVAILABLE, -1, 0, -1)


def test_a_restored_folder_does_nothing_to_brokers_and_its_log_stays_as_it_is() -> None:
    _, old = restored()
    end = old.node.raft.log_end_offset
    assert heartbeat(old) == ErrorCode.NOT_CONTROLLER
    assert registration(old) == ErrorCode.NOT_CONTROLLER
    old.advance(10 * SESSION_MS)
    assert old.node.raft.log_end_offset == end
    assert not old.node.controller.tip.brokers[BROKER].fenced


def test_a_restored_folder_says_that_it_is_refused_and_the_way_out() -> None:
    _, old = restored()
    status = introspection.status(old.node, old.now_ms)
    assert not status["active"]
    assert status["migration"]["phase"] == "refused"
    (waiting,) = status["migration"]["waiting"]
    assert waiting["fatal"]
    back = status["migration"]["going_back"]["text"]
    assert back.startswith("Not known to this controller, as it is refused. kraft-bridge rollback")
    assert "start the controller with the folder that was used last" in waiting["text"]
    assert "refuses this controller" in not_ready_because(old.node, old.now_ms)
    lines = [line for line in old.logs if line.event == "brokers and callers are refused"]
    assert [line.level for line in lines] == ["info", "warning"], "not confirmed yet, then refused"


def test_the_right_folder_serves_the_broker_after_the_restored_one_was_refused() -> None:
    right, old = restored()
    epoch, end = right.node.raft.leader_epoch, right.node.raft.log_end_offset
    fetched(old, end, epoch, epoch)
    again = World(right.files, right.zookeeper)
    again.advance(1_000)
    assert told(fetched(again, end, epoch, epoch))[:3] == (
        ErrorCode.FENCED_LEADER_EPOCH, 3000, epoch + 1,
    )  # fmt: skip
    assert told(fetched(again, end, epoch + 1, epoch)) == (0, 3000, epoch + 1, -1)


def test_without_zookeeper_a_migrated_log_says_nothing_and_fences_nobody() -> None:
    before = with_broker()
    world = World(before.files)
    assert phase(world) == "claiming"
    end, epoch = world.node.raft.log_end_offset, world.node.raft.leader_epoch
    world.advance(10 * SESSION_MS)
    assert heartbeat(world) == ErrorCode.NOT_CONTROLLER
    assert told(fetched(world, end, epoch - 1, epoch - 1)) == (
        ErrorCode.BROKER_NOT_AVAILABLE, -1, epoch - 1, -1,
    )  # fmt: skip
    assert world.node.raft.log_end_offset == end
    assert not_ready_because(world.node, world.now_ms) == "no ZooKeeper session"


def test_when_zookeeper_is_back_sessions_of_brokers_start_anew() -> None:
    before = with_broker()
    world = World(before.files)
    world.advance(10 * SESSION_MS)
    world.zookeeper = before.zookeeper
    world.advance(3_000)
    assert phase(world) == "hybrid"
    assert introspection.status(world.node, world.now_ms)["active"]
    assert not world.node.controller.tip.brokers[BROKER].fenced
    assert heartbeat(world) == ErrorCode.NONE
    world.advance(SESSION_MS + 1_000)
    assert world.node.controller.tip.brokers[BROKER].fenced, "and it is silent again"


def test_a_fetch_that_waits_for_the_claim_is_answered_by_it() -> None:
    before = with_broker()
    world = World(before.files)
    epoch, end = world.node.raft.leader_epoch, world.node.raft.log_end_offset
    send(world, fetch(end - 1, epoch, epoch), 1, 17)
    assert world.answers == []
    world.zookeeper = before.zookeeper
    world.advance(499)
    (topic,) = answer(world, 1, 17).responses
    assert told(topic.partitions[0]) == (0, 3000, epoch, -1)


# ------------------------------------------------------------------ before the first copy
def test_before_the_first_copy_brokers_find_the_controller_and_register() -> None:
    """Long before a claim is possible, which waits for them."""
    world = World(None, cluster())
    world.advance(1_000)
    assert phase(world) == "pre-migration"
    assert introspection.status(world.node, world.now_ms)["active"]
    (waiting,) = introspection.status(world.node, world.now_ms)["migration"]["waiting"]
    assert waiting["why"] == "no_brokers"
    assert told(fetched(world, 0, 0, 0))[:3] == (ErrorCode.FENCED_LEADER_EPOCH, 3000, 1)
    assert told(fetched(world, 0, 1, 0)) == (0, 3000, 1, -1)
    assert registration(world) == ErrorCode.NONE


def test_before_the_first_copy_nothing_is_told_either_until_zookeeper_was_read() -> None:
    """A broker that asks on registers as soon as it was."""
    world = World()
    world.advance(100)
    assert phase(world) == "pre-migration"
    assert not introspection.status(world.node, world.now_ms)["active"]
    for offset, epoch in ((0, 0), (900, 1)):
        silent = (ErrorCode.BROKER_NOT_AVAILABLE, -1, epoch, -1)
        assert told(fetched(world, offset, epoch, epoch)) == silent
    assert registration(world) == ErrorCode.NOT_CONTROLLER
    world.zookeeper = cluster()
    world.advance(3_000)
    assert registration(world) == ErrorCode.NONE


def test_what_stands_in_another_znode_is_no_reason_to_be_silent() -> None:
    """Only the guards decide, not the preconditions of the copy."""
    zookeeper = cluster()
    zookeeper.tree.write(Create("/brokers", None), 1, 0)
    zookeeper.tree.write(Create("/brokers/topics", None), 1, 0)
    zookeeper.tree.write(Create("/brokers/topics/t", b"rubbish"), 1, 0)
    world = World(None, zookeeper)
    world.advance(1_000)
    waiting = introspection.status(world.node, world.now_ms)["migration"]["waiting"]
    assert "malformed_znode" in {one["why"] for one in waiting}
    assert registration(world) == ErrorCode.NONE


@pytest.mark.parametrize(
    ("op", "why"),
    [
        (SetData("/cluster/id", b'{"version":"1","id":"other"}'), "other_cluster"),
        (Delete("/controller_epoch"), "no_controller_epoch"),
    ],
)
def test_what_keeps_zookeeper_from_confirming_the_log_is_in_the_status(op: Any, why: str) -> None:
    """ZooKeeper was read: what is said of the silence must not deny it."""
    zookeeper = cluster()
    zookeeper.tree.write(op, 1, 0)
    world = World(None, zookeeper)
    world.advance(1_000)
    assert registration(world) == ErrorCode.NOT_CONTROLLER
    assert "/status says why" in not_ready_because(world.node, world.now_ms)
    waiting = introspection.status(world.node, world.now_ms)["migration"]["waiting"]
    assert why in {one["why"] for one in waiting}


def test_a_backup_from_before_the_copy_is_refused_like_a_later_one() -> None:
    before = World()
    before.advance(100)
    backup = dict(before.files)
    right = dual_writing()
    old = World(backup, right.zookeeper)
    old.advance(2_000)
    assert phase(old) == "refused"
    assert told(fetched(old, 900, 2, 2)) == (ErrorCode.BROKER_NOT_AVAILABLE, -1, 2, -1)
    assert registration(old) == ErrorCode.NOT_CONTROLLER


# ------------------------------------------------------------------ deposed
def deposed(world: World) -> None:
    """Somebody else claims; the next write of ``world`` notices."""
    world.zookeeper.tree.write(SetData("/controller_epoch", b"99"), 1, world.now_ms)


@pytest.mark.parametrize("bound", [1, 10_000])
def test_a_deposed_controller_sends_callers_away_at_once(bound: int) -> None:
    """Those who wait for ZooKeeper too; nobody is fenced, and the log gets nothing more."""
    world = with_broker(kraftbridge_zk_write_behind_max_records=str(bound))
    world.held = []
    topic = r.TopicRecord(name="t", topic_id=b"t" * 16)
    world.node.controller.append([topic], world.now_ms)
    world.perform(world.node.step([], world.now_ms))
    if bound == 1:
        send(world, create_topics("u", assigned=[[BROKER]]), 19, 7)
        assert world.answers == [], "it waits for ZooKeeper"
    deposed(world)
    world.release()
    world.advance(100)
    if bound == 1:
        (refused,) = answer(world, 19, 7).topics
        assert refused.error_code == ErrorCode.NOT_CONTROLLER
    assert phase(world) == "deposed"
    end = world.node.raft.log_end_offset
    send(world, create_topics("u", assigned=[[BROKER]]), 19, 7)
    (refused,) = answer(world, 19, 7).topics
    assert refused.error_code == ErrorCode.NOT_CONTROLLER
    assert heartbeat(world) == ErrorCode.NOT_CONTROLLER
    world.advance(10 * SESSION_MS)
    assert world.node.raft.log_end_offset == end
    epoch = world.node.raft.leader_epoch
    assert told(fetched(world, 1, epoch, 1))[0] == ErrorCode.BROKER_NOT_AVAILABLE
    assert not_ready_because(world.node, world.now_ms) in SILENT.values()
    assert world.stop().exit_code == 1


def test_a_node_without_migration_is_asked_nothing() -> None:
    world = World(zookeeper_metadata_migration_enable="false")
    world.advance(100)
    assert told(fetched(world, 900, 1, 1))[3] == 1
