"""``/controller`` and ``/controller_epoch``: the active controller, and the fencing epoch.

Source: kafka.zk.{ControllerZNode,ControllerEpochZNode}, Kafka 3.9. Version 2 carries the KRaft
epoch, -1 when a ZooKeeper-mode broker is the controller; an ``isKRaft`` of the older draft is
tolerated and never written.
"""

from __future__ import annotations

from typing import Final

import msgspec

from emulator.config.java_text import whole
from emulator.znodes import znode_json
from emulator.znodes.tree import ZnodeError

PATH: Final = "/controller"
EPOCH_PATH: Final = "/controller_epoch"
NO_KRAFT_EPOCH: Final = -1
EPOCH_MAX: Final = 2**31 - 1
"""Of ``/controller_epoch``: brokers and requests have 32 bits for it."""


class ControllerZnode(msgspec.Struct, frozen=True):
    """Who holds ``/controller``. ``kraft_epoch`` -1: a broker in ZooKeeper mode."""

    broker_id: int
    kraft_epoch: int
    timestamp_ms: int = 0


class _ControllerJson(msgspec.Struct):
    brokerid: int
    version: int = 2
    timestamp: str = "0"
    kraftControllerEpoch: int = NO_KRAFT_EPOCH  # noqa: N815  # the key in the JSON


def parse(data: bytes | None) -> ControllerZnode:
    """Read ``/controller``, of version 1 or 2.

    Raises:
        ZnodeError: malformed.
    """
    found = znode_json.decode(PATH, data, _ControllerJson)
    try:
        timestamp_ms = whole(found.timestamp)
    except ValueError as error:
        raise ZnodeError(PATH, str(error)) from error
    return ControllerZnode(found.brokerid, found.kraftControllerEpoch, timestamp_ms)


def try_parse(data: bytes | None) -> ControllerZnode | None:
    """Read ``/controller``; None when it is malformed."""
    try:
        return parse(data)
    except ZnodeError:
        return None


def encode(node_id: int, kraft_epoch: int, now_ms: int) -> bytes:
    """Render ``/controller`` for a KRaft controller.

    >>> encode(3000, 5, 1)
    b'{"version":2,"brokerid":3000,"timestamp":"1","kraftControllerEpoch":5}'
    """
    fields = {"version": 2, "brokerid": node_id, "timestamp": str(now_ms)}
    return znode_json.encode({**fields, "kraftControllerEpoch": kraft_epoch})


def parse_epoch(data: bytes | None) -> int:
    """Read ``/controller_epoch``: a number as text, which a claim can still raise.

    Raises:
        ZnodeError: anything else.
    """
    try:
        epoch = whole((data or b"").decode("ascii"))
    except ValueError as error:
        raise ZnodeError(EPOCH_PATH, f"{data!r} is no epoch") from error
    if epoch >= EPOCH_MAX:
        raise ZnodeError(EPOCH_PATH, f"{epoch} leaves no room for another epoch")
    return epoch


def encode_epoch(epoch: int) -> bytes:
    """Render ``/controller_epoch``."""
    return str(epoch).encode()
