"""The same questions by confluent-kafka and aiokafka, through a broker."""

from __future__ import annotations

import asyncio
import importlib
from collections.abc import Callable
from typing import Any, Final

import aiokafka.admin as aio
from aiokafka.errors import for_code
from confluent_kafka import ElectionType, KafkaException, TopicPartition

from bench.matrix.readers.outcome import Outcome, plain
from bench.matrix.readers.tools import settle
from bench.matrix.stage import Stage

confluent: Any = importlib.import_module("confluent_kafka.admin")  # its types leave half out
_TIMEOUT_S: Final = 20.0


def run(stage: Stage) -> list[Outcome]:
    """Every call of both libraries, in order."""
    return [*_confluent(stage), *asyncio.run(_aiokafka(stage))]


# --------------------------------------------------------------------- confluent-kafka
def _confluent(stage: Stage) -> list[Outcome]:
    admin = confluent.AdminClient(
        {"bootstrap.servers": stage.cluster.brokers[0].bootstrap, "log_level": 0}
    )
    found = []
    for what, call in _confluent_calls(admin).items():
        if what.startswith("describe"):
            settle(stage)
        found.append(Outcome("confluent-kafka", what, plain(_futures(call))))
    return found


def _futures(call: Callable[[], Any]) -> str:
    """The result of each future, or the error that the call raised."""
    try:
        made = call()
        found = made if isinstance(made, dict) else {"": made}
        return "\n".join(f"{key}: {_result(future)}" for key, future in found.items())
    except (KafkaException, ValueError, TypeError) as error:
        return _error(error)


def _result(future: Any) -> str:
    try:
        return _shown(future.result(_TIMEOUT_S))
    except (KafkaException, ValueError, TypeError) as error:
        return _error(error)


def _error(error: Exception) -> str:
    inner: Any = error.args[0] if error.args else error
    name = getattr(inner, "name", None)
    return f"{name()}: {inner.str()}" if callable(name) else f"{type(error).__name__}: {error}"


def _shown(value: Any) -> str:
    """Configs by name, value and source; anything else as it prints itself."""
    if isinstance(value, dict):
        parts = []
        for key in sorted(value, key=str):
            one = value[key]
            source = getattr(one, "source", None)
            parts.append(f"{key}={getattr(one, 'value', one)} {source}")
        return "; ".join(parts)
    if isinstance(value, list):
        return "; ".join(sorted(map(str, value)))
    if hasattr(value, "scram_credential_infos"):
        return str([(str(one.mechanism), one.iterations) for one in value.scram_credential_infos])
    return str(value)


def _confluent_calls(admin: Any) -> dict[str, Callable[[], Any]]:
    topic = confluent.NewTopic
    wanted = confluent.ConfigResource(confluent.ResourceType.TOPIC, "c1")
    entry = confluent.ConfigEntry("retention.ms", "4000", incremental_operation=_SET)
    wrong = confluent.ConfigEntry("retention.ms", "soon", incremental_operation=_SET)
    acl = confluent.AclBinding(
        confluent.ResourceType.TOPIC,
        "c1",
        confluent.ResourcePatternType.LITERAL,
        "User:q",
        "*",
        confluent.AclOperation.READ,
        confluent.AclPermissionType.ALLOW,
    )
    found = confluent.AclBindingFilter(
        confluent.ResourceType.TOPIC,
        "c1",
        confluent.ResourcePatternType.ANY,
        None,
        None,
        confluent.AclOperation.ANY,
        confluent.AclPermissionType.ANY,
    )
    scram = confluent.UserScramCredentialUpsertion(
        "q", confluent.ScramCredentialInfo(confluent.ScramMechanism.SCRAM_SHA_256, 4096), b"pw"
    )
    gone = confluent.UserScramCredentialDeletion("q", confluent.ScramMechanism.SCRAM_SHA_256)
    preferred = ElectionType.PREFERRED
    return {
        "create_topics c1": lambda: admin.create_topics([topic("c1", 2, 3)]),
        "create_topics c1 again": lambda: admin.create_topics([topic("c1", 2, 3)]),
        "create_topics RF 9": lambda: admin.create_topics([topic("c9", 2, 9)]),
        "create_topics validate": lambda: admin.create_topics(
            [topic("cv", 2, 3)], validate_only=True
        ),
        "create_partitions 4": lambda: admin.create_partitions([confluent.NewPartitions("c1", 4)]),
        "create_partitions 3": lambda: admin.create_partitions([confluent.NewPartitions("c1", 3)]),
        "incremental_alter_configs": lambda: admin.incremental_alter_configs(
            [_with(wanted, entry)]
        ),
        "incremental_alter_configs wrong": lambda: admin.incremental_alter_configs(
            [_with(wanted, wrong)]
        ),
        "create_acls": lambda: admin.create_acls([acl]),
        "describe_acls": lambda: admin.describe_acls(found),
        "delete_acls": lambda: admin.delete_acls([found]),
        "alter_user_scram_credentials": lambda: admin.alter_user_scram_credentials([scram]),
        "describe_user_scram_credentials": lambda: admin.describe_user_scram_credentials(["q"]),
        "delete user q": lambda: admin.alter_user_scram_credentials([gone]),
        "elect_leaders": lambda: admin.elect_leaders(preferred, [TopicPartition("c1", 0)]),
        "elect_leaders nosuch": lambda: admin.elect_leaders(preferred, [TopicPartition("no", 0)]),
        "delete_topics c1": lambda: admin.delete_topics(["c1"], operation_timeout=20),
        "delete_topics nosuch": lambda: admin.delete_topics(["nosuch"], operation_timeout=20),
    }


_SET: Final = confluent.AlterConfigOpType.SET


def _with(resource: Any, entry: Any) -> Any:
    return confluent.ConfigResource(resource.restype, resource.name, incremental_configs=[entry])


# --------------------------------------------------------------------- aiokafka
async def _aiokafka(stage: Stage) -> list[Outcome]:
    admin = aio.AIOKafkaAdminClient(
        bootstrap_servers=stage.cluster.brokers[0].bootstrap, request_timeout_ms=20_000
    )
    await admin.start()
    try:
        return [
            Outcome("aiokafka", what, plain(await _outcome_text(call)))
            for what, call in _aiokafka_calls(admin).items()
        ]
    finally:
        await admin.close()


async def _outcome_text(call: Callable[[], Any]) -> str:
    try:
        answer = await call()
    except Exception as error:  # noqa: BLE001 - whatever it raises is what is compared
        return f"{type(error).__name__}: {error}"
    return (
        "\n".join(_codes(answer))
        if not isinstance(answer, list)
        else "\n".join(line for one in answer for line in _codes(one))
    )


def _codes(answer: Any) -> list[str]:
    """Topic and error of each entry, and the configs of a description."""
    plain_answer = answer.to_object() if hasattr(answer, "to_object") else answer
    if not isinstance(plain_answer, dict):
        return [str(plain_answer)]
    lines = []
    for key in ("topic_errors", "topic_error_codes", "topic_errors_list", "resources"):
        for one in plain_answer.get(key, ()):
            code = one.get("error_code", 0)
            name = one.get("topic") or one.get("resource_name") or ""
            configs = sorted(
                f"{c.get('config_names')}={c.get('config_value')} {c.get('config_source')}"
                for c in one.get("config_entries", ())
            )
            lines.append(f"{name}: {for_code(code).__name__} {'; '.join(configs)}")
    return lines or [str(sorted(plain_answer))]


def _aiokafka_calls(admin: aio.AIOKafkaAdminClient) -> dict[str, Callable[[], Any]]:
    topic = aio.NewTopic
    resource = aio.config_resource.ConfigResource
    kind = aio.config_resource.ConfigResourceType.TOPIC
    return {
        "create_topics a1": lambda: admin.create_topics([topic("a1", 2, 3)]),
        "create_topics a1 again": lambda: admin.create_topics([topic("a1", 2, 3)]),
        "create_topics RF 9": lambda: admin.create_topics([topic("a9", 2, 9)]),
        "create_topics validate": lambda: admin.create_topics(
            [topic("av", 2, 3)], validate_only=True
        ),
        "create_partitions 4": lambda: admin.create_partitions({"a1": aio.NewPartitions(4)}),
        "create_partitions 3": lambda: admin.create_partitions({"a1": aio.NewPartitions(3)}),
        "alter_configs": lambda: admin.alter_configs(
            [resource(kind, "a1", {"retention.ms": "4000"})]
        ),
        "alter_configs wrong": lambda: admin.alter_configs(
            [resource(kind, "a1", {"retention.ms": "soon"})]
        ),
        "delete_topics a1": lambda: admin.delete_topics(["a1"]),
        "delete_topics nosuch": lambda: admin.delete_topics(["nosuch"]),
    }
