"""Moving the replicas of a partition to other brokers: how it begins and how it is taken back.

How it ends is a matter of the ISR, see ``leader_election.PartitionChange``. One that could end when
it was copied from ZooKeeper may wait for ever for a change of the ISR, so it is looked after.

Source: KIP-455; PartitionReassignmentReplicas and PartitionReassignmentRevert, Kafka 3.9.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from emulator.controller.broker_changes import partition_change
from emulator.controller.context import ControllerConfig
from emulator.controller.index import PartitionKey
from emulator.controller.periodic import Sweep
from emulator.controller.result import Record
from emulator.controller.urgency import Urgency
from emulator.metadata.image import Image
from emulator.metadata.topics import Partition

CHECK_INTERVAL_MS: Final = 30_000


@dataclass(frozen=True, slots=True)
class Begun:
    """A partition on its way: all replicas, wanted ones first, and which come and go."""

    replicas: tuple[int, ...]
    adding: tuple[int, ...]
    removing: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Reverted:
    """A partition back where it was. ``unclean``: no member of its ISR was there before."""

    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    unclean: bool


def in_progress(partition: Partition) -> bool:
    """Whether replicas of the partition come or go."""
    return bool(partition.adding_replicas or partition.removing_replicas)


def is_ready(partition: Partition) -> bool:
    """Whether a reassignment could complete: all replicas that stay are in sync."""
    stays = set(partition.replicas) - set(partition.removing_replicas)
    return in_progress(partition) and bool(stays) and stays <= set(partition.isr)


def original_replicas(partition: Partition) -> tuple[int, ...]:
    """The replicas before the reassignment in progress, or those there are."""
    return tuple(one for one in partition.replicas if one not in partition.adding_replicas)


def begin(partition: Partition, target: Sequence[int]) -> Begun:
    """Where to begin to reach ``target``, which lists distinct brokers, preferred leader first.

    A reassignment in progress is replaced. What it added stays marked as added even if it is to go
    again, so that the first state can still be returned to. Kafka keeps the older one's removals if
    the newer one has none, and so drops replicas that were asked for last.

    >>> moving = Partition((3, 1), (1,), 1, 0, 0, adding_replicas=(3,), removing_replicas=(1,))
    >>> begin(moving, (2, 3)).adding, begin(moving, (2, 3)).removing
    ((2, 3), (1,))
    """
    original = original_replicas(partition)
    removing = tuple(sorted(set(partition.replicas) - set(target)))
    replicas = (*target, *removing)
    return Begun(replicas, tuple(sorted(set(replicas) - set(original))), removing)


def revert(partition: Partition) -> Reverted:
    """What cancelling leads to: added replicas go, those to be removed stay.

    If only added ones are in sync, the first old one is taken in their place.

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
