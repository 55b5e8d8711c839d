"""Giving ``/controller`` back: one multi, fenced by the versions that were read.

It deletes ``/controller`` only if a KRaft controller holds it, keeps ``/controller_epoch`` or
raises it, and writes into ``/kraft_bridge`` that the cluster was rolled back: from then on no
controller claims, whatever its log holds. ``/controller_epoch`` is never deleted: the next
controller would begin with epoch 1, and brokers that know a higher one answer
STALE_CONTROLLER_EPOCH.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec

from emulator.migration.taking_over import claim
from emulator.migration.taking_over.claim import Found
from emulator.migration.taking_over.preconditions import Reason
from emulator.znodes import cluster, controller, migration, own
from emulator.znodes.controller import EPOCH_MAX
from emulator.znodes.own import OwnZnode
from emulator.zookeeper.ops import (
    OPEN,
    Check,
    Create,
    Delete,
    Multi,
    ReadValue,
    SetData,
    ZkOp,
    ZnodeAcl,
)

PATHS: Final = claim.PATHS
"""What is read before: the epoch, ``/controller``, ``/kraft_bridge``, ``/migration``."""
DELETIONS: Final = 1_000
"""In one multi: with the longest names a quarter of ZooKeeper's limit."""


def parse(values: Sequence[ReadValue]) -> Found | Reason:
    """The four znodes, in the order of :data:`PATHS`; a Reason when one is unusable."""
    return claim.parse(values)


def held_by_kraft(found: Found) -> bool:
    """Whether a KRaft controller holds ``/controller``."""
    return found.controller is not None and found.controller.kraft_epoch >= 0


def multi(found: Found, epoch_min: int, acl: tuple[ZnodeAcl, ...] = OPEN) -> Multi:
    """The ops of the release; of a cluster whose controller is a broker it writes the mark alone.

    Args:
        found: as read; the multi is refused if one of them has changed since.
        epoch_min: highest epoch in the states of partitions and of the quorum: the next controller,
            whose epoch is one more than ``/controller_epoch``, must be above it.
        acl: of ``/kraft_bridge`` if it has to be created.
    """
    ops: list[ZkOp] = []
    zk_epoch = found.zk_epoch
    if found.controller is None or held_by_kraft(found):
        zk_epoch = min(max(zk_epoch, epoch_min), EPOCH_MAX - 1)
        ops.append(
            Check(controller.EPOCH_PATH, found.epoch_version)
            if zk_epoch == found.zk_epoch
            else SetData(
                controller.EPOCH_PATH, controller.encode_epoch(zk_epoch), found.epoch_version
            )
        )
    if held_by_kraft(found):
        ops.append(Delete(controller.PATH, found.controller_version))
    data = own.encode(_mark(found))
    version = found.counters.own
    ops.append(Create(own.PATH, data, acl) if version is None else SetData(own.PATH, data, version))
    return Multi(tuple(ops))


def _mark(found: Found) -> OwnZnode:
    """The content of ``/kraft_bridge`` from now on; it still names the last claim."""
    if found.own is not None:
        return msgspec.structs.replace(found.own, writer=own.ROLLED_BACK)
    holder, mark = found.controller, found.migration
    return OwnZnode(
        node_id=-1 if holder is None else holder.broker_id,
        kraft_epoch=-1 if holder is None else holder.kraft_epoch,
        zk_epoch=found.zk_epoch,
        sequence=0,
        offset=mark.kraft_metadata_offset,
        metadata_epoch=mark.kraft_metadata_epoch,
        writer=own.ROLLED_BACK,
    )


def without_deletions(found: Found, names: Sequence[str]) -> list[Multi]:
    """The multis that delete what a broker wrote into ``/admin/delete_topics`` behind the copy.

    A broker that did not know the KRaft controller yet; its callers got an error or no answer. The
    broker that is elected next would delete these topics, of which some may have been created
    again. What was pending before was carried out by the first comparison of the whole tree. Before
    that has ended nothing is deleted, nor once a broker has claimed: its callers may wait for it.

    Args:
        found: as read; a multi is refused once somebody else claims.
        names: of the topics.
    """
    unclaimed = found.controller is None and own.claimed_in(found.own) == found.zk_epoch
    if found.migration.kraft_metadata_offset < 0 or not (held_by_kraft(found) or unclaimed):
        return []
    check = Check(controller.EPOCH_PATH, found.epoch_version)
    return [
        Multi((check, *(Delete(f"{cluster.DELETE_TOPICS}/{name}") for name in some)))
        for some in (names[at : at + DELETIONS] for at in range(0, len(names), DELETIONS))
    ]


def done(found: Found) -> bool:
    """Whether nothing is left to write."""
    return own.rolled_back(found.own) and not held_by_kraft(found)


def forgotten(found: Found) -> Multi | None:
    """The multi that makes a second attempt possible; None: the two znodes are gone already."""
    ops: list[ZkOp] = []
    if found.counters.migration is not None:
        ops.append(Delete(migration.PATH, found.counters.migration))
    if found.counters.own is not None:
        ops.append(Delete(own.PATH, found.counters.own))
    return Multi(tuple(ops)) if ops else None
