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
Question = m.MetadataRequest
"""What a controller may ask such a broker, on the same connection."""
Told = ControlRequest | Question
ControlResponse = m.LeaderAndIsrResponse | m.UpdateMetadataResponse | m.StopReplicaResponse

VERSIONS: Final[Mapping[type, int]] = {
    m.LeaderAndIsrRequest: 7,
    m.StopReplicaRequest: 4,
    m.UpdateMetadataRequest: 8,
    m.MetadataRequest: 12,
}
"""The versions a controller at metadata.version 8 (3.4-IV0) and above sends (V04); of Metadata the
newest that a broker of 3.4 speaks."""

EPOCH_BYTES: Final = 8
_EPOCH_AT: Final[Mapping[int, tuple[tuple[int, int], ...]]] = {
    4: ((7, 9), (2, 8)),
    5: ((4, 9), (1, 8)),
    6: ((8, 9), (5, 8)),
}
"""API key -> first version and where the body then holds the broker epoch, the newest first:
behind the controller's id and epoch, and whether it is a KRaft controller."""


def broker_epoch_at(api_key: int, api_version: int) -> int | None:
    """Where the body of a request holds the broker epoch; None: it holds none, or is no such."""
    for first, at in _EPOCH_AT.get(api_key, ()):
        if api_version >= first:
            return at
    return None


def api_of(request: Told) -> str:
    """The name of a request's API."""
    return type(request).__name__.removesuffix("Request")


def names_the_same(one: ControlRequest, other: ControlRequest) -> bool:
    """Whether both name the same topics, brokers and leaders: the same objects, not equal ones."""
    if type(one) is not type(other) or one.topic_states is not other.topic_states:
        return False
    match one, other:
        case m.UpdateMetadataRequest(), m.UpdateMetadataRequest():
            return one.live_brokers is other.live_brokers
        case m.LeaderAndIsrRequest(), m.LeaderAndIsrRequest():
            return one.live_leaders is other.live_leaders
        case _:
            return True
