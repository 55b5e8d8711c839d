"""How a node ends, and what it says while ZooKeeper cannot be reached."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from itertools import count

import pytest

from emulator.config import load as config
from emulator.migration.states import State
from emulator.node import introspection
from emulator.node.machine import Node
from emulator.node.readiness import not_ready_because
from emulator.raft.format import MetaProperties, render_bootstrap_checkpoint
from emulator.raft.layout import BOOTSTRAP_CHECKPOINT, snapshot_id
from emulator.seam import (
    Accepted,
    AppendFile,
    Close,
    Closed,
    Connect,
    Connected,
    DeleteFile,
    Effect,
    Event,
    FileNotWritten,
    FileWritten,
    Halt,
    Log,
    Received,
    ReplaceFile,
    Row,
    Send,
    Synced,
    SyncFile,
    Ticket,
    WriteFile,
)
from emulator.simulation.models.zookeeper import ZooKeeperModel
from emulator.simulation.scenarios.endurance import product_bytes
from emulator.trace.rows import PipelineStage
from emulator.zookeeper.ops import Create
from tests.unit.controller.world import registration
from wire import messages as m
from wire import records as r
from wire.errors import ErrorCode
from wire.frame import RequestHeader, decode_response, encode_request, framed
from wire.record_serde import encode_record

RAW = {
    "process.roles": "controller",
    "node.id": "3000",
    "controller.quorum.voters": "3000@localhost:9093",
    "listeners": "CONTROLLER://127.0.0.1:9093",
    "controller.listener.names": "CONTROLLER",
    "listener.security.protocol.map": "CONTROLLER:PLAINTEXT",
    "log.dirs": "data",
    "zookeeper.metadata.migration.enable": "true",
    "zookeeper.connect": "zk:2181",
}
CALLER = 1_000_000
IDENTITY = MetaProperties("MkU3OEVBNTcwNTJENDM2Qg", 3000, bytes(15) + b"x")


class World:
    """A node on files of memory; whoever it dials refuses, unless there is a ZooKeeper.

    ``held`` keeps bytes for ZooKeeper back, ``answers`` what went to the caller on ``CALLER``.
    ``no_room``: why no snapshot can be written; empty: they can.
    """

    no_room = ""
    looks = look_ns = 0
    """How often a step has looked at its clock, and how long it works before each look."""

    def __init__(
        self,
        files: Mapping[str, bytes] | None = None,
        zookeeper: ZooKeeperModel | None = None,
        *,
        now_ms: int = 1_000_000,
        **more: str,
    ) -> None:
        self.zookeeper = zookeeper
        self.held: list[Send] | None = None
        self.answers: list[bytes] = []
        level = r.FeatureLevelRecord(name="metadata.version", feature_level=21)
        checkpoint = render_bootstrap_checkpoint([encode_record(level, 0)], 0)
        self.files = dict(files or {BOOTSTRAP_CHECKPOINT: checkpoint})
        self.now_ms = now_ms
        self.logs: list[Log] = []
        self.halt: Halt | None = None
        conns = count(1)
        self.node = Node(
            config.load(RAW | {key.replace("_", "."): value for key, value in more.items()})[0],
            IDENTITY,
            self.files,
            rng=random.Random(1),
            stamp=self.stamp,
            new_conn=conns.__next__,
            now_ms=self.now_ms,
        )
        self.perform(self.node.start(self.now_ms))

    def stamp(self) -> int:
        self.looks += 1
        return self.now_ms * 1_000_000 + self.looks * self.look_ns

    def perform(self, effects: list[Effect]) -> None:
        while effects:
            events: list[Event] = []
            for effect in effects:
                match effect:
                    case AppendFile() | ReplaceFile() | DeleteFile():
                        self.stored(effect)
                    case WriteFile(path=path) if self.no_room:
                        events.append(FileNotWritten(path, self.no_room))
                    case WriteFile(path=path, data=data):
                        self.files[path] = data
                        events.append(FileWritten(path))
                    case SyncFile(token=token):
                        events.append(Synced(token))
                    case Connect(conn=conn) if self.zookeeper is None:
                        events.append(Closed(conn, "Connection refused"))
                    case Connect(conn=conn):
                        self.zookeeper.accepted(conn)
                        events.append(Connected(conn))
                    case Send(conn=conn, data=data) if conn == CALLER:
                        self.answers.append(data)
                    case Send() if self.held is not None:
                        self.held.append(effect)
                    case Send():
                        events += self.arrived(effect)
                    case Log():
                        self.logs.append(effect)
                    case Halt():
                        self.halt = effect
            effects = self.node.step(events, self.now_ms) if events else []

    def stored(self, effect: AppendFile | ReplaceFile | DeleteFile) -> None:
        match effect:
            case AppendFile(path=path, data=data):
                self.files[path] = self.files.get(path, b"") + data
            case ReplaceFile(path=path, data=data):
                self.files[path] = data
            case DeleteFile(path=path):
                self.files.pop(path, None)

    def arrived(self, sent: Send) -> list[Event]:
        """What ZooKeeper answers."""
        self.zookeeper.received(sent.conn, sent.data, self.now_ms)
        found: list[Event] = []
        for effect in self.zookeeper.run(self.now_ms):
            match effect:
                case Send(conn=conn, data=data):
                    found.append(Received(conn, data))
                case Close(conn=conn):
                    found.append(Closed(conn, "closed by server"))
        return found

    def release(self) -> None:
        """What was held reaches ZooKeeper."""
        held, self.held = self.held or [], None
        for one in held:
            self.perform(self.node.step(self.arrived(one), self.now_ms))

    def call(self, message: object, key: int, version: int) -> None:
        """A caller sends a request on a connection of its own."""
        header = RequestHeader(api_key=key, api_version=version, correlation_id=1, client_id="me")
        events: list[Event] = [
            Accepted(CALLER, "CONTROLLER", b"\x7f\x00\x00\x01"),
            Received(CALLER, framed(encode_request(header, message))),
        ]
        self.perform(self.node.step(events, self.now_ms))

    def advance(self, milliseconds: int) -> None:
        end_ms = self.now_ms + milliseconds
        while (due := self.node.deadline_ms) is not None and due <= end_ms:
            self.now_ms = max(self.now_ms, due)
            self.perform(self.node.step([], self.now_ms))
        self.now_ms = end_ms

    def stop(self) -> Halt:
        self.advance(100)
        self.perform(self.node.shutdown(self.now_ms))
        assert self.halt is not None
        return self.halt


def test_a_zookeeper_that_refuses_is_said_once_and_stands_in_the_status() -> None:
    world = World()
    world.advance(10_000)
    lost = [line for line in world.logs if line.event == "zookeeper connection lost"]
    assert [line.level for line in lost if line.level != "debug"] == ["warning"]
    assert len(lost) > 5
    status = introspection.status(world.node, world.now_ms)
    (waiting,) = status["migration"]["waiting"]
    assert (waiting["why"], waiting["subject"]) == ("no_session", "zk:2181")
    assert waiting["since"] == "1970-01-01T00:16:40.000+00:00"
    assert "Connection refused" in waiting["text"]
    assert not_ready_because(world.node, world.now_ms) == "no ZooKeeper session"


def test_a_refused_registration_is_in_the_log_of_the_node() -> None:
    world = dual_writing()
    for _ in range(2):
        world.call(registration(1, cluster_id="of another cluster"), 62, 1)
    (line,) = (one for one in world.logs if one.event == "broker refused")
    assert (line.level, line.fields["broker_id"]) == ("warning", 1)


def test_the_controller_knows_what_zookeeper_can_hold() -> None:
    """Below a chroot less than without one; nothing without a migration."""

    def bytes_max(**more: str) -> int | None:
        znodes = World(**more).node.controller.config.znodes
        return None if znodes is None else znodes.bytes_max

    plain = bytes_max()
    below = bytes_max(**{"zookeeper.connect": "zk:2181/kafka"})
    assert plain is not None
    assert below == plain - 3 * len("/kafka"), "the claim's epoch and both counters"
    off = {"zookeeper.metadata.migration.enable": "false"}
    assert bytes_max(**off) is None


def test_before_a_migration_there_is_nothing_to_write() -> None:
    assert World().stop() == Halt(0, "stopped")


def test_a_stop_before_zookeeper_was_compared_does_not_say_that_all_is_written() -> None:
    world = World()
    migrated = r.ZkMigrationStateRecord(zk_migration_state=1)
    world.node.controller.append([migrated], world.now_ms)
    world.advance(1_000)
    assert World(world.files).stop().exit_code == 1
    assert "changes may be missing in ZooKeeper" in world.stop().why


@pytest.mark.parametrize(("interval_ms", "count"), [("0", 0), ("1000", 3)])
def test_snapshots_by_time(interval_ms: str, count: int) -> None:
    """0 is off, as in Kafka."""
    off = {"zookeeper.metadata.migration.enable": "false"}
    world = World(metadata_log_max_snapshot_interval_ms=interval_ms, **off)
    world.advance(3_900)
    written = [line for line in world.logs if line.event == "snapshot written"]
    assert len(written) == count


@pytest.mark.parametrize(
    "due",
    [
        {"metadata_log_max_snapshot_interval_ms": "3000"},
        {"metadata_log_max_record_bytes_between_snapshots": "1500"},
    ],
    ids=["by time", "by bytes"],
)
def test_snapshots_come_however_often_the_node_is_restarted(due: dict[str, str]) -> None:
    """Each process lives for a second, in which it appends some 400 bytes."""
    off = {"zookeeper.metadata.migration.enable": "false"}
    files, now_ms, logs = None, 1_000_000, []
    for _ in range(12):
        world = World(files, now_ms=now_ms, **due, **off)
        world.advance(1_000)
        files, now_ms = world.files, world.now_ms
        logs += world.logs
    written = [line for line in logs if line.event == "snapshot written"]
    assert 3 <= len(written) <= 6
    assert world.node.raft.log_start_offset > 10


def test_what_is_kept_of_metadata_does_not_grow_with_the_life_of_the_process() -> None:
    """A change between two NoOps, again and again; two snapshots are kept, and the log of three."""
    off = {"zookeeper.metadata.migration.enable": "false"}
    world = World(metadata_log_max_snapshot_interval_ms="2000", **off)
    change = r.FeatureLevelRecord(name="metadata.version", feature_level=21)
    sizes = []
    for _second in range(80):
        world.advance(1_000)
        world.node.controller.append([change], world.now_ms)
        sizes.append(product_bytes(world.node.history))
    assert world.node.raft.log_start_offset > 100
    assert max(sizes[40:]) <= max(sizes[10:40]) + 200


def test_a_clock_that_was_ahead_puts_no_snapshot_off() -> None:
    off = {"zookeeper.metadata.migration.enable": "false"}
    before = World(now_ms=9_000_000, **off)
    before.advance(600)
    world = World(before.files, metadata_log_max_snapshot_interval_ms="1000", **off)
    world.advance(1_600)
    assert any(line.event == "snapshot written" for line in world.logs)


def cluster() -> ZooKeeperModel:
    """The ZooKeeper of a cluster of ours, in which nobody is in charge."""
    zookeeper = ZooKeeperModel(random.Random(7))
    tree = {
        "/cluster": None,
        "/cluster/id": b'{"version":"1","id":"MkU3OEVBNTcwNTJENDM2Qg"}',
        "/controller_epoch": b"1",
    }
    for path, data in tree.items():
        zookeeper.tree.write(Create(path, data), 1, 0)
    return zookeeper


def dual_writing(**more: str) -> World:
    """A node whose log says MIGRATION, on a ZooKeeper that its former life had claimed."""
    zookeeper = cluster()
    held = b'{"version":2,"brokerid":3000,"timestamp":"5","kraftControllerEpoch":0}'
    zookeeper.tree.write(Create("/controller", held), 1, 0)
    before = World()
    migrated = r.ZkMigrationStateRecord(zk_migration_state=1)
    before.node.controller.append([migrated], before.now_ms)
    before.advance(1_000)
    world = World(before.files, zookeeper, **more)
    world.advance(2_000)
    assert world.node.driver.state is State.DUAL_WRITE
    world.advance(499)
    return world


def test_the_trace_and_the_gauge_give_one_instant_of_a_commit() -> None:
    """However long the step takes in which it is known; the report compares the two."""
    world = dual_writing(kraftbridge_trace_dir="trace")
    world.held, world.look_ns = [], 20_000_000
    step, committed = world.node.step, []

    def slow(events: list[Event], now_ms: int) -> list[Effect]:
        world.looks = -1
        effects = step(events, now_ms)
        rows = [effect.row for effect in effects if isinstance(effect, Row)]
        committed.extend(
            row for row in rows if getattr(row, "stage", "") == PipelineStage.COMMITTED
        )
        return effects

    world.node.step = slow  # type: ignore[method-assign]
    changed = r.ConfigRecord(resource_type=2, resource_name="t", name="retention.ms", value="1")
    world.node.controller.append([changed], world.now_ms)
    world.perform(world.node.step([], world.now_ms))
    [row] = committed
    assert row.time_ns == world.node.driver.write_behind.lag.oldest_ms * 1_000_000


def test_the_log_keeps_what_zookeeper_stands_at() -> None:
    """ZooKeeper is away for many snapshots; the next claim finds the batch that it stands at."""
    world = dual_writing()
    driver = world.node.driver
    world.held = []
    stands_at = driver.write_behind.lag.confirmed
    digest = world.node.raft.digest_at(stands_at)
    world.node.snapshots._due_ms = world.now_ms
    world.node.snapshots._interval_ms = 1_000
    world.advance(10_000)
    written = [line for line in world.logs if line.event == "snapshot written"]
    assert len(written) > 3
    assert world.node.raft.log_start_offset <= stands_at
    assert world.node.raft.digest_at(stands_at) == digest != ""
    again = World(world.files)
    assert again.node.raft.digest_at(stands_at) == digest


def test_what_was_kept_for_zookeeper_goes_when_zookeeper_has_it() -> None:
    """Not with the next snapshot only, which is an hour away."""
    world = dual_writing()
    world.held = []
    world.node.snapshots._due_ms = world.now_ms
    world.node.snapshots._interval_ms = 1_000
    world.advance(5_000)
    world.node.snapshots._due_ms = world.now_ms + 3_600_000

    def kept() -> list[str]:
        return sorted(path for path in world.files if snapshot_id(path) is not None)

    before, start = kept(), world.node.raft.log_start_offset
    assert len(before) > 3
    world.release()
    world.advance(2_000)
    assert kept() == before[-2:]
    assert world.node.raft.log_start_offset > start


@pytest.mark.requirement("B03")
def test_a_slow_goodbye_of_zookeeper_does_not_spoil_a_stop() -> None:
    """Only the mark is appended any more, when the claim was read back."""
    world = dual_writing()
    assert world.node.driver.drained
    world.held = []
    world.perform(world.node.shutdown(world.now_ms))
    end = world.node.raft.log_end_offset
    world.advance(1_000)
    assert len(world.held) == 2, "a sync and a read"
    world.release()
    assert world.halt == Halt(0, "everything committed is in ZooKeeper")
    assert world.node.raft.log_end_offset == end + 1
    assert world.node.controller.tip.mark is not None


def test_a_stop_names_what_was_skipped_and_an_error_line_told_of_it() -> None:
    world = dual_writing(kraftbridge_zk_write_behind_poison="skip")
    world.zookeeper.tree.read_only.add("/config/brokers")
    change = r.ConfigRecord(resource_type=4, resource_name="", name="k", value="v")
    world.node.controller.append([change], world.now_ms)
    world.advance(10_000)
    (told,) = [line for line in world.logs if "refuses a znode permanently" in line.event]
    assert (told.level, told.fields["path"]) == ("error", "/config/brokers/<default>")
    world.perform(world.node.shutdown(world.now_ms))
    world.advance(10_000)
    assert world.halt == Halt(
        1,
        "stopped; changes may be missing in ZooKeeper: skipped, as ZooKeeper refuses them: "
        "/config/brokers/<default>",
    )
    (unmarked,) = [line for line in world.logs if line.event.startswith("no mark is left")]
    assert unmarked.level == "warning"
    assert "ZooKeeper refuses /config/brokers/<default>: do what" in str(unmarked.fields["why"])


def test_while_it_stops_callers_are_sent_away_and_brokers_are_not_fenced() -> None:
    world = dual_writing()
    ids = m.AllocateProducerIdsRequest(broker_id=1, broker_epoch=5)
    broker = r.RegisterBrokerRecord(broker_id=1, broker_epoch=5, fenced=False)
    world.held = []
    world.node.controller.append([broker], world.now_ms)
    world.node.controller.heartbeats.register(1, world.now_ms)
    world.perform(world.node.step([], world.now_ms))
    world.perform(world.node.shutdown(world.now_ms))
    world.call(ids, 67, 0)
    (answer,) = world.answers
    assert decode_response(67, 0, answer[4:])[1].error_code == ErrorCode.NOT_CONTROLLER
    world.advance(10_000)
    world.release()
    assert world.halt == Halt(0, "everything committed is in ZooKeeper")
    assert not world.node.controller.tip.brokers[1].fenced


@pytest.mark.parametrize("epoch", [3, 9, 2**30])
def test_a_request_that_names_this_node_leader_of_another_epoch_ends_no_leadership(
    epoch: int,
) -> None:
    world = dual_writing()
    driver = world.node.driver
    assert driver is not None
    before = world.node.raft.leader_epoch, world.node.counters.elections
    kind = m.BeginQuorumEpochRequest
    named = kind.PartitionData(leader_id=3000, leader_epoch=epoch)
    topics = [kind.TopicData(topic_name="__cluster_metadata", partitions=[named])]
    world.call(kind(topics=topics), 53, 1)
    (answer,) = world.answers
    _, found = decode_response(53, 1, answer[4:])
    assert isinstance(found, m.BeginQuorumEpochResponse)
    assert found.topics[0].partitions[0].error_code == ErrorCode.INVALID_REQUEST
    world.advance(5_000)
    assert world.node.raft.is_leader
    assert before == (world.node.raft.leader_epoch, world.node.counters.elections)
    assert driver.state is State.DUAL_WRITE


def test_who_hangs_up_or_is_cut_off_waits_for_zookeeper_no_more() -> None:
    """Its calls, also those inside Envelopes, are told apart from others by their tickets."""
    world = dual_writing()
    gone: list[Callable[[object], bool]] = []
    world.node.controller.left = lambda left, _now_ms: gone.append(left)  # type: ignore[method-assign]
    header = RequestHeader(api_key=18, api_version=0, correlation_id=1, client_id="me")
    mine, other = Ticket(CALLER, 1, header, 0), Ticket(CALLER + 1, 1, header, 0)
    hangs_up, is_cut_off = Closed(CALLER, "gone"), Received(CALLER, b"\xff" * 8)
    for event in (hangs_up, is_cut_off):
        accepted = Accepted(CALLER, "CONTROLLER", b"\x7f\x00\x00\x01")
        world.perform(world.node.step([accepted, event], world.now_ms))
        left = gone.pop()
        assert left(mine)
        assert not left(other)
    assert gone == []


def test_a_second_signal_ends_it_at_once() -> None:
    world = World()
    world.node.shutdown(world.now_ms)
    world.perform(world.node.shutdown(world.now_ms))
    assert world.halt.exit_code == 1
