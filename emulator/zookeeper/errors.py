"""ZooKeeper's result codes by name.

Source: org.apache.zookeeper.KeeperException.Code, ZooKeeper 3.9.5.
"""

from __future__ import annotations

from enum import IntEnum


class ZkCode(IntEnum):
    """Result code of a reply header or of one op of a multi."""

    OK = 0
    SYSTEM_ERROR = -1
    RUNTIME_INCONSISTENCY = -2
    DATA_INCONSISTENCY = -3
    CONNECTION_LOSS = -4
    MARSHALLING_ERROR = -5
    UNIMPLEMENTED = -6
    OPERATION_TIMEOUT = -7
    BAD_ARGUMENTS = -8
    NEW_CONFIG_NO_QUORUM = -13
    RECONFIG_IN_PROGRESS = -14
    UNKNOWN_SESSION = -12
    API_ERROR = -100
    NO_NODE = -101
    NO_AUTH = -102
    BAD_VERSION = -103
    NO_CHILDREN_FOR_EPHEMERALS = -108
    NODE_EXISTS = -110
    NOT_EMPTY = -111
    SESSION_EXPIRED = -112
    INVALID_CALLBACK = -113
    INVALID_ACL = -114
    AUTH_FAILED = -115
    SESSION_MOVED = -118
    NOT_READ_ONLY = -119
    EPHEMERAL_ON_LOCAL_SESSION = -120
    NO_WATCHER = -121
    REQUEST_TIMEOUT = -122
    RECONFIG_DISABLED = -123
    SESSION_CLOSED_REQUIRE_AUTH = -124
    QUOTA_EXCEEDED = -125
    THROTTLED_OP = -127


SESSION_GONE = frozenset(
    {
        ZkCode.SESSION_EXPIRED,
        ZkCode.SESSION_MOVED,
        ZkCode.UNKNOWN_SESSION,
        ZkCode.CONNECTION_LOSS,
        ZkCode.SESSION_CLOSED_REQUIRE_AUTH,
    }
)
"""Codes after which requests in flight on this connection are in doubt."""


def code_name(code: int) -> str:
    """Name a result code; an unknown one keeps its number.

    >>> code_name(-103)
    'BAD_VERSION'
    >>> code_name(-999)
    'ZooKeeper error -999'
    """
    try:
        return ZkCode(code).name
    except ValueError:
        return f"ZooKeeper error {code}"
