"""Moving the replicas of a partition to other brokers: how it begins and how it is cancelled.

It completes when the ISR allows, see ``leader_election.PartitionChange``. A reassignment that was
ready to complete when it was copied from ZooKeeper may see no further change of the ISR, so a sweep
completes it.

Source: KIP-455; PartitionReassignmentReplicas and PartitionReassignmentRevert, Kafka 3.9.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from emulator.controller.context import ControllerConfig
from emulator.controller.queue.periodic import Sweep
from emulator.controller.queue.urgency import Urgency
from emulator.controller.result import Record
from emulator.controller.rules.broker_changes import partition_change
from emulator.controller.tables.partition_set import PartitionKey
from emulator.metadata.image import Image
from emulator.metadata.topics import Partition

CHECK_INTERVAL_MS: Final = 30_000


@dataclass(frozen=True, slots=True)
class Begun:
    """A started reassignment: all replicas, target ones first, and those added and removed."""

    replicas: tuple[int, ...]
    adding: tuple[int, ...]
    removing: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Reverted:
    """A cancelled reassignment. ``unclean``: no member of the ISR is an original replica."""

    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    unclean: bool


def in_progress(partition: Partition) -> bool:
    """Whether replicas of the partition are being added or removed."""
    return bool(partition.adding_replicas or partition.removing_replicas)


def is_ready(partition: Partition) -> bool:
    """Whether a reassignment could complete: all replicas that stay are in sync."""
    stays = set(partition.replicas) - set(partition.removing_replicas)
    return in_progress(partition) and bool(stays) and stays <= set(partition.isr)


def original_replicas(partition: Partition) -> tuple[int, ...]:
    """The replicas before the reassignment in progress, or the current ones."""
    return tuple(one for one in partition.replicas if one not in partition.adding_replicas)


def begin(partition: Partition, target: Sequence[int]) -> Begun:
    """Begin a reassignment to ``target``, which lists distinct brokers, preferred leader first.

    A reassignment in progress is replaced. Replicas that it added stay marked as added even if they
    are removed again, so that a cancel can still restore the first state. Kafka keeps the older
    removals if the newer reassignment has none, and so drops replicas that the newer one asked for.

    >>> moving = Partition((3, 1), (1,), 1, 0, 0, adding_replicas=(3,), removing_replicas=(1,))
    >>> begin(moving, (2, 3)).adding, begin(moving, (2, 3)).removing
    ((2, 3), (1,))
    """
    original = original_replicas(partition)
    removing = tuple(sorted(set(partition.replicas) - set(target)))
    replicas = (*target, *removing)
    return Begun(replicas, tuple(sorted(set(replicas) - set(original))), removing)


def revert(partition: Partition) -> Reverted:
    """The state after a cancel: added replicas are removed, those marked for removal stay.

    If only added replicas are in sync, the ISR becomes the first original replica.

    Raises:
        ValueError: every replica was added.
    """
    replicas = original_replicas(partition)
    if not replicas:
        raise ValueError("addingReplicas contains all replicas.")
    isr = tuple(one for one in partition.isr if one not in partition.adding_replicas)
    return Reverted(replicas, isr or replicas[:1], unclean=not isr)


def _interval_ms(_config: ControllerConfig) -> int:
    return CHECK_INTERVAL_MS


def _complete(
    image: Image, config: ControllerConfig, key: PartitionKey, _now_ms: int
) -> Sequence[Record]:
    partition = image.partition(*key)
    if partition is None or not is_ready(partition):
        return ()
    record = partition_change(image, config, key).build()
    return () if record is None else (record,)


READY_REASSIGNMENTS = Sweep(
    name="reassignments that are ready",
    interval_ms=_interval_ms,
    candidates=lambda _image, index: index.reassigning,
    visit=_complete,
    urgency=Urgency.URGENT,
)
