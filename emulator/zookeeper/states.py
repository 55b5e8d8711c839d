"""The states of the ZooKeeper client: seen from outside, from inside, and its own requests."""

from __future__ import annotations

from enum import Enum, auto


class ZkState(Enum):
    """What the client is doing, as its owner sees it."""

    CONNECTING = auto()
    CONNECTED = auto()
    FENCING = auto()
    CLOSING = auto()
    CLOSED = auto()


class Phase(Enum):
    """What the client is doing, as itself sees it."""

    IDLE = auto()  # between attempts
    DIALLING = auto()  # TCP connect under way
    HANDSHAKE = auto()  # connect request sent
    OPENING = auto()  # handshaken: login, then what ``opening`` does
    READY = auto()
    CLOSING = auto()
    CLOSED = auto()


class Step(Enum):
    """Tags of the requests the client makes for itself."""

    SASL = auto()
    ADD_AUTH = auto()
    CLOSE_OLD = auto()
    CLOSE = auto()
    SYNC = auto()
    CHROOT_EXISTS = auto()
    CHROOT_CREATE = auto()
