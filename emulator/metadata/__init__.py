"""metadata: the cluster's metadata as one immutable image, and how records change it.

Depends on records only, not on the log, ZooKeeper or requests.
"""

from emulator.metadata.brokers import Broker, Endpoint
from emulator.metadata.controllers import ControllerRegistration
from emulator.metadata.delta import Delta, Touched, touch
from emulator.metadata.errors import ReplayError
from emulator.metadata.history import History
from emulator.metadata.image import EMPTY, Image
from emulator.metadata.metadata_version import Feature, MetadataVersion
from emulator.metadata.migration_state import MigrationState
from emulator.metadata.pmap import PMap
from emulator.metadata.producer_ids import ProducerIds
from emulator.metadata.replay import replay
from emulator.metadata.snapshot import from_records, to_records
from emulator.metadata.topics import Partition, Topic

__all__ = [
    "EMPTY",
    "Broker",
    "ControllerRegistration",
    "Delta",
    "Endpoint",
    "Feature",
    "History",
    "Image",
    "MetadataVersion",
    "MigrationState",
    "PMap",
    "Partition",
    "ProducerIds",
    "ReplayError",
    "Topic",
    "Touched",
    "from_records",
    "replay",
    "to_records",
    "touch",
]
