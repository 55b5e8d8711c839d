"""Calls of confluent-kafka: ``python -m bench.matrix.clients.python.confluent_calls HOST:PORT``."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable
from typing import Any, Final

from confluent_kafka import (
    ElectionType,
    KafkaException,
    TopicCollection,
    TopicPartition,
)

from bench.matrix.clients.python.loop import Calls, raised, serve, shown

api: Any = importlib.import_module("confluent_kafka.admin")  # its types leave half out
_TIMEOUT_S: Final = 20.0
_SET, _DELETE = api.AlterConfigOpType.SET, api.AlterConfigOpType.DELETE
_APPEND, _SUBTRACT = api.AlterConfigOpType.APPEND, api.AlterConfigOpType.SUBTRACT
_AT: Final = [[0, 1, 2], [1, 2, 0]]


def calls(admin: Any) -> Calls:
    """Every call, in order."""
    return {
        **_cluster(admin),
        **_topics(admin),
        **_configs(admin),
        **_access(admin),
        **_groups(admin),
        **_denied(admin),
        **_end(admin),
    }


def _cluster(admin: Any) -> Calls:
    return {
        "describe_cluster": lambda: admin.describe_cluster(include_authorized_operations=True),
        "list_topics nosuch": lambda: admin.list_topics("nosuch", timeout=10).topics,
    }


def _topics(admin: Any) -> Calls:
    topic, more = api.NewTopic, api.NewPartitions
    preferred, unclean = ElectionType.PREFERRED, ElectionType.UNCLEAN

    def create(name: str, *, validate_only: bool = False, **how: Any) -> Callable[[], Any]:
        return lambda: admin.create_topics([topic(name, **how)], validate_only=validate_only)

    return {
        "create_topics c1": create("c1", num_partitions=2, replica_assignment=_AT),
        "create_topics c1 again": create("c1", num_partitions=2, replica_assignment=_AT),
        "create_topics RF 9": create("c9", num_partitions=2, replication_factor=9),
        "create_topics RF 0": create("c9", num_partitions=2, replication_factor=0),
        "create_topics unknown broker": create("c9", num_partitions=1, replica_assignment=[[0, 7]]),
        "create_topics a broker twice": create("c9", num_partitions=1, replica_assignment=[[0, 0]]),
        "create_topics bad name": create("c/9", num_partitions=1, replication_factor=1),
        "create_topics too many partitions": create(
            "c9", num_partitions=10_001, replication_factor=1
        ),
        "create_topics long name": create("c" * 250, num_partitions=1, replication_factor=1),
        "create_topics colliding names": lambda: admin.create_topics(
            [topic("c.x", 1, 1), topic("c1", 1, 1)], validate_only=True
        ),
        "create_topics bad config": create(
            "c9", num_partitions=1, replication_factor=1, config={"retention.ms": "soon"}
        ),
        "create_topics validate": create(
            "cv", num_partitions=2, replication_factor=3, validate_only=True
        ),
        "describe_topics": lambda: admin.describe_topics(
            TopicCollection(["c1", "nosuch"]), include_authorized_operations=True
        ),
        "create_partitions 3": lambda: admin.create_partitions(
            [more("c1", 3, replica_assignment=[[2, 0, 1]])]
        ),
        "create_partitions 2": lambda: admin.create_partitions([more("c1", 2)]),
        "create_partitions nosuch": lambda: admin.create_partitions([more("nosuch", 2)]),
        "create_partitions validate": lambda: admin.create_partitions(
            [more("c1", 5)], validate_only=True
        ),
        "elect_leaders": lambda: admin.elect_leaders(preferred, [TopicPartition("c1", 0)]),
        "elect_leaders unclean": lambda: admin.elect_leaders(unclean, [TopicPartition("c1", 0)]),
        "elect_leaders nosuch": lambda: admin.elect_leaders(preferred, [TopicPartition("no", 0)]),
    }


def _configs(admin: Any) -> Calls:
    kinds = api.ResourceType

    def alter(
        kind: Any, name: str, *entries: tuple[str, str | None, Any], **how: Any
    ) -> Callable[[], Any]:
        made = [api.ConfigEntry(key, value, incremental_operation=op) for key, value, op in entries]
        return lambda: admin.incremental_alter_configs(
            [api.ConfigResource(kind, name, incremental_configs=made)], **how
        )

    def describe(kind: Any, name: str) -> Callable[[], Any]:
        return lambda: admin.describe_configs([api.ConfigResource(kind, name)])

    topic, broker = kinds.TOPIC, kinds.BROKER
    return {
        "incremental_alter_configs": alter(topic, "c1", ("retention.ms", "4000", _SET)),
        "incremental_alter_configs append": alter(
            topic, "c1", ("cleanup.policy", "compact", _APPEND)
        ),
        "incremental_alter_configs append to a number": alter(
            topic, "c1", ("retention.ms", "1", _APPEND)
        ),
        "incremental_alter_configs bad value": alter(topic, "c1", ("retention.ms", "soon", _SET)),
        "incremental_alter_configs unknown": alter(topic, "c1", ("no.such.config", "1", _SET)),
        "incremental_alter_configs nosuch": alter(topic, "nosuch", ("retention.ms", "1", _SET)),
        "incremental_alter_configs validate": alter(
            topic, "c1", ("retention.ms", "5000", _SET), validate_only=True
        ),
        "describe_configs c1": describe(topic, "c1"),
        "describe_configs nosuch": describe(topic, "nosuch"),
        "incremental_alter_configs subtract": alter(
            topic, "c1", ("cleanup.policy", "compact", _SUBTRACT), ("retention.ms", None, _DELETE)
        ),
        "describe_configs c1 again": describe(topic, "c1"),
        "incremental_alter_configs broker": alter(broker, "1", ("log.cleaner.threads", "2", _SET)),
        "incremental_alter_configs broker read-only": alter(
            broker, "1", ("broker.rack", "x", _SET)
        ),
        "incremental_alter_configs broker bad value": alter(
            broker, "1", ("log.cleaner.threads", "many", _SET)
        ),
        "describe_configs broker 1": describe(broker, "1"),
        "incremental_alter_configs broker delete": alter(
            broker, "1", ("log.cleaner.threads", None, _DELETE)
        ),
    }


def _access(admin: Any) -> Calls:
    acl, found = _acl("User:q", api.AclOperation.READ), _acls_of("User:q")
    scram, one = api.ScramMechanism.SCRAM_SHA_256, api.UserScramCredentialUpsertion

    def upsert(user: str, iterations: int) -> Callable[[], Any]:
        made = one(user, api.ScramCredentialInfo(scram, iterations), b"pw", b"salt")
        return lambda: admin.alter_user_scram_credentials([made])

    gone = api.UserScramCredentialDeletion("q", scram)
    return {
        "create_acls": lambda: admin.create_acls([acl]),
        "describe_acls": lambda: admin.describe_acls(found),
        "delete_acls": lambda: admin.delete_acls([found]),
        "delete_acls again": lambda: admin.delete_acls([found]),
        "create_acls no principal type": lambda: admin.create_acls(
            [_acl("q", api.AclOperation.READ)]
        ),
        "alter_user_scram_credentials": upsert("q", 4096),
        "alter_user_scram_credentials few iterations": upsert("q", 100),
        "alter_user_scram_credentials many iterations": upsert("q", 100_000),
        "describe_user_scram_credentials": lambda: admin.describe_user_scram_credentials(
            ["q", "nobody"]
        ),
        "describe_user_scram_credentials all": lambda: {
            "": admin.describe_user_scram_credentials()
        },
        "delete user q": lambda: admin.alter_user_scram_credentials([gone]),
        "delete user q again": lambda: admin.alter_user_scram_credentials([gone]),
    }


def _acl(principal: str, operation: Any, *, deny: bool = False, cluster: bool = False) -> Any:
    permission = api.AclPermissionType.DENY if deny else api.AclPermissionType.ALLOW
    literal = api.ResourcePatternType.LITERAL
    kind, name = (
        (api.ResourceType.BROKER, "kafka-cluster") if cluster else (api.ResourceType.TOPIC, "c1")
    )
    return api.AclBinding(kind, name, literal, principal, "*", operation, permission)


def _acls_of(principal: str) -> Any:
    return api.AclBindingFilter(
        api.ResourceType.ANY,
        None,
        api.ResourcePatternType.ANY,
        principal,
        None,
        api.AclOperation.ANY,
        api.AclPermissionType.ANY,
    )


def _groups(admin: Any) -> Calls:
    return {
        "list_offsets": lambda: admin.list_offsets(
            {TopicPartition("c1", 0): api.OffsetSpec.latest()}, request_timeout=10
        ),
        "list_consumer_groups": lambda: admin.list_consumer_groups(request_timeout=10),
        "describe_consumer_groups nosuch": lambda: admin.describe_consumer_groups(
            ["nosuch"], request_timeout=10
        ),
    }


def _denied(admin: Any) -> Calls:
    """ACLs allow every operation to every user here; an ACL that denies takes precedence."""
    me, do = "User:ANONYMOUS", api.AclOperation
    denied = [
        _acl(me, do.ALL, deny=True),
        _acl(me, do.CREATE, deny=True, cluster=True),
        _acl(me, do.DELETE, deny=True, cluster=True),
        _acl(me, do.IDEMPOTENT_WRITE, deny=True, cluster=True),
    ]
    resource = api.ConfigResource(
        api.ResourceType.TOPIC,
        "c1",
        incremental_configs=[api.ConfigEntry("retention.ms", "1", incremental_operation=_SET)],
    )
    return {
        "create_acls that deny c1": lambda: admin.create_acls(denied),
        "describe_acls that deny c1": lambda: admin.describe_acls(_acls_of("User:ANONYMOUS")),
        "describe_cluster, denied": lambda: admin.describe_cluster(
            include_authorized_operations=True
        ),
        "list_topics, denied": lambda: admin.list_topics(timeout=10).topics,
        "describe_topics, denied": lambda: admin.describe_topics(TopicCollection(["c1"])),
        "describe_configs, denied": lambda: admin.describe_configs(
            [api.ConfigResource(api.ResourceType.TOPIC, "c1")]
        ),
        "create_partitions, denied": lambda: admin.create_partitions([api.NewPartitions("c1", 9)]),
        "incremental_alter_configs, denied": lambda: admin.incremental_alter_configs([resource]),
        "create_topics, denied": lambda: admin.create_topics([api.NewTopic("c1", 1, 1)]),
        "delete_topics, denied": lambda: admin.delete_topics(["c1"], operation_timeout=10),
        "delete_acls that deny": lambda: admin.delete_acls([_acls_of("User:ANONYMOUS")]),
    }


def _end(admin: Any) -> Calls:
    return {
        "list_topics": lambda: admin.list_topics(timeout=10).topics,
        "delete_topics": lambda: admin.delete_topics(["c1"], operation_timeout=10),
        "delete_topics nosuch": lambda: admin.delete_topics(["nosuch"], operation_timeout=10),
        "describe_topics, gone": lambda: admin.describe_topics(TopicCollection(["c1"])),
    }


def _text(call: Callable[[], Any]) -> str:
    """The result of each future, or the error that the call raised."""
    try:
        made = call()
    except Exception as error:  # noqa: BLE001 - whatever it raises is what is compared
        return _error(error)
    if hasattr(made, "result"):
        return _result(made)
    if not isinstance(made, dict) or not any(hasattr(one, "result") for one in made.values()):
        return shown(made)
    return "\n".join(f"{key}: {_result(future)}" for key, future in made.items())


def _result(future: Any) -> str:
    try:
        return shown(future.result(_TIMEOUT_S))
    except Exception as error:  # noqa: BLE001 - as above
        return _error(error)


def _error(error: Exception) -> str:
    inner: Any = error.args[0] if isinstance(error, KafkaException) and error.args else None
    return raised(error) if inner is None else f"{inner.name()}: {inner.str()}"


def main() -> None:
    """Connect and serve."""
    serve(calls(api.AdminClient({"bootstrap.servers": sys.argv[1], "log_level": 0})), _text)


if __name__ == "__main__":
    main()
