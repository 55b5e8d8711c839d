"""The driver's states as a table, used by the guard and for the diagram.

Source: KIP-866 "Migration Overview" and "Controller Migration"; MigrationDriverState and
KRaftMigrationDriver.isValidStateChange, Kafka 3.9, whose diagram (a comment) and guard (a switch)
can drift apart. What the four *persisted* states mean is in ``emulator.metadata``
(ZkMigrationStateRecord).
"""

from __future__ import annotations

from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from enum import Enum
from types import MappingProxyType
from typing import Final


class State(Enum):
    """State of the migration driver; values are Kafka's MigrationDriverState names."""

    UNINITIALIZED = "UNINITIALIZED"
    """Started: read ``/migration``. One voter alone makes it (all -1) and ZooKeeper's top-level
    znodes if they are missing; of several voters only the leader does."""
    INACTIVE = "INACTIVE"
    """Not the active controller, or blocked by a reason that only an operator can remove."""
    WAIT_FOR_CONTROLLER_QUORUM = "WAIT_FOR_CONTROLLER_QUORUM"
    """Leader: waits until the image holds this term's first records and every controller of the
    quorum is ready. Meanwhile the guards of ``claim`` are asked: no other voter can register before
    they have passed."""
    WAIT_FOR_BROKERS = "WAIT_FOR_BROKERS"
    """Reads the tree, checks ``preconditions`` and the guards of ``claim``; nothing is written
    (T07)."""
    BECOME_CONTROLLER = "BECOME_CONTROLLER"
    """Claims ``/controller`` and ``/controller_epoch``, then takes over the chain of multis."""
    ZK_MIGRATION = "ZK_MIGRATION"
    """Reads the whole tree and appends it to the metadata log. What a controller in ZooKeeper mode
    writes by its epoch is refused meanwhile; what it creates unchecked is found by the comparison
    that follows."""
    SYNC_KRAFT_TO_ZK = "SYNC_KRAFT_TO_ZK"
    """Compares ZooKeeper with the image and writes the differences, pending deletions too."""
    KRAFT_CONTROLLER_TO_BROKER_COMM = "KRAFT_CONTROLLER_TO_BROKER_COMM"
    """Sends the full metadata to every ZooKeeper-mode broker."""
    DUAL_WRITE = "DUAL_WRITE"
    """Every committed change goes to ZooKeeper, then to the ZooKeeper-mode brokers; old
    notifications are purged."""


NEXT: Final[Mapping[State, AbstractSet[State]]] = MappingProxyType(
    {
        State.UNINITIALIZED: frozenset({State.INACTIVE}),
        State.INACTIVE: frozenset({State.WAIT_FOR_CONTROLLER_QUORUM}),
        State.WAIT_FOR_CONTROLLER_QUORUM: frozenset(
            {State.INACTIVE, State.WAIT_FOR_BROKERS, State.BECOME_CONTROLLER}
        ),
        State.WAIT_FOR_BROKERS: frozenset({State.INACTIVE, State.BECOME_CONTROLLER}),
        State.BECOME_CONTROLLER: frozenset(
            {State.INACTIVE, State.ZK_MIGRATION, State.SYNC_KRAFT_TO_ZK}
        ),
        State.ZK_MIGRATION: frozenset({State.INACTIVE, State.SYNC_KRAFT_TO_ZK}),
        State.SYNC_KRAFT_TO_ZK: frozenset({State.INACTIVE, State.KRAFT_CONTROLLER_TO_BROKER_COMM}),
        State.KRAFT_CONTROLLER_TO_BROKER_COMM: frozenset({State.INACTIVE, State.DUAL_WRITE}),
        State.DUAL_WRITE: frozenset({State.INACTIVE}),
    }
)
"""State -> the states that may follow it. A change not listed here is a bug and stops the node."""


def check_change(before: State, after: State) -> None:
    """Assert that the table allows a change.

    Raises:
        AssertionError: the change is not in :data:`NEXT`.

    >>> check_change(State.INACTIVE, State.WAIT_FOR_CONTROLLER_QUORUM)
    """
    assert after in NEXT[before], (
        f"the migration driver cannot go from {before.value} to {after.value}"
    )


def mermaid() -> str:
    """Draw :data:`NEXT` as a Mermaid state diagram, one edge per line, in the order of declaration.

    >>> mermaid().splitlines()[:3]
    ['stateDiagram-v2', '    [*] --> UNINITIALIZED', '    UNINITIALIZED --> INACTIVE']
    """
    lines = ["stateDiagram-v2", f"    [*] --> {State.UNINITIALIZED.value}"]
    for before in State:
        lines += [
            f"    {before.value} --> {after.value}" for after in State if after in NEXT[before]
        ]
    return "\n".join(lines) + "\n"
