"""A disk in memory under one Raft machine, and requests in short."""

from __future__ import annotations

from random import Random
from typing import Any

from emulator.raft import Raft, RaftConfig
from emulator.raft.layout import TOPIC, TOPIC_ID
from emulator.seam import (
    AppendFile,
    DeleteFile,
    Effect,
    Halt,
    Log,
    ReplaceFile,
    SyncFile,
    TruncateFile,
    WriteFile,
)
from wire import messages as m
from wire import records as r
from wire.record_serde import encode_record

CLUSTER = "5L6g3nShT-eMCtK--X86sw"
NODE = 3000
HOST = ("127.0.0.1", 23000)
NOW = 1_795_217_808_039


def config(**changes: Any) -> RaftConfig:
    return RaftConfig(**{"node_id": NODE, "cluster_id": CLUSTER, "voters": {NODE: HOST}, **changes})


def no_op() -> bytes:
    return encode_record(r.NoOpRecord(), 0)


def topic(name: str) -> bytes:
    return encode_record(r.TopicRecord(name=name, topic_id=name.encode().ljust(16, b"\1")[:16]), 0)


class Disk:
    """Does what file effects say; keeps apart what no sync has covered yet."""

    def __init__(self, files: dict[str, bytes] | None = None) -> None:
        self.files = dict(files or {})
        self.synced = {path: len(data) for path, data in self.files.items()}
        self.tokens: list[tuple[str, int, int]] = []
        self.writing: list[WriteFile] = []
        self.log: list[Log] = []
        self.halt: Halt | None = None

    def apply(self, effects: list[Effect]) -> None:
        for effect in effects:
            if isinstance(effect, AppendFile | ReplaceFile | WriteFile | TruncateFile | DeleteFile):
                self._first(effect.path)
            match effect:
                case AppendFile(path, data):
                    self.files[path] = self.files.get(path, b"") + data
                case ReplaceFile(path, data):
                    self.files[path] = data
                    self.synced[path] = len(data)
                case WriteFile():
                    self.writing.append(effect)
                case TruncateFile(path, size):
                    self.files[path] = self.files[path][:size]
                    self.synced[path] = size
                case DeleteFile(path):
                    self.files.pop(path, None)
                case SyncFile(path, token):
                    self.tokens.append((path, len(self.files[path]), token))
                case Log():
                    self.log.append(effect)
                case Halt():
                    self.halt = effect
                case _:
                    raise AssertionError(effect)

    def sync(self) -> int:
        """Complete the oldest sync."""
        path, size, token = self.tokens.pop(0)
        self.synced[path] = max(self.synced.get(path, 0), size)
        return token

    def write(self) -> str:
        """Complete the oldest large file; returns its path."""
        path = self.writing[0].path
        self._first(path)
        del self.writing[0]
        return path

    def _first(self, path: str) -> None:
        """Effects on one path are done in order: a large file on its way there is done now."""
        for at, one in enumerate(self.writing):
            if one.path == path and one.data:
                self.writing[at] = WriteFile(path, b"")
                self.apply([ReplaceFile(path, one.data)])

    def crashed(self, kept: int) -> dict[str, bytes]:
        """What is left when only ``kept`` bytes of each unsynced end reached the disk."""
        return {path: data[: self.synced.get(path, 0) + kept] for path, data in self.files.items()}


class World:
    """A machine on its disk; syncs complete when the test says so."""

    def __init__(self, files: dict[str, bytes] | None = None, **changes: Any) -> None:
        self.disk = Disk(files)
        self.now = NOW
        self.raft = Raft(config(**changes), self.disk.files, Random(1), self.now)

    def start(self) -> World:
        self.disk.apply(self.raft.start(self.now))
        self.settle()
        return self

    def flush(self) -> None:
        self.disk.apply(self.raft.flush(self.now))

    def sync(self) -> None:
        self.disk.apply(self.raft.synced(self.disk.sync(), self.now))

    def settle(self) -> None:
        self.flush()
        while self.disk.tokens:
            self.sync()
        while self.raft.snapshotting:
            self.tick()
            self.written()

    def written(self) -> None:
        """All large files are done."""
        while self.disk.writing:
            self.disk.apply(self.raft.written(self.disk.write(), self.now))

    def tick(self, ms: int = 0) -> None:
        self.now += ms
        self.disk.apply(self.raft.tick(self.now))

    def append(self, *values: bytes) -> int:
        """Append one batch and make it durable."""
        offset = self.raft.append(values, self.now)
        self.settle()
        return offset

    def snapshot(self, end_offset: int, values: list[bytes]) -> None:
        found = self.raft.snapshot(end_offset, self.raft.leader_epoch, iter(values), self.now)
        self.disk.apply(found)
        self.settle()

    def restarted(self, **changes: Any) -> World:
        return World(self.disk.files, **changes)

    # requests

    def fetch(self, offset: int, epoch: int | None = None, last: int = 1, **changes: Any) -> None:
        self.raft.request(
            fetch(offset, epoch or self.raft.leader_epoch, last, **changes), 17, self.now, "f"
        )

    def replies(self) -> list[Any]:
        return [reply.message for reply in self.raft.take_replies()]

    def partition(self) -> m.FetchResponse.PartitionData:
        """The one partition of the one reply that is ready."""
        (response,) = self.replies()
        return response.responses[0].partitions[0]


def fetch(offset: int, epoch: int, last: int = 1, **changes: Any) -> m.FetchRequest:
    """What an observer sends; ``changes`` of the request, or of its partition."""
    fields: dict[str, Any] = {
        "cluster_id": CLUSTER,
        "replica_state": m.FetchRequest.ReplicaState(replica_id=0),
        "max_wait_ms": 500,
        "max_bytes": 8 * 1024 * 1024,
    }
    partition = m.FetchRequest.FetchPartition(
        current_leader_epoch=epoch, fetch_offset=offset, last_fetched_epoch=last
    )
    found = m.FetchRequest.FetchTopic(topic_id=TOPIC_ID, topic=TOPIC, partitions=[partition])
    for name, value in changes.items():
        if name in {"partition", "last_fetched_epoch", "replica_directory_id"}:
            setattr(partition, name, value)
        elif name in {"topic", "topic_id"}:
            setattr(found, name, value)
        else:
            fields[name] = value
    return m.FetchRequest(**{"topics": [found], **fields})


SEGMENT = "__cluster_metadata-0/00000000000000000000.log"
QUORUM_STATE = "__cluster_metadata-0/quorum-state"
EPOCHS = "__cluster_metadata-0/leader-epoch-checkpoint"
