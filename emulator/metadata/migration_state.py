"""The state of the ZooKeeper migration, as its record stores it.

The numbers are those of Kafka 3.5 and later. Kafka 3.4 counts PRE_MIGRATION 1 and MIGRATION 2, but
it only writes 1, at the start of its copy, so 1 is correctly read as MIGRATION.

Source: ZkMigrationStateRecord; ZkMigrationState, Kafka 3.9; KIP-866.
"""

from __future__ import annotations

import struct
from enum import IntEnum
from itertools import pairwise
from typing import Final

import msgspec
from msgspec.structs import replace

from emulator.metadata.errors import ReplayError
from wire import records as r

# The mark that the last leader with the migration flag leaves in the log before it stops.
#
# The mark records that ZooKeeper had everything when that leader stopped. A leader without the flag
# cannot ask ZooKeeper, and finalising cannot be undone, so it finalises only below a mark that
# still holds.
#
# The mark is a tagged field of a NoOpRecord. Kafka's controllers, brokers and tools skip tagged
# fields that they do not know, and a NoOpRecord changes no metadata anywhere. A snapshot that Kafka
# writes holds no NoOpRecord, so a node that starts from one knows of no mark; ours keep it.
#
# Source of the way through Kafka: NoOpRecord.json (flexible, no fields); KIP-482.

TAG: Final = 27_490
"""Far from the numbers that Kafka gives to its own tagged fields, which it counts from 0."""
FORMAT: Final = 1
_BODY: Final = struct.Struct(">BBiiiqq")


class MarkKind(IntEnum):
    """The writer of the mark."""

    LEFT = 1
    """A stopping leader with the flag, when ZooKeeper had everything before the mark."""
    CONTINUED = 2
    """A leader without the flag, in whose log the mark before it still held: what follows in its
    own epoch is in the log only."""


class FinalisationMark(msgspec.Struct, frozen=True, gc=False):
    """One mark. ``read_ms``: milliseconds since the Unix epoch.

    ``node_id``, ``zk_epoch``, ``read_ms`` and ``confirmed_offset`` are of the leader with the flag:
    its ``/controller_epoch``, when it began to read the whole tree for the last comparison, and the
    offset that ``/migration`` had. ``leader_epoch`` is of the leader that wrote the mark.
    """

    kind: MarkKind
    node_id: int
    leader_epoch: int
    zk_epoch: int
    read_ms: int
    confirmed_offset: int

    def bears(self, epoch: int) -> bool:
        """Whether the mark still holds after a change, made in an epoch, of what ZooKeeper has.

        One of the epoch of the leader that stopped, or of a later leader that did not continue the
        mark, may be one that ZooKeeper should have, and it is unknown whether it has it.
        """
        return self.kind is MarkKind.CONTINUED and epoch == self.leader_epoch

    def continued(self, epoch: int) -> FinalisationMark:
        """The mark that a leader without the flag writes first, in its own epoch."""
        return replace(self, kind=MarkKind.CONTINUED, leader_epoch=epoch)


def record_of(mark: FinalisationMark) -> r.NoOpRecord:
    """The record that carries a mark."""
    body = _BODY.pack(
        FORMAT,
        mark.kind,
        mark.node_id,
        mark.leader_epoch,
        mark.zk_epoch,
        mark.read_ms,
        mark.confirmed_offset,
    )
    return r.NoOpRecord(unknown_tags=((TAG, body),))  # type: ignore[call-arg]  # every message has it


def of_record(record: r.NoOpRecord) -> FinalisationMark | None:
    """The mark that a record carries; None if it carries none that can be read.

    >>> of_record(r.NoOpRecord()) is None
    True
    """
    tags: tuple[tuple[int, bytes], ...] = record.unknown_tags  # type: ignore[attr-defined]  # as above
    for tag, body in tags:
        if tag == TAG and len(body) == _BODY.size:
            form, kind, *rest = _BODY.unpack(body)
            if form == FORMAT and kind in {each.value for each in MarkKind}:
                return FinalisationMark(MarkKind(kind), *rest)
    return None


class MigrationState(IntEnum):
    """What the log says about the migration."""

    NONE = 0
    """Never migrated: created in KRaft mode, or not begun below metadata.version 13."""
    MIGRATION = 1
    """The metadata is copied; writes go to both stores."""
    PRE_MIGRATION = 2
    """Provisioned for a migration, waiting for every broker."""
    POST_MIGRATION = 3
    """Finalised, for good."""


def enter(before: int, record: r.ZkMigrationStateRecord) -> MigrationState:
    """The state after the record.

    Raises:
        ReplayError: a value no release writes to a log, or a way back out of POST_MIGRATION.
    """
    value = record.zk_migration_state
    try:
        after = MigrationState(value)
    except ValueError:
        raise ReplayError(
            f"migration state {value} is unknown; known are "
            + ", ".join(f"{state.value} {state.name}" for state in MigrationState)
        ) from None
    if before == MigrationState.POST_MIGRATION != after:
        raise ReplayError(f"a finalised migration cannot return to {after.name}")
    return after


def mermaid() -> str:
    """Draw the way of a log through the states that controllers write, as a Mermaid diagram.

    >>> mermaid().splitlines()[:2]
    ['stateDiagram-v2', '    [*] --> NONE']
    """
    way = (MigrationState.PRE_MIGRATION, MigrationState.MIGRATION, MigrationState.POST_MIGRATION)
    firsts = (MigrationState.NONE, way[0])
    lines = ["stateDiagram-v2", *(f"    [*] --> {first.name}" for first in firsts)]
    lines += [f"    {one.name} --> {after.name}" for one, after in pairwise(way)]
    return "\n".join(lines) + "\n"
