"""Claiming ``/controller`` and ``/controller_epoch``, and the guards before it.

The claim is one multi, a compare-and-set. It sets ``/controller_epoch`` + 1 at the version read,
deletes ``/controller`` at the version read if it exists, creates it again, persistent, with our id
and KRaft epoch, and writes our own znode at the version read, with the incarnation of our process.
Its success fences every write of an earlier controller of either kind that is still in flight. Only
then the two counters are read from which our chain continues.

A claim in doubt is not repeated but recognised, so the epoch rises by exactly one per claim (E06):
if it was applied, our own znode holds our incarnation and epochs. Id and KRaft epoch alone prove
nothing: a restored or cloned folder can have the same. The guards are checked whether or not the
claim was recognised, and for all epochs.

Source: KIP-866 "Controller Leadership"; KafkaZkClient.tryRegisterKRaftControllerAsActiveController,
Kafka 3.9. The guards are not in Kafka, which deletes what the other controller wrote.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec

from emulator.metadata.image import Image
from emulator.metadata.migration_state import MigrationState
from emulator.migration.position import Claimer, Counters, Position, Term
from emulator.migration.taking_over import continuity
from emulator.migration.taking_over.continuity import CLEAR, WAY_OUT, LogView
from emulator.migration.taking_over.preconditions import Reason, Why
from emulator.znodes import controller, migration, own
from emulator.znodes.tree import ZnodeError
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


class Found(msgspec.Struct, frozen=True):
    """The four znodes as read, parsed."""

    zk_epoch: int
    epoch_version: int
    epoch_created: int
    controller: controller.ControllerZnode | None
    controller_version: int
    counters: Counters
    migration: migration.MigrationZnode
    own: own.OwnZnode | None


_AGAIN: Final = (
    "To migrate again, stop the controllers, format them in empty folders, let "
    f"{CLEAR} delete {migration.PATH} and {own.PATH}, then start them and restart the brokers"
)


def parse(values: Sequence[ReadValue]) -> Found | Reason:
    """Parse the four znodes, in the order of :data:`PATHS`; a Reason when one is unusable."""
    for path, value in zip(PATHS, values, strict=True):
        if isinstance(value, ReadFailed) and value.code != ZkCode.NO_NODE:
            text = f"{path}: ZooKeeper answers {code_name(value.code)}"
            return Reason(Why.UNREADABLE, path, text)
    epoch, holder, mine, record = (v if isinstance(v, NodeData) else None for v in values)
    try:
        if epoch is None:
            return _no_epoch(None if mine is None else own.try_parse(mine.data))
        return Found(
            zk_epoch=controller.parse_epoch(epoch.data),
            epoch_version=epoch.stat.version,
            epoch_created=epoch.stat.czxid,
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
        return Reason(Why.MIGRATION_ZNODE, error.path, f"{error}{_repair(error.path)}", fatal=True)


def _no_epoch(mine: own.OwnZnode | None) -> Reason:
    text = f"{controller.EPOCH_PATH} does not exist: "
    if mine is None:
        text += (
            "no controller was ever elected here, so this is not the ZooKeeper of a Kafka cluster "
            "(or the chroot is wrong)"
        )
    else:
        text += f"it was deleted. Create it again with the epoch of our last claim, {mine.zk_epoch}"
    return Reason(Why.NO_CONTROLLER_EPOCH, controller.EPOCH_PATH, text, fatal=True)


def _repair(path: str) -> str:
    if path == controller.EPOCH_PATH:
        return (
            ". No controller wrote this. Write the last epoch that the brokers know: it is in the "
            f"log of each, and in {own.PATH} if there is one (zk_epoch)"
        )
    if path != own.PATH:
        return ""
    return (
        f". If no controller wrote this and no controller is active, delete it: then only "
        f"{migration.PATH} is compared with our log"
    )


def guard(found: Found, image: Image, log: LogView, claimer: Claimer) -> list[Reason]:
    """The reasons why a claim would do damage; empty: it may be made, or kept.

    Args:
        found: the four znodes in ZooKeeper.
        image: the newest stable image.
        log: our log.
        claimer: this controller.
    """
    if own.rolled_back(found.own):
        return [_rolled_back(found)]
    if not already_ours(found, claimer) and (held := _held(found, claimer)) is not None:
        return [held]
    if image.migration_state == MigrationState.MIGRATION:
        broken = continuity.broken(found.migration, found.own, log, witnessed=claimer.witnessed)
        return [*broken, *_taken_over(found, claimer)]
    offset = found.migration.kraft_metadata_offset
    if offset > 0:
        return [
            Reason(
                Why.OTHER_LOG,
                migration.PATH,
                f"{migration.PATH} says that a migration was completed up to offset {offset} of "
                "another metadata log, and ours has never migrated: continuing would delete "
                f"that metadata from ZooKeeper. After a rollback let {CLEAR} delete it, to "
                f"migrate again. If this folder was restored from a backup, {WAY_OUT}",
                fatal=True,
            )
        ]
    return []


def _rolled_back(found: Found) -> Reason:
    """Refuse after ``kraft-bridge rollback``, whatever our log holds, until an operator says so."""
    ruler = "nobody" if found.controller is None else f"broker {found.controller.broker_id}"
    return Reason(
        Why.ZOOKEEPER_MODE_TOOK_OVER,
        own.PATH,
        f"the cluster was rolled back by kraft-bridge rollback, as {own.PATH} says; {ruler} holds "
        f"{controller.PATH}. Changes made since then would be lost. {_AGAIN}",
        fatal=True,
    )


def _held(found: Found, claimer: Claimer) -> Reason | None:
    """Refuse if another KRaft controller holds the claim in an epoch not below ours."""
    holder = found.controller
    if holder is None:
        return _deleted() if claimer.stopped else _claimed_last(found, claimer)
    if holder.kraft_epoch < claimer.kraft_epoch + claimer.stopped:
        return None
    text = (
        f"{controller.PATH} is held by KRaft controller {holder.broker_id} in epoch "
        f"{holder.kraft_epoch}, which is not below ours ({claimer.kraft_epoch}): "
    )
    same_epoch = (holder.broker_id, holder.kraft_epoch) == (claimer.node_id, claimer.kraft_epoch)
    if same_epoch and found.own is None:
        text += (
            f"but {own.PATH}, which says which process made this claim, does not exist: it was "
            "deleted since. If no other process with our id runs, restart this controller: it "
            "claims again in its next epoch"
        )
    elif same_epoch and _raised_since(found, claimer):
        text += (
            f"this process has claimed, and {controller.EPOCH_PATH} was raised before it saw the "
            "answer. Restart this controller: it claims again in its next epoch"
        )
    elif holder.broker_id == claimer.node_id:
        text += (
            "another process with our id has claimed the cluster, so this folder is a clone, was "
            f"restored from a backup, or was formatted again: {WAY_OUT}"
        )
    else:
        text += "another quorum has the claim; delete the znode if that quorum no longer exists"
    return Reason(Why.CONTROLLER_HELD, controller.PATH, text, fatal=True, next_epoch=same_epoch)


def _raised_since(found: Found, claimer: Claimer) -> bool:
    """Whether our own znode shows a claim of this process, in an earlier ZooKeeper epoch."""
    mine = found.own
    return (
        mine is not None
        and mine.incarnation == claimer.incarnation
        and mine.zk_epoch != found.zk_epoch
    )


def _deleted() -> Reason:
    """Refuse to claim for a stopped controller after ``/controller`` was deleted."""
    text = (
        f"{controller.PATH} does not exist: somebody has deleted it, as a rollback does. If there "
        "is none, start the controller: it claims the cluster again, and compares"
    )
    return Reason(Why.CONTROLLER_HELD, controller.PATH, text, fatal=True)


def _claimed_last(found: Found, claimer: Claimer) -> Reason | None:
    """Refuse if another process made the last claim, in an epoch not below ours."""
    mine = found.own
    if mine is None or not mine.incarnation or mine.incarnation == claimer.incarnation:
        return None
    last = mine.zk_epoch == found.zk_epoch and mine.epoch_created in {-1, found.epoch_created}
    if not last or mine.kraft_epoch < claimer.kraft_epoch:
        return None
    text = (
        f"KRaft controller {mine.node_id} made the last claim, in epoch {mine.kraft_epoch}, which "
        f"is not below ours ({claimer.kraft_epoch}), and {controller.PATH} was deleted since: "
        "start the controller with the folder of that one; if it is gone for good, "
        f"delete {own.PATH}"
    )
    return Reason(Why.CONTROLLER_HELD, own.PATH, text, fatal=True)


def _taken_over(found: Found, claimer: Claimer) -> list[Reason]:
    """Refuse when a ZooKeeper-mode controller was elected after our last claim (B07)."""
    holder = found.controller
    if holder is not None and holder.kraft_epoch >= 0:
        return []
    recorded = None if found.own is None else found.own.zk_epoch
    # A rollback deletes the epoch's znode too; elections may then reach the same number again.
    created = -1 if found.own is None else found.own.epoch_created
    same = created in {-1, found.epoch_created}
    if holder is None and recorded == found.zk_epoch and same:
        return []
    ruler = "nobody" if holder is None else f"broker {holder.broker_id}"
    since = "unknown" if recorded is None else str(recorded)
    forgotten = found.own is None and found.migration.kraft_metadata_offset < 0
    return [
        Reason(
            Why.ZOOKEEPER_MODE_TOOK_OVER,
            controller.PATH,
            f"the cluster was rolled back: {controller.PATH} is held by {ruler} in ZooKeeper mode, "
            f"epoch {found.zk_epoch} (our last claim: {since}). Changes made there since then "
            f"would be lost. {_AGAIN}" + (_keep_our_log(claimer) if forgotten else ""),
            fatal=True,
        )
    ]


def _keep_our_log(claimer: Claimer) -> str:
    """The way out if ZooKeeper was set back, and the cluster was not rolled back."""
    return (
        ". If instead ZooKeeper was restored from a state before the migration, our log holds the "
        "newest metadata. To write it to ZooKeeper, whose later changes are then lost: stop the "
        f"controllers, write into {controller.EPOCH_PATH} the highest epoch that the brokers' logs "
        f"name, replace {controller.PATH} by a persistent znode with "
        f"{controller.encode(claimer.node_id, 0, 0).decode()}, and start the controllers"
    )


def already_ours(found: Found, claimer: Claimer) -> bool:
    """Whether an earlier attempt of this same claim was applied although its answer was lost."""
    holder, mine = found.controller, found.own
    if holder is None or mine is None or not mine.incarnation:
        return False
    claim = (claimer.node_id, claimer.kraft_epoch, found.zk_epoch, claimer.incarnation)
    named = (holder.broker_id, holder.kraft_epoch) == (claimer.node_id, claimer.kraft_epoch)
    return named and own.of_term(mine) == claim and mine.sequence == 0


def next_epoch(found: Found, claimer: Claimer) -> int:
    """The epoch to claim with: above what brokers know, who refuse requests of an older one.

    ``/controller_epoch`` may have been set back by hand, or restored from a backup with our own
    znode. Brokers then know the epochs of the claims made since, and each term of our log made one
    at most, above the epoch of our last claim. ``/controller_epoch`` may show a higher one. Kafka's
    controllers in the quorum have claimed: no later than the last term that wrote ``/migration``,
    so only later terms are added. Or it was raised by hand: all terms since our claim are added.
    """
    last, mine = found.zk_epoch, found.own
    if mine is not None:
        written = max(mine.kraft_epoch, found.migration.kraft_controller_epoch)
        last = max(
            mine.zk_epoch + _terms_between(mine.kraft_epoch, claimer.kraft_epoch),
            found.zk_epoch + _terms_between(written, claimer.kraft_epoch),
        )
    return min(last + 1, controller.EPOCH_MAX)


def _terms_between(earlier: int, later: int) -> int:
    return max(0, later - max(0, earlier) - 1)


def multi(found: Found, log: LogView, claimer: Claimer, now_ms: int) -> Multi:
    """The multi of the claim: atomic, at the versions found.

    It does not change the position. So our own znode keeps its position if the same multi wrote it
    and ``/migration``; else it takes the position of ``/migration``. It names the newest batch of
    our log: until ZooKeeper has followed a record of this log, only this batch shows whether a
    folder is an old copy or the one that claimed.
    """
    zk_epoch = next_epoch(found, claimer)
    ops: list[ZkOp] = [
        SetData(controller.EPOCH_PATH, controller.encode_epoch(zk_epoch), found.epoch_version)
    ]
    if found.controller is not None:
        ops.append(Delete(controller.PATH, found.controller_version))
    ops.append(
        Create(controller.PATH, controller.encode(claimer.node_id, claimer.kraft_epoch, now_ms))
    )
    mine = found.own if continuity.current(found.migration, found.own) else None
    offset, newest = found.migration.kraft_metadata_offset, log.high_watermark - 1
    state = own.OwnZnode(
        node_id=claimer.node_id,
        kraft_epoch=claimer.kraft_epoch,
        zk_epoch=zk_epoch,
        sequence=0,
        offset=offset,
        metadata_epoch=found.migration.kraft_metadata_epoch,
        part=0 if mine is None else mine.part,
        incarnation=claimer.incarnation,
        digest=log.digest_at(newest),
        log_offset=newest,
        epoch_created=found.epoch_created,
    )
    version = found.counters.own
    data = own.encode(state)
    ops.append(Create(own.PATH, data) if version is None else SetData(own.PATH, data, version))
    return Multi(tuple(ops))


def refused(outcome: ZkFailed, sent: Multi) -> Reason:
    """The reason for a claim that ZooKeeper refused."""
    path = sent.ops[max(0, outcome.index)].path
    text = f"{path}: ZooKeeper answers {code_name(outcome.code)} to the claim"
    if outcome.code == ZkCode.NO_AUTH:
        text += ": log in as the brokers do, or give this controller's identity the right to write"
    return Reason(Why.UNREADABLE, path, text)


def claimed(found: Found, claimer: Claimer) -> tuple[Term, Counters, Position]:
    """The start of the chain, from the znodes read after the claim."""
    written, mine = found.migration, found.own
    term = Term(
        node_id=claimer.node_id,
        kraft_epoch=claimer.kraft_epoch,
        zk_epoch=found.zk_epoch,
        epoch_version=found.epoch_version,
        incarnation=claimer.incarnation,
        log_offset=-1 if mine is None else mine.log_offset,
        epoch_created=found.epoch_created,
    )
    part = 0 if mine is None else mine.part
    position = Position(written.kraft_metadata_offset, written.kraft_metadata_epoch, part)
    return term, found.counters, position
