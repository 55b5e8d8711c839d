"""Calls of kafka-python 1.4.4: ``python -m bench.matrix.clients.python.kafka_python_1_calls``.

It is the oldest release with a client for administration, and the oldest that Python 3.11 imports.
Its `create_topics` and `create_partitions` send the request and then fail on the answer, so here
the library's own request goes out by its own `_send_request_to_node`.
"""

from __future__ import annotations

import importlib
import sys
from typing import Any

from bench.matrix.clients.python.loop import Calls, serve

api: Any = importlib.import_module("kafka.admin")
requests: Any = importlib.import_module("kafka.protocol.admin")
metadata: Any = importlib.import_module("kafka.protocol.metadata")
_AT = [(0, [0, 1, 2]), (1, [1, 2, 0])]
_LIMIT_MS = 15_000


def calls(admin: Any) -> Calls:
    """Every call, in order."""

    def send(request: Any) -> Any:
        # The library has no other way to a node; what it is asked through stays its own.
        return admin._send_request_to_node(admin._controller_id, request)  # noqa: SLF001 - no other way

    def create(version: int, *topic: Any) -> Any:
        validate = [False] if version else []
        kind = requests.CreateTopicsRequest[version]
        return lambda: send(kind([topic], _LIMIT_MS, *validate))

    def more(name: str, count: int, at: Any = None) -> Any:
        return lambda: send(
            requests.CreatePartitionsRequest[0]([(name, (count, at))], _LIMIT_MS, False)
        )

    topic = _topic
    return {
        "create_topics o1": create(2, "o1", -1, -1, _AT, []),
        "create_topics o1 again": create(2, "o1", -1, -1, _AT, []),
        "create_topics, version 0": create(0, "o0", -1, -1, _AT, []),
        "create_topics RF 9, version 1": create(1, "o9", 1, 9, [], []),
        "create_topics default RF, version 2": create(2, "o9", 1, -1, [], []),
        "create_topics, as the library does": lambda: admin.create_topics(
            [api.NewTopic("o9", 1, 9)]
        ),
        **{
            f"describe o1 by Metadata {version}": lambda version=version: send(
                metadata.MetadataRequest[version](*_metadata(version))
            )
            for version in range(6)
        },
        "create_partitions 3": more("o1", 3, [[2, 0, 1]]),
        "create_partitions 2": more("o1", 2),
        "alter_configs": lambda: admin.alter_configs([topic("o1", {"retention.ms": "4000"})]),
        "alter_configs bad value": lambda: admin.alter_configs(
            [topic("o1", {"retention.ms": "soon"})]
        ),
        "describe_configs o1": lambda: admin.describe_configs([topic("o1", None)]),
        "describe_configs o1, synonyms": lambda: admin.describe_configs(
            [topic("o1", {"retention.ms": ""})], include_synonyms=True
        ),
        "describe_configs nosuch": lambda: admin.describe_configs([topic("nosuch", None)]),
        "delete_topics": lambda: admin.delete_topics(["o1", "o0", "o9"]),
        "delete_topics nosuch": lambda: admin.delete_topics(["nosuch"]),
    }


def _metadata(version: int) -> tuple[Any, ...]:
    return (["o1", "nosuch"], False) if version >= 4 else (["o1", "nosuch"],)


def _topic(name: str, configs: dict[str, str] | None) -> Any:
    return api.ConfigResource(api.ConfigResourceType.TOPIC, name, configs)


def main() -> None:
    """Connect and serve."""
    serve(calls(api.KafkaAdminClient(bootstrap_servers=sys.argv[1], request_timeout_ms=_LIMIT_MS)))


if __name__ == "__main__":
    main()
