"""How a node ends, and what it says while ZooKeeper cannot be reached."""

from __future__ import annotations

import random
from collections.abc import Mapping
from itertools import count

from emulator import config, introspection
from emulator.node import Node
from emulator.raft.format import MetaProperties, render_bootstrap_checkpoint
from emulator.raft.layout import BOOTSTRAP_CHECKPOINT
from emulator.seam import (
    AppendFile,
    Closed,
    Connect,
    Effect,
    Event,
    Halt,
    Log,
    ReplaceFile,
    Synced,
    SyncFile,
)
from wire import records as r
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
IDENTITY = MetaProperties("MkU3OEVBNTcwNTJENDM2Qg", 3000, bytes(15) + b"x")


class World:
    """A node on files of memory; whoever it dials refuses."""

    def __init__(self, files: Mapping[str, bytes] | None = None) -> None:
        level = r.FeatureLevelRecord(name="metadata.version", feature_level=21)
        checkpoint = render_bootstrap_checkpoint([encode_record(level, 0)], 0)
        self.files = dict(files or {BOOTSTRAP_CHECKPOINT: checkpoint})
        self.now_ms = 1_000_000
        self.logs: list[Log] = []
        self.halt: Halt | None = None
        conns = count(1)
        self.node = Node(
            config.load(RAW)[0],
            IDENTITY,
            self.files,
            rng=random.Random(1),
            stamp=lambda: self.now_ms * 1_000_000,
            new_conn=conns.__next__,
            now_ms=self.now_ms,
        )
        self.perform(self.node.start(self.now_ms))

    def perform(self, effects: list[Effect]) -> None:
        while effects:
            events: list[Event] = []
            for effect in effects:
                match effect:
                    case AppendFile(path=path, data=data):
                        self.files[path] = self.files.get(path, b"") + data
                    case ReplaceFile(path=path, data=data):
                        self.files[path] = data
                    case SyncFile(token=token):
                        events.append(Synced(token))
                    case Connect(conn=conn):
                        events.append(Closed(conn, "Connection refused"))
                    case Log():
                        self.logs.append(effect)
                    case Halt():
                        self.halt = effect
            effects = self.node.step(events, self.now_ms) if events else []

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
    assert world.node.not_ready_because() == "no ZooKeeper session"


def test_before_a_migration_there_is_nothing_to_write() -> None:
    assert World().stop() == Halt(0, "stopped")


def test_a_stop_before_zookeeper_was_compared_does_not_say_that_all_is_written() -> None:
    world = World()
    migrated = r.ZkMigrationStateRecord(zk_migration_state=1)
    world.node.controller.append([migrated], world.now_ms)
    world.advance(1_000)
    assert World(world.files).stop().exit_code == 1
    assert "changes may be missing in ZooKeeper" in world.stop().why


def test_a_second_signal_ends_it_at_once() -> None:
    world = World()
    world.node.shutdown(world.now_ms)
    world.perform(world.node.shutdown(world.now_ms))
    assert world.halt is not None
    assert world.halt.exit_code == 1
