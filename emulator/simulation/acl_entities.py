"""What ZooKeeper should hold of access control entries, implemented a second time.

As ``tree_check``, of which it is a part, it shares nothing with the product but Kafka's formats.
"""

from __future__ import annotations

import json
from typing import Any, Final

from emulator.simulation.facts import Facts

TYPES: Final = ("Topic", "Group", "Cluster", "TransactionalId", "DelegationToken", "User")
"""The names of ACL resource types; the first has Kafka's number 2."""
PLACES: Final = {3: "/kafka-acl", 4: "/kafka-acl-extended/prefixed"}
OPERATIONS: Final = dict(
    enumerate(
        (
            "All",
            "Read",
            "Write",
            "Create",
            "Delete",
            "Alter",
            "Describe",
            "ClusterAction",
            "DescribeConfigs",
            "AlterConfigs",
            "IdempotentWrite",
        ),
        start=2,
    )
)
PERMISSIONS: Final = {2: "Deny", 3: "Allow"}
Meaning = tuple[Any, ...]
_FOLDERS: Final = tuple(f"{place}/{kind}/" for place in PLACES.values() for kind in TYPES)


def covered(path: str) -> bool:
    """Whether a path is a resource's."""
    return path.startswith(_FOLDERS)


def expected(facts: Facts) -> dict[str, Meaning]:
    """Every resource that has entries, by path."""
    found: dict[str, set[tuple[str, ...]]] = {}
    for acl in facts.acls.values():
        kind = TYPES[acl.resource_type - 2]
        path = f"{PLACES[acl.pattern_type]}/{kind}/{acl.resource_name}"
        entry = (
            acl.principal,
            acl.host,
            OPERATIONS[acl.operation],
            PERMISSIONS[acl.permission],
        )
        found.setdefault(path, set()).add(entry)
    return {path: tuple(sorted(entries)) for path, entries in found.items()}


def meaning(data: bytes | None) -> Meaning:
    """What a broker understands of a resource's znode.

    Raises:
        ValueError, KeyError, TypeError: malformed.
    """
    entries = json.loads(data)["acls"] if data else []
    keys = ("principal", "host", "operation", "permissionType")
    return tuple(sorted({tuple(entry[key] for key in keys) for entry in entries}))
