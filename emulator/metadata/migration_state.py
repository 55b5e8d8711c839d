"""The state of the ZooKeeper migration, as its record stores it.

The numbers are those of Kafka 3.5 and later. Kafka 3.4 counts PRE_MIGRATION 1 and MIGRATION 2, but
it only writes 1, at the start of its copy, so 1 is correctly read as MIGRATION.

Source: ZkMigrationStateRecord; ZkMigrationState, Kafka 3.9; KIP-866.
"""

from __future__ import annotations

from enum import IntEnum
from itertools import pairwise

from emulator.metadata.errors import ReplayError
from wire import records as r


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
