"""Elections, reassignments, folders and ISRs, beside the manager of Kafka's own controller."""

from __future__ import annotations

import random
import re
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from emulator.controller.queue.batches import encoded
from emulator.controller.rules.reassignment import in_progress
from emulator.controller.rules.topics import is_online
from emulator.metadata.image import EMPTY, Image
from emulator.metadata.metadata_version import Feature, MetadataVersion
from emulator.metadata.replay import replay
from emulator.metadata.topics import LOST, MIGRATING, UNASSIGNED, Partition, changed_partition
from emulator.seam import whole
from emulator.servers.jars import kafka_jars
from emulator.servers.java_tools import java
from tests.unit.controller.world import broker, handle, level, topic, uuid
from wire import messages as m
from wire import records as r
from wire.codec import decode, encode
from wire.record_serde import decode_record
from wire.schema import spec

HELPER = Path(__file__).parent / "ReplicationOracle.java"
SCENARIOS = 400
BROKERS = range(6)
"""The last is not registered."""
LEVELS = (21, 21, 20, 17, 14, 12, 7, 1)
OFFLINE = uuid(9999)

Oracle = Callable[[list[str]], list[str]]


@pytest.fixture(scope="module")
def oracle(compile_java: Callable[..., Path]) -> Oracle:
    jars = kafka_jars("3.9.2")
    ask = partial(java, [*jars, compile_java([HELPER], jars)])

    def answers(questions: list[str]) -> list[str]:
        text = "\n".join(questions).encode()
        name = "org.apache.kafka.controller.ReplicationOracle"
        printed = ask(name, stdin=text).decode().splitlines()
        assert len(printed) == len(questions)
        return printed

    return answers


class Cluster:
    """Brokers and partitions in any state that can be reached, and what may be asked of them."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.level = self.rng.choice(LEVELS)
        self.version = MetadataVersion.from_level(self.level)
        self.migrating = self.level >= 8 and self.rng.random() < 0.3
        self.records = [level(self.level), *self._brokers(), *self._topics()]
        self.image = EMPTY
        for record in self.records:
            self.image = replay(self.image, record, self.image.offset + 1, 1)

    @property
    def line(self) -> str:
        values = whole(encoded(self.records, self.version))
        return " ".join(["new", str(self.migrating).lower(), *(value.hex() for value in values)])

    def _brokers(self) -> Iterator[r.RegisterBrokerRecord]:
        for number in BROKERS[:-1]:
            state = self.rng.choice(("", "", "", "fenced", "leaving"))
            folders = self.rng.choice(((), (number,), (number, number + 10)))
            if not self.version.supports(Feature.DIRECTORIES):
                folders = ()
            leaving = state == "leaving" and self.version.supports(
                Feature.CONTROLLED_SHUTDOWN_STATE
            )
            yield broker(
                number,
                fenced=state == "fenced",
                in_controlled_shutdown=leaving,
                log_dirs=tuple(uuid(5000 + folder) for folder in folders),
            )

    def _topics(self) -> Iterator[object]:
        for number, name in ((1, "t"), (2, "u")):
            yield topic(name, number)
            if self.rng.random() < 0.3:
                yield r.ConfigRecord(
                    resource_type=2,
                    resource_name=name,
                    name="unclean.leader.election.enable",
                    value="true",
                )
            for index in range(self.rng.randint(1, 3)):
                yield self._partition(number, index)

    def _partition(self, number: int, index: int) -> r.PartitionRecord:
        rng = self.rng
        replicas = tuple(rng.sample(BROKERS[:-1], rng.randint(1, 4)))
        isr = tuple(rng.sample(replicas, rng.randint(1, len(replicas))))
        adding: tuple[int, ...] = ()
        removing: tuple[int, ...] = ()
        if rng.random() < 0.4 and len(replicas) > 1:
            adding = tuple(rng.sample(replicas, rng.randint(0, len(replicas) - 1)))
            rest = [one for one in replicas if one not in adding]
            removing = tuple(rng.sample(rest, rng.randint(0, len(rest))))
            if len(removing) == len(replicas):
                removing = removing[1:]
        directories: tuple[bytes, ...] = ()
        if self.version.supports(Feature.DIRECTORIES):
            directories = tuple(self._folder(one) for one in replicas)
        recovering = rng.random() < 0.1 and self.version.supports(Feature.LEADER_RECOVERY_STATE)
        return r.PartitionRecord(
            partition_id=index,
            topic_id=uuid(number),
            replicas=replicas,
            isr=isr[:1] if recovering else isr,
            leader=rng.choice((isr[0], isr[0], -1)),
            leader_epoch=5,
            partition_epoch=7,
            leader_recovery_state=int(recovering),
            adding_replicas=adding,
            removing_replicas=removing,
            directories=directories,
        )

    def _folder(self, replica: int) -> bytes:
        usual = [uuid(5000 + replica), uuid(5010 + replica), UNASSIGNED, MIGRATING]
        return self.rng.choice([*usual, *usual, LOST, OFFLINE])

    def partitions(self) -> list[tuple[str, int, Partition]]:
        return [
            (one.name, index, partition)
            for one in self.image.topics.values()
            for index, partition in one.partitions.items()
        ]

    def some(self) -> dict[str, list[int]]:
        """Topics with partitions, none twice, now and then of those there are not."""
        named: dict[str, list[int]] = {}
        for name, index, _ in self.partitions():
            if self.rng.random() < 0.6:
                named.setdefault(name, []).append(index)
        if self.rng.random() < 0.2:
            named.setdefault(self.rng.choice("tx"), []).append(77)
        return named

    def elect_leaders(self) -> m.ElectLeadersRequest:
        request = m.ElectLeadersRequest
        named = [
            request.TopicPartitions(topic=name, partitions=tuple(indexes))
            for name, indexes in self.some().items()
        ]
        return request(
            election_type=self.rng.choice((0, 0, 1, 1, 2)),
            topic_partitions=None if self.rng.random() < 0.3 else named,
        )

    def alter_reassignments(self) -> m.AlterPartitionReassignmentsRequest:
        """What replaces another reassignment is left out: that differs on purpose."""
        request = m.AlterPartitionReassignmentsRequest
        moving = {(name, index) for name, index, one in self.partitions() if in_progress(one)}
        return request(
            topics=[
                request.ReassignableTopic(
                    name=name,
                    partitions=[
                        request.ReassignablePartition(
                            partition_index=index,
                            replicas=None if (name, index) in moving else self._target(),
                        )
                        for index in indexes
                    ],
                )
                for name, indexes in self.some().items()
            ]
        )

    def _target(self) -> tuple[int, ...] | None:
        if self.rng.random() < 0.1:
            return None
        few = self.rng.random() < 0.2
        return (
            tuple(self.rng.choices(BROKERS, k=self.rng.randint(0, 3)))
            if few
            else tuple(self.rng.sample(BROKERS[:-1], self.rng.randint(1, 4)))
        )

    def list_reassignments(self) -> m.ListPartitionReassignmentsRequest:
        request = m.ListPartitionReassignmentsRequest
        named = [
            request.ListPartitionReassignmentsTopics(name=name, partition_indexes=tuple(indexes))
            for name, indexes in self.some().items()
        ]
        return request(topics=None if self.rng.random() < 0.4 else named)

    def assign_folders(self) -> m.AssignReplicasToDirsRequest:
        request = m.AssignReplicasToDirsRequest
        number = self.rng.choice(BROKERS)
        folders: dict[bytes, dict[bytes, list[int]]] = {}
        for name, indexes in self.some().items():
            known = self.image.topic(name)
            topic_id = uuid(404) if known is None else known.id
            for index in indexes:
                folder = self.rng.choice((uuid(5000 + number), uuid(5010 + number), OFFLINE, LOST))
                folders.setdefault(folder, {}).setdefault(topic_id, []).append(index)
        return request(
            broker_id=number,
            broker_epoch=self.rng.choice((100, 100, 100, 99)) + number,
            directories=[
                request.DirectoryData(
                    id=folder,
                    topics=[
                        request.TopicData(
                            topic_id=topic_id,
                            partitions=[request.PartitionData(partition_index=one) for one in some],
                        )
                        for topic_id, some in topics.items()
                    ],
                )
                for folder, topics in folders.items()
            ],
        )

    def alter_partition(self) -> m.AlterPartitionRequest:
        request = m.AlterPartitionRequest
        rng = self.rng
        name, index, partition = rng.choice(self.partitions())
        leader = partition.leader if rng.random() < 0.9 else rng.choice(BROKERS)
        leader = max(leader, 0)
        some = tuple(rng.sample(partition.replicas, rng.randint(1, len(partition.replicas))))
        isr = tuple(dict.fromkeys((leader, *some))) if rng.random() < 0.9 else some
        found = self.image.topic(name)
        state = partition.leader_recovery_state if rng.random() < 0.9 else rng.choice((0, 1))
        wanted = request.PartitionData(
            partition_index=index,
            leader_epoch=5 + rng.choice((0, 0, 0, 0, 0, 0, -1, 1)),
            partition_epoch=7 + rng.choice((0, 0, 0, 0, 0, 0, -1, 1)),
            leader_recovery_state=state,
            new_isr_with_epochs=[
                request.BrokerState(
                    broker_id=one, broker_epoch=rng.choice((-1, 100 + one, 100 + one, 100 + one))
                )
                for one in isr
            ],
        )
        return request(
            broker_id=leader,
            broker_epoch=100 + leader,
            topics=[request.TopicData(topic_id=found.id, partitions=[wanted])],
        )


def comparable(response: Any, records: list[Any], image: Image) -> Any:
    """An answer without the order Kafka's hash maps give it, and what becomes of each partition."""
    version = spec(type(response)).max_version
    response = decode(type(response), version, encode(response, version))
    for name in ("topics", "replica_election_results", "directories"):
        getattr(response, name, []).sort(key=repr)
    for one in getattr(response, "replica_election_results", ()):
        one.partition_result.sort(key=lambda found: found.partition_id)
    for one in getattr(response, "topics", ()):
        one.partitions.sort(key=lambda found: found.partition_index)
    after: dict[tuple[bytes, int], Partition] = {}
    for record in records:
        key = (record.topic_id, record.partition_id)
        before = after.get(key) or image.topics[key[0]].partitions[key[1]]
        after[key] = changed_partition(before, record)
    return response, after


def assigned(found: Any, image: Image, request: m.AssignReplicasToDirsRequest) -> Any:
    """Without epochs: of a folder that is offline, Kafka makes two records and we one.

    And without two cases of that where Kafka's second record does not see its first: a partition
    that nobody leads gets the broker as leader; one whose reassignment ends keeps a member of the
    ISR that is no replica any more.
    """
    response, after = found
    broken = set()
    for one in request.directories:
        if is_online(image.brokers[request.broker_id], one.id):
            continue
        for named in one.topics:
            for asked in named.partitions:
                before = image.partition(named.topic_id, asked.partition_index)
                if before is not None and (before.leader < 0 or in_progress(before)):
                    broken.add((named.topic_id, asked.partition_index))
    return response, {
        key: (one.replicas, one.isr, one.leader, one.directories, one.leader_recovery_state)
        for key, one in after.items()
        if key not in broken
    }


REACHED: dict[Callable[[Cluster], Any], set[str]] = {
    Cluster.elect_leaders: {"3", "80", "83", "84", "refused", "changed"},
    Cluster.alter_reassignments: {"3", "39", "85", "changed"},
    Cluster.list_reassignments: set(),
    Cluster.assign_folders: {"3", "6", "100", "refused", "changed"},
    Cluster.alter_partition: {"41", "42", "74", "95", "107", "108", "refused", "changed"},
}
"""What must occur, or the requests have become too harmless."""


@pytest.mark.parametrize("make", REACHED, ids=lambda make: make.__name__)
def test_partitions_change_as_by_kafka(oracle: Oracle, make: Callable[[Cluster], Any]) -> None:
    """Answers with their texts, and each partition with its epochs, over metadata.versions."""
    clusters = [Cluster(seed) for seed in range(SCENARIOS)]
    requests = [make(cluster) for cluster in clusters]
    key, version = spec(type(requests[0])).key, spec(type(requests[0])).max_version
    lines: list[str] = []
    for cluster, request in zip(clusters, requests, strict=True):
        lines += [cluster.line, f"{key} {version} {encode(request, version).hex()}"]
    said = oracle(lines)[1::2]
    seen: Counter[str] = Counter()
    for seed, (cluster, request, line) in enumerate(zip(clusters, requests, said, strict=True)):
        result = handle(cluster.image, request, version, migration_enabled=cluster.migrating)
        if line.startswith("! "):
            seen["refused"] += 1
            code = getattr(result.response, "error_code", None)
            assert (line, result.records) == (f"! {code}", ()), (seed, request)
            continue
        answer, *records = line.split(" ")
        theirs = comparable(
            decode(type(result.response), version, bytes.fromhex(answer)),
            [decode_record(bytes.fromhex(one))[0] for one in records],
            cluster.image,
        )
        ours = comparable(result.response, list(result.records), cluster.image)
        if make is Cluster.assign_folders:
            theirs, ours = (assigned(x, cluster.image, request) for x in (theirs, ours))
        assert ours == theirs, (seed, request)
        for name in re.findall(r"error_code=(\d+)", repr(theirs[0])):
            seen[name] += 1
        seen["changed"] += len(theirs[1])
    assert {name for name, times in seen.items() if times > 1} >= REACHED[make], seen
