"""FindCoordinator (10): the broker that leads a group's or a transaction's partition.

KIP-699 (v4: several keys), KIP-890 (v5). Kafka: KafkaApis.getCoordinator (3.9).

INVALID_REQUEST for everything if the type is unknown. Per key, in order: GROUP_AUTHORIZATION_FAILED
or TRANSACTIONAL_ID_AUTHORIZATION_FAILED without DESCRIBE on it; for share groups, which no broker
coordinates yet, INVALID_REQUEST (below v6), CLUSTER_AUTHORIZATION_FAILED without CLUSTER_ACTION,
then COORDINATOR_NOT_AVAILABLE; COORDINATOR_NOT_AVAILABLE while the internal topic is being created
or its partition has no leader that is alive. The topic is created by the controller, which this
broker asks for itself.
"""

from __future__ import annotations

import sys
from array import array
from operator import mul
from typing import Final, NamedTuple

from emulator.broker.api.metadata import OFFSETS, TRANSACTIONS, creatable
from emulator.broker.cluster import KnownCluster, KnownNode
from emulator.broker.registry import Answer, Asked, serves
from emulator.broker.serving.in_parts import Division, Pieces, runs
from emulator.broker.serving.reading import BrokerReading, reading
from emulator.metadata.acls import Operation, ResourceType
from wire import messages as m
from wire.errors import ErrorCode
from wire.schema import replace

Response = m.FindCoordinatorResponse
GROUP: Final = 0
TRANSACTION: Final = 1
SHARE: Final = 2
BATCHES_SINCE: Final = 4
SHARES_SINCE: Final = 6
NO_NODE: Final = KnownNode(-1, "", -1, None)
HASH_MASK: Final = 2**32 - 1
KEYS_IN_PART: Final = 500
TEXTS_IN_PART: Final = 20
"""A key takes two bytes of a request, the text of its error up to 180 of the answer."""
_BLOCK: Final = 1_024
_SHIFTS: Final = tuple(pow(31, count, 2**32) for count in range(_BLOCK + 1))
"""Powers of 31; a block of units is hashed at once, as keys may have megabytes."""
_POWERS: Final = _SHIFTS[_BLOCK - 1 :: -1]
_TEXTS: Final = {
    ErrorCode.NONE: "NONE",
    ErrorCode.COORDINATOR_NOT_AVAILABLE: "The coordinator is not available.",
    ErrorCode.GROUP_AUTHORIZATION_FAILED: "Group authorization failed.",
    ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED: "Transactional Id authorization failed.",
    ErrorCode.INVALID_REQUEST: (
        "This most likely occurs because of a request being malformed by the client library or the "
        "message was sent to an incompatible broker. See the broker logs for more details."
    ),
}


class _Found(NamedTuple):
    code: ErrorCode
    node: KnownNode = NO_NODE
    missing: str | None = None
    """An internal topic that does not exist yet."""


def refused(
    request: m.FindCoordinatorRequest, code: ErrorCode, text: str | None
) -> m.FindCoordinatorResponse:
    """The response with the error, for each key if there are keys."""
    if request.coordinator_keys:
        found = [_coordinator(key, _Found(code)) for key in request.coordinator_keys]
        for one in found[:TEXTS_IN_PART]:
            one.error_message = _TEXTS.get(code, text)
        return Response(coordinators=found)
    why = _TEXTS.get(code, text)
    return Response(error_code=code, error_message=why, node_id=NO_NODE.id, port=NO_NODE.port)


def _pieces(request: m.FindCoordinatorRequest, version: int) -> Pieces | None:
    keys = request.coordinator_keys
    if version < BATCHES_SINCE or len(keys) <= KEYS_IN_PART:
        return None
    return (replace(request, coordinator_keys=tuple(run)) for run in runs(keys, KEYS_IN_PART, str))


@serves(
    m.FindCoordinatorRequest,
    refused=refused,
    division=Division(_pieces, "coordinators"),
)
def find_coordinator(
    cluster: KnownCluster, request: m.FindCoordinatorRequest, asked: Asked
) -> Answer:
    """Find the coordinator of each key."""
    batch = asked.api_version >= BATCHES_SINCE
    if batch and not request.coordinator_keys:
        # There is no place for an error without a key.
        return Answer(Response())
    if request.key_type not in {GROUP, TRANSACTION, SHARE}:
        return Answer(refused(request, ErrorCode.INVALID_REQUEST, None))
    caller = reading(cluster, request, asked)
    keys = request.coordinator_keys if batch else (request.key,)
    found = [(key, _find(cluster, request.key_type, key, caller)) for key in keys]
    missing = dict.fromkeys(one.missing for _, one in found if one.missing is not None)
    create = tuple(creatable(asked.config, name) for name in missing)
    if batch:
        response = Response(coordinators=[_coordinator(key, one) for key, one in found])
        return Answer(response, create, as_broker=True)
    ((_, only),) = found
    response = Response(
        error_code=only.code,
        error_message=_TEXTS.get(only.code, only.code.name),
        node_id=only.node.id,
        host=only.node.host,
        port=only.node.port,
    )
    return Answer(response, create, as_broker=True)


def partition_for(key: str, partitions: int) -> int:
    """The partition of an internal topic that holds a group or a transactional id.

    >>> partition_for("my-group", 50), partition_for("polygenelubricants", 50)
    (12, 0)
    """
    units = array("H", key.encode("utf-16-le", "surrogatepass"))
    if sys.byteorder == "big":
        units.byteswap()
    hashed = 0
    for at in range(0, len(units), _BLOCK):
        block = units[at : at + _BLOCK]
        powers = _POWERS[-len(block) :]
        hashed = (hashed * _SHIFTS[len(block)] + sum(map(mul, block, powers))) & HASH_MASK
    signed = hashed - (hashed >> 31 << 32)
    positive = 0 if signed == -(2**31) else abs(signed)
    return positive % partitions


def _find(cluster: KnownCluster, kind: int, key: str, caller: BrokerReading) -> _Found:
    describe = Operation.DESCRIBE
    if kind == GROUP and not caller.may(describe, ResourceType.GROUP, key):
        return _Found(ErrorCode.GROUP_AUTHORIZATION_FAILED)
    if kind == TRANSACTION and not caller.may(describe, ResourceType.TRANSACTIONAL_ID, key):
        return _Found(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
    if kind == SHARE:
        known = caller.api_version >= SHARES_SINCE
        if known and not caller.may_on_cluster(Operation.CLUSTER_ACTION):
            return _Found(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
        return _Found(ErrorCode.COORDINATOR_NOT_AVAILABLE if known else ErrorCode.INVALID_REQUEST)
    name = OFFSETS if kind == GROUP else TRANSACTIONS
    topic = cluster.topic(name)
    if topic is None:
        return _Found(ErrorCode.COORDINATOR_NOT_AVAILABLE, missing=name)
    partition = topic.partitions.get(partition_for(key, max(1, len(topic.partitions))))
    listener = caller.call.listener
    if partition is None or not cluster.online(partition.leader, listener):
        return _Found(ErrorCode.COORDINATOR_NOT_AVAILABLE)
    node = cluster.node(partition.leader, listener)
    if node is None:
        return _Found(ErrorCode.COORDINATOR_NOT_AVAILABLE)
    return _Found(ErrorCode.NONE, node)


def _coordinator(key: str, found: _Found) -> m.FindCoordinatorResponse.Coordinator:
    return Response.Coordinator(
        key=key,
        node_id=found.node.id,
        host=found.node.host,
        port=found.node.port,
        error_code=found.code,
    )
