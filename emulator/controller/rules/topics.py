"""What topic APIs share: names, manual assignments, and the records of new partitions."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Final

from emulator.controller.registry import TOUCHED_MAX
from emulator.controller.result import ApiError
from emulator.controller.tables.index import collision_key
from emulator.metadata.brokers import Broker, Brokers
from emulator.metadata.image import Image
from emulator.metadata.metadata_version import Feature
from emulator.metadata.topics import LOST, MIGRATING, RECOVERED, UNASSIGNED, Partition
from wire import records as r
from wire.errors import ErrorCode

# Log directory ids of replicas (KIP-858).
#
# Source: DirectoryId and ClusterControlManager.defaultDir, Kafka 3.9.


def default_directory(image: Image, broker_id: int) -> bytes:
    """The directory id for a new replica, as far as the controller knows it.

    MIGRATING if the broker registered no directory, its directory if it has just one, else
    UNASSIGNED until the broker says which.
    """
    return directory_on(image.brokers.get(broker_id))


def directory_on(broker: Broker | None) -> bytes:
    """As :func:`default_directory`, for a broker that was already looked up."""
    if broker is None or not broker.log_dirs:
        return MIGRATING
    return broker.log_dirs[0] if len(broker.log_dirs) == 1 else UNASSIGNED


def is_online(broker: Broker | None, directory: bytes) -> bool:
    """Whether a replica in that directory of a broker can be served.

    Unknown directories count as online: those of a broker that registered none, and of a replica
    that is assigned to none.

    Source: DirectoryId.isOnline, Kafka 3.9.
    """
    if directory in {MIGRATING, UNASSIGNED} or broker is None:
        return True
    return directory != LOST and (not broker.log_dirs or directory in broker.log_dirs)


def replica_online(image: Image, partition: Partition, broker_id: int) -> bool:
    """Whether the directory of a replica is online; True for a replica that does not exist yet."""
    if broker_id not in partition.replicas or not partition.directories:
        return True
    return is_online(image.brokers.get(broker_id), partition.directory(broker_id))


METADATA_TOPIC: Final = "__cluster_metadata"
TOPIC_DENIED: Final = ApiError(ErrorCode.TOPIC_AUTHORIZATION_FAILED, "Topic authorization failed.")
"""Text of TOPIC_AUTHORIZATION_FAILED."""


def whole_topics(image: Image, names: Collection[str]) -> Collection[object] | None:
    """Keys of topics as wholes, for ``Handler.touches``: of their names and of each partition.

    None: too many. A name without a topic may be created.
    """
    keys: list[object] = []
    for name in names:
        topic = image.topic(name)
        numbers = () if topic is None else topic.partitions
        if len(keys) + len(numbers) >= TOUCHED_MAX:
            return None
        keys.append(collision_key(name))
        if topic is not None:
            keys += [(topic.id, number) for number in numbers]
    return keys


LISTS_KEPT: Final = 10_000
"""Replica lists after which what is known of them is found anew."""


def replica_list_error(brokers: Brokers, replicas: Sequence[int]) -> ApiError | None:
    """Why a replica list is invalid for these brokers; None if it is valid.

    Source: ReplicationControlManager.validateManualPartitionAssignment, Kafka 3.9.
    """
    why = None
    if not replicas:
        why = "The manual partition assignment includes an empty replica list."
    before: int | None = None
    for replica in sorted(replicas):
        if replica not in brokers:
            why = (
                f"The manual partition assignment includes broker {replica}, but no such broker "
                "is registered."
            )
        elif replica == before:
            why = f"The manual partition assignment includes the broker {replica} more than once."
        if why is not None:
            break
        before = replica
    return None if why is None else ApiError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, why)


class NewPartitions:
    """Checks replica lists and makes the records of new partitions.

    What depends on the list alone is found once for each list; a large topic has few of them, and
    so have many small ones: see :meth:`of`.

    Args:
        image: has the registered brokers.
    """

    def __init__(self, image: Image) -> None:
        self._brokers = image.brokers
        self._features = image.features
        self._with_directories = image.metadata_version.supports(Feature.DIRECTORIES)
        self._valid: set[tuple[int, ...]] = set()
        """Not those that are refused: callers may name any number of lists, each of any length."""
        self._placed: dict[tuple[int, ...], tuple[tuple[int, ...], tuple[bytes, ...]]] = {}
        """Replicas -> ISR and directories."""

    @classmethod
    def of(cls, image: Image) -> NewPartitions:
        """The one of the last request, as long as brokers and features are the same."""
        # Nodes of one process may be in several threads: what was looked at is returned.
        kept = _KEPT[0] if _KEPT else None
        if kept is None or not kept.serves(image):
            kept = cls(image)
            _KEPT[:] = [kept]
        return kept

    def serves(self, image: Image) -> bool:
        """Whether all that is known here is so in this image too, and is not too much to keep."""
        same = self._brokers is image.brokers and self._features is image.features
        return same and len(self._valid) + len(self._placed) <= LISTS_KEPT

    def error(
        self, partition_id: int, replicas: Sequence[int], replication_factor: int | None
    ) -> ApiError | None:
        """Why the replica list of a new partition is refused; None if it is not.

        Args:
            partition_id: used in the text only.
            replicas: broker ids, preferred leader first.
            replication_factor: that of the earlier partitions, None for the first.

        Source: ReplicationControlManager.validateManualPartitionAssignment, Kafka 3.9.
        """
        key = tuple(replicas)
        if key not in self._valid:
            error = replica_list_error(self._brokers, replicas)
            if error is not None:
                return error
            self._valid.add(key)
        why = None
        if replication_factor is not None and len(replicas) != replication_factor:
            why = (
                f"The manual partition assignment includes a partition with {len(replicas)} "
                "replica(s), but this is not consistent with previous partitions, which have "
                f"{replication_factor} replica(s)."
            )
        elif not self._on(key)[0]:
            why = (
                "All brokers specified in the manual partition assignment for partition "
                f"{partition_id} are fenced or in controlled shutdown."
            )
        return None if why is None else ApiError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, why)

    def record(
        self, topic_id: bytes, partition_id: int, replicas: Sequence[int]
    ) -> r.PartitionRecord | None:
        """A new partition led by its first active replica; None if no replica is active.

        Inactive replicas stay in the assignment and out of the ISR.
        """
        key = tuple(replicas)
        isr, directories = self._on(key)
        if not isr:
            return None
        return r.PartitionRecord(
            partition_id=partition_id,
            topic_id=topic_id,
            replicas=key,
            isr=isr,
            leader=isr[0],
            leader_recovery_state=RECOVERED,
            leader_epoch=0,
            partition_epoch=0,
            directories=directories,
        )

    def _on(self, replicas: tuple[int, ...]) -> tuple[tuple[int, ...], tuple[bytes, ...]]:
        found = self._placed.get(replicas)
        if found is None:
            found = self._placed[replicas] = self._found(replicas)
        return found

    def _found(self, replicas: tuple[int, ...]) -> tuple[tuple[int, ...], tuple[bytes, ...]]:
        brokers = [self._brokers.get(replica) for replica in replicas]
        active = [broker.id for broker in brokers if broker is not None and broker.active]
        if not self._with_directories:
            return tuple(active), ()
        return tuple(active), tuple([directory_on(broker) for broker in brokers])


_KEPT: Final[list[NewPartitions]] = []
"""That of the last request, if there was one."""
