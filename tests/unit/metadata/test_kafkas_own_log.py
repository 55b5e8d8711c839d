"""The logs of Kafka controllers, replayed, against the ZooKeeper trees they wrote from them."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from emulator.metadata import History, Image, MigrationState, PMap, from_records, to_records
from tests import data
from wire import records as r
from wire.text import uuid_from_text, uuid_text

NOT_KEPT = re.compile("ACCESS_CONTROL|CLIENT_QUOTA|DELEGATION_TOKEN|SCRAM")
UUIDS = {"topicId", "incarnationId", "directories", "logDirs"}
GROUPS = {
    r.RegisterBrokerRecord: {
        "endPoints": r.RegisterBrokerRecord.BrokerEndpoint,
        "features": r.RegisterBrokerRecord.BrokerFeature,
    },
    r.RegisterControllerRecord: {
        "endPoints": r.RegisterControllerRecord.ControllerEndpoint,
        "features": r.RegisterControllerRecord.ControllerFeature,
    },
}


@dataclass
class LogBatch:
    base_offset: int
    last_offset: int
    epoch: int
    records: list[object]


def snake(name: str) -> str:
    return re.sub(r"([a-z])([A-Z])", r"\1_\2", name).lower()


def record_of(payload: dict[str, Any]) -> object:
    if NOT_KEPT.search(payload["type"]):
        return r.NoOpRecord()
    cls = getattr(r, payload["type"].title().replace("_", ""))
    fields = {}
    for name, value in payload["data"].items():
        made = value
        if name in UUIDS:
            made = (
                uuid_from_text(value)
                if isinstance(value, str)
                else [uuid_from_text(one) for one in value]
            )
        elif name in GROUPS.get(cls, {}):
            group = GROUPS[cls][name]
            made = [group(**{snake(key): item for key, item in one.items()}) for one in value]
        fields[snake(name)] = made
    return cls(**fields)


def batches(folder: str) -> Iterator[LogBatch]:
    batch = None
    for line in data.read(f"{folder}/metadata-log.txt").splitlines():
        if line.startswith("baseOffset"):
            if batch:
                yield batch
            base, last, epoch = re.search(
                r"baseOffset: (\d+) lastOffset: (\d+) .*partitionLeaderEpoch: (\d+) ", line
            ).groups()
            batch = LogBatch(int(base), int(last), int(epoch), [])
        elif " payload: " in line:
            batch.records.append(record_of(json.loads(line.partition(" payload: ")[2])))
    assert batch
    yield batch


def replayed(folder: str) -> tuple[History, dict[int, Image]]:
    history, images = History(), {}
    for batch in batches(folder):
        if batch.records:
            history.append(batch.records, batch.base_offset, batch.epoch)
        else:
            history.skip(batch.base_offset, batch.last_offset, batch.epoch)
        for delta in history.advance(batch.last_offset + 1):
            images[delta.last_offset] = delta.after
    return history, images


@pytest.mark.parametrize(
    ("folder", "level", "state", "topics"),
    [
        ("3.4.1-short", 8, MigrationState.MIGRATION, 3),
        ("3.7.2-short", 19, MigrationState.MIGRATION, 3),
        ("3.9.2-full", 21, MigrationState.POST_MIGRATION, 9),
        ("3.9.2-rollback-and-stale-migration-znode", 21, MigrationState.PRE_MIGRATION, 0),
    ],
)
def test_the_whole_log_replays(folder: str, level: int, state: MigrationState, topics: int) -> None:
    history, _ = replayed(folder)
    image = history.tip
    assert history.stable is image
    assert image.metadata_version.level == level
    assert image.migration_state is state
    assert list(image.brokers) == [0, 1, 2]
    assert len(image.topics) == topics
    again = from_records((one for one, _ in to_records(image)), image.offset, image.epoch)
    assert again == image


DUAL_WRITE = [
    (folder, name.partition("/tree-")[2].removesuffix(".json"))
    for folder in ("3.4.1-short", "3.7.2-short", "3.9.2-full")
    for name in data.names()
    if name.startswith(f"{folder}/tree-")
    # Before the copy, stuck (Kafka 3.4 stops writing after its first new partition), or finalised.
    and not re.search(r"tree-(0|4)|3\.4\.1.*tree-2", name)
]


@pytest.mark.parametrize(("folder", "step"), DUAL_WRITE)
def test_the_image_is_what_kafka_wrote_to_zookeeper_at_that_offset(folder: str, step: str) -> None:
    nodes = data.tree(folder, step)["nodes"]
    texts = {
        path: json.loads(node["text"])
        for path, node in nodes.items()
        if node.get("text", "").startswith("{")
    }
    offset = texts["/migration"]["kraft_metadata_offset"]
    _, images = replayed(folder)
    image = images[max(one for one in images if one <= offset)]
    assert assignments(texts) == {
        topic.name: {
            "topic_id": uuid_text(topic.id),
            "partitions": {str(n): list(p.replicas) for n, p in topic.partitions.items()},
            "adding_replicas": in_flight(topic.partitions, "adding_replicas"),
            "removing_replicas": in_flight(topic.partitions, "removing_replicas"),
        }
        for topic in image.topics.values()
    }
    assert partition_states(texts) == {
        (topic.name, number): (one.leader, one.leader_epoch, one.isr)
        for topic in image.topics.values()
        for number, one in topic.partitions.items()
    }
    # Kafka brings back the config of a topic made and deleted within one delta.
    written = {key: value for key, value in configs(texts).items() if key[1] != "dw.two"}
    assert written == {key: value for key, value in image.configs.items() if key[1] != "dw.two"}
    block = texts["/latest_producer_id_block"]
    assert image.producer_ids.next_producer_id == next_id(folder, block)


def next_id(folder: str, block: dict[str, Any]) -> int:
    # A KRaft controller (broker -1) states the block to come, a broker the one it was given. Kafka
    # 3.4 takes the one for the other.
    coming = block["broker"] == -1 or folder.startswith("3.4")
    return int(block["block_start"]) if coming else int(block["block_end"]) + 1


def assignments(texts: dict[str, Any]) -> dict[str, Any]:
    found = {}
    for path, value in texts.items():
        if re.fullmatch("/brokers/topics/[^/]+", path):
            found[path.split("/")[-1]] = {
                key: value[key]
                for key in ("topic_id", "partitions", "adding_replicas", "removing_replicas")
            }
    return found


def in_flight(partitions: PMap[int, Any], field: str) -> dict[str, list[int]]:
    return {str(n): list(getattr(p, field)) for n, p in partitions.items() if getattr(p, field)}


def partition_states(texts: dict[str, Any]) -> dict[tuple[str, int], tuple[int, int, tuple[int]]]:
    return {
        (path.split("/")[3], int(path.split("/")[5])): (
            value["leader"],
            value["leader_epoch"],
            tuple(value["isr"]),
        )
        for path, value in texts.items()
        if path.endswith("/state")
    }


def configs(texts: dict[str, Any]) -> dict[tuple[int, str], dict[str, str]]:
    found = {}
    for path, value in texts.items():
        match = re.fullmatch("/config/(topics|brokers)/(.+)", path)
        if match and value["config"]:
            name = "" if match[2] == "<default>" else match[2]
            found[(2 if match[1] == "topics" else 4, name)] = value["config"]
    return found
