"""The states of the migration driver, and which event leads from which state to which: one table.

The driver takes no other step than those of the table, and the diagram in the docs is drawn from
it. What the four *persisted* states mean (ZkMigrationStateRecord) is in ``emulator.metadata``.

Source: KIP-866 "Migration Overview" and "Controller Migration"; MigrationDriverState and
KRaftMigrationDriver.isValidStateChange, Kafka 3.9.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import Enum
from types import MappingProxyType
from typing import Final


class State(Enum):
    """State of the migration driver; values are Kafka's MigrationDriverState names."""

    UNINITIALIZED = "UNINITIALIZED"
    """Just started; reads ``/migration``. If that or a top-level znode of ZooKeeper is missing, the
    only voter makes it (``/migration`` with all numbers -1); of several voters the leader does."""
    INACTIVE = "INACTIVE"
    """Not the active controller, or blocked by a reason that only an operator can remove."""
    WAIT_FOR_CONTROLLER_QUORUM = "WAIT_FOR_CONTROLLER_QUORUM"
    """Leader: waits until the image holds this term's first records and every controller of the
    quorum is ready. Meanwhile the guards of ``claim`` are asked: no other voter can register before
    they have passed."""
    WAIT_FOR_BROKERS = "WAIT_FOR_BROKERS"
    """Reads the tree, checks ``preconditions`` and the guards of ``claim``; nothing is written."""
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
    notifications and late deletions are purged."""


class DriverEvent(Enum):
    """Why the driver changes its state."""

    RECOVERED = "recovered"
    """``/migration`` was read, and made if it was missing."""
    BECAME_LEADER = "became leader"
    LEADERSHIP_LOST = "leadership lost"
    """Also before another epoch of the same leader."""
    NO_MIGRATION = "no migration"
    """The log was begun without one, or it is finalised."""
    QUORUM_READY = "quorum ready"
    MIGRATION_UNDER_WAY = "migration under way"
    """The log has the copy, made in an earlier epoch."""
    BROKERS_READY = "brokers ready"
    CLAIMED = "claimed"
    CLAIMED_AGAIN = "claimed again"
    """The log has the copy already."""
    COPIED = "copied"
    RECONCILED = "reconciled"
    """ZooKeeper has what the image has."""
    METADATA_SENT = "metadata sent"
    """Every ZooKeeper-mode broker was sent the full metadata."""
    CLAIM_LOST = "claim lost"


_S, _E = State, DriverEvent
NEXT: Final[Mapping[tuple[State, DriverEvent], State]] = MappingProxyType(
    {
        (_S.UNINITIALIZED, _E.RECOVERED): _S.INACTIVE,
        (_S.INACTIVE, _E.BECAME_LEADER): _S.WAIT_FOR_CONTROLLER_QUORUM,
        (_S.WAIT_FOR_CONTROLLER_QUORUM, _E.NO_MIGRATION): _S.INACTIVE,
        (_S.WAIT_FOR_CONTROLLER_QUORUM, _E.QUORUM_READY): _S.WAIT_FOR_BROKERS,
        (_S.WAIT_FOR_CONTROLLER_QUORUM, _E.MIGRATION_UNDER_WAY): _S.BECOME_CONTROLLER,
        (_S.WAIT_FOR_CONTROLLER_QUORUM, _E.LEADERSHIP_LOST): _S.INACTIVE,
        (_S.WAIT_FOR_BROKERS, _E.BROKERS_READY): _S.BECOME_CONTROLLER,
        (_S.WAIT_FOR_BROKERS, _E.LEADERSHIP_LOST): _S.INACTIVE,
        (_S.BECOME_CONTROLLER, _E.CLAIMED): _S.ZK_MIGRATION,
        (_S.BECOME_CONTROLLER, _E.CLAIMED_AGAIN): _S.SYNC_KRAFT_TO_ZK,
        (_S.BECOME_CONTROLLER, _E.LEADERSHIP_LOST): _S.INACTIVE,
        (_S.BECOME_CONTROLLER, _E.CLAIM_LOST): _S.INACTIVE,
        (_S.ZK_MIGRATION, _E.COPIED): _S.SYNC_KRAFT_TO_ZK,
        (_S.ZK_MIGRATION, _E.LEADERSHIP_LOST): _S.INACTIVE,
        (_S.ZK_MIGRATION, _E.CLAIM_LOST): _S.INACTIVE,
        (_S.SYNC_KRAFT_TO_ZK, _E.RECONCILED): _S.KRAFT_CONTROLLER_TO_BROKER_COMM,
        (_S.SYNC_KRAFT_TO_ZK, _E.LEADERSHIP_LOST): _S.INACTIVE,
        (_S.SYNC_KRAFT_TO_ZK, _E.CLAIM_LOST): _S.INACTIVE,
        (_S.KRAFT_CONTROLLER_TO_BROKER_COMM, _E.METADATA_SENT): _S.DUAL_WRITE,
        (_S.KRAFT_CONTROLLER_TO_BROKER_COMM, _E.LEADERSHIP_LOST): _S.INACTIVE,
        (_S.KRAFT_CONTROLLER_TO_BROKER_COMM, _E.CLAIM_LOST): _S.INACTIVE,
        (_S.DUAL_WRITE, _E.LEADERSHIP_LOST): _S.INACTIVE,
        (_S.DUAL_WRITE, _E.CLAIM_LOST): _S.INACTIVE,
    }
)
"""State and event -> the state after it. Any other event is a bug and stops the node."""


def drawn(begin: str, rows: Iterable[tuple[str, str, str]]) -> str:
    """A Mermaid state diagram.

    Args:
        begin: the first state.
        rows: state before, state after, event. One line has all events between two states.

    >>> drawn("a", [("a", "b", "x"), ("b", "a", "y"), ("a", "b", "z")]).splitlines()[1:]
    ['    [*] --> a', '    a --> b: x, z', '    b --> a: y']
    """
    edges: dict[tuple[str, str], list[str]] = {}
    for before, then, event in rows:
        edges.setdefault((before, then), []).append(event)
    lines = ["stateDiagram-v2", f"    [*] --> {begin}"]
    lines += [f"    {one} --> {two}: {', '.join(events)}" for (one, two), events in edges.items()]
    return "\n".join(lines) + "\n"


def mermaid() -> str:
    """Draw :data:`NEXT` as a Mermaid state diagram.

    >>> mermaid().splitlines()[:3]
    ['stateDiagram-v2', '    [*] --> UNINITIALIZED', '    UNINITIALIZED --> INACTIVE: recovered']
    """
    rows = ((one.value, then.value, event.value) for (one, event), then in NEXT.items())
    return drawn(State.UNINITIALIZED.value, rows)
