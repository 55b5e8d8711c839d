"""Both stores as plain entities of every class, and their differences; uses none of our code.

Topics, configs and producer ids are `bench.judge.stores`'s; here are the classes with names of
their own: client quotas, SCRAM credentials, ACLs and delegation tokens.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import unquote

from bench.judge import stores as plain

_DEFAULT: Final = "<default>"
_SCRAM: Final = {1: "SCRAM-SHA-256", 2: "SCRAM-SHA-512"}
_RESOURCES: Final = (
    "",
    "",
    "topic",
    "group",
    "cluster",
    "transactionalid",
    "delegationtoken",
    "user",
)
_OPERATIONS: Final = (
    *("", "", "all", "read", "write", "create", "delete", "alter", "describe", "clusteraction"),
    *("describeconfigs", "alterconfigs", "idempotentwrite", "createtokens", "describetokens"),
)
_PERMISSIONS: Final = ("", "", "deny", "allow")
_LITERAL, _PREFIXED = 3, 4
_JUDGED_HERE: Final = ("next producer id", "config users/", "config clients/", "config ips/")
_OF_CLIENTS: Final = ("CLIENT_QUOTA", "USER_SCRAM", "REMOVE_USER_SCRAM")
_TOKEN_TIMES: Final = ("issueTimestamp", "maxTimestamp")

Entity = tuple[str, ...]


@dataclass(slots=True)
class Stores:
    """The entities of one store."""

    plain: plain.Entities
    others: dict[Entity, Any] = field(default_factory=dict)
    """(class, name …) -> value; nothing for an entity that is there but empty."""
    last_change: int = -1
    """Of a log: offset of the last record that is not a NoOp."""

    def of(self, kind: str) -> dict[Entity, Any]:
        """The entities of a class: ``quota``, ``scram``, ``acl`` or ``token``."""
        return {key: value for key, value in self.others.items() if key[0] == kind}


def read_log(records: Iterable[Mapping[str, Any]]) -> Stores:
    """Replay what ``kafka-dump-log`` printed."""
    known = list(records)
    # Kafka 3.4.1 writes quotas of a "users" and a "clients", which only this code distinguishes.
    others = [one for one in known if not one["type"].startswith(_OF_CLIENTS)]
    found = Stores(plain.from_log(others))
    acl_of: dict[str, tuple[Entity, Entity]] = {}
    saved: tuple[dict[Entity, Any], dict[str, tuple[Entity, Entity]]] | None = None
    for record in known:
        if record["type"] != "NO_OP_RECORD":
            found.last_change = record["offset"]
        match record["type"]:
            case "BEGIN_TRANSACTION_RECORD":
                saved = copy.deepcopy((found.others, acl_of))
            case "ABORT_TRANSACTION_RECORD" if saved is not None:
                (found.others, acl_of), saved = saved, None
            case _:
                _replay(found.others, acl_of, record["type"], record["data"])
    return found


def _replay(
    others: dict[Entity, Any],
    acl_of: dict[str, tuple[Entity, Entity]],
    kind: str,
    data: Mapping[str, Any],
) -> None:
    match kind:
        case "CLIENT_QUOTA_RECORD":
            _quota(others, data)
        case "USER_SCRAM_CREDENTIAL_RECORD":
            names = ("salt", "storedKey", "serverKey")
            key = ("scram", data["name"], _SCRAM[data["mechanism"]])
            others[key] = (*(data[name] for name in names), int(data["iterations"]))
        case "REMOVE_USER_SCRAM_CREDENTIAL_RECORD":
            others.pop(("scram", data["name"], _SCRAM[data["mechanism"]]), None)
        case "ACCESS_CONTROL_ENTRY_RECORD":
            resource, entry = _entry(data)
            acl_of[data["id"]] = resource, entry
            others.setdefault(resource, set()).add(entry)
        case "REMOVE_ACCESS_CONTROL_ENTRY_RECORD":
            resource, entry = acl_of.pop(data["id"])
            others[resource].discard(entry)
            if not others[resource]:
                del others[resource]
        case "DELEGATION_TOKEN_RECORD":
            others["token", data["tokenId"]] = {
                "owner": data["owner"],
                "requester": data.get("requester") or data["owner"],
                "renewers": sorted(data["renewers"]),
                "expiry": data["expirationTimestamp"],
                **{name: data[name] for name in _TOKEN_TIMES},
            }
        case "REMOVE_DELEGATION_TOKEN_RECORD":
            others.pop(("token", data["tokenId"]), None)


def _quota(others: dict[Entity, Any], data: Mapping[str, Any]) -> None:
    parts = sorted(f"{one['entityType']}={one['entityName'] or _DEFAULT}" for one in data["entity"])
    key = ("quota", *parts)
    values = others.setdefault(key, {})
    if data["remove"]:
        values.pop(data["key"], None)
    else:
        values[data["key"]] = float(data["value"])
    if not values:
        del others[key]


def _entry(data: Mapping[str, Any]) -> tuple[Entity, Entity]:
    pattern = "prefixed" if data["patternType"] == _PREFIXED else "literal"
    resource = ("acl", _RESOURCES[data["resourceType"]], pattern, data["resourceName"])
    operation, permission = _OPERATIONS[data["operation"]], _PERMISSIONS[data["permissionType"]]
    return resource, (data["principal"], data["host"], operation, permission)


def read_tree(nodes: Mapping[str, bytes | None]) -> Stores:
    """Read a ZooKeeper tree: path -> data."""
    found = Stores(plain.from_tree(nodes))
    others = found.others
    for path, data in nodes.items():
        if not data:
            continue
        match path.strip("/").split("/"):
            case ["config", "users", user]:
                _configured(others, data, f"user={unquote(user)}")
            case ["config", "clients", client]:
                _configured(others, data, f"client-id={unquote(client)}")
            case ["config", "users", user, "clients", client]:
                _configured(others, data, f"client-id={unquote(client)}", f"user={unquote(user)}")
            case ["config", "ips", ip]:
                _configured(others, data, f"ip={unquote(ip)}")
            case ["kafka-acl", kind, name]:
                _listed(others, data, ("acl", kind.lower(), "literal", name))
            case ["kafka-acl-extended", "prefixed", kind, name]:
                _listed(others, data, ("acl", kind.lower(), "prefixed", name))
            case ["delegation_token", "tokens", token]:
                others["token", token] = _token(json.loads(data))
    return found


def _configured(others: dict[Entity, Any], data: bytes, *entity: str) -> None:
    for key, value in json.loads(data).get("config", {}).items():
        if key in _SCRAM.values():
            parts = dict(part.split("=", 1) for part in value.split(","))
            names = ("salt", "stored_key", "server_key")
            credential = (*(parts[name] for name in names), int(parts["iterations"]))
            others["scram", entity[0].removeprefix("user="), key] = credential
        else:
            others.setdefault(("quota", *entity), {})[key] = float(value)


def _listed(others: dict[Entity, Any], data: bytes, resource: Entity) -> None:
    entries = {
        (
            one["principal"],
            one["host"],
            one["operation"].lower(),
            one["permissionType"].lower(),
        )
        for one in json.loads(data)["acls"]
    }
    if entries:
        others[resource] = entries


def _token(data: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "owner": unquote(data["owner"]),
        "requester": unquote(data.get("tokenRequester") or data["owner"]),
        "renewers": sorted(unquote(one) for one in data["renewers"]),
        "expiry": data["expiryTimestamp"],
        **{name: data[name] for name in _TOKEN_TIMES},
    }


def differences(tree: Stores, log: Stores) -> list[str]:
    """One line per entity that differs between the stores.

    Producer ids only must not go back: Kafka writes to ZooKeeper the block to come, we the last.
    """
    found = [
        line
        for line in plain.differences(tree.plain, log.plain)
        if not line.startswith(_JUDGED_HERE)
    ]
    in_tree, in_log = tree.plain.next_producer_id or 0, log.plain.next_producer_id or 0
    if in_tree < in_log:
        found.append(f"producer ids: ZooKeeper gives {in_tree} next, the metadata log {in_log}")
    for key in sorted(tree.others.keys() | log.others.keys()):
        have, want = tree.others.get(key), log.others.get(key)
        if have != want:
            found.append(f"{' '.join(key)}: ZooKeeper {have!r}, metadata log {want!r}")
    return found
