"""Log directory ids of replicas (KIP-858).

Source: DirectoryId and ClusterControlManager.defaultDir, Kafka 3.9.
"""

from __future__ import annotations

from emulator.metadata.brokers import Broker
from emulator.metadata.image import Image
from emulator.metadata.topics import LOST, MIGRATING, UNASSIGNED, Partition


def default_directory(image: Image, broker_id: int) -> bytes:
    """Where a new replica will live as far as the controller can tell.

    MIGRATING if the broker registered no directory, its directory if it has just one, else
    UNASSIGNED until the broker says which.
    """
    return directory_on(image.brokers.get(broker_id))


def directory_on(broker: Broker | None) -> bytes:
    """What :func:`default_directory` says, for a broker already looked up."""
    if broker is None or not broker.log_dirs:
        return MIGRATING
    return broker.log_dirs[0] if len(broker.log_dirs) == 1 else UNASSIGNED


def is_online(broker: Broker | None, directory: bytes) -> bool:
    """Whether a replica in that directory of a broker can be served.

    What the controller cannot know counts as online: a broker that registered no directories, a
    replica that was assigned to none.

    Source: DirectoryId.isOnline, Kafka 3.9.
    """
    if directory in {MIGRATING, UNASSIGNED} or broker is None:
        return True
    return directory != LOST and (not broker.log_dirs or directory in broker.log_dirs)


def replica_online(image: Image, partition: Partition, broker_id: int) -> bool:
    """Whether the directory of a replica is online; a replica to come has none that is not."""
    if broker_id not in partition.replicas or not partition.directories:
        return True
    return is_online(image.brokers.get(broker_id), partition.directory(broker_id))
