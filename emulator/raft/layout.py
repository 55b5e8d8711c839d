"""Names and small text files of a metadata log folder, as Kafka 3.9.2 lays them out.

Everything is relative to the node's folder (``metadata.log.dir``). Pure: text and names only.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, NamedTuple

from wire.text import uuid_text

# The errors of the metadata log.


class RecoveryError(Exception):
    """Files on disk are damaged; the node must not start.

    Truncating the file here could drop acknowledged records, so an operator must decide.

    Attributes:
        path: the file, relative to the node's folder.
        position: byte position inside it, or None when the file as a whole is meant.
        why: one sentence, with the remedy.
        found: the same without it.
        remedy: what the only voter can do; empty if nothing is known.
    """

    def __init__(self, path: str, position: int | None, found: str, remedy: str = "") -> None:
        place = path if position is None else f"{path} at byte {position}"
        self.why = f"{found}; {remedy}" if remedy else found
        super().__init__(f"{place}: {self.why}")
        self.path = path
        self.position = position
        self.found = found
        self.remedy = remedy


class AppendRefusedError(ValueError):
    """A batch is invalid for readers of the log; nothing was appended."""


TOPIC: Final = "__cluster_metadata"
TOPIC_ID: Final = bytes(15) + b"\x01"
FOLDER: Final = f"{TOPIC}-0"
QUORUM_STATE: Final = f"{FOLDER}/quorum-state"
EPOCHS: Final = f"{FOLDER}/leader-epoch-checkpoint"
RECOVERY_POINT: Final = f"{FOLDER}/recovery-point"
VOTER_STATE: Final = f"{FOLDER}/voter-state"
"""Whether this voter, of several, still has all that it acknowledged. Not in Kafka."""
CONTRADICTED: Final = f"{FOLDER}/contradicted"
"""Exists while a leader is known to lack what was committed here: no start. Not in Kafka."""
PARTITION_METADATA: Final = f"{FOLDER}/partition.metadata"
META_PROPERTIES: Final = "meta.properties"
BOOTSTRAP_CHECKPOINT: Final = "bootstrap.checkpoint"

_SEGMENT: Final = re.compile(rf"{FOLDER}/(\d{{20}})\.log")
_SNAPSHOT: Final = re.compile(rf"{FOLDER}/(\d{{20}})-(\d{{10}})\.checkpoint")
_RECOVERY_POINT: Final = re.compile(
    rb"(?:0\n(\d{1,19})\n|1\n(\d{1,19})\n(\d{1,19})\n(?:(\d{1,19}) (\d{1,10})\n)?)"
)
_WRITTEN: Final = (
    rf"({FOLDER}/(\d{{20}}\.log|\d{{20}}-\d{{10}}\.checkpoint|quorum-state"
    r"|leader-epoch-checkpoint|partition\.metadata|recovery-point|voter-state|contradicted)"
    r"|meta\.properties|bootstrap\.checkpoint)"
)
_LEFTOVER: Final = re.compile(
    rf"{_WRITTEN}\.part"
    # Kafka's names: a snapshot that is being written, and files renamed before deletion.
    rf"|{FOLDER}/\d{{20}}-\d{{10}}-\d+\.checkpoint\.part"
    rf"|{FOLDER}/\d{{20}}(-\d{{10}}\.checkpoint|\.(log|index|timeindex|txnindex|snapshot))\.deleted"
)


@dataclass(frozen=True, slots=True, order=True)
class SnapshotId:
    """Id of a snapshot of all records below ``end_offset``; ``epoch``: of the last record."""

    end_offset: int
    epoch: int


BOOTSTRAP_SNAPSHOT_ID: Final = SnapshotId(0, 0)
"""Local only, never served (Kafka: Snapshots.BOOTSTRAP_SNAPSHOT_ID)."""


def segment_path(base_offset: int) -> str:
    """File of the segment that begins at an offset.

    >>> segment_path(7)
    '__cluster_metadata-0/00000000000000000007.log'
    """
    return f"{FOLDER}/{base_offset:020d}.log"


def segment_base(path: str) -> int | None:
    """Base offset in a segment's file name, or None for any other file."""
    match = _SEGMENT.fullmatch(path)
    return None if match is None else int(match[1])


def snapshot_path(snapshot: SnapshotId) -> str:
    """File of a snapshot.

    >>> snapshot_path(SnapshotId(42, 3))
    '__cluster_metadata-0/00000000000000000042-0000000003.checkpoint'
    """
    return f"{FOLDER}/{snapshot.end_offset:020d}-{snapshot.epoch:010d}.checkpoint"


def snapshot_id(path: str) -> SnapshotId | None:
    """Id in a snapshot's file name, or None for any other file."""
    match = _SNAPSHOT.fullmatch(path)
    return None if match is None else SnapshotId(int(match[1]), int(match[2]))


def is_leftover(path: str) -> bool:
    """Whether a file is left from an unfinished creation or deletion, by us or by Kafka.

    Safe to remove at start. A file of any other name is left alone.
    """
    return _LEFTOVER.fullmatch(path) is not None


def render_epochs(epochs: Iterable[tuple[int, int]]) -> bytes:
    r"""Text of ``leader-epoch-checkpoint``: version, count, then epoch and its start offset.

    >>> render_epochs([(1, 0), (2, 467)])
    b'0\n2\n1 0\n2 467\n'
    """
    rows = [f"{epoch} {start_offset}\n" for epoch, start_offset in epochs]
    return f"0\n{len(rows)}\n{''.join(rows)}".encode()


class RecoveryPoint(NamedTuple):
    """What ``recovery-point`` says.

    Attributes: durable: everything below that offset is on the disk, and so is, below
    ``committed``, what is known to be committed. replacing: a snapshot that is about to replace the
    whole log.
    """

    durable: int
    committed: int = 0
    replacing: SnapshotId | None = None


def render_recovery_point(
    durable: int, committed: int = 0, replacing: SnapshotId | None = None
) -> bytes:
    r"""Text of ``recovery-point``: version, then a line for each thing that is known.

    Kafka has no such file: its name for the offset, a form like that of its checkpoints.

    >>> render_recovery_point(467)
    b'0\n467\n'
    >>> render_recovery_point(467, 460, SnapshotId(500, 3))
    b'1\n467\n460\n500 3\n'
    """
    if not committed and replacing is None:
        return f"0\n{durable}\n".encode()
    last = "" if replacing is None else f"{replacing.end_offset} {replacing.epoch}\n"
    return f"1\n{durable}\n{committed}\n{last}".encode()


def parse_recovery_point(data: bytes) -> RecoveryPoint | None:
    """Read ``recovery-point``; None if the text is invalid."""
    match = _RECOVERY_POINT.fullmatch(data)
    if match is None:
        return None
    if match[1] is not None:
        return RecoveryPoint(int(match[1]))
    replacing = None if match[4] is None else SnapshotId(int(match[4]), int(match[5]))
    found = RecoveryPoint(int(match[2]), int(match[3]), replacing)
    return found if found.committed <= found.durable else None


def render_partition_metadata() -> bytes:
    """Text of ``partition.metadata``: the fixed id of the metadata topic."""
    return f"version: 0\ntopic_id: {uuid_text(TOPIC_ID)}".encode()
