"""What a ZooKeeper tree should hold for a metadata log, implemented a second time.

The product writes with ``emulator/znodes`` and compares with the same code; this page
shares nothing with it but the formats' definition (kafka.zk.ZkData, Kafka 3.9), so that a mistake
there is not made here as well. Values are compared as what a broker would understand of them.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Hashable, Iterable, Iterator, Mapping
from functools import lru_cache
from typing import Any, Final
from urllib.parse import quote, unquote_plus

from emulator.simulation.facts import (
    BROKER,
    EMPTY,
    TOPIC,
    Facts,
    PartitionFacts,
    TopicFacts,
)
from emulator.simulation.models.zookeeper_tree import Znode
from wire.text import uuid_text

# What ZooKeeper should hold of delegation tokens, implemented a second time.
#
# As ``tree_check``, of which it is a part, it shares nothing with the product but Kafka's formats.

ROOT: Final = "/delegation_token/tokens/"
Meaning = tuple[Any, ...]


def tokens_covered(path: str) -> bool:
    """Whether a path is a token's."""
    return path.startswith(ROOT)


def tokens_expected(facts: Facts) -> dict[str, Meaning]:
    """Every token, by path."""
    return {
        ROOT + one.token_id: (
            one.owner,
            one.requester,
            tuple(one.renewers),
            one.issue_timestamp,
            one.max_timestamp,
            one.expiration_timestamp,
        )
        for one in facts.tokens.values()
    }


def tokens_meaning(data: bytes | None) -> Meaning:
    """What a broker understands of a token's znode.

    Raises:
        ValueError, KeyError, TypeError: malformed.
    """
    found = json.loads(data or b"")
    owner = unquote_plus(found["owner"])
    return (
        owner,
        unquote_plus(found.get("tokenRequester", found["owner"])),
        tuple(unquote_plus(name) for name in found["renewers"]),
        found["issueTimestamp"],
        found["maxTimestamp"],
        found["expiryTimestamp"],
    )


# What ZooKeeper should hold of client quotas and SCRAM credentials, implemented again.
#
# As ``tree_check``, of which it is a part, it shares nothing with the product but Kafka's formats.

ROOTS: Final = ("/config/users/", "/config/clients/", "/config/ips/")
MECHANISMS: Final = {1: "SCRAM-SHA-256", 2: "SCRAM-SHA-512"}


def clients_covered(path: str) -> bool:
    """Whether a path is an entity's."""
    parts = path.split("/")
    return path.startswith(ROOTS) and (
        len(parts) == 4 or (len(parts) == 6 and parts[4] == "clients")
    )


def clients_expected(facts: Facts) -> dict[str, Meaning]:
    """Every entity that has something, by path."""
    found: dict[str, dict[str, object]] = {}
    for entity, limits in facts.client_quotas.items():
        config = found.setdefault(_path(entity), {})
        config.update(limits.items())
    for (name, mechanism), one in facts.scram.items():
        config = found.setdefault(_path([("user", name)]), {})
        config[MECHANISMS[mechanism]] = (
            one.salt,
            one.stored_key,
            one.server_key,
            one.iterations,
        )
    return {path: _meaning(config) for path, config in found.items()}


def clients_meaning(data: bytes | None) -> Meaning:
    """What a broker understands of an entity's znode.

    Raises:
        ValueError, KeyError, TypeError: malformed.
    """
    config = json.loads(data)["config"] if data else {}
    return _meaning(
        {key: _scram(text) if "SCRAM" in key else float(text) for key, text in config.items()}
    )


def _meaning(config: dict[str, object]) -> Meaning:
    return tuple(sorted(config.items()))


def _scram(text: str) -> tuple[bytes, bytes, bytes, int]:
    found = dict(part.split("=", 1) for part in text.split(","))
    salt, stored, server = (
        base64.b64decode(found[k]) for k in ("salt", "stored_key", "server_key")
    )
    return salt, stored, server, int(found["iterations"])


def _quoted(name: str) -> str:
    """A name as a part of a path; dots alone would be a path's own."""
    return name.replace(".", "%2E") if name in (".", "..") else quote(name, safe="")


def _path(entity: Iterable[tuple[str, str | None]]) -> str:
    names = {kind: "<default>" if name is None else _quoted(name) for kind, name in entity}
    match names:
        case {"user": user, "client-id": client}:
            return f"/config/users/{user}/clients/{client}"
        case {"user": user}:
            return f"/config/users/{user}"
        case {"client-id": client}:
            return f"/config/clients/{client}"
        case _:
            return f"/config/ips/{names['ip']}"


# What ZooKeeper should hold of access control entries, implemented a second time.
#
# As ``tree_check``, of which it is a part, it shares nothing with the product but Kafka's formats.

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
_FOLDERS: Final = tuple(f"{place}/{kind}/" for place in PLACES.values() for kind in TYPES)


def acls_covered(path: str) -> bool:
    """Whether a path is a resource's."""
    return path.startswith(_FOLDERS)


def acls_expected(facts: Facts) -> dict[str, Meaning]:
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


def acls_meaning(data: bytes | None) -> Meaning:
    """What a broker understands of a resource's znode.

    Raises:
        ValueError, KeyError, TypeError: malformed.
    """
    entries = json.loads(data)["acls"] if data else []
    keys = ("principal", "host", "operation", "permissionType")
    return tuple(sorted({tuple(entry[key] for key in keys) for entry in entries}))


TOPICS: Final = "/brokers/topics"
PRODUCER_IDS: Final = "/latest_producer_id_block"

FOLDER: Final[Meaning] = ()
Part = Mapping[str, Meaning]
"""Znodes by path."""


class Expected:
    """Every znode that follows from a log up to one point, in parts.

    A part is a topic, or all there is of another class. Parts that two points have in common are
    one object.
    """

    __slots__ = ("facts", "parts")

    def __init__(self, facts: Facts, parts: Mapping[Hashable, Part]) -> None:
        self.facts = facts
        self.parts = parts

    def then(self, facts: Facts) -> Expected:
        """The tree that follows from later facts."""
        old = self.facts
        parts = dict(self.parts)
        if facts.topics is not old.topics or facts.configs is not old.configs:
            for gone in old.topics.keys() - facts.topics.keys():
                del parts[gone]
            for topic_id, topic in facts.topics.items():
                same = old.topics.get(topic_id) is topic and old.config(
                    TOPIC, topic.name
                ) is facts.config(TOPIC, topic.name)
                if not same or topic_id not in parts:
                    parts[topic_id] = of_topic(facts, topic)
        if facts.configs is not old.configs:
            parts["brokers"] = of_brokers(facts)
        if facts.next_producer_id != old.next_producer_id:
            parts["producer ids"] = {PRODUCER_IDS: of_producer_ids(facts)}
        if facts.client_quotas is not old.client_quotas or facts.scram is not old.scram:
            parts["clients"] = clients_expected(facts)
        if facts.acls is not old.acls:
            parts["acls"] = acls_expected(facts)
        if facts.tokens is not old.tokens:
            parts["tokens"] = tokens_expected(facts)
        return Expected(facts, parts)

    def all(self) -> dict[str, Meaning]:
        """Every znode by path."""
        found: dict[str, Meaning] = {}
        for part in self.parts.values():
            found.update(part)
        return found


NOTHING: Final = Expected(EMPTY, {"producer ids": {PRODUCER_IDS: (0,)}})


def allowed(before: Expected, after: Expected) -> Iterator[tuple[str, Meaning | None]]:
    """Contents that znodes may have from ``after`` on, beside those before; None: be absent."""
    for key in {*before.parts, *after.parts}:
        old, new = before.parts.get(key, {}), after.parts.get(key, {})
        if old is new:
            continue
        for path, means in new.items():
            yield path, means
            if key == "clients" and "/clients/" in path[len("/config/") :]:
                yield path.partition("/clients/")[0], FOLDER
        for path in old.keys() - new.keys():
            if key in ("brokers", "clients"):
                yield path, FOLDER
            if key != "clients":
                yield path, None


def partition_meaning(one: PartitionFacts) -> Meaning:
    """Meaning of a partition's state."""
    return (one.leader, one.leader_epoch, one.isr, one.leader_recovery_state)


def topic_meaning(topic: TopicFacts) -> Meaning:
    """Meaning of a topic's znode."""
    rows = [
        (i, p.replicas, p.adding_replicas, p.removing_replicas) for i, p in topic.partitions.items()
    ]
    return (uuid_text(topic.id), tuple(sorted(rows)))


def config_meaning(config: Mapping[str, str]) -> Meaning:
    """Meaning of a config."""
    return tuple(sorted(config.items()))


def of_topic(facts: Facts, topic: TopicFacts) -> dict[str, Meaning]:
    """Every znode of one topic."""
    base = f"{TOPICS}/{topic.name}"
    found = {
        base: topic_meaning(topic),
        f"{base}/partitions": FOLDER,
        f"/config/topics/{topic.name}": config_meaning(facts.config(TOPIC, topic.name)),
    }
    for index, partition in topic.partitions.items():
        found[f"{base}/partitions/{index}"] = FOLDER
        found[f"{base}/partitions/{index}/state"] = partition_meaning(partition)
    return found


def of_brokers(facts: Facts) -> dict[str, Meaning]:
    """Configs of brokers that have any."""
    return {
        f"/config/brokers/{name or '<default>'}": config_meaning(config)
        for (kind, name), config in facts.configs.items()
        if kind == BROKER and config
    }


def of_producer_ids(facts: Facts) -> Meaning:
    """The next producer id to hand out."""
    return (facts.next_producer_id,)


@lru_cache(maxsize=50_000)
def covered(path: str) -> bool:
    """Whether a path is one that :class:`Expected` covers."""
    parts = path.split("/")
    return (
        path == PRODUCER_IDS or clients_covered(path) or acls_covered(path) or tokens_covered(path)
    ) or (
        len(parts) >= 4
        and parts[1:3] in (["brokers", "topics"], ["config", "topics"], ["config", "brokers"])
    )


@lru_cache(maxsize=50_000)
def meaning(path: str, data: bytes | None) -> Meaning:
    """What a broker understands of a znode's data.

    Raises:
        ValueError, KeyError, TypeError: malformed.
    """
    parts = path.split("/")
    if path == PRODUCER_IDS:
        return (int(json.loads(data)["block_end"]) + 1,) if data else (0,)
    if clients_covered(path):
        return clients_meaning(data)
    if acls_covered(path):
        return acls_meaning(data)
    if tokens_covered(path):
        return tokens_meaning(data)
    if parts[1] == "config":
        return config_meaning(json.loads(data)["config"]) if data else ()
    match parts[4:]:
        case []:
            return _topic(json.loads(data or b""))
        case ["partitions", _, "state"]:
            state = json.loads(data or b"")
            recovery = state.get("leader_recovery_state", 0)
            return (state["leader"], state["leader_epoch"], tuple(state["isr"]), recovery)
        case _:
            return FOLDER


def _topic(found: dict[str, Any]) -> Meaning:
    adding, removing = found.get("adding_replicas", {}), found.get("removing_replicas", {})
    rows = [
        (int(i), tuple(replicas), tuple(adding.get(i, ())), tuple(removing.get(i, ())))
        for i, replicas in found["partitions"].items()
    ]
    return (found.get("topic_id"), tuple(sorted(rows)))


def differences(
    nodes: Mapping[str, Znode], expected: Expected, foreign: frozenset[str] = frozenset()
) -> Iterator[str]:
    """One sentence for each znode that is not what the log says.

    Args:
        nodes: the tree.
        expected: what follows from the log.
        foreign: znodes of somebody else, which may stay or go.
    """
    wanted = expected.all()
    for path, want in wanted.items():
        node = nodes.get(path)
        if node is None and want != (0,):
            yield f"{path} is missing"
        elif node is not None and (have := _read(path, node.data)) != want:
            yield f"{path} says {have}, should say {want}"
    yield from _behind(nodes, expected.facts)
    for path, node in nodes.items():
        if path in wanted or path in foreign or not covered(path):
            continue
        left = path.startswith("/config/brokers/") or clients_covered(path)
        if left and _read(path, node.data) == ():
            continue
        yield f"{path} should not be there"


def _behind(nodes: Mapping[str, Znode], facts: Facts) -> Iterator[str]:
    """Brokers that know a partition epoch refuse a lower one, and in ZooKeeper it is the version.

    A higher one they accept.
    """
    for topic in facts.topics.values():
        for index, partition in topic.partitions.items():
            path = f"{TOPICS}/{topic.name}/partitions/{index}/state"
            node = nodes.get(path)
            if node is not None and node.version < partition.partition_epoch:
                yield (
                    f"{path} has version {node.version}, the partition epoch is "
                    f"{partition.partition_epoch}"
                )


def _read(path: str, data: bytes | None) -> object:
    try:
        return meaning(path, data)
    except (ValueError, KeyError, TypeError) as error:
        return f"malformed: {error!r}"
