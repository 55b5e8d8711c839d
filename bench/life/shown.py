"""Compares the Metadata responses of brokers: they must be equal in every mode of a broker."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any, Final

from bench.load import cluster_api as api
from wire import messages as m

_VERSION: Final = 12
"""Of Metadata: the first with names and ids of topics; 3.4.1 and 4.3.0 speak it."""


def metadata(address: str) -> dict[str, Any]:
    """The answer of a broker to Metadata for all topics, but for the controller it names.

    That one is drawn anew for each answer (KIP-866: a random live broker).

    Raises:
        OSError: it cannot be reached.
    """
    request = m.MetadataRequest(topics=None, allow_auto_topic_creation=False)
    answer = asyncio.run(api.call(address, request, _VERSION))
    return {
        "cluster": answer.cluster_id,
        "brokers": {one.node_id: (one.host, one.port, one.rack) for one in answer.brokers},
        "topics": {one.name: _topic(one) for one in answer.topics},
    }


def _topic(topic: Any) -> dict[str, Any]:
    return {
        "error": topic.error_code,
        "id": topic.topic_id,
        "internal": topic.is_internal,
        "partitions": {
            one.partition_index: {
                "error": one.error_code,
                "leader": one.leader_id,
                "leader epoch": one.leader_epoch,
                "replicas": list(one.replica_nodes),
                "isr": sorted(one.isr_nodes),
                "offline": sorted(one.offline_replicas),
            }
            for one in topic.partitions
        },
    }


def unequal(answers: Mapping[int, Any]) -> list[str]:
    """One line for each difference from the first answer; ``answers``: broker id -> answer."""
    (first, wanted), *others = answers.items()
    return [
        f"broker {first} and broker {other}: {line}"
        for other, found in others
        for line in _differ("", wanted, found)
    ]


def _differ(path: str, one: Any, other: Any) -> list[str]:
    if one == other:
        return []
    if isinstance(one, dict) and isinstance(other, dict):
        return [
            line
            for key in sorted(one.keys() | other.keys(), key=str)
            for line in _differ(f"{path} {key}", one.get(key), other.get(key))
        ]
    return [f"{path.strip()}: {one!r}, {other!r}"]
