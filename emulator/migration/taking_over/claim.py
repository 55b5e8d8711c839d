"""Claiming ``/controller`` and ``/controller_epoch``, and the guards before it.

One multi, a compare-and-set: ``/controller_epoch`` + 1 at the version read, ``/controller`` deleted
at the version read if it is there, and made anew, persistent, with our id and KRaft epoch. Its
success fences every write an earlier controller of either kind may still have on the way; only then
are the two counters read that our chain goes on from.

A claim in doubt is not repeated but recognised: ``/controller`` then names us with our epoch, so
the epoch rises by exactly one per claim (E06).

Source: KIP-866 "Controller Leadership"; KafkaZkClient.tryRegisterKRaftControllerAsActiveController,
Kafka 3.9. The guards are not in Kafka, which deletes what the other controller wrote.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Protocol

from emulator.metadata.image import Image
from emulator.metadata.migration_state import MigrationState
from emulator.migration.position import Counters, Position, Term
from emulator.migration.taking_over.preconditions import Reason, Why
from emulator.migration.zk_tree import controller, migration, own
from emulator.migration.zk_tree.errors import ZnodeError
from emulator.zookeeper.errors import ZkCode, code_name
from emulator.zookeeper.ops import (
    Create,
    Delete,
    GetData,
    Multi,
    MultiRead,
    NodeData,
    ReadFailed,
    ReadValue,
    SetData,
    Sync,
    ZkFailed,
    ZkOp,
    ZkRequest,
)

PATHS: Final = (controller.EPOCH_PATH, controller.PATH, own.PATH, migration.PATH)
READ: Final[Sequence[ZkRequest]] = (Sync("/"), MultiRead(tuple(GetData(p) for p in PATHS)))


class LogView(Protocol):
    """What the guards ask about our own log."""

    @property
    def log_start_offset(self) -> int:
        """First offset that is not covered by a snapshot alone."""

    def epoch_at(self, offset: int) -> int | None:
        """Leader epoch of the record at ``offset``; None for one that the log does not hold."""


@dataclass(frozen=True, slots=True)
class Found:
    """The four znodes as read, parsed."""

    zk_epoch: int
    epoch_version: int
    controller: controller.ControllerZnode | None
    controller_version: int
    counters: Counters
    migration: migration.MigrationZnode
    own: own.OwnZnode | None


def parse(values: Sequence[ReadValue]) -> Found | Reason:
    """Parse the four znodes, in the order of :data:`PATHS`; a Reason when one is unusable."""
    for path, value in zip(PATHS, values, strict=True):
        if isinstance(value, ReadFailed) and value.code != ZkCode.NO_NODE:
            text = f"{path}: ZooKeeper answers {code_name(value.code)}"
            return Reason(Why.UNREADABLE, path, text)
    epoch, holder, mine, record = (v if isinstance(v, NodeData) else None for v in values)
    try:
        if epoch is None:
            return Reason(
                Why.NO_CONTROLLER_EPOCH,
                controller.EPOCH_PATH,
                f"{controller.EPOCH_PATH} does not exist: no controller was ever elected here, so "
                "this is not the ZooKeeper of a Kafka cluster (or the chroot is wrong)",
                fatal=True,
            )
        return Found(
            zk_epoch=controller.parse_epoch(epoch.data),
            epoch_version=epoch.stat.version,
            controller=None if holder is None else controller.parse(holder.data),
            controller_version=-1 if holder is None else holder.stat.version,
            counters=Counters(
                own=None if mine is None else mine.stat.version,
                migration=None if record is None else record.stat.version,
            ),
            migration=migration.INITIAL if record is None else migration.parse(record.data),
            own=None if mine is None else own.parse(mine.data),
        )
    except ZnodeError as error:
        return Reason(Why.MIGRATION_ZNODE, error.path, str(error), fatal=True)


def guard(found: Found, image: Image, log: LogView, node_id: int, kraft_epoch: int) -> list[Reason]:
    """Return why a claim would do damage; empty: it may be made.

    Args:
        found: what is in ZooKeeper.
        image: the newest stable image.
        log: our log.
        node_id: our id.
        kraft_epoch: our leader epoch.
    """
    holder = found.controller
    ours = already_ours(found, node_id, kraft_epoch)
    if holder is not None and holder.kraft_epoch >= kraft_epoch and not ours:
        return [
            Reason(
                Why.CONTROLLER_HELD,
                controller.PATH,
                f"{controller.PATH} is held by KRaft controller {holder.broker_id} in epoch "
                f"{holder.kraft_epoch}, which is not below ours ({kraft_epoch}): another "
                "quorum is or was in charge; remove the znode if that one is gone",
                fatal=True,
            )
        ]
    if image.migration_state == MigrationState.MIGRATION:
        return [*_other_log(found, log), *_taken_over(found)]
    offset = found.migration.kraft_metadata_offset
    if offset > 0:
        return [
            Reason(
                Why.OTHER_LOG,
                migration.PATH,
                f"{migration.PATH} says that a migration was completed up to offset {offset} of "
                "another metadata log, while ours has never migrated: continuing would delete "
                f"that metadata from ZooKeeper; after a rollback delete {migration.PATH} to "
                "migrate anew",
                fatal=True,
            )
        ]
    return []


def _other_log(found: Found, log: LogView) -> list[Reason]:
    offset = found.migration.kraft_metadata_offset
    epoch = found.migration.kraft_metadata_epoch
    if offset < log.log_start_offset or log.epoch_at(offset) == epoch:
        return []
    return [
        Reason(
            Why.OTHER_LOG,
            migration.PATH,
            f"{migration.PATH} stands at offset {offset} of epoch {epoch}, which is not in our "
            "log: that is the log of another quorum (was this controller formatted again?)",
            fatal=True,
        )
    ]


def _taken_over(found: Found) -> list[Reason]:
    """Refuse when a ZooKeeper-mode controller was elected after our last claim (B07)."""
    holder = found.controller
    if holder is not None and holder.kraft_epoch >= 0:
        return []
    recorded = None if found.own is None else found.own.zk_epoch
    if holder is None and recorded == found.zk_epoch:
        return []
    who = "nobody" if holder is None else f"broker {holder.broker_id}"
    since = "unknown" if recorded is None else str(recorded)
    return [
        Reason(
            Why.ZOOKEEPER_MODE_TOOK_OVER,
            controller.PATH,
            f"the cluster was rolled back: {controller.PATH} is held by {who} in ZooKeeper mode, "
            f"epoch {found.zk_epoch} (our last claim: {since}); what ZooKeeper got since then "
            f"would be lost. To migrate again, delete {migration.PATH} and {own.PATH} and format "
            "the controllers anew",
            fatal=True,
        )
    ]


def already_ours(found: Found, node_id: int, kraft_epoch: int) -> bool:
    """Whether an earlier try of this very claim was applied although its answer was lost."""
    holder = found.controller
    return holder is not None and (holder.broker_id, holder.kraft_epoch) == (node_id, kraft_epoch)


def multi(found: Found, node_id: int, kraft_epoch: int, now_ms: int) -> Multi:
    """Return the claim: all or nothing, at the versions found."""
    ops: list[ZkOp] = [
        SetData(
            controller.EPOCH_PATH, controller.encode_epoch(found.zk_epoch + 1), found.epoch_version
        )
    ]
    if found.controller is not None:
        ops.append(Delete(controller.PATH, found.controller_version))
    ops.append(Create(controller.PATH, controller.encode(node_id, kraft_epoch, now_ms)))
    return Multi(tuple(ops))


def refused(outcome: ZkFailed) -> Reason:
    """Say what ZooKeeper does not let us write."""
    path = controller.EPOCH_PATH if outcome.index <= 0 else controller.PATH
    text = f"{path}: ZooKeeper answers {code_name(outcome.code)} to the claim"
    if outcome.code == ZkCode.NO_AUTH:
        text += ": log in as the brokers do, or give this controller's identity the right to write"
    return Reason(Why.UNREADABLE, path, text)


def claimed(found: Found, node_id: int, kraft_epoch: int) -> tuple[Term, Counters, Position]:
    """Return what the chain starts from, of the znodes as read after the claim."""
    term = Term(node_id, kraft_epoch, found.zk_epoch, found.epoch_version)
    position = Position(found.migration.kraft_metadata_offset, found.migration.kraft_metadata_epoch)
    return term, found.counters, position
