"""Log directory ids of replicas (KIP-858).

Source: DirectoryId and ClusterControlManager.defaultDir, Kafka 3.9.
"""

from __future__ import annotations

from emulator.metadata.brokers import Broker
from emulator.metadata.image import Image
from emulator.metadata.topics import LOST, MIGRATING, UNASSIGNED, Partition


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
