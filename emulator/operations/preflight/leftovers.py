"""Rules on what else lives in the same ZooKeeper: other tools, and consumers of old."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from emulator.operations.preflight.engine import Outcome, Severity, finding, rule, several
from emulator.operations.preflight.survey import Survey

KAFKAS: Final = frozenset(
    {
        "admin",
        "brokers",
        "cluster",
        "config",
        "consumers",
        "controller",
        "controller_epoch",
        "delegation_token",
        "feature",
        "isr_change_notification",
        "kafka-acl",
        "kafka-acl-changes",
        "kafka-acl-extended",
        "kafka-acl-extended-changes",
        "kraft_bridge",
        "latest_producer_id_block",
        "log_dir_event_notification",
        "migration",
        "zookeeper",
    }
)
"""Znodes at the root of a cluster that are Kafka's, ours or ZooKeeper's own."""
TOOLS: Final = {
    "burrow": "Burrow",
    "cmak": "CMAK",
    "cruise-control": "Cruise Control",
    "kafka-manager": "Kafka Manager (CMAK)",
    "kafka-monitor": "Kafka Monitor",
    "leadership_priority": "Confluent Server",
    "schema_registry": "Schema Registry",
    "strimzi": "Strimzi's topic operator",
}
RECENT_MS: Final = 30 * 24 * 3_600_000
"""Offsets that no group has committed for so long are a remainder."""
OFFSET_DEPTH: Final = len("/consumers/GROUP/offsets/TOPIC/PARTITION".split("/")) - 1
"""Slashes in the path of an offset; the znode of its topic, which may have data too, has fewer."""


@rule(
    "W16",
    "no other tool keeps its data in this ZooKeeper",
    "Burrow, CMAK and others keep their own data and locks in Kafka's ZooKeeper, and some read the "
    "brokers and topics there. They were forgotten: when ZooKeeper was switched off they stopped, "
    "and their data was gone.",
)
def foreign(survey: Survey) -> Iterator[Outcome]:
    """Znodes at the root that are neither Kafka's nor ZooKeeper's."""
    clusters = [
        path.removesuffix("/controller_epoch")
        for path in survey.nodes
        if path.endswith("/controller_epoch") and path.count("/") > 1
    ]
    for name in survey.children(""):
        path = f"/{name}"
        if name in KAFKAS:
            continue
        if any(inner == path or inner.startswith(f"{path}/") for inner in clusters):
            if "/controller_epoch" in survey.nodes:  # W10 reports the other case
                yield finding(
                    "W16",
                    path,
                    "another Kafka cluster lives below it",
                    "not looked at: it has a preflight and a migration of its own",
                    "run preflight with this chroot too",
                    "KIP-866",
                    Severity.INFO,
                )
            continue
        tool = TOOLS.get(name.lower().removesuffix("-topic-operator"))
        count = 1 + sum(1 for _ in survey.below(path))
        yield finding(
            "W16",
            path,
            f"{several(count, 'znode')} of {tool or 'another tool'}",
            "not migrated: whatever keeps them here loses them when ZooKeeper is switched off, and "
            "stops if it reads brokers or topics from ZooKeeper",
            "find its owner, and move it away from ZooKeeper before the migration is finalised",
            "KIP-866",
        )


@rule(
    "W17",
    "no consumer commits to ZooKeeper",
    "Consumers of before 0.9 were still committing their offsets to ZooKeeper. After ZooKeeper was "
    "switched off they started again from the end of every topic.",
)
def old_consumers(survey: Survey) -> Iterator[Outcome]:
    """Groups below /consumers: members that are alive, and offsets committed lately."""
    for group in survey.children("/consumers"):
        root = f"/consumers/{group}"
        alive = [path for path, node in survey.below(f"{root}/ids") if node.ephemeral]
        offsets = [
            (path, node)
            for path, node in survey.below(f"{root}/offsets")
            if node.data is not None and path.count("/") == OFFSET_DEPTH
        ]
        if not alive and not offsets:
            continue
        times = [node.mtime_ms for _, node in offsets if node.mtime_ms is not None]
        quiet = (
            bool(times)
            and survey.read_at_ms is not None
            and survey.read_at_ms - max(times) > RECENT_MS
            and not alive
        )
        connected = f"{several(len(alive), 'member')} connected; " if alive else ""
        last = ", the last more than 30 days ago" if quiet else ""
        yield finding(
            "W17",
            root,
            f"{connected}offsets of {several(len(offsets), 'partition')} in ZooKeeper{last}",
            "not migrated: without ZooKeeper this group has no offsets, and its consumers stop",
            "none, if nobody uses the group; else use a consumer that commits to Kafka, and carry "
            "its offsets over with kafka-consumer-groups --reset-offsets",
            "KIP-500",
            Severity.INFO if quiet else None,
        )
