"""Value types: who claims, a claim, the position that ZooKeeper holds, the two counters."""

from __future__ import annotations

import msgspec


class Claimer(msgspec.Struct, frozen=True):
    """The controller that claims. A copy of its disk has the same id, maybe the same epoch."""

    node_id: int
    kraft_epoch: int
    incarnation: str
    """Random id of this process: no other process can have written it."""
    witnessed: bool = False
    """Whether a majority of several voters holds the log of this controller."""
    stopped: bool = False
    """Whether it claims for a folder that no process uses, in the epoch of the last record there:
    the claim that was made in that epoch is the one that it goes on with."""


class Term(msgspec.Struct, frozen=True):
    """One claim of ``/controller`` by this process."""

    node_id: int
    kraft_epoch: int
    zk_epoch: int
    """The value we wrote to ``/controller_epoch``."""
    epoch_version: int
    """The znode version of ``/controller_epoch`` since our claim: every other claim changes it."""
    incarnation: str
    """Incarnation of the process that made the claim."""
    log_offset: int = -1
    """Offset of the last record that was committed in its log before the claim."""
    epoch_created: int = -1
    """Zxid at which ``/controller_epoch`` was created."""


class Position(msgspec.Struct, frozen=True):
    """What ZooKeeper holds after a multi."""

    offset: int
    """Offset of the last record that is completely contained; -1: none yet."""
    metadata_epoch: int
    """Leader epoch of that record; -1 with offset -1."""
    part: int = 0
    """Applied multis of the change after ``offset``; not 0 only inside a split change."""


class Counters(msgspec.Struct, frozen=True):
    """Versions of the two counters as read from ZooKeeper; None: the znode is absent."""

    own: int | None
    migration: int | None
