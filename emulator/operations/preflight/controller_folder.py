"""What a controller's folder says: its identity, its level, its migration state, its epoch.

Unlike the recovery of a log it refuses nothing: a folder of another release, of a dynamic quorum or
with a torn end is read as far as it goes. Only the few record types that are judged are decoded.

The end of the log of one of several voters may be truncated by the next leader. What one of ours
had written down as committed counts, and what ZooKeeper shows to be; a folder of Kafka's does not
show it, so all of it counts.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

import msgspec

from emulator.metadata.metadata_version import FEATURE_NAME
from emulator.metadata.migration_state import MigrationState
from emulator.operations.preflight.node_file import number
from emulator.raft import layout
from wire import records as r
from wire.batch import Batch, decode_batches
from wire.errors import DecodeError
from wire.record_serde import decode_record
from wire.schema import spec

CONTROL: Final = 0x20
"""Attribute of a batch that holds control records."""
_JUDGED: Final = (
    r.FeatureLevelRecord,
    r.ZkMigrationStateRecord,
    r.BeginTransactionRecord,
    r.EndTransactionRecord,
    r.AbortTransactionRecord,
    r.TopicRecord,
    r.RegisterBrokerRecord,
    r.UserScramCredentialRecord,
    r.RemoveUserScramCredentialRecord,
)
_KEYS: Final = frozenset(spec(one).key for one in _JUDGED)
_DYNAMIC: Final = (b"\x00\x06",)
"""Control type of the voters' record, which only a dynamic quorum has."""


@dataclass(frozen=True, slots=True)
class ControllerFolder:
    """One controller's folder. ``problem``: why it could not be read to the end; empty: nothing."""

    name: str
    meta: Mapping[str, str] = field(default_factory=dict)
    problem: str = ""
    bootstrap_level: int | None = None
    """metadata.version in ``bootstrap.checkpoint``."""
    level: int | None = None
    """metadata.version in the log; None: it has none yet."""
    state: int = MigrationState.NONE
    """The migration's, as the log says."""
    epochs: tuple[tuple[int, int], ...] = ()
    """Leader epochs of the log with the first offset of each, ascending."""
    start_offset: int = 0
    end_offset: int = 0
    holds: int = 0
    """Topics and brokers that its records name."""
    election_epoch: int | None = None
    """Epoch in ``quorum-state``."""
    voters: frozenset[int] = frozenset()
    """Voters in ``quorum-state``."""
    dynamic: bool = False
    """Whether the quorum is a dynamic one (kraft.version 1)."""
    users: frozenset[tuple[str, int]] = frozenset()
    """Users of SCRAM, each with the number of the mechanism: in its log, or as long as that is
    empty in ``bootstrap.checkpoint``."""
    uncommitted: int = 0
    """Records at the end of its log that are not known to be committed; no record is judged there.
    """

    @property
    def node_id(self) -> int | None:
        """``node.id`` in ``meta.properties``."""
        return number(self.meta.get("node.id", ""))

    @property
    def metadata_level(self) -> int | None:
        """The level of metadata.version in force, or that it will begin with."""
        return self.bootstrap_level if self.level is None else self.level

    def epoch_at(self, offset: int) -> int | None:
        """Leader epoch of the record at an offset; None if it is behind the end."""
        if not 0 <= offset < self.end_offset:
            return None
        return next((epoch for epoch, first in reversed(self.epochs) if first <= offset), None)


@dataclass(slots=True)
class _Replayed:
    level: int | None = None
    state: int = MigrationState.NONE
    holds: int = 0
    dynamic: bool = False
    users: set[tuple[str, int]] = field(default_factory=set)
    waiting: list[Any] | None = None
    """Records of an open transaction."""

    def take(self, record: Any) -> None:
        match record:
            case r.BeginTransactionRecord():
                self.waiting = []
            case r.AbortTransactionRecord():
                self.waiting = None
            case r.EndTransactionRecord():
                done, self.waiting = self.waiting or [], None
                for one in done:
                    self._apply(one)
            case _ if self.waiting is not None:
                self.waiting.append(record)
            case _:
                self._apply(record)

    def _apply(self, record: Any) -> None:
        match record:
            case r.FeatureLevelRecord(name=name, feature_level=level) if name == FEATURE_NAME:
                self.level = level
            case r.FeatureLevelRecord(name="kraft.version", feature_level=level):
                self.dynamic |= level > 0
            case r.ZkMigrationStateRecord(zk_migration_state=state):
                self.state = state
            case r.TopicRecord() | r.RegisterBrokerRecord():
                self.holds += 1
            case r.UserScramCredentialRecord(name=name, mechanism=mechanism):
                self.users.add((name, mechanism))
            case r.RemoveUserScramCredentialRecord(name=name, mechanism=mechanism):
                self.users.discard((name, mechanism))


def wanted(path: str) -> bool:
    """Whether a file of the folder, relative to it, is read.

    >>> wanted("meta.properties"), wanted("__cluster_metadata-0/00000000000000000000.index")
    (True, False)
    """
    return (
        path
        in {
            layout.META_PROPERTIES,
            layout.BOOTSTRAP_CHECKPOINT,
            layout.QUORUM_STATE,
            layout.RECOVERY_POINT,
        }
        or layout.segment_base(path) is not None
        or layout.snapshot_id(path) is not None
    )


def read(
    name: str,
    files: Mapping[str, bytes],
    meta: Mapping[str, str],
    shown: tuple[int, int] = (-1, -1),
) -> ControllerFolder:
    """Read a folder.

    Args:
        name: of the folder, for findings.
        files: those that are :func:`wanted`, by path below the folder.
        meta: its ``meta.properties``; empty if there is none.
        shown: offset and leader epoch of a record that ZooKeeper shows to be committed.
    """
    boot, problems = _Replayed(), []
    if (data := files.get(layout.BOOTSTRAP_CHECKPOINT)) is not None:
        problems += [f"{layout.BOOTSTRAP_CHECKPOINT}: {why}" for why in _replay(data, boot)]
    quorum, why = _quorum_state(files.get(layout.QUORUM_STATE))
    voters = frozenset(one.voter_id for one in quorum.current_voters) if quorum else frozenset()
    found, epochs, start, end = _Replayed(), dict[int, int](), 0, 0
    # A snapshot has every record below its end, and the log goes on from there.
    snapshots = {one: path for path in files if (one := layout.snapshot_id(path)) is not None}
    newest = max(snapshots, default=None)
    if newest is not None:
        problems += [
            f"{snapshots[newest]}: {why}" for why in _replay(files[snapshots[newest]], found)
        ]
        start = end = newest.end_offset
        epochs[newest.epoch] = start
    committed = max(start, _committed(files, voters))
    open_end: list[Batch] = []
    segments = {base: path for path in files if (base := layout.segment_base(path)) is not None}
    for base in sorted(segments):
        for batch in _batches(files[segments[base]], problems, segments[base]):
            epochs.setdefault(batch.leader_epoch, batch.base_offset)
            last = batch.base_offset + len(batch.records)
            if last > end:
                end = last
                if batch.base_offset < committed:
                    _take(batch, found)
                else:
                    open_end.append(batch)
    folder = ControllerFolder(
        name,
        meta,
        "; ".join([*problems, *why]),
        boot.level,
        epochs=tuple(sorted(epochs.items())),
        start_offset=min(segments, default=start),
        end_offset=end,
        election_epoch=None if quorum is None else quorum.leader_epoch,
        voters=voters,
    )
    if folder.epoch_at(shown[0]) == shown[1]:
        for batch in open_end:
            if batch.base_offset <= shown[0]:
                _take(batch, found)
                committed = batch.base_offset + len(batch.records)
    return replace(
        folder,
        level=found.level,
        state=found.state,
        holds=found.holds,
        users=frozenset(found.users if end else boot.users),
        dynamic=found.dynamic or boot.dynamic or (quorum is not None and quorum.data_version > 0),
        uncommitted=0 if math.isinf(committed) else max(0, end - int(committed)),
    )


def _committed(files: Mapping[str, bytes], voters: frozenset[int]) -> float:
    """Everything below it is known to be committed; infinite if the folder does not show it."""
    point = layout.parse_recovery_point(files.get(layout.RECOVERY_POINT, b""))
    return math.inf if point is None or len(voters) < 2 else point.committed


def _replay(data: bytes, into: _Replayed) -> list[str]:
    problems: list[str] = []
    for batch in _batches(data, problems):
        _take(batch, into)
    return problems


def _batches(data: bytes, problems: list[str], path: str = "") -> Iterator[Batch]:
    """Every sound batch; the reason why there are no more is added to ``problems``.

    An incomplete last batch is what a node leaves that is running, or was killed.
    """
    try:
        yield from decode_batches(data, whole_only=False)
    except DecodeError as error:
        problems.append(f"{path}: {error}" if path else str(error))


def _take(batch: Batch, into: _Replayed) -> None:
    if batch.attributes & CONTROL:
        into.dynamic |= any(key is not None and key[2:] in _DYNAMIC for key, _ in batch.records)
        return
    for _, value in batch.records:
        # Frame version and type are one byte each: known types are below 128.
        if len(value) > 2 and value[1] in _KEYS:
            try:
                into.take(decode_record(value)[0])
            except DecodeError:
                continue  # a version of a later release


class _QuorumVoter(msgspec.Struct, rename="camel"):
    voter_id: int


class _Election(msgspec.Struct, rename="camel"):
    leader_epoch: int
    current_voters: list[_QuorumVoter] = []
    data_version: int = msgspec.field(default=0, name="data_version")


def _quorum_state(data: bytes | None) -> tuple[_Election | None, list[str]]:
    if data is None:
        return None, []
    try:
        return msgspec.json.decode(data, type=_Election), []
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        return None, [f"{layout.QUORUM_STATE}: {error}"]
