"""Rules for a cluster that is to run Kafka 4 next: ``--target-release 4.x``."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from emulator.operations.preflight.engine import FindingOf, NotRun, Outcome, Severity, rule
from emulator.operations.preflight.node_file import Properties
from emulator.operations.preflight.quorum import level_name
from emulator.operations.preflight.stage import MigrationStage, standing
from emulator.operations.preflight.survey import Survey

RELEASES: Final = ("4.0", "4.1", "4.2", "4.3", "4.4")
SEGMENT_MIN: Final = 1024 * 1024
SEGMENT_SINCE: Final = (4, 1)
LEVEL_MIN: Final = 7
"""metadata.version 3.3-IV3, the lowest that a 4.x controller starts with."""
_WHOLE: Final = re.compile(r"[+-]?[0-9]{1,19}")
ZOOKEEPER_ONLY: Final = "ZooKeeper mode only"
GONE: Final = {
    "alter.config.policy.kraft.compatibility.enable": "gone",
    "auto.include.jmx.reporter": "KIP-830: name JmxReporter in metric.reporters",
    "broker.id.generation.enable": ZOOKEEPER_ONLY,
    "control.plane.listener.name": ZOOKEEPER_ONLY,
    "controlled.shutdown.max.retries": ZOOKEEPER_ONLY,
    "controlled.shutdown.retry.backoff.ms": ZOOKEEPER_ONLY,
    "delegation.token.master.key": "use delegation.token.secret.key",
    "eligible.leader.replicas.enable": "gone: a feature level now",
    "group.coordinator.new.enable": "gone: always on",
    "group.share.max.groups": "gone",
    "inter.broker.protocol.version": ZOOKEEPER_ONLY,
    "leader.imbalance.per.broker.percentage": ZOOKEEPER_ONLY,
    "log.message.downconversion.enable": "KIP-724",
    "log.message.format.version": "KIP-724",
    "log.message.timestamp.difference.max.ms": "KIP-937: two keys replace it",
    "offsets.commit.required.acks": "KIP-1041",
    "reserved.broker.max.id": ZOOKEEPER_ONLY,
}
"""Properties that 4.0 has no more, and why."""
LEAST: Final = {
    "remote.log.manager.copier.thread.pool.size": ((4, 0), 1),
    "remote.log.manager.expiration.thread.pool.size": ((4, 0), 1),
    "metadata.log.segment.bytes": ((4, 1), 8 * SEGMENT_MIN),
    "num.replica.fetchers": ((4, 3), 1),
}
"""Numbers that Kafka 3.9 takes lower: since which release, and the lowest."""
GONE_PREFIXES: Final = ("zookeeper.", "password.encoder.")
GONE_TOPIC: Final = {
    "message.downconversion.enable": "KIP-724",
    "message.format.version": "KIP-724",
    "message.timestamp.difference.max.ms": "KIP-937",
}
"""Topic configs that 4.0 has no more."""


def parsed(release: str) -> tuple[int, int] | None:
    """Major and minor of a release of 4.x, None for any other text.

    >>> parsed("4.1"), parsed("4.1.0"), parsed("3.9"), parsed("4.x")
    ((4, 1), (4, 1), None, (4, 4))
    """
    if release == "4.x":
        release = RELEASES[-1]
    short = ".".join(release.split(".")[:2])
    if short not in RELEASES or not all(part.isdigit() for part in release.split(".")):
        return None
    major, minor = short.split(".")
    return int(major), int(minor)


_W18: Final = FindingOf("W18", "Kafka 4.0 upgrade notes")


@rule(
    "W18",
    "nothing is left that Kafka 4 refuses",
    "A controller was upgraded to 4.0 before the migration was finalised: dual write stopped "
    "without a message. Others had clients that 4.0 does not serve, or segments below 1 MiB.",
)
def kafka4(survey: Survey) -> Iterator[Outcome]:
    """With --target-release: stage, metadata.version, properties and topic configs."""
    release = parsed(survey.target_release)
    if release is None:
        yield NotRun("W18", "what a release of 4.x refuses: give --target-release 4.x")
        return
    text = survey.target_release
    yield from _stage(survey, text)
    for folder in survey.folders:
        level = folder.metadata_level
        if level is not None and level < LEVEL_MIN:
            yield _W18(
                folder.name,
                f"metadata.version {level_name(level)}",
                f"controllers of {text} do not start below 7 (3.3-IV3)",
                "kafka-features upgrade --release-version 3.9, once the migration is finalised",
            )
    # The file that a node has now is judged only if no target file is given for it.
    future = {one.node_id for one in survey.targets}
    present = [one for one in survey.properties if one.node_id not in future]
    for one in (*survey.targets, *present):
        yield from _properties(one, release, text)
    for name in survey.children("/config/topics"):
        if name not in survey.pending:
            yield from _topic(survey, f"/config/topics/{name}", name, release, text)
    for name in survey.children("/config/brokers"):
        path = f"/config/brokers/{name}"
        yield from _dynamic(path, survey.config(path), release, text)
    yield NotRun(
        "W18",
        "ZooKeeper does not say which clients connect: 4.0 refuses requests of clients older than "
        "2.1 (KIP-896). Brokers of 3.7 and later count them in "
        "kafka.network:type=RequestMetrics,name=DeprecatedRequestsPerSec",
    )


def _stage(survey: Survey, text: str) -> Iterator[Outcome]:
    now = standing(survey)
    if now.stage in {MigrationStage.DUAL_WRITE, MigrationStage.UNDER_WAY}:
        yield _W18(
            "/migration",
            f"the migration is not finalised: {now.text}",
            f"a controller of {text} reads the migration's state as a record without effect: dual "
            "write stops without a word",
            "finalise the migration on 3.9 before any controller is upgraded",
            Severity.BLOCKER,
        )


def _properties(one: Properties, release: tuple[int, int], text: str) -> Iterator[Outcome]:
    of_zookeeper = not one.is_kraft_broker  # a controller has these until it is finalised
    for key in sorted(one.values):
        why = GONE.get(key, ZOOKEEPER_ONLY if key.startswith(GONE_PREFIXES) else "")
        if why and not (why == ZOOKEEPER_ONLY and of_zookeeper):
            yield _W18(
                f"{one.name}: {key}",
                f"{text} does not know it: {why}",
                "without effect there: what it was set for is lost without a word",
                "remove it before the upgrade",
            )
    for key, (since, least) in LEAST.items():
        value = one.get(key)
        if release >= since and _WHOLE.fullmatch(value) and int(value) < least:
            yield _W18(
                one.at(key),
                f"{value}: {text} refuses less than {least:,}",
                "the node does not start",
                f"remove it, or set it to {least} or more",
            )
    size = one.get("log.segment.bytes")
    if _small(size, release):
        yield _segment(f"{one.name}: log.segment.bytes", size, text, "the node does not start")


def _dynamic(
    path: str, config: dict[str, str], release: tuple[int, int], text: str
) -> Iterator[Outcome]:
    """Dynamic configs of a broker, or of all."""
    for key in sorted(config.keys() & GONE.keys()):
        yield _W18(
            path,
            f"{key} is set dynamically, and {text} does not know it: {GONE[key]}",
            "without effect there: what it was set for is lost without a word",
            "remove it with kafka-configs --delete-config before the upgrade",
        )
    size = str(config.get("log.segment.bytes", ""))
    if _small(size, release):
        why = "brokers do not take it and go on with the value in their files"
        yield _segment(path, size, text, why)


def _topic(
    survey: Survey, path: str, name: str, release: tuple[int, int], text: str
) -> Iterator[Outcome]:
    config = survey.config(path)
    for key in sorted(config.keys() & GONE_TOPIC.keys()):
        yield _W18(
            path,
            f"{key}={config[key]}: {text} does not know it ({GONE_TOPIC[key]})",
            "without effect there, and the next change of this topic's configs is refused",
            f"kafka-configs --alter --topic {name} --delete-config {key}",
        )
    if _small(str(config.get("segment.bytes", "")), release):
        yield _segment(
            path,
            str(config["segment.bytes"]),
            text,
            "brokers cannot load the topic's configs, and no change of them is accepted",
        )


def _small(size: str, release: tuple[int, int]) -> bool:
    return (
        release >= SEGMENT_SINCE
        and size.isascii()
        and size.isdigit()
        and int(size[:20]) < SEGMENT_MIN
    )


def _segment(where: str, size: str, text: str, consequence: str) -> Outcome:
    return _W18(
        where,
        f"segment.bytes {size}: {text} refuses less than {SEGMENT_MIN:,}",
        consequence,
        f"set it to {SEGMENT_MIN} or more",
    )
