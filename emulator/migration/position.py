"""Who claims, which claim writes, what ZooKeeper holds, and where the two counters stand."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Claimer:
    """Who asks for the claim. A copy of our disk has the same id, and may have the same epoch."""

    node_id: int
    kraft_epoch: int
    incarnation: str
    """Of this process, random: nobody else can have written it."""


@dataclass(frozen=True, slots=True)
class Term:
    """One claim of ``/controller`` by this process."""

    node_id: int
    kraft_epoch: int
    zk_epoch: int
    """The value we wrote to ``/controller_epoch``."""
    epoch_version: int
    """The znode version of ``/controller_epoch`` since our claim: every other claim changes it."""
    incarnation: str
    """Of the process that made the claim."""


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
