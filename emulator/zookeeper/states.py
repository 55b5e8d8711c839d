"""The states of the ZooKeeper client: for its owner, internal, and its own requests."""

from __future__ import annotations

from enum import Enum, auto


class ZkState(Enum):
    """State of the client for its owner."""

    CONNECTING = auto()
    CONNECTED = auto()
    FENCING = auto()
    CLOSING = auto()
    CLOSED = auto()


class Phase(Enum):
    """Internal state of the client."""

    IDLE = auto()  # between attempts
    DIALLING = auto()  # TCP connect under way
    HANDSHAKE = auto()  # connect request sent
    OPENING = auto()  # after the handshake: the requests of ``opening``
    READY = auto()
    CLOSING = auto()
    CLOSED = auto()


class Step(Enum):
    """Tags of the client's own requests."""

    SASL = auto()
    ADD_AUTH = auto()
    CLOSE_OLD = auto()
    CLOSE = auto()
    SYNC = auto()
    CHROOT_EXISTS = auto()
    CHROOT_CREATE = auto()
