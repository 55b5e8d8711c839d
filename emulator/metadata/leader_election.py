"""How one partition changes: its leader, its ISR, the end of its reassignment.

Pure: the input is a partition and its wanted state, the output at most one PartitionChangeRecord.
The partition epoch rises with every record, the leader epoch with every record that names a leader.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import Enum, auto

import msgspec

from emulator.metadata.image import Image
from emulator.metadata.metadata_version import Feature, MetadataVersion
from emulator.metadata.topics import (
    MIGRATING,
    NO_LEADER,
    NO_LEADER_CHANGE,
    NO_RECOVERY_CHANGE,
    RECOVERING,
    Partition,
)
from wire import records as r


class Election(Enum):
    """Who may be elected: the preferred replica, any ISR member, or any live replica (unclean).

    PREFERRED falls back to the ISR, never to other replicas, even if the topic allows that.
    """

    PREFERRED = auto()
    ONLINE = auto()
    UNCLEAN = auto()


def is_active(image: Image, broker_id: int) -> bool:
    """Whether a broker may lead: registered, unfenced and not in controlled shutdown."""
    broker = image.brokers.get(broker_id)
    return broker is not None and broker.active


def keeps_leader_epoch(metadata_version: MetadataVersion, *, migrating: bool) -> bool:
    """Whether a leader keeps its epoch when its ISR shrinks (KAFKA-15021).

    Not below metadata.version 3.6-IV0, nor while ZooKeeper-mode brokers may be registered, which
    compare leader epochs only.
    """
    return not migrating and metadata_version.supports(Feature.ISR_SHRINK_KEEPS_LEADER_EPOCH)


class PartitionChange(msgspec.Struct):
    """Builder of one PartitionChangeRecord; fields that are not set keep the partition's values.

    ``migrating``: ZooKeeper-mode brokers may be registered.
    ``unclean_allowed`` is called when no member of the ISR can lead and no election type was
    requested. ``default_directory`` gives the directory of a new replica; ``target_directories``
    are the directories that brokers reported.

    Source: PartitionChangeBuilder and PartitionReassignmentReplicas, Kafka 3.9.
    """

    topic_id: bytes
    partition_id: int
    partition: Partition
    may_lead: Callable[[int], bool]
    metadata_version: MetadataVersion
    migrating: bool = False
    election: Election = Election.ONLINE
    unclean_allowed: Callable[[], bool] = lambda: False
    target_isr: tuple[int, ...] | None = None
    target_replicas: tuple[int, ...] | None = None
    target_adding: tuple[int, ...] | None = None
    target_removing: tuple[int, ...] | None = None
    target_recovery_state: int | None = None
    target_directories: Mapping[int, bytes] = msgspec.field(default_factory=dict)
    default_directory: Callable[[int], bytes] = lambda _replica: MIGRATING

    def build(self) -> r.PartitionChangeRecord | None:
        """The record that produces the wanted state; None if nothing would change."""
        was = self.partition
        isr, replicas, adding, removing = self._reassigned()
        leader, unclean = self._elect(isr, replicas)
        new_isr: tuple[int, ...] | None = None
        recovery_state = NO_RECOVERY_CHANGE
        new_leader = NO_LEADER_CHANGE if leader == was.leader else leader
        if new_leader >= 0 and unclean:
            new_isr = (leader,)
            if was.leader_recovery_state != RECOVERING and self.metadata_version.supports(
                Feature.LEADER_RECOVERY_STATE
            ):
                recovery_state = RECOVERING
        elif isr and isr != was.isr:
            # An empty ISR would leave no replica with all records: the last member stays.
            new_isr = isr
        if new_leader == NO_LEADER_CHANGE and (
            (replicas != was.replicas and not set(was.replicas) <= set(replicas))
            or self._shrinks(new_isr)
            or self._grows_unheard(replicas)
        ):
            new_leader = was.leader
        wanted = self.target_recovery_state
        if wanted is not None and wanted != was.leader_recovery_state:
            recovery_state = wanted
        record = r.PartitionChangeRecord(
            partition_id=self.partition_id,
            topic_id=self.topic_id,
            isr=new_isr,
            leader=new_leader,
            replicas=replicas if replicas and replicas != was.replicas else None,
            removing_replicas=removing if removing != was.removing_replicas else None,
            adding_replicas=adding if adding != was.adding_replicas else None,
            leader_recovery_state=recovery_state,
            directories=self._directories(replicas),
        )
        empty = r.PartitionChangeRecord(partition_id=self.partition_id, topic_id=self.topic_id)
        return None if record == empty else record

    def _reassigned(self) -> tuple[tuple[int, ...], ...]:
        """(isr, replicas, adding, removing) after completing a reassignment that is ready."""
        was = self.partition
        isr = was.isr if self.target_isr is None else self.target_isr
        replicas = was.replicas if self.target_replicas is None else self.target_replicas
        adding = was.adding_replicas if self.target_adding is None else self.target_adding
        removing = was.removing_replicas if self.target_removing is None else self.target_removing
        if adding or removing:
            kept = tuple(replica for replica in replicas if replica not in removing)
            kept_isr = tuple(replica for replica in isr if replica not in removing)
            if kept and kept_isr and set(kept) <= set(kept_isr):
                return kept_isr, kept, (), ()
        return isr, replicas, adding, removing

    def _elect(self, isr: tuple[int, ...], replicas: tuple[int, ...]) -> tuple[int, bool]:
        """(leader, elected from outside the ISR)."""

        def valid(replica: int) -> bool:
            return replica in isr and self.may_lead(replica)

        if self.election is Election.PREFERRED and replicas and valid(replicas[0]):
            return replicas[0], False
        if valid(self.partition.leader):
            return self.partition.leader, False
        for replica in replicas:
            if valid(replica):
                return replica, False
        unclean = self.election is Election.UNCLEAN
        if unclean or (self.election is Election.ONLINE and self.unclean_allowed()):
            for replica in replicas:
                if self.may_lead(replica):
                    return replica, True
        return NO_LEADER, False

    def _shrinks(self, new_isr: tuple[int, ...] | None) -> bool:
        if new_isr is None or set(self.partition.isr) <= set(new_isr):
            return False
        return not keeps_leader_epoch(self.metadata_version, migrating=self.migrating)

    def _grows_unheard(self, replicas: tuple[int, ...]) -> bool:
        """Whether a leader of Kafka 3.4 or 3.5 needs a higher epoch to learn of a new replica.

        In ZooKeeper mode they ignore a LeaderAndIsr with the leader epoch they already have, and so
        the new replica never gets into the ISR. A ZooKeeper-mode controller raises the epoch here.
        Kafka's KRaft controller does not, and such a reassignment never ends.
        """
        if not self.migrating or set(replicas) <= set(self.partition.replicas):
            return False
        return not self.metadata_version.supports(Feature.ISR_SHRINK_KEEPS_LEADER_EPOCH)

    def _directories(self, replicas: tuple[int, ...]) -> tuple[bytes, ...] | None:
        was = self.partition
        if replicas == was.replicas and not self.target_directories:
            return None
        if not replicas or not self.metadata_version.supports(Feature.DIRECTORIES):
            return None
        known_directories = was.directories or (MIGRATING,) * len(was.replicas)
        known = dict(zip(was.replicas, known_directories, strict=True))
        known.update(self.target_directories)
        wanted = tuple(
            known[replica] if replica in known else self.default_directory(replica)
            for replica in replicas
        )
        return None if wanted == known_directories else wanted
