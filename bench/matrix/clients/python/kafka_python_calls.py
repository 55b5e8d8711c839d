"""Calls of kafka-python 3: ``python -m bench.matrix.clients.python.kafka_python_calls``."""

from __future__ import annotations

import importlib
import sys
import uuid
from typing import Any

from bench.matrix.clients.python.loop import Calls, serve

api: Any = importlib.import_module("kafka.admin")
kafka: Any = importlib.import_module("kafka")
_AT = {0: [0, 1, 2], 1: [1, 2, 0]}
_NOWHERE = uuid.UUID(int=7)


def calls(admin: Any) -> Calls:
    """Every call, in order."""
    return {
        **_cluster(admin),
        **_topics(admin),
        **_configs(admin),
        **_moves(admin),
        **_access(admin),
        **_end(admin),
    }


def _cluster(admin: Any) -> Calls:
    up, down = "UPGRADE", "SAFE_DOWNGRADE"
    return {
        "api_versions": admin.api_versions,
        "describe_cluster": admin.describe_cluster,
        "describe_features": lambda: _without(admin.describe_features(), "finalized_epoch"),
        "update_features to the same": lambda: admin.update_features(
            {"metadata.version": (up, 21)}
        ),
        "update_features too high": lambda: admin.update_features({"metadata.version": (up, 99)}),
        "update_features lower, validate": lambda: admin.update_features(
            {"metadata.version": (down, 19)}, validate_only=True
        ),
        "update_features too low": lambda: admin.update_features({"metadata.version": (down, 6)}),
        "update_features down by up": lambda: admin.update_features({"metadata.version": (up, 19)}),
        "update_features unknown": lambda: admin.update_features({"no.such": (up, 1)}),
        "describe_metadata_quorum": lambda: _ids(admin.describe_metadata_quorum()),
        "list_config_resources": lambda: admin.list_config_resources(["CLIENT_METRICS"]),
    }


def _topics(admin: Any) -> Calls:
    def create(name: str, *, validate_only: bool = False, **how: Any) -> Any:
        return lambda: admin.create_topics(
            {name: how}, validate_only=validate_only, raise_errors=False
        )

    return {
        "create_topics k1": create("k1", assignments=_AT, configs={"retention.ms": "9999"}),
        "create_topics k1 again": create("k1", assignments=_AT),
        "create_topics raises": lambda: admin.create_topics({"k1": {"assignments": _AT}}),
        "create_topics RF 9": create("k9", num_partitions=1, replication_factor=9),
        "create_topics both": create("k9", num_partitions=1, assignments=_AT),
        "create_topics a gap": create("k9", assignments={0: [0], 2: [1]}),
        "create_topics empty name": create("", num_partitions=1),
        "create_topics internal": create("__cluster_metadata", num_partitions=1),
        "create_topics unknown config": create("k9", num_partitions=1, configs={"no.such": "1"}),
        "create_topics no value": create("k9", num_partitions=1, configs={"retention.ms": None}),
        "create_topics validate": create(
            "kv", num_partitions=2, replication_factor=3, validate_only=True
        ),
        "describe_topics k1": lambda: _without(admin.describe_topics(["k1"]), "leader_epoch"),
        "describe_topics nosuch": lambda: admin.describe_topics(["nosuch"]),
        "describe_topics unknown id": lambda: admin.describe_topics([_NOWHERE]),
        "describe_topic_partitions": lambda: admin.describe_topic_partitions(["k1", "nosuch"]),
        "describe_topic_partitions, one": lambda: admin.describe_topic_partitions(
            ["k1"], response_partition_limit=1
        ),
        "create_partitions 3": lambda: admin.create_partitions(
            {"k1": {"count": 3, "assignments": [[2, 0, 1]]}}, raise_errors=False
        ),
        "create_partitions one broker": lambda: admin.create_partitions(
            {"k1": {"count": 4, "assignments": [[2]]}}, raise_errors=False
        ),
        "create_partitions 1": lambda: admin.create_partitions({"k1": 1}, raise_errors=False),
        "create_partitions nosuch": lambda: admin.create_partitions(
            {"nosuch": 2}, raise_errors=False
        ),
    }


def _configs(admin: Any) -> Calls:
    def alter(kind: str, name: str, **configs: Any) -> Any:
        given = {key.replace("_", "."): value for key, value in configs.items()}
        resource = api.ConfigResource(kind, name, given)
        return lambda: admin.alter_configs([resource], raise_on_unknown=False)

    def describe(kind: str, name: str, which: str) -> Any:
        resource = api.ConfigResource(kind, name)
        return lambda: admin.describe_configs(
            [resource], include_synonyms=True, config_filter=which
        )

    return {
        "alter_configs": alter("TOPIC", "k1", retention_ms="4000", max_message_bytes="2000000"),
        "alter_configs, the old request": lambda: admin.alter_configs(
            [api.ConfigResource("TOPIC", "k1", {"retention.ms": "5000"})],
            raise_on_unknown=False,
            incremental=False,
        ),
        "alter_configs bad value": alter("TOPIC", "k1", retention_ms="soon"),
        "alter_configs client metrics": alter("CLIENT_METRICS", "m1", interval_ms="60000"),
        "alter_configs client metrics, bad": alter("CLIENT_METRICS", "m1", interval_ms="1"),
        "alter_configs group": alter("GROUP", "g1", consumer_session_timeout_ms="50000"),
        "describe_configs k1": describe("TOPIC", "k1", "modified"),
        "describe_configs k1, all": describe("TOPIC", "k1", "all"),
        "describe_configs broker 2, dynamic": describe("BROKER", "2", "dynamic"),
        "describe_configs broker 9": describe("BROKER", "9", "modified"),
        "describe_configs client metrics": describe("CLIENT_METRICS", "m1", "all"),
        "describe_configs group": describe("GROUP", "g1", "modified"),
        "list_config_resources after": lambda: admin.list_config_resources(["CLIENT_METRICS"]),
        "reset_configs k1": lambda: admin.reset_configs(
            [api.ConfigResource("TOPIC", "k1", ["max.message.bytes"])]
        ),
        "describe_configs k1, reset": describe("TOPIC", "k1", "modified"),
    }


def _moves(admin: Any) -> Calls:
    at, move = kafka.TopicPartition, admin.alter_partition_reassignments
    preferred, unclean = 0, 1

    def elect(kind: int, partitions: Any) -> Any:
        return lambda: admin.elect_leaders(kind, partitions, raise_errors=False)

    return {
        "list_partition_reassignments none": admin.list_partition_reassignments,
        "alter_partition_reassignments nosuch": lambda: move({at("nosuch", 0): [0, 1]}),
        "alter_partition_reassignments no broker": lambda: move({at("k1", 0): [0, 9]}),
        "alter_partition_reassignments none to end": lambda: move({at("k1", 0): None}),
        "alter_partition_reassignments order": lambda: move({at("k1", 0): [2, 1, 0]}),
        "list_partition_reassignments": admin.list_partition_reassignments,
        "elect_leaders k1-0": elect(preferred, {"k1": [0]}),
        "elect_leaders not needed": elect(preferred, {"k1": [0]}),
        "elect_leaders unclean": elect(unclean, {"k1": [1]}),
        "elect_leaders no partition": elect(preferred, {"k1": [9]}),
        "describe_topics moved": lambda: _without(admin.describe_topics(["k1"]), "leader_epoch"),
        "alter_partition_reassignments fewer": lambda: move({at("k1", 1): [1, 2]}),
        "describe_topics fewer": lambda: _without(admin.describe_topics(["k1"]), "leader_epoch"),
    }


def _access(admin: Any) -> Calls:
    topic, everyone = api.ResourcePattern(api.ResourceType.TOPIC, "k1"), "*"
    read, allow = api.ACLOperation.READ, api.ACLPermissionType.ALLOW
    acl = api.ACL("User:k", everyone, read, allow, topic)
    found = api.ACLFilter(
        "User:k",
        None,
        api.ACLOperation.ANY,
        api.ACLPermissionType.ANY,
        api.ResourcePatternFilter(api.ResourceType.ANY, None, api.ACLResourcePatternType.ANY),
    )
    upsert, delete = api.UserScramCredentialUpsertion, api.UserScramCredentialDeletion
    given = {"iterations": 4096, "salt": b"salt"}
    alter = admin.alter_user_scram_credentials
    return {
        "create_acls": lambda: admin.create_acls([acl]),
        "describe_acls": lambda: admin.describe_acls(found),
        "delete_acls": lambda: admin.delete_acls([found]),
        "alter_user_scram_credentials": lambda: alter(
            [upsert("k", "SCRAM_SHA_512", "pw", **given)]
        ),
        "alter_user_scram_credentials twice": lambda: alter(
            [upsert("k", "SCRAM_SHA_512", "pw", **given), delete("k", "SCRAM_SHA_512")]
        ),
        "describe_user_scram_credentials": admin.describe_user_scram_credentials,
        "delete user k": lambda: alter([delete("k", "SCRAM_SHA_512")]),
        "delete user k again": lambda: alter([delete("k", "SCRAM_SHA_512")]),
    }


def _end(admin: Any) -> Calls:
    return {
        "list_topics": admin.list_topics,
        "describe_topics all": lambda: _without(admin.describe_topics(), "leader_epoch"),
        "delete_topics": lambda: admin.delete_topics(["k1"], raise_errors=False),
        "delete_topics nosuch": lambda: admin.delete_topics(["nosuch"], raise_errors=False),
        "delete_topics unknown id": lambda: admin.delete_topics([_NOWHERE], raise_errors=False),
    }


def _without(value: Any, *names: str) -> Any:
    """The same without these fields, at any depth."""
    if isinstance(value, dict):
        return {key: _without(one, *names) for key, one in value.items() if key not in names}
    return [_without(one, *names) for one in value] if isinstance(value, list) else value


def _ids(quorum: Any) -> Any:
    """Members of the quorum, without offsets and times, which differ from run to run."""
    whole = quorum["topics"][0]["partitions"][0] if "topics" in quorum else quorum
    return {
        "leader": whole["leader_id"],
        "voters": sorted(one["replica_id"] for one in whole["current_voters"]),
        "observers": sorted(one["replica_id"] for one in whole["observers"]),
    }


def main() -> None:
    """Connect and serve."""
    serve(calls(api.KafkaAdminClient(bootstrap_servers=sys.argv[1], request_timeout_ms=15_000)))


if __name__ == "__main__":
    main()
