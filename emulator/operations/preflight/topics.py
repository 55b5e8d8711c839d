"""Topics and their partitions."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from typing import Any, Final

from emulator.config.confidential import value_of
from emulator.config.java_text import trim
from emulator.config.words import several
from emulator.controller.tables.config_defs import ConfigRefusedError, TopicConfig, parse
from emulator.controller.tables.config_defs import topic_configs as known_topic_configs
from emulator.operations.preflight.engine import (
    Outcome,
    Severity,
    finding,
    listed,
    named,
    rule,
)
from emulator.operations.preflight.kafka_values import why_refused
from emulator.operations.preflight.rolling import is_for_start, needed_at_start
from emulator.operations.preflight.survey import Survey

ROOT: Final = "/brokers/topics"
ADVERTISED: Final = "advertised.listeners"
RATES: Final = ("leader.replication.throttled.rate", "follower.replication.throttled.rate")
THROTTLED: Final = (
    "leader.replication.throttled.replicas",
    "follower.replication.throttled.replicas",
)
"""Rates of brokers, in bytes a second, and lists of the replicas in topics to which they apply."""
BETWEEN_FOLDERS: Final = "replica.alter.log.dirs.io.max.bytes.per.second"
"""A rate of moves between the folders of one broker, which no znode shows."""
CONFLUENT_KEYS: Final = "confluent."
_OF_A_LISTENER: Final = re.compile(r"^listener\.name\.[^.]+\.")
LONG: Final = 200
"""Characters of a value that is not shown any more."""
METADATA_LOG: Final = "__cluster_metadata"
DEPRECATED: Final = {
    "message.format.version": "KIP-724: ignored since inter.broker.protocol.version 3.0",
    "message.timestamp.difference.max.ms": "KIP-937: replaced by message.timestamp.before/after",
    "message.downconversion.enable": "KIP-724: gone in Kafka 4.0",
}


def _list(value: object) -> list[Any]:
    return value if isinstance(value, list) else []


def _dict(value: object) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _copied(survey: Survey) -> list[str]:
    """Topics that are copied, without those being deleted, which W01 reports."""
    return [name for name in survey.children(ROOT) if name not in survey.pending]


@rule(
    "B06",
    "every topic has an id of its own",
    "A topic had been created by a controller older than 2.8 and never got an id. The copy "
    "failed on it, at every attempt.",
)
def topic_ids(survey: Survey) -> Iterator[Outcome]:
    """Topics that no controller of 2.8 or later has seen; two with one id."""
    names: dict[str, str] = {}
    for name in _copied(survey):
        path = f"{ROOT}/{name}"
        if not survey.json(path):
            continue
        topic_id = survey.json(path).get("topic_id")
        if not isinstance(topic_id, str) or not topic_id:
            yield finding(
                "B06",
                path,
                "no topic_id",
                "the copy refuses the topic; Kafka's controller fails on it at every attempt",
                "set inter.broker.protocol.version to 2.8 or above and elect another controller",
                "KIP-516",
            )
        elif names.setdefault(topic_id, name) != name:
            yield finding(
                "B06",
                path,
                f"has the topic_id of {names[topic_id]}",
                "one of the two would be lost in the copy",
                "delete one of them, or give it another id while all brokers are down",
                "KIP-516",
            )


@rule(
    "W02",
    "every partition is healthy",
    "A partition whose brokers in the ISR are down is copied without a leader, and stays so until "
    "one is back. That was then taken for a fault of the migration.",
)
def unhealthy(survey: Survey) -> Iterator[Outcome]:
    """No leader, an empty ISR, ISR members that are not replicas, a broker twice, no state yet."""
    for name in _copied(survey):
        for index, replicas in sorted(
            _dict(survey.json(f"{ROOT}/{name}").get("partitions")).items()
        ):
            path = f"{ROOT}/{name}/partitions/{index}/state"
            if path not in survey.nodes:
                sick = "no state yet", "wait until the ZooKeeper controller has written it"
            else:
                state = survey.json(path)
                sick = _sick(survey, state, _list(replicas)) if state else ("", "")
            fact, remedy = sick
            if fact:
                yield finding(
                    "W02",
                    path,
                    fact,
                    "the copy repairs nothing of it, but elects a broker of its ISR that runs",
                    remedy,
                    "ZkTopicMigrationClient",
                )


def _sick(survey: Survey, state: dict[str, Any], replicas: list[Any]) -> tuple[str, str]:
    """What is wrong with a partition, and what to do; both empty if nothing is."""
    isr, leader = _list(state.get("isr")), state.get("leader")
    move = "move the partition with kafka-reassign-partitions: the controller writes a new state"
    if leader in (-1, None):
        down = [x for x in replicas if isinstance(x, int) and x not in survey.live_brokers]
        return "no leader", (
            f"start {named('broker', down)}, which may hold what was acknowledged last"
            if down
            else "its brokers are all there: elect a leader with kafka-leader-election"
        )
    if not isr:
        return "empty ISR", "start the brokers that hold its replicas, then elect a leader"
    strange = [one for one in isr if one not in replicas]
    if strange:
        are = "is no replica" if len(strange) == 1 else "are no replicas"
        return f"{listed(strange)} of the ISR {are} ({listed(replicas)})", move
    if leader not in isr:
        return f"leader {leader} is not in the ISR ({listed(isr)})", move
    for what, found in (("replicas", replicas), ("ISR", isr)):
        # As text: what a znode holds may be of any type.
        if twice := [one for one, times in Counter(map(str, found)).items() if times > 1]:
            return f"{listed(twice)} is more than once in the {what} ({listed(found)})", move
    return "", ""


@rule(
    "W03",
    "no reassignment is in progress",
    "A killed tool left throttles: after each restart a broker took hours to catch up. A "
    "reassignment that runs into the migration goes on under the KRaft controller.",
)
def reassigning(survey: Survey) -> Iterator[Outcome]:
    """Adding or removing replicas in a topic's znode; throttles that no reassignment needs."""
    moved: list[str] = []
    for name in _copied(survey):
        topic = survey.json(f"{ROOT}/{name}")
        moving = {
            *(p for p, some in _dict(topic.get("adding_replicas")).items() if some),
            *(p for p, some in _dict(topic.get("removing_replicas")).items() if some),
        }
        if moving:
            yield finding(
                "W03",
                f"{ROOT}/{name}",
                f"{several(len(moving), 'partition')} being reassigned: {listed(sorted(moving))}",
                "the reassignment goes on under the KRaft controller; throttles stay set",
                "wait for it: kafka-reassign-partitions --list",
                "KIP-455",
            )
            moved.append(name)
    yield from _between_folders(survey)
    if "/admin/reassign_partitions" not in survey.nodes:  # it may be of any topic
        yield from _throttles(survey, moved)


def _throttles(survey: Survey, moved: list[str]) -> Iterator[Outcome]:
    """Throttles of replication that a tool left; a rate acts on the replicas of topics' lists."""
    rates = [
        name
        for name in survey.children("/config/brokers")
        if any(key in survey.config(f"/config/brokers/{name}") for key in RATES)
    ]
    topics = [
        name
        for name in survey.children("/config/topics")
        if name not in moved
        and any(survey.config(f"/config/topics/{name}").get(key) for key in THROTTLED)
    ]
    if topics or (rates and not moved):
        yield _throttled(rates, topics, "none of it" if moved else "nothing")


def _between_folders(survey: Survey) -> Iterator[Outcome]:
    moved = [
        name
        for name in survey.children("/config/brokers")
        if BETWEEN_FOLDERS in survey.config(f"/config/brokers/{name}")
    ]
    if moved:
        yield finding(
            "W03",
            f"/config/brokers/{moved[0]}",
            f"{BETWEEN_FOLDERS} on {named('broker', moved)}",
            "moves between folders of a broker go at that rate; no znode shows whether there are "
            "any",
            "if there is none (kafka-log-dirs --describe), remove it, as "
            "kafka-reassign-partitions --verify does",
            "KIP-113",
            Severity.INFO,
        )


def _throttled(rates: list[str], topics: list[str], moved: str) -> Outcome:
    brokers = f"rates on {named('broker', rates)}" if rates else ""
    lists = f"replicas of {named('topic', topics)}" if topics else ""
    acts = bool(rates and topics)
    return finding(
        "W03",
        f"/config/brokers/{rates[0]}" if rates else f"/config/topics/{topics[0]}",
        f"throttled: {' and '.join(x for x in (brokers, lists) if x)}, and {moved} is reassigned",
        "after each restart of a roll these replicas catch up at that rate, and are out of the ISR "
        "meanwhile"
        if acts
        else "without effect until there are both rates on brokers and lists of replicas on topics",
        "remove them, as kafka-reassign-partitions --verify does: kafka-configs --alter "
        f"--delete-config {','.join((*RATES, *THROTTLED))}, of brokers and topics",
        "KIP-73",
        None if acts else Severity.INFO,
    )


@rule(
    "W07",
    "the target release knows all configs",
    "A broker's keystore was set dynamically, and the one in server.properties was old: as a "
    "KRaft broker it did not come back. Another's advertised.listeners went back to the old "
    "value.",
)
def topic_configs(survey: Survey) -> Iterator[Outcome]:
    """Topic configs unknown to 3.9, refused or deprecated; dynamic configs of brokers."""
    known = known_topic_configs("3.9")
    for name in survey.children("/config/topics"):
        if name in survey.pending:
            continue
        path = f"/config/topics/{name}"
        config = survey.config(path)
        for key in sorted(config):
            if why := _refused(known.get(key), config[key]):
                yield finding(
                    "W07",
                    path,
                    why,
                    "copied as it is; a broker cannot load the topic's configs, and no change of "
                    "them is accepted",
                    f"kafka-configs --alter --topic {name} --delete-config {key}",
                    "LogConfig",
                )
            if key in DEPRECATED:
                yield finding(
                    "W07",
                    path,
                    f"{key} is deprecated",
                    "copied; it will be refused or ignored by Kafka 4",
                    f"kafka-configs --alter --topic {name} --delete-config {key}",
                    DEPRECATED[key],
                )
            elif key not in known and not key.startswith(CONFLUENT_KEYS):
                yield finding(
                    "W07",
                    path,
                    f"{key} is not a topic config of Kafka 3.9",
                    "copied as it is; the next change of this topic's configs is refused for it",
                    f"kafka-configs --alter --topic {name} --delete-config {key}",
                    "LogConfig",
                )
    yield from _confluent(survey)
    for name in survey.children("/config/brokers"):
        yield from _dynamic(survey, name)


def _confluent(survey: Survey) -> Iterator[Outcome]:
    """Topic configs of Confluent Server, which mean something to its brokers."""
    found = {
        name: keys
        for name in survey.children("/config/topics")
        if name not in survey.pending
        and (
            keys := [
                key
                for key in sorted(survey.config(f"/config/topics/{name}"))
                if key.startswith(CONFLUENT_KEYS)
            ]
        )
    }
    if found:
        every = dict.fromkeys(key for keys in found.values() for key in keys)
        yield finding(
            "W07",
            f"/config/topics/{next(iter(found))}",
            f"topic configs of Confluent Server: {listed(every, 10)}; on "
            f"{several(len(found), 'topic')}: {listed(found, 10)}",
            "copied as they are; Kafka's controllers and kraft-bridge do not know them, and refuse "
            "the next change of such a topic's configs. Confluent Server's controllers know them",
            "keep them for Confluent Server, and rehearse with topics that have none: its brokers "
            "cannot register with kraft-bridge",
            "Confluent Platform, topic configurations",
            Severity.INFO,
        )


def _refused(known: TopicConfig | None, value: object) -> str:
    """Why Kafka 3.9 takes no such value of a topic config; empty if it does."""
    if known is None or not isinstance(value, str):
        return ""
    try:
        parse(known, value)
    except ConfigRefusedError as error:
        return str(error) if len(value) < LONG else f"{known.name}: a value that Kafka refuses"
    return ""


def _dynamic(survey: Survey, name: str) -> Iterator[Outcome]:
    path = f"/config/brokers/{name}"
    config = survey.config(path)
    if ADVERTISED in config:
        static = {one.get(ADVERTISED) for one in survey.targets if str(one.node_id) == name}
        if static != {str(config[ADVERTISED])}:
            yield finding(
                "W07",
                path,
                f"{ADVERTISED} is set dynamically: {config[ADVERTISED]}",
                "a KRaft broker does not take it from there: it advertises what its "
                "server.properties says",
                "write the value into the broker's target file",
                "KIP-226",
            )
    yield from _unusable(path, config)
    yield from needed_at_start(survey, name, config)
    told = {ADVERTISED, *RATES, BETWEEN_FOLDERS, *filter(is_for_start, config)}
    if keys := sorted(config.keys() - told):
        yield finding(
            "W07",
            path,
            f"dynamic broker configs: {', '.join(keys)}",
            "copied; they take precedence over server.properties, in KRaft mode too. Log levels "
            "set at run time are in no store and last until the broker restarts",
            "none, if they are intended",
            "KIP-226",
            Severity.INFO,
        )


def _unusable(path: str, config: dict[str, str]) -> Iterator[Outcome]:
    """Dynamic configs with a value that Kafka refuses (DynamicBrokerConfig)."""
    for key in sorted(config):
        known = _OF_A_LISTENER.sub("", key)
        if why := why_refused(known, trim(str(config[key]))):
            yield finding(
                "W07",
                path,
                f"{key}={value_of(key, str(config[key])[:LONG])}: {why}",
                "a broker that cannot read one of these applies none of them: it runs with those "
                "of server.properties",
                "set a value that Kafka takes, or remove it: kafka-configs --alter --delete-config "
                f"{key}",
                "KIP-226",
            )


@rule(
    "W08",
    "no znode remains of deleted topics",
    "A config that is left of a deleted topic applies to the next topic of that name, with "
    "settings that nobody gave it.",
)
def orphans(survey: Survey) -> Iterator[Outcome]:
    """A config without a topic, partitions without an assignment."""
    existing = set(survey.children(ROOT))
    for name in survey.children("/config/topics"):
        if name not in existing:
            yield finding(
                "W08",
                f"/config/topics/{name}",
                "a config without a topic",
                "not copied; removed when the stores are made equal",
                "none",
                "ZkTopicMigrationClient",
            )
    for name in sorted(existing - survey.pending):
        path = f"{ROOT}/{name}"
        assigned = _dict(survey.json(path).get("partitions"))
        for index in survey.children(f"{path}/partitions"):
            if index not in assigned:
                yield finding(
                    "W08",
                    f"{path}/partitions/{index}",
                    "a partition without an assignment",
                    "not copied; removed when the stores are made equal",
                    "none",
                    "TopicPartitionZNode",
                )


@rule(
    "W09",
    "topic names do not collide",
    "Of two topics whose names differ only by a dot and an underscore a KRaft controller does "
    "not create the second: once deleted it cannot be made again.",
)
def collisions(survey: Survey) -> Iterator[Outcome]:
    """Names that differ by ``.`` and ``_`` alone share their metrics; the metadata log's name."""
    if METADATA_LOG in survey.children(ROOT):
        yield finding(
            "W09",
            f"{ROOT}/{METADATA_LOG}",
            "has the name of KRaft's own log",
            "brokers keep the metadata log in the folder of its partition 0, and delete what is "
            "there when they start for the migration",
            "copy its records to a topic of another name, and delete it",
            "KafkaRaftManager.maybeDeleteMetadataLogDir",
            Severity.BLOCKER,
        )
    seen: dict[str, str] = {}
    for name in _copied(survey):
        other = seen.setdefault(name.replace(".", "_"), name)
        if other != name:
            yield finding(
                "W09",
                f"{ROOT}/{name}",
                f"collides with {other}",
                "both are copied, but a KRaft controller would not create the second again",
                "none, unless the topic is to be created again",
                "Topic.hasCollision",
            )
