"""The instruction to the operator for a znode that ZooKeeper refuses, as one sentence."""

from __future__ import annotations

from typing import Final

SUBTREES: Final = (
    ("/brokers/topics/", "topic"),
    ("/config/topics/", "config of topic"),
    ("/config/brokers/", "config of broker"),
    ("/config/users/", "quotas and SCRAM credentials of user"),
    ("/config/clients/", "quotas of client id"),
    ("/config/ips/", "quotas of ip"),
    ("/kafka-acl", "access control entries of resource"),
    ("/delegation_token/tokens/", "delegation token"),
)
"""Prefix of a path -> what the znode holds; the name follows the prefix, up to the next slash."""
SKIP: Final = (
    "or restart with kraftbridge.zk.write.behind.poison=skip, which leaves the znode as it is"
)
TRIES: Final = "it is tried again within 30 s"
TRIES_SKIPPED: Final = "one skipped znode is tried again every 15 minutes, and all at each start"


def remedy(path: str, *, forbidden: bool, skippable: bool, skipped: bool = False) -> str:
    """The instruction for one znode.

    Args:
        path: of the znode.
        forbidden: the cause is a right that we lack.
        skippable: it may be left as it is.
        skipped: it was left as it is.

    >>> remedy("/config/topics/t", forbidden=False, skippable=False)
    'delete what the znode holds (config of topic t): deletions are still accepted'
    """
    if forbidden:
        then = TRIES_SKIPPED if skipped else TRIES
        text = f"give the controller the permission that it lacks; {then}"
    else:
        what = f"delete what the znode holds ({_what(path)})"
        text = f"{what}: deletions are still accepted"
    return f"{text}; {SKIP}" if skippable else text


def _what(path: str) -> str:
    for prefix, what in SUBTREES:
        if path.startswith(prefix):
            rest = path.removeprefix(prefix)
            name = rest.rpartition("/")[2] if prefix == "/kafka-acl" else rest.partition("/")[0]
            return f"{what} {name}"
    return path
