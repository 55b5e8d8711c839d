"""Loads the metadata from a controller's files: the newest snapshot, then the log.

Source: MetadataLoader, Kafka 3.9. Everything recovered is kept: in a quorum of one it is committed,
in another the leader says what is to be truncated. The controller aborts an open metadata
transaction.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from emulator.config.load import Config
from emulator.metadata.errors import ReplayError
from emulator.metadata.history import History
from emulator.metadata.image import EMPTY, Image
from emulator.metadata.snapshot import read_back
from emulator.raft import layout
from emulator.raft.config import RaftConfig
from emulator.raft.format import MetaProperties, parse_meta_properties
from emulator.raft.layout import RecoveryError
from emulator.raft.machine import Raft
from emulator.raft.quorum_state import voters_in
from emulator.seam import RECORDS_PER_SLICE, Slices, whole
from wire import records as r
from wire.errors import DecodeError
from wire.record_serde import decode_record

Supported = Mapping[str, tuple[int, int]]


def load_history(raft: Raft, supported: Supported | None = None) -> History:
    """Replay snapshot and log into a :class:`History` whose tip is the end of the log.

    Args:
        raft: the machine with the log.
        supported: lowest and highest level by feature; None: all levels that this code can read.

    Raises:
        RecoveryError: a record that does not fit, or finalises an unsupported level; the node must
            stop (KIP-778 "Compatibility").
    """
    history = History(whole(snapshot_image(raft, supported)))
    whole(replay_log(raft, history, supported))
    return history


def replay_log(raft: Raft, history: History, supported: Supported | None = None) -> Slices[None]:
    """Replay what the log holds above the tip, in slices.

    Raises:
        RecoveryError: as :func:`load_history`.
    """
    first = history.tip.offset + 1
    last = raft.log_end_offset - 1
    if first > last:
        return
    replayed = 0
    for batch in raft.read(first, last):
        try:
            if batch.is_control:
                history.skip(batch.base_offset, batch.last_offset, batch.leader_epoch)
            else:
                values = (value for _key, value in batch.records)
                records = list(_decoded(values, supported))
                replay = history.replayed(records, batch.base_offset, batch.leader_epoch)
                history.accept((yield from replay))
        except (ReplayError, DecodeError) as error:
            raise RecoveryError("__cluster_metadata-0", batch.base_offset, str(error)) from error
        replayed += batch.last_offset - batch.base_offset + 1
        if replayed >= RECORDS_PER_SLICE:
            replayed = 0
            yield


def snapshot_image(raft: Raft, supported: Supported | None) -> Slices[Image]:
    """The metadata of the newest snapshot, in slices; empty without one.

    Raises:
        RecoveryError: as :func:`load_history`.
    """
    snapshot = raft.latest_snapshot
    if snapshot is None:
        return EMPTY
    records = _decoded(raft.snapshot_records, supported)
    try:
        return (yield from read_back(records, snapshot.end_offset - 1, snapshot.epoch))
    except ReplayError as error:
        raise RecoveryError(f"snapshot {snapshot}", None, str(error)) from error


def opened(files: Mapping[str, bytes]) -> tuple[MetaProperties, Raft]:
    """A folder as one reads it who is not its node: also one on which no node may start.

    Args:
        files: by path below the folder, ``meta.properties`` among them.

    Raises:
        RecoveryError: it is damaged.
    """
    meta = parse_meta_properties(files[layout.META_PROPERTIES])
    read = {path: data for path, data in files.items() if path != layout.CONTRADICTED}
    voters = {meta.node_id} | voters_in(files.get(layout.QUORUM_STATE, b""))
    config = RaftConfig(meta.node_id, meta.cluster_id, dict.fromkeys(voters, ("", 0)))
    return meta, Raft(config, read, random.Random(0), 0)  # noqa: S311 - it draws nothing


def committed_image(raft: Raft, elsewhere: int = 0) -> Image:
    """The image of what is committed in the folder's log, as far as the folder tells.

    In a quorum of one that is all of it. The end of the log of one of several voters may be
    truncated; it has written down what it knew to be committed, a few seconds ago if it was killed.

    Args:
        raft: the log.
        elsewhere: below that offset something else than the folder shows it to be committed.

    Raises:
        RecoveryError: a record does not fit.
    """
    history = load_history(raft)
    alone = len(raft.config.voters) == 1
    history.advance(raft.log_end_offset if alone else max(raft.committed_end, elsewhere))
    return history.stable


def _decoded(values: Iterable[bytes], supported: Supported | None) -> Iterator[object]:
    """Raise ReplayError for a level that this ``kraftbridge.release`` does not support."""
    for value in values:
        record, _version = decode_record(value)
        if supported is not None and isinstance(record, r.FeatureLevelRecord):
            why = unsupported(record.name, record.feature_level, supported)
            if why:
                raise ReplayError(why)
        yield record


def unsupported(name: str, level: int, supported: Supported) -> str:
    """Why a controller cannot go on at a finalised level; empty if it can."""
    low, high = supported.get(name, (0, 0))
    if low <= level <= high:
        return ""
    only = f"this controller only supports {low} to {high} (kraftbridge.release)"
    return f"{name} {level} is finalised, but {only}"


def damaged(folder: str, error: RecoveryError) -> str:
    """What is wrong in a folder, and what to do about a file that ``format`` writes.

    >>> damaged("data", RecoveryError("meta.properties", None, "node.id is missing"))[:60]
    'data/meta.properties: node.id is missing; if this is the con'
    """
    if error.path not in {layout.META_PROPERTIES, layout.BOOTSTRAP_CHECKPOINT}:
        return f"{folder}: {error}"
    other = error.why.endswith("has version 1")
    return f"{folder}/{error}; {_NOT_OURS if other else _WRITTEN_ANEW}"


_NOT_OURS: Final = "name a folder of the controller's own in log.dirs"
_WRITTEN_ANEW: Final = (
    "if this is the controller's folder, remove its meta.properties and run kraft-bridge format -c "
    "FILE -t CLUSTER_ID -r VERSION again: that writes meta.properties and bootstrap.checkpoint "
    "anew, and leaves the metadata log as it is"
)


class UnusableFolderError(Exception):
    """The folder is not formatted, or is not this node's; the text says why and what to do."""


class NotFormattedError(UnusableFolderError):
    """The folder is not formatted: another start would find the same."""


def identity(config: Config, files: Mapping[str, bytes]) -> MetaProperties:
    """The identity in the folder's ``meta.properties``, checked against the configuration.

    Raises:
        NotFormattedError: not formatted.
        UnusableFolderError: damaged, or another node's.
    """
    data = files.get(layout.META_PROPERTIES)
    if data is None:
        raise NotFormattedError(f"{config.log_dir} is not formatted")
    try:
        meta = parse_meta_properties(data)
    except RecoveryError as error:
        raise UnusableFolderError(damaged(config.log_dir, error)) from error
    if meta.node_id != config.node_id:
        raise UnusableFolderError(
            f"{config.log_dir} belongs to node {meta.node_id}, "
            f"the configuration says {config.node_id}"
        )
    return meta
