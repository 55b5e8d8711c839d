"""Calls of aiokafka: ``python -m bench.matrix.clients.python.aiokafka_calls HOST:PORT``."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable
from typing import Any

import aiokafka.admin as aio
from aiokafka.errors import for_code

from bench.matrix.clients.python.loop import Calls, raised, serve, shown


def calls(admin: aio.AIOKafkaAdminClient) -> Calls:
    """Every call, in order."""
    topic, partitions = aio.NewTopic, aio.NewPartitions
    at = {0: [0, 1, 2], 1: [1, 2, 0]}
    return {
        "describe_cluster": admin.describe_cluster,
        "list_topics": admin.list_topics,
        "create_topics a1": lambda: admin.create_topics(
            [topic("a1", -1, -1, at, {"retention.ms": "9999"})]
        ),
        "create_topics a1 again": lambda: admin.create_topics([topic("a1", -1, -1, at)]),
        "create_topics two, one wrong": lambda: admin.create_topics(
            [topic("a2", -1, -1, at), topic("a3", 1, 9)]
        ),
        "create_topics no partitions": lambda: admin.create_topics([topic("a9", 0, 3)]),
        "create_topics name with a space": lambda: admin.create_topics([topic("a 9", 1, 3)]),
        "create_topics name of two dots": lambda: admin.create_topics([topic("..", 1, 3)]),
        "create_topics unknown config": lambda: admin.create_topics(
            [topic("a9", 1, 3, {}, {"no.such.config": "1"})]
        ),
        "create_topics unknown broker": lambda: admin.create_topics(
            [topic("a9", -1, -1, {0: [0, 7]})]
        ),
        "create_topics validate": lambda: admin.create_topics(
            [topic("av", 2, 3)], validate_only=True
        ),
        "describe_topics a1": lambda: admin.describe_topics(["a1"]),
        "describe_topics nosuch": lambda: admin.describe_topics(["nosuch"]),
        "describe_topics bad name": lambda: admin.describe_topics(["b ad"]),
        "create_partitions 3": lambda: admin.create_partitions({"a1": partitions(3, [[2, 0, 1]])}),
        "create_partitions 2": lambda: admin.create_partitions({"a1": partitions(2)}),
        "create_partitions nosuch": lambda: admin.create_partitions({"nosuch": partitions(2)}),
        "alter_configs": lambda: admin.alter_configs([_topic("a1", {"retention.ms": "4000"})]),
        "alter_configs wrong": lambda: admin.alter_configs(
            [_topic("a1", {"retention.ms": "soon"})]
        ),
        "alter_configs nosuch": lambda: admin.alter_configs(
            [_topic("nosuch", {"retention.ms": "4000"})]
        ),
        "describe_configs a1": lambda: admin.describe_configs([_topic("a1", None)], True),
        "describe_configs one of a1": lambda: admin.describe_configs(
            [_topic("a1", {"retention.ms": ""})]
        ),
        "describe_configs nosuch": lambda: admin.describe_configs([_topic("nosuch", None)]),
        "describe_configs broker 1": lambda: admin.describe_configs(
            [_broker("1", {"broker.rack": "", "node.id": "", "process.roles": ""})]
        ),
        "find_coordinator": lambda: admin.find_coordinator("g1"),
        "describe_topics all": admin.describe_topics,
        "delete_topics": lambda: admin.delete_topics(["a1", "a2"]),
        "delete_topics nosuch": lambda: admin.delete_topics(["nosuch"]),
        "list_topics after": admin.list_topics,
    }


def _topic(name: str, configs: dict[str, str] | None) -> Any:
    return aio.config_resource.ConfigResource(
        aio.config_resource.ConfigResourceType.TOPIC, name, configs
    )


def _broker(name: str, configs: dict[str, str]) -> Any:
    return aio.config_resource.ConfigResource(
        aio.config_resource.ConfigResourceType.BROKER, name, configs
    )


async def _text(call: Callable[[], Any]) -> str:
    try:
        answer = await call()
    except Exception as error:  # noqa: BLE001 - whatever it raises is what is compared
        return raised(error)
    many = answer if isinstance(answer, list) else [answer]
    return "\n".join(
        shown(_named(one.to_object() if hasattr(one, "to_object") else one)) for one in many
    )


def _named(value: Any) -> Any:
    """The same with error codes by name."""
    if isinstance(value, dict):
        return {
            key: for_code(one).__name__ if key == "error_code" else _named(one)
            for key, one in value.items()
        }
    return [_named(one) for one in value] if isinstance(value, list) else value


def main() -> None:
    """Connect and serve."""
    with asyncio.Runner() as runner:

        async def connect() -> aio.AIOKafkaAdminClient:
            made = aio.AIOKafkaAdminClient(bootstrap_servers=sys.argv[1], request_timeout_ms=15_000)
            await made.start()
            return made

        admin = runner.run(connect())
        serve(calls(admin), lambda call: runner.run(_text(call)))
        runner.run(admin.close())


if __name__ == "__main__":
    main()
