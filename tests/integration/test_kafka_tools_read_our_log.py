"""Kafka 3.9.2's own tools read the log and the snapshots that this code writes."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from emulator.raft.format import MetaProperties, render_bootstrap_checkpoint, render_meta_properties
from emulator.raft.layout import SnapshotId, snapshot_path
from tests.unit.raft.world import CLUSTER, SEGMENT, World, no_op
from wire import records as r
from wire.record_serde import encode_record
from wire.text import uuid_text

RELEASE = "3.9.2"
TOPIC_ID = bytes(range(1, 17))
DIRECTORY = bytes(range(17, 33))
SNAPSHOT = SnapshotId(8, 2)
LEVEL = encode_record(r.FeatureLevelRecord(name="metadata.version", feature_level=21), 0)

Tool = Callable[..., str]


def registration(epoch: int) -> bytes:
    endpoint = r.RegisterBrokerRecord.BrokerEndpoint(
        name="INTERNAL", host="127.0.0.1", port=29090, security_protocol=0
    )
    feature = r.RegisterBrokerRecord.BrokerFeature(
        name="metadata.version", min_supported_version=1, max_supported_version=21
    )
    return encode_record(
        r.RegisterBrokerRecord(
            broker_id=0,
            is_migrating_zk_broker=True,
            incarnation_id=bytes(range(33, 49)),
            broker_epoch=epoch,
            end_points=[endpoint],
            features=[feature],
            rack="r1",
            fenced=False,
            log_dirs=[DIRECTORY],
        ),
        3,
    )


TOPIC = encode_record(r.TopicRecord(name="orders", topic_id=TOPIC_ID), 0)
PARTITION = encode_record(
    r.PartitionRecord(
        partition_id=0,
        topic_id=TOPIC_ID,
        replicas=(0,),
        isr=(0,),
        leader=0,
        leader_epoch=5,
        partition_epoch=8,
        directories=[DIRECTORY],
    ),
    1,
)
CONFIG = encode_record(
    r.ConfigRecord(resource_type=2, resource_name="orders", name="retention.ms", value="1000"), 0
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a node that wrote three batches, restarted, and made a snapshot of them.

    The second and the third are one group: the third has a sequence number.
    """
    world = World().start()
    world.raft.append([LEVEL, registration(2)], world.now)
    world.raft.append([TOPIC, PARTITION, CONFIG], world.now)
    world.settle()
    world = world.restarted().start()
    world.append(no_op())
    end_offset = world.raft.log_end_offset
    world.snapshot(end_offset, [LEVEL, registration(2), TOPIC, PARTITION, CONFIG])
    root = tmp_path_factory.mktemp("node")
    meta = render_meta_properties(MetaProperties(CLUSTER, 3000, DIRECTORY))
    files = {**world.disk.files, "meta.properties": meta}
    files["bootstrap.checkpoint"] = render_bootstrap_checkpoint([LEVEL], world.now)
    for name, content in files.items():
        path = root / name
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(content)
    return root


@pytest.fixture(scope="module")
def dump(kafka_tool: Tool, folder: Path) -> str:
    """All three files in one run: a tool takes longer to start than to read."""
    names = (SEGMENT, snapshot_path(SNAPSHOT), "bootstrap.checkpoint")
    files = ",".join(str(folder / name) for name in names)
    return kafka_tool(
        RELEASE, "kafka.tools.DumpLogSegments", "--cluster-metadata-decoder", "--files", files
    )


def section(dump: str, name: str) -> list[str]:
    """Lines of the dump about one file."""
    _, _, rest = dump.partition(f"{name}\n")
    return rest.partition("Dumping ")[0].splitlines()


def batches(lines: list[str]) -> list[tuple[int, ...]]:
    pattern = re.compile(
        r"baseOffset: (\d+) lastOffset: (\d+) count: (\d+) .*partitionLeaderEpoch: (\d+) "
        r".*magic: 2 .*isvalid: true"
    )
    return [tuple(map(int, found.groups())) for line in lines if (found := pattern.match(line))]


def payloads(lines: list[str]) -> dict[int, dict]:
    """Offset -> record, as Kafka's decoder shows it."""
    pattern = re.compile(r"\| offset: (\d+) .*payload: (\{.*\})")
    return {int(f[1]): json.loads(f[2]) for line in lines if (f := pattern.match(line))}


EXPECTED = {
    "FEATURE_LEVEL_RECORD": {"name": "metadata.version", "featureLevel": 21},
    "TOPIC_RECORD": {"name": "orders", "topicId": uuid_text(TOPIC_ID)},
    "CONFIG_RECORD": {
        "resourceType": 2,
        "resourceName": "orders",
        "name": "retention.ms",
        "value": "1000",
    },
}


def assert_records(found: list[dict]) -> None:
    by_type = {record["type"]: record["data"] for record in found}
    assert EXPECTED.items() <= by_type.items()
    partition = by_type["PARTITION_RECORD"]
    assert partition["directories"] == [uuid_text(DIRECTORY)]
    assert [partition[name] for name in ("leader", "leaderEpoch", "partitionEpoch")] == [0, 5, 8]
    broker = by_type["REGISTER_BROKER_RECORD"]
    assert broker["brokerEpoch"] == 2
    assert broker["isMigratingZkBroker"]
    assert broker["endPoints"][0]["port"] == 29090
    assert broker["logDirs"] == [uuid_text(DIRECTORY)]
    assert broker["rack"] == "r1"


def test_kafka_dump_log_reads_the_segment(dump):
    lines = section(dump, "00000000000000000000.log")
    assert batches(lines) == [(0, 0, 1, 1), (1, 2, 2, 1), (3, 5, 3, 1), (6, 6, 1, 2), (7, 7, 1, 2)]
    sequences = [found[1] for line in lines if (found := re.search(r"baseSequence: (-?\d+)", line))]
    assert [each for each in sequences if each != "-1"][:1] == ["2"]
    assert all("producerId: -1" in line for line in lines if line.startswith("baseOffset"))
    assert sum("controlType: LEADER_CHANGE(2)" in line for line in lines) == 2
    found = payloads(lines)
    assert sorted(found) == [1, 2, 3, 4, 5, 7]
    assert_records(list(found.values()))


def test_kafka_dump_log_reads_the_snapshot(dump):
    lines = section(dump, "00000000000000000008-0000000002.checkpoint")
    assert batches(lines) == [(0, 0, 1, 2), (1, 5, 5, 2), (6, 6, 1, 2)]
    assert any("SnapshotHeader" in line for line in lines)
    assert any("SnapshotFooter" in line for line in lines)
    assert_records(list(payloads(lines).values()))


def test_kafka_dump_log_reads_the_bootstrap_checkpoint(dump):
    (record,) = payloads(section(dump, "bootstrap.checkpoint")).values()
    assert record == {
        "type": "FEATURE_LEVEL_RECORD",
        "version": 0,
        "data": EXPECTED["FEATURE_LEVEL_RECORD"],
    }


@pytest.mark.parametrize("name", [SEGMENT, snapshot_path(SNAPSHOT)], ids=["log", "snapshot"])
def test_kafka_metadata_shell_finds_the_image(kafka_tool, folder, tmp_path, name):
    # Copied out: the shell takes the lock of the folder it reads from.
    copied = tmp_path / Path(name).name
    copied.write_bytes((folder / name).read_bytes())
    commands = [
        "cat /image/topics/byName/orders/0",
        "cat /image/configs/TOPIC:orders/retention.ms",
        "cat /image/cluster/brokers/0",
        "cat /image/features/metadataVersion",
        "exit",
    ]
    printed = kafka_tool(
        RELEASE,
        "org.apache.kafka.shell.MetadataShell",
        "--snapshot",
        copied,
        stdin="".join(f"{command}\n" for command in commands).encode(),
    )
    partition, config, broker, version = re.findall(r"^>> (.+)$", printed, re.MULTILINE)
    assert partition == (
        f"PartitionRegistration(replicas=[0], directories=[{uuid_text(DIRECTORY)}], isr=[0], "
        "removingReplicas=[], addingReplicas=[], elr=[], lastKnownElr=[], leader=0, "
        "leaderRecoveryState=RECOVERED, leaderEpoch=5, partitionEpoch=8)"
    )
    assert config == "1000"
    assert "id=0, epoch=2," in broker
    assert "host='127.0.0.1', port=29090" in broker
    assert "fenced=false" in broker
    assert "isMigratingZkBroker=true" in broker
    assert version == "3.9-IV0"
