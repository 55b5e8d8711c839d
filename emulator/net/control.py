"""Control requests, which a controller sends to ZooKeeper-mode brokers.

Source: AbstractControlRequest, ControllerChannelManager, Kafka 3.9.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from wire import messages as m

TYPE_UNKNOWN: Final = 0
TYPE_INCREMENTAL: Final = 1
TYPE_FULL: Final = 2
"""``type`` of LeaderAndIsr and UpdateMetadata (AbstractControlRequest.Type)."""

ControlRequest = m.LeaderAndIsrRequest | m.UpdateMetadataRequest | m.StopReplicaRequest
ControlResponse = m.LeaderAndIsrResponse | m.UpdateMetadataResponse | m.StopReplicaResponse

VERSIONS: Final[Mapping[type, int]] = {
    m.LeaderAndIsrRequest: 7,
    m.StopReplicaRequest: 4,
    m.UpdateMetadataRequest: 8,
}
"""The versions a controller at metadata.version 8 (3.4-IV0) and above sends (V04)."""
