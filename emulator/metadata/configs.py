"""Dynamic configs of topics and brokers, and subscriptions of client metrics.

Source: ConfigRecord; ConfigurationControlManager.replay, Kafka 3.9; ConfigResource.Type.
"""

from __future__ import annotations

from typing import Final, TypeAlias

from emulator.metadata.errors import ReplayError
from emulator.metadata.pmap import PMap
from wire import records as r

TOPIC: Final = 2
BROKER: Final = 4
CLIENT_METRICS: Final = 16
"""Resource types. The broker named ``""`` means all brokers of the cluster. Client metrics
(KIP-714) are in the log only; ZooKeeper has no znode for them."""

Config: TypeAlias = PMap[str, str]
Configs: TypeAlias = PMap[tuple[int, str], Config]

NONE: Final[Config] = PMap()


def alter(configs: Configs, record: r.ConfigRecord) -> Configs:
    """Set one key, or delete it when the value is null. A resource without a key is not kept.

    Raises:
        ReplayError: a resource type other than these.
    """
    if record.resource_type not in (TOPIC, BROKER, CLIENT_METRICS):
        raise ReplayError(f"configs of resource type {record.resource_type} are not supported")
    resource = (record.resource_type, record.resource_name)
    config = configs.get(resource) or NONE
    if record.value is not None:
        return configs.set(resource, config.set(record.name, record.value))
    if record.name not in config:
        return configs
    config = config.delete(record.name)
    return configs.set(resource, config) if config else configs.delete(resource)
