"""``controller.quorum.bootstrap.servers`` on a controller: a dynamic quorum, which is refused.

The sample file of the migration guide of Apache Kafka 3.9 names its quorum so, and has no
``listener.security.protocol.map``. One sentence names both lines to change.
"""

from __future__ import annotations

from typing import Final

from emulator.config.java_text import trim
from emulator.config.listeners import SECURITY_PROTOCOLS
from emulator.config.reading import PropertyReader, name_list

SERVERS: Final = "controller.quorum.bootstrap.servers"
VOTERS: Final = "controller.quorum.voters"
PROTOCOL_MAP: Final = "listener.security.protocol.map"


def dynamic_only(reader: PropertyReader) -> bool:
    """Whether the quorum is a dynamic one: bootstrap servers are given, and no voters."""
    named = {key: bool(trim(reader.raw.get(key, ""))) for key in (SERVERS, VOTERS)}
    return named[SERVERS] and not named[VOTERS]


def instead(reader: PropertyReader, problems: list[str]) -> list[str]:
    """The problems of a file; of a dynamic quorum one sentence also names the missing map."""
    if not dynamic_only(reader):
        return problems
    return [refusal(reader), *(one for one in problems if PROTOCOL_MAP not in one)]


def refusal(reader: PropertyReader) -> str:
    """The sentence for a controller with a dynamic quorum: which lines to change.

    >>> refusal(PropertyReader({"node.id": "1", SERVERS: "c:9093", PROTOCOL_MAP: "C:PLAINTEXT"}))
    'dynamic quorums are not supported yet: write controller.quorum.voters=1@c:9093 instead of \
controller.quorum.bootstrap.servers=c:9093'
    """
    value = trim(reader.raw[SERVERS])
    servers = name_list(value)
    # The property does not show which server is this controller, nor the ids of the others.
    node_id = trim(reader.raw.get("node.id", "")) if len(servers) == 1 else "ID"
    voters = ",".join(f"{node_id}@{server}" for server in servers)
    each = "" if len(servers) == 1 else " (ID: the node.id of each)"
    found = (
        f"dynamic quorums are not supported yet: write {VOTERS}={voters}{each} instead of "
        f"{SERVERS}={value}"
    )
    names = name_list(reader.raw.get("controller.listener.names", ""))
    if trim(reader.raw.get(PROTOCOL_MAP, "")) or not set(names) - set(SECURITY_PROTOCOLS):
        return found
    mapped = ",".join(f"{name}:PLAINTEXT" for name in names)
    # With a map Kafka looks for the brokers' listener there too, whatever its name.
    between = trim(reader.raw.get("inter.broker.listener.name", "")).upper()
    if between in SECURITY_PROTOCOLS and between not in names:
        mapped += f",{between}:{between}"
    return f"{found}, and add {PROTOCOL_MAP}={mapped}"
