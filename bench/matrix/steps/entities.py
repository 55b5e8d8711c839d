"""Dual write of each class: what the old cluster held, and what is changed after the migration.

``seed`` runs in ZooKeeper mode. ``change`` runs in dual write: it asks a broker, lets the judge
read both stores, and looks at what brokers make of it.
"""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from bench.load import cluster_api as api
from bench.matrix.stage import TIMEOUT_MS, Stage, WrongError, accepted, same
from wire import messages as m

OLD: Final = "old"
_DYNAMIC_BROKER, _DYNAMIC_DEFAULT = 2, 3


@dataclass(frozen=True, slots=True)
class EntityClass:
    """A row of the table."""

    name: str
    seed: Callable[[Stage], None]
    change: Callable[[Stage], None]


def create(stage: Stage, *topics: m.CreateTopicsRequest.CreatableTopic) -> None:
    """Create topics."""
    answer = stage.ask(m.CreateTopicsRequest(topics=list(topics), timeout_ms=TIMEOUT_MS))
    accepted("CreateTopics", *(one.error_code for one in answer.topics))


def _delete(stage: Stage, name: str) -> None:
    kinds = m.DeleteTopicsRequest
    request = kinds(
        topics=[kinds.DeleteTopicState(name=name)], topic_names=[name], timeout_ms=TIMEOUT_MS
    )
    accepted(f"DeleteTopics {name}", stage.ask(request).responses[0].error_code)


def _configure(stage: Stage, kind: int, name: str, **values: str | None) -> None:
    """Set, or with None delete; a broker's own configs go to that broker."""
    kinds = m.IncrementalAlterConfigsRequest
    settings = [
        kinds.AlterableConfig(name=key.replace("_", "."), config_operation=int(v is None), value=v)
        for key, v in values.items()
    ]
    resource = kinds.AlterConfigsResource(resource_type=kind, resource_name=name, configs=settings)
    broker = int(name) if kind == api.BROKER and name else None
    answer = stage.ask(kinds(resources=[resource]), broker)
    accepted(f"configs of {name or 'all brokers'}", answer.responses[0].error_code)


# --------------------------------------------------------------------- topics
def _seed_topics(stage: Stage) -> None:
    create(
        stage,
        api.topic(OLD, 3, 3, {"cleanup.policy": "compact"}),
        api.topic("pair", 2, 2, {}),
        api.topic("leaving", 2, 3, {"retention.ms": "7654321"}),
    )


def _change_topics(stage: Stage) -> None:
    create(stage, api.topic("made", 3, 3, {"retention.ms": "123456"}))
    stage.everywhere("topic made", lambda shape: len(shape.topics.get("made", ())) == 3)
    _delete(stage, "leaving")
    stage.everywhere("end of topic leaving", lambda shape: "leaving" not in shape.topics)
    tree, _ = stage.agree()
    same("topics in ZooKeeper", {"made", "leaving"} & set(tree.plain.topics), {"made"})
    same("config of made", tree.plain.configs.get("topics/made"), {"retention.ms": "123456"})
    same("config of leaving", tree.plain.configs.get("topics/leaving"), None)
    stage.until(
        "end of the replicas of leaving",
        lambda: (
            not [
                folder
                for broker in stage.cluster.brokers
                for folder in broker.data.glob("leaving-*")
                if not folder.name.endswith(("-delete", "-stray"))
            ]
        ),
    )


def _change_partitions(stage: Stage) -> None:
    kinds = m.CreatePartitionsRequest
    more = kinds.CreatePartitionsTopic(name=OLD, count=5, assignments=None)
    answer = stage.ask(kinds(topics=[more], timeout_ms=TIMEOUT_MS))
    accepted("CreatePartitions", answer.results[0].error_code)
    stage.everywhere(
        "five partitions with leaders",
        lambda shape: [leader >= 0 for leader, _, _ in shape.topics[OLD].values()] == [True] * 5,
    )
    tree, _ = stage.agree()
    same("partitions in ZooKeeper", sorted(tree.plain.topics[OLD]["partitions"]), [0, 1, 2, 3, 4])


# --------------------------------------------------------------------- configs
def _described(stage: Stage, broker: int, kind: int, name: str, key: str) -> tuple[str | None, int]:
    """Value and source of one config, as a broker describes it."""
    kinds = m.DescribeConfigsRequest
    resource = kinds.DescribeConfigsResource(
        resource_type=kind, resource_name=name, configuration_keys=[key]
    )
    (result,) = stage.ask(kinds(resources=[resource]), broker).results
    accepted(f"DescribeConfigs of {name}", result.error_code)
    return result.configs[0].value, result.configs[0].config_source


def _seed_topic_configs(stage: Stage) -> None:
    _configure(stage, api.TOPIC, OLD, retention_ms="1000000", segment_bytes="2000000")


def _change_topic_configs(stage: Stage) -> None:
    _configure(stage, api.TOPIC, OLD, retention_ms="2000000", max_message_bytes="5000")
    _configure(stage, api.TOPIC, OLD, segment_bytes=None)
    tree, _ = stage.agree()
    wanted = {"cleanup.policy": "compact", "retention.ms": "2000000", "max.message.bytes": "5000"}
    same("config of old in ZooKeeper", tree.plain.configs["topics/old"], wanted)
    stage.each(
        "the topic's retention.ms",
        lambda broker: _described(stage, broker, api.TOPIC, OLD, "retention.ms")[0] == "2000000",
    )


def _seed_broker_configs(stage: Stage) -> None:
    _configure(stage, api.BROKER, "1", leader_replication_throttled_rate="1000000000")
    _configure(stage, api.BROKER, "", message_max_bytes="1500000", log_cleaner_threads="2")


def _change_broker_configs(stage: Stage) -> None:
    _configure(stage, api.BROKER, "1", follower_replication_throttled_rate="900000000")
    _configure(stage, api.BROKER, "", message_max_bytes="1600000", log_cleaner_threads=None)
    tree, _ = stage.agree()
    wanted = {
        "leader.replication.throttled.rate": "1000000000",
        "follower.replication.throttled.rate": "900000000",
    }
    same("configs of broker 1", tree.plain.configs["brokers/1"], wanted)
    wanted = {"message.max.bytes": "1600000"}
    same("configs of all", tree.plain.configs["brokers/<default>"], wanted)
    key = "follower.replication.throttled.rate"
    stage.until(
        "broker 1 with its own setting",
        lambda: _described(stage, 1, api.BROKER, "1", key) == ("900000000", _DYNAMIC_BROKER),
    )
    stage.each(
        "the default",
        lambda broker: (
            _described(stage, broker, api.BROKER, str(broker), "message.max.bytes")
            == ("1600000", _DYNAMIC_DEFAULT)
        ),
    )


# --------------------------------------------------------------------- producer ids
def take_producer_ids(stage: Stage) -> list[int]:
    """One of each broker that runs, kept for later comparison.

    Raises:
        WrongError: an id was given twice.
    """
    fresh: list[int] = []
    for broker in stage.alive:
        ask = functools.partial(_producer_id, stage.cluster.brokers[broker].bootstrap)
        fresh += stage.until(f"producer id of broker {broker}", ask)
    taken = stage.kept.setdefault("producer ids", set())
    twice = taken.intersection(fresh)
    if twice or len(set(fresh)) < len(fresh):
        raise WrongError(f"producer ids given out twice: {sorted(twice) or fresh}")
    taken.update(fresh)
    return fresh


def _producer_id(address: str) -> list[int]:
    request = m.InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=60_000)
    answer = asyncio.run(api.call(address, request))
    return [] if answer.error_code else [answer.producer_id]


def _seed_producer_ids(stage: Stage) -> None:
    take_producer_ids(stage)


def _change_producer_ids(stage: Stage) -> None:
    fresh = take_producer_ids(stage)
    _, log = stage.agree()
    if (log.plain.next_producer_id or 0) <= max(fresh):
        raise WrongError(f"the log gives {log.plain.next_producer_id} next, {fresh} were taken")


def _nothing(_stage: Stage) -> None:
    pass


CLASSES: Final = (
    EntityClass("topics", _seed_topics, _change_topics),
    EntityClass("partitions", _nothing, _change_partitions),
    EntityClass("topic configs", _seed_topic_configs, _change_topic_configs),
    EntityClass("broker configs", _seed_broker_configs, _change_broker_configs),
    EntityClass("producer ids", _seed_producer_ids, _change_producer_ids),
)
