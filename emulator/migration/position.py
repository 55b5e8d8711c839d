"""Which claim writes, what ZooKeeper holds, and where the two counters stand."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Term:
    """One claim of ``/controller`` by this controller."""

    node_id: int
    kraft_epoch: int
    zk_epoch: int
    """The value we wrote to ``/controller_epoch``."""
    epoch_version: int
    """The znode version of ``/controller_epoch`` since our claim: every other claim changes it."""


@dataclass(frozen=True, slots=True)
class Position:
    """What ZooKeeper holds after a multi."""

    offset: int
    """Last record wholly contained; -1: nothing yet."""
    metadata_epoch: int
    """Leader epoch of that record; -1 with offset -1."""
    part: int = 0
    """Multis of the change after ``offset`` that are applied; not 0 only inside a split change."""


@dataclass(frozen=True, slots=True)
class Counters:
    """Versions of the two counters as read from ZooKeeper; None: the znode is absent."""

    own: int | None
    migration: int | None
