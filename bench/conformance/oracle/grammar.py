"""Random histories: pure functions of a seed.

Names come from small pools, so most operations meet what others made. No state is kept here: what
an operation needs of it is a reference.

Left out: controller_mutation_rate and request_percentage (they throttle the histories themselves),
delegation tokens, sessions that end by time, brokers in ZooKeeper mode, Envelopes, levels other
than the one that both servers have.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from bench.conformance.oracle.operation import Operation

BROKERS: Final = (0, 1, 2, 3, 4)
LENGTH: Final = 60
FAR: Final = 1 << 50
"""An offset that no log has reached: a broker that has read everything."""
TOPICS: Final = ("oracle-a", "oracle-b", "oracle-c", "oracle.d_d")
BAD_TOPICS: Final = ("oracle.d.d", "a/b", "..", "", "x" * 250, "__cluster_metadata")
USERS: Final = ("ann", "bob", "")
CLIENTS: Final = ("app", "web", None)
IPS: Final = ("10.0.0.1", "10.0.0.2", None, "nowhere at all")
TOPIC_CONFIGS: Final[Mapping[str, Sequence[str]]] = {
    "retention.ms": ("1000", "-1", "-2", "x", ""),
    "cleanup.policy": ("compact", "delete", "compact,delete", "none"),
    "segment.bytes": ("1048576", "13", "1"),
    "min.insync.replicas": ("1", "2", "0"),
    "unclean.leader.election.enable": ("false",),
    "max.message.bytes": ("1000", "-1"),
    "compression.type": ("zstd", "snappy", "best"),
    "no.such.config": ("1",),
}
BROKER_CONFIGS: Final[Mapping[str, Sequence[str]]] = {
    "log.retention.ms": ("1000", "60000"),
    "log.cleaner.threads": ("1", "2"),
    "follower.replication.throttled.rate": ("1000",),
    "max.connections": ("100",),
}
QUOTA_KEYS: Final = (
    "producer_byte_rate",
    "consumer_byte_rate",
    "connection_creation_rate",
    "no_such_rate",
)
RESOURCES: Final = ("kafka-cluster", "oracle-a", "oracle", "*")
"""What ACLs are of."""
SERVER: Final = 4
"""Kafka's ConfigResource.Type BROKER."""
TOPIC: Final = 2


@dataclass(frozen=True, slots=True)
class History:
    """Operations, and those that remove what they made."""

    operations: Sequence[Operation]
    placed: bool
    """Whether the servers choose replicas; else a history names them."""


Ranges = Mapping[str, tuple[int, int]]
"""Name of an API -> the versions that both servers offer."""


class Draw:
    """What is drawn from one seed."""

    def __init__(self, seed: str, ranges: Ranges, level: int, *, placed: bool) -> None:
        self.rng = random.Random(seed)
        self.ranges = ranges
        self.level = level
        self.placed = placed

    def one(self, of: Sequence[Any]) -> Any:
        """One of them."""
        return self.rng.choice(of)

    def chance(self, percent: int) -> bool:
        """So often."""
        return self.rng.randrange(100) < percent

    def operation(self, api: str, **body: Any) -> Operation:
        """In the newest version, or in another one."""
        low, high = self.ranges[api]
        version = high if self.chance(60) else self.rng.randint(low, high)
        return Operation(api, version, body)

    def topic(self) -> str:
        """A name; one that may not be, sometimes."""
        return str(self.one(BAD_TOPICS if self.chance(4) else TOPICS))

    def partition(self) -> int:
        """A number that topics have, most of the time."""
        return self.rng.choices((0, 1, 2, 5, -1), (10, 8, 4, 1, 1))[0]

    def replicas(self) -> list[int]:
        """Distinct brokers; now and then what is refused."""
        if self.chance(4):
            return list(self.one(([], [0, 0], [7], [-1])))
        return self.rng.sample(BROKERS[:4], self.rng.choices((1, 2, 3), (2, 4, 5))[0])

    def epoch(self, broker: int) -> Mapping[str, Any]:
        """A broker's epoch; seldom another."""
        add = self.rng.choices((0, 1, -1), (30, 1, 1))[0]
        return {"$": "epoch", "broker": broker, "add": add}

    def value(self, of: Sequence[str], *, first: bool) -> str:
        """One of a config's values; the first one of them is right."""
        return str(self.one(of)) if first else of[0]

    def hex(self, *what: object) -> str:
        """An id that is the same on both sides."""
        return known_bytes(*what).hex()


def known_bytes(*what: object) -> bytes:
    """16 bytes that are always the same."""
    return random.Random(repr(what)).randbytes(16)


def is_ours(registered: Any) -> bool:
    """Whether a history registers such a broker: a RegisterBrokerRecord."""
    ids = [known_bytes("incarnation", registered.broker_id, number) for number in range(2)]
    return registered.incarnation_id in ids


def history(seed: int, number: int, ranges: Ranges, level: int, length: int = LENGTH) -> History:
    """The history of a number. Every second one lets the servers choose replicas."""
    placed = number % 2 == 1
    draw = Draw(f"{seed} {number}", ranges, level, placed=placed)
    found: list[Operation] = []
    for broker in BROKERS[:4]:
        found.append(_registration(draw, broker, 0, plain=True))
        if placed or draw.chance(90):
            found.append(_alive(draw, broker))
    rules = {**ALWAYS, **(PLACED if placed else BY_HAND)}
    offered = [(rule, weight) for rule, (weight, apis) in rules.items() if set(apis) <= set(ranges)]
    kinds, weights = zip(*offered, strict=True)
    while len(found) < length:
        found.append(draw.rng.choices(kinds, weights)[0](draw))
    return History(found, placed)


def removal(ranges: Ranges) -> list[Operation]:
    """Removes whatever a history may have made."""
    draw = Draw("", {name: (high, high) for name, (_, high) in ranges.items()}, 0, placed=False)
    topics = [{"name": one} for one in (*TOPICS, "oracle.d.d")]
    resources = [
        {"resource_type": SERVER, "resource_name": one} for one in ("", *map(str, BROKERS))
    ]
    found = [
        draw.operation("AlterConfigs", resources=resources),
        *(draw.operation("AlterClientQuotas", entries=one) for one in _quota_removals()),
        draw.operation("DeleteTopics", topics=topics, timeout_ms=10_000),
        *(draw.operation("UnregisterBroker", broker_id=one) for one in BROKERS),
        draw.operation(
            "AlterUserScramCredentials",
            deletions=[{"name": user, "mechanism": 1} for user in USERS[:2]],
        ),
        draw.operation(
            "AlterUserScramCredentials",
            deletions=[{"name": user, "mechanism": 2} for user in USERS[:2]],
        ),
        draw.operation("DeleteAcls", filters=[_any_acl()]),
    ]
    return [one for one in found if one.api in ranges]


# ------------------------------------------------------------------ topics
def _create_topics(draw: Draw) -> Operation:
    count = draw.rng.choices((1, 2), (5, 1))[0]
    topics = [_new_topic(draw) for _ in range(count)]
    if {one["name"] for one in topics} == {"oracle.d.d", "oracle.d_d"}:
        del topics[1]  # Kafka makes both, and more follows from it: docs/divergence.md
    return draw.operation(
        "CreateTopics",
        topics=topics,
        timeout_ms=10_000,
        validate_only=draw.chance(5),
    )


def _new_topic(draw: Draw) -> Mapping[str, Any]:
    names = draw.rng.sample([*TOPIC_CONFIGS], draw.rng.choices((0, 1, 2), (6, 2, 1))[0])
    configs = [
        {
            "name": name,
            "value": None if draw.chance(3) else draw.value(TOPIC_CONFIGS[name], first=not at),
        }
        for at, name in enumerate(names)
    ]
    found: dict[str, Any] = {"name": draw.topic(), "configs": configs}
    if draw.placed:
        size = draw.rng.choices((1, 2, 4, 0, -1), (5, 6, 6, 1, 1))[0]
        copies = draw.rng.choices((1, 2, 3, 4, 0, 6, -1), (5, 6, 6, 2, 1, 1, 1))[0]
        return {**found, "num_partitions": size, "replication_factor": copies}
    width = draw.rng.randint(1, 3)
    rows = [
        draw.rng.sample(BROKERS[:4], width) if draw.chance(95) else draw.replicas()
        for _ in range(draw.rng.randint(1, 3))
    ]
    shift = 1 if draw.chance(2) else 0
    return {
        **found,
        "num_partitions": -1 if draw.chance(97) else 1,
        "replication_factor": -1 if draw.chance(97) else 1,
        "assignments": [
            {"partition_index": at + shift, "broker_ids": row} for at, row in enumerate(rows)
        ],
    }


def _delete_topics(draw: Draw) -> Operation:
    name = draw.topic()
    by_id = draw.chance(40)
    state = {"name": None, "topic_id": {"$": "topic", "topic": name}} if by_id else {"name": name}
    return draw.operation("DeleteTopics", topics=[state], topic_names=[name], timeout_ms=10_000)


def _create_partitions(draw: Draw) -> Operation:
    rows = None
    count = draw.rng.randint(0, 4)
    if not draw.placed:
        rows = [
            {"broker_ids": draw.replicas()}
            for _ in range(draw.rng.choices((1, 2, 0), (8, 2, 1))[0])
        ]
    topic = {"name": draw.topic(), "count": count, "assignments": rows}
    return draw.operation(
        "CreatePartitions", topics=[topic], timeout_ms=10_000, validate_only=draw.chance(5)
    )


def _elect(draw: Draw) -> Operation:
    topics = [
        {"topic": name, "partitions": sorted({draw.partition() for _ in range(2)})}
        for name in draw.rng.sample(TOPICS, draw.rng.randint(1, 2))
    ]
    kind = draw.rng.choices((0, 1, 7), (6, 3, 1))[0]
    return draw.operation(
        "ElectLeaders",
        election_type=kind,
        topic_partitions=None if draw.chance(10) else topics,
        timeout_ms=10_000,
    )


def _reassign(draw: Draw) -> Operation:
    part = {
        "partition_index": draw.partition(),
        "replicas": None if draw.chance(20) else draw.replicas(),
    }
    return draw.operation(
        "AlterPartitionReassignments",
        topics=[{"name": draw.topic(), "partitions": [part]}],
        timeout_ms=10_000,
    )


def _alter_partition(draw: Draw) -> Operation:
    topic, partition = draw.one(TOPICS), draw.rng.choices((0, 1, 2), (5, 3, 2))[0]
    where = {"topic": topic, "partition": partition}
    mask = draw.rng.choices((15, draw.rng.randrange(16)), (6, 4))[0]
    odd = draw.rng.choices((0, 1, -1), (30, 1, 1))
    entry = {
        "partition_index": partition,
        "leader_epoch": {"$": "leader_epoch", **where, "add": odd[0]},
        "partition_epoch": {
            "$": "partition_epoch",
            **where,
            "add": draw.rng.choices((0, 1, -1), (30, 1, 1))[0],
        },
        "new_isr": {"$": "isr", **where, "mask": mask},
        "new_isr_with_epochs": {"$": "isr", **where, "mask": mask, "epochs": True},
        "leader_recovery_state": 1 if draw.chance(3) else 0,
    }
    known = {"topic_name": topic, "topic_id": {"$": "topic", "topic": topic}}
    asker: Any = {"$": "leader", **where}
    epoch: Any = {"$": "leader", **where, "epoch": True}
    if draw.chance(5):
        asker = draw.one(BROKERS)
        epoch = draw.epoch(asker)
    return draw.operation(
        "AlterPartition",
        broker_id=asker,
        broker_epoch=epoch,
        topics=[{**known, "partitions": [entry]}],
    )


def _assign_dirs(draw: Draw) -> Operation:
    broker = draw.one(BROKERS[:4])
    topic = draw.one(TOPICS)
    directory = draw.hex("dir", draw.one((0, 1, 2)), broker)
    parts = [{"partition_index": draw.partition()}]
    topics = [{"topic_id": {"$": "topic", "topic": topic}, "partitions": parts}]
    return draw.operation(
        "AssignReplicasToDirs",
        broker_id=broker,
        broker_epoch=draw.epoch(broker),
        directories=[{"id": directory, "topics": topics}],
    )


def _list_reassignments(draw: Draw) -> Operation:
    topics = [{"name": draw.topic(), "partition_indexes": [0, 1, 2]}]
    chosen = None if draw.chance(50) else topics
    return draw.operation("ListPartitionReassignments", topics=chosen, timeout_ms=10_000)


# ------------------------------------------------------------------ configs, quotas, users, ACLs
def _resource(draw: Draw) -> tuple[int, str, Mapping[str, Sequence[str]]]:
    if draw.chance(70):
        return TOPIC, draw.topic(), TOPIC_CONFIGS
    return SERVER, str(draw.one(("", "0", "1"))), BROKER_CONFIGS


def _configs(draw: Draw, api: str) -> Operation:
    """At most the first config is refused: of several, Kafka names one by a hash table."""
    kind, name, pool = _resource(draw)
    entries: list[dict[str, Any]] = []
    for key in draw.rng.sample([*pool], draw.rng.choices((0, 1, 2), (1, 6, 3))[0]):
        entry: dict[str, Any] = {"name": key, "value": draw.value(pool[key], first=not entries)}
        step = 0
        if api == "IncrementalAlterConfigs":
            chances = (10, 5, 2, 2) if not entries else (10, 5, 0, 0)
            step = entry["config_operation"] = draw.rng.choices((0, 1, 2, 3), chances)[0]
        # Null to append or subtract, and an unknown operation, end 3.9.2's leadership: it throws in
        # ConfigurationControlManager.incrementalAlterConfigResource.
        if step < 2 and draw.chance(4):
            entry["value"] = None
        entries.append(entry)
    resource = {"resource_type": kind, "resource_name": name, "configs": entries}
    return draw.operation(api, resources=[resource], validate_only=draw.chance(5))


def _describe_configs(draw: Draw) -> Operation:
    kind, name, pool = _resource(draw)
    resource = {"resource_type": kind, "resource_name": name, "configuration_keys": [*pool][:4]}
    return draw.operation("DescribeConfigs", resources=[resource], include_synonyms=draw.chance(50))


def _entity(draw: Draw) -> list[Mapping[str, Any]]:
    kind = draw.rng.choices(("user", "client-id", "both", "ip", "planet"), (5, 4, 4, 3, 1))[0]
    user = {"entity_type": "user", "entity_name": draw.one((*USERS[:2], None))}
    client = {"entity_type": "client-id", "entity_name": draw.one(CLIENTS)}
    if kind == "both":
        return [user, client]
    if kind == "ip":
        return [{"entity_type": "ip", "entity_name": draw.one(IPS[:3])}]
    if kind == "planet":
        return [{"entity_type": "planet", "entity_name": "mars"}]
    return [user if kind == "user" else client]


def _quotas(draw: Draw) -> Operation:
    """At most one key of an entity is refused: of several, Kafka names one by a hash table."""
    entity = _entity(draw)
    of_ip = entity[0]["entity_type"] == "ip"
    key = draw.one(QUOTA_KEYS)
    ops = [{"key": key, "value": draw.one((1.0, 100.0, 1.5, 0.0, -1.0)), "remove": draw.chance(30)}]
    right = [one for one in (QUOTA_KEYS[2:3] if of_ip else QUOTA_KEYS[:2]) if one != key]
    if right and draw.chance(25):
        more = {"key": draw.one(right), "value": draw.one((1.0, 7.0)), "remove": draw.chance(30)}
        ops.insert(draw.rng.randrange(2), more)
    entry = {"entity": entity, "ops": ops}
    return draw.operation("AlterClientQuotas", entries=[entry], validate_only=draw.chance(5))


def _quota_removals() -> list[list[Mapping[str, Any]]]:
    """Requests that remove all quotas: keys that an entity cannot have are not asked for."""
    users = [{"entity_type": "user", "entity_name": one} for one in (*USERS[:2], None)]
    clients = [{"entity_type": "client-id", "entity_name": one} for one in CLIENTS]
    ips = [{"entity_type": "ip", "entity_name": one} for one in IPS[:3]]
    both = [[client, user] for user in users for client in clients]
    entities = [*([one] for one in users), *([one] for one in clients), *both]
    ops = [{"key": key, "remove": True} for key in QUOTA_KEYS[:2]]
    return [
        [{"entity": one, "ops": ops} for one in entities],
        [{"entity": [one], "ops": [{"key": QUOTA_KEYS[2], "remove": True}]} for one in ips],
    ]


def _scram(draw: Draw) -> Operation:
    user, mechanism = draw.one(USERS), draw.rng.choices((1, 2, 0, 3), (6, 4, 1, 1))[0]
    if draw.chance(35):
        return draw.operation(
            "AlterUserScramCredentials", deletions=[{"name": user, "mechanism": mechanism}]
        )
    upsertion = {
        "name": user,
        "mechanism": mechanism,
        "iterations": draw.rng.choices((4096, 8192, 100, 100_000), (6, 4, 1, 1))[0],
        "salt": draw.hex("salt", user),
        "salted_password": draw.hex("password", draw.one((1, 2))) * (4 if mechanism == 2 else 2),
    }
    return draw.operation("AlterUserScramCredentials", upsertions=[upsertion])


def _acl(draw: Draw) -> dict[str, Any]:
    kind = draw.rng.choices((2, 3, 4, 5), (6, 3, 1, 1))[0]
    return {
        "resource_type": kind,
        "resource_name": RESOURCES[0] if kind == 4 else draw.one(RESOURCES[1:]),
        "resource_pattern_type": 4 if kind != 4 and draw.chance(25) else 3,
        "principal": f"User:{draw.one(('ann', 'bob', '*'))}",
        "host": draw.one(("*", "10.0.0.1")),
        "operation": draw.one((3, 4, 8, 2)),
        "permission_type": draw.one((3, 2)),
    }


def _create_acls(draw: Draw) -> Operation:
    entries = [_acl(draw) for _ in range(draw.rng.choices((1, 2), (5, 2))[0])]
    if draw.chance(5):
        entries[0]["operation"] = 12  # no topic has it: IdempotentWrite
    return draw.operation("CreateAcls", creations=entries)


def _any_acl() -> dict[str, Any]:
    return {
        "resource_type_filter": 1,
        "resource_name_filter": None,
        "pattern_type_filter": 1,
        "principal_filter": None,
        "host_filter": None,
        "operation": 1,
        "permission_type": 1,
    }


def _acl_filter(draw: Draw) -> dict[str, Any]:
    found = _any_acl()
    entry = _acl(draw)
    given = {
        "resource_type_filter": entry["resource_type"],
        "resource_name_filter": entry["resource_name"],
        "pattern_type_filter": draw.one((2, 3, 4)),
        "principal_filter": entry["principal"],
        "host_filter": entry["host"],
        "operation": entry["operation"],
        "permission_type": entry["permission_type"],
    }
    for name in draw.rng.sample([*given], draw.rng.randint(1, 3)):
        found[name] = given[name]
    return found


def _delete_acls(draw: Draw) -> Operation:
    return draw.operation("DeleteAcls", filters=[_acl_filter(draw)])


def _describe_acls(draw: Draw) -> Operation:
    return draw.operation("DescribeAcls", **(_any_acl() if draw.chance(30) else _acl_filter(draw)))


# ------------------------------------------------------------------ features, ids, brokers
def _features(draw: Draw) -> Operation:
    level = draw.rng.choices((draw.level, draw.level + 1, 1, 0, draw.level - 1), (4, 2, 1, 1, 2))[0]
    name = draw.rng.choices(("metadata.version", "no.such.feature"), (8, 1))[0]
    update = {
        "feature": name,
        "max_version_level": level,
        "upgrade_type": draw.rng.choices((1, 2, 3, 0), (5, 3, 2, 1))[0],
    }
    body = {"feature_updates": [update], "timeout_ms": 10_000, "validate_only": True}
    return Operation("UpdateFeatures", draw.ranges["UpdateFeatures"][1], body)


def _producer_ids(draw: Draw) -> Operation:
    broker = draw.one(BROKERS)
    return draw.operation("AllocateProducerIds", broker_id=broker, broker_epoch=draw.epoch(broker))


def _registration(draw: Draw, broker: int, incarnation: int, *, plain: bool = False) -> Operation:
    odd = not plain and draw.chance(25)
    listeners = [{"name": "PLAINTEXT", "host": "127.0.0.1", "port": 9092 + broker}]
    directories = [draw.hex("dir", at, broker) for at in range(2)]
    lowest, highest = 1, draw.level
    cluster: Any = {"$": "cluster"}
    if odd:
        match draw.rng.randrange(5):
            case 0:
                listeners = []
            case 1:
                directories = [directories[0], directories[0]]
            case 2:
                lowest, highest = 1, draw.level - 1
            case 3:
                cluster = "AAAAAAAAAAAAAAAAAAAAAg"
            case _:
                directories = []
    feature = {
        "name": "metadata.version",
        "min_supported_version": lowest,
        "max_supported_version": highest,
    }
    low, high = draw.ranges["BrokerRegistration"]
    version = draw.rng.randint(low, high) if not plain else high
    body = {
        "broker_id": broker,
        "cluster_id": cluster,
        "incarnation_id": draw.hex("incarnation", broker, incarnation),
        "listeners": listeners,
        "features": [feature],
        "rack": ("a", "b", "a", "b", None)[broker],
        "log_dirs": directories,
    }
    return Operation("BrokerRegistration", version, body)


def _register(draw: Draw) -> Operation:
    return _registration(draw, draw.one(BROKERS), draw.rng.choices((0, 1), (5, 3))[0])


def _alive(draw: Draw, broker: int) -> Operation:
    return draw.operation(
        "BrokerHeartbeat",
        broker_id=broker,
        broker_epoch={"$": "epoch", "broker": broker},
        current_metadata_offset=FAR,
    )


def _heartbeat(draw: Draw) -> Operation:
    broker = draw.one(BROKERS)
    body = {
        "broker_id": broker,
        "broker_epoch": draw.epoch(broker),
        "current_metadata_offset": FAR if draw.chance(90) else -1,
        "want_fence": draw.chance(15),
        "want_shut_down": draw.chance(10),
    }
    if draw.chance(8):
        body["offline_log_dirs"] = [draw.hex("dir", draw.one((0, 1)), broker)]
    return draw.operation("BrokerHeartbeat", **body)


def _unregister(draw: Draw) -> Operation:
    return draw.operation("UnregisterBroker", broker_id=draw.one((*BROKERS, 9)))


def _describe_cluster(draw: Draw) -> Operation:
    return draw.operation("DescribeCluster", endpoint_type=draw.rng.choices((1, 2), (1, 4))[0])


Rule = Callable[[Draw], Operation]


def _alter_configs(draw: Draw) -> Operation:
    return _configs(draw, "AlterConfigs")


def _incremental(draw: Draw) -> Operation:
    return _configs(draw, "IncrementalAlterConfigs")


ALWAYS: Final[Mapping[Rule, tuple[int, Sequence[str]]]] = {
    _create_topics: (14, ["CreateTopics"]),
    _delete_topics: (4, ["DeleteTopics"]),
    _create_partitions: (5, ["CreatePartitions"]),
    _alter_configs: (4, ["AlterConfigs"]),
    _incremental: (8, ["IncrementalAlterConfigs"]),
    _describe_configs: (3, ["DescribeConfigs"]),
    _quotas: (7, ["AlterClientQuotas"]),
    _scram: (6, ["AlterUserScramCredentials"]),
    _create_acls: (5, ["CreateAcls"]),
    _delete_acls: (3, ["DeleteAcls"]),
    _describe_acls: (2, ["DescribeAcls"]),
    _features: (2, ["UpdateFeatures"]),
    _producer_ids: (3, ["AllocateProducerIds"]),
}
BY_HAND: Final[Mapping[Rule, tuple[int, Sequence[str]]]] = {
    _elect: (6, ["ElectLeaders"]),
    _reassign: (8, ["AlterPartitionReassignments"]),
    _alter_partition: (12, ["AlterPartition"]),
    _assign_dirs: (4, ["AssignReplicasToDirs"]),
    _list_reassignments: (3, ["ListPartitionReassignments"]),
    _register: (5, ["BrokerRegistration"]),
    _heartbeat: (14, ["BrokerHeartbeat"]),
    _unregister: (1, ["UnregisterBroker"]),
    _describe_cluster: (1, ["DescribeCluster"]),
}
PLACED: Final[Mapping[Rule, tuple[int, Sequence[str]]]] = {}
"""Where replicas differ by side, nothing may depend on them."""
