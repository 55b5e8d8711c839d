"""Log directory ids of replicas (KIP-858).

Source: DirectoryId and ClusterControlManager.defaultDir, Kafka 3.9.
"""

from __future__ import annotations

from emulator.metadata.brokers import Broker
from emulator.metadata.image import Image
from emulator.metadata.topics import MIGRATING, UNASSIGNED


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
