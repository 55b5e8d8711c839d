"""The known differences from Kafka's own controller, 3.9.2: one table, each row with Kafka's class.

A row says exactly what is not judged: that a list has no order, that records follow each other in
no order, that an answer may be late, or an operation that is passed over because what follows from
it differs. All else is compared.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from bench.conformance.oracle.operation import Operation
from bench.conformance.oracle.side import Names, Partition

ROWS_MAX: Final = 60
OFTEN: Final = 0.01
"""A row that excused more of the operations is to be read again."""
Body = Mapping[str, Any]


def _always(_: Body) -> bool:
    return True


@dataclass(frozen=True, slots=True)
class Known:
    """One row: exactly one of ``lists``, ``records``, ``late`` and ``passed_over`` is given.

    Args:
        id: short, in the counts.
        subject: what is asked.
        kafka: what Kafka answers or logs.
        ours: what we do.
        source: Kafka's class and method.
        lists: a regular expression of the paths, without numbers, of lists that have no order.
        asked: whether they have none, by the body of the operation.
        records: a type of record that has no order, and the fields that it is compared in order of.
        late: APIs that may show what was before.
        api: of what is passed over.
        passed_over: whether it is, by the body and what the reference's log says.
    """

    id: str
    subject: str
    kafka: str
    ours: str
    source: str
    lists: str = ""
    asked: Callable[[Body], bool] = _always
    records: tuple[str, Sequence[str]] | None = None
    late: frozenset[str] = frozenset()
    api: str = ""
    passed_over: Callable[[Body, Names], bool] | None = None


# ------------------------------------------------------------------ what is passed over
def _grows_unevenly(body: Body, names: Names) -> bool:
    for one in body["topics"]:
        parts = names.partitions_of(one["name"])
        if one["count"] > len(parts) and len({len(part.replicas) for part in parts}) > 1:
            return True
    return False


def _moves_again(body: Body, names: Names) -> bool:
    for topic in body["topics"]:
        for asked in topic["partitions"]:
            part = names.partition(topic["name"], asked["partition_index"])
            if asked["replicas"] is not None and part is not None and part.moving:
                return True
    return False


def _assigned_to_offline(body: Body, names: Names) -> Iterator[Partition]:
    broker = names.brokers.get(body["broker_id"])
    for directory in body["directories"]:
        there = () if broker is None else broker.directories
        if not there or bytes.fromhex(directory["id"]) in there:
            continue
        for topic in directory["topics"]:
            for asked in topic["partitions"]:
                part = names.partition(topic["topic_id"]["topic"], asked["partition_index"])
                if part is not None and body["broker_id"] in part.replicas:
                    yield part


def _leaves_offline(body: Body, names: Names) -> bool:
    return any(
        part.moving or part.leader < 0 or body["broker_id"] in part.isr
        for part in _assigned_to_offline(body, names)
    )


def _offline(body: Body, names: Names) -> tuple[set[bytes], set[bytes]]:
    """The directories that a heartbeat newly says are offline, and those that are left."""
    broker = names.brokers.get(body["broker_id"])
    there = set() if broker is None else {*broker.directories}
    gone = {bytes.fromhex(one) for one in body.get("offline_log_dirs", ())}
    return there & gone, there - gone


def _loses_all(body: Body, names: Names) -> bool:
    gone, left = _offline(body, names)
    return bool(gone) and not left


def _returns_without(body: Body, names: Names) -> bool:
    gone, _ = _offline(body, names)
    broker = names.brokers.get(body["broker_id"])
    if not gone or broker is None or not broker.fenced:
        return False
    parts = names.partitions.values()
    return any(one.leader < 0 and body["broker_id"] in one.replicas for one in parts)


def _all_topics(name: str) -> Callable[[Body], bool]:
    return lambda body: body[name] is None


_BY_NAME: Final = "in the order of a hash table of names"
_BY_HASH: Final = "in the order of a hash table of random ids"
_BY_INDEX: Final = "in the order of our index"
_AS_ASKED: Final = "in the order of the request"
KNOWN: Final[Sequence[Known]] = (
    Known(
        id="elect-order",
        subject="ElectLeaders of all partitions: the order of topics and partitions",
        kafka="in the order of hash tables of names and numbers",
        ours=_BY_INDEX,
        source="ReplicationControlManager.electLeaders",
        lists=r"ElectLeaders\.replica_election_results(\[\]\.partition_result)?",
        asked=_all_topics("topic_partitions"),
    ),
    Known(
        id="reassignment-order",
        subject="ListPartitionReassignments of all topics: the order of topics and partitions",
        kafka=_BY_HASH,
        ours=_BY_INDEX,
        source="ReplicationControlManager.listPartitionReassignments",
        lists=r"ListPartitionReassignments\.topics(\[\]\.partitions)?",
        asked=_all_topics("topics"),
    ),
    Known(
        id="acl-order",
        subject="DescribeAcls and DeleteAcls: the order of what matches",
        kafka=_BY_HASH,
        ours=_BY_INDEX,
        source="DescribeAclsResponse.aclsResources, AclControlManager.deleteAclsForFilter",
        lists=r"DescribeAcls\.resources(\[\]\.acls)?|DeleteAcls\.filter_results\[\]\.matching_acls",
    ),
    Known(
        id="config-order",
        subject="several resources of one request: the order of answers",
        kafka=_BY_NAME,
        ours=_AS_ASKED,
        source="ControllerApis.handleIncrementalAlterConfigs, handleLegacyAlterConfigs",
        lists=r"(AlterConfigs|IncrementalAlterConfigs)\.responses",
    ),
    Known(
        id="described-order",
        subject="DescribeConfigs of several configs: their order",
        kafka=_BY_NAME,
        ours="in the order of names",
        source="ConfigHelper.describeConfigs",
        lists=r"DescribeConfigs\.results\[\]\.configs",
    ),
    Known(
        id="entity-order",
        subject="AlterClientQuotas: the order of entities, and of the parts of one",
        kafka=_BY_NAME,
        ours=_AS_ASKED,
        source="ClientQuotaControlManager.alterClientQuotas, ClientQuotaEntity",
        lists=r"AlterClientQuotas\.entries(\[\]\.entity)?",
    ),
    Known(
        id="delete-order",
        subject="DeleteTopics of several topics: the order of answers",
        kafka="shuffled",
        ours=_AS_ASKED,
        source="ControllerApis.deleteTopics",
        lists=r"DeleteTopics\.responses",
    ),
    Known(
        id="moved-order",
        subject="several partitions that one operation changes: the order of records",
        kafka=_BY_HASH,
        ours=_BY_INDEX,
        source="BrokersToIsrs, ReplicationControlManager.generateLeaderAndIsrUpdates",
        records=("PartitionChangeRecord", ("topic_id", "partition_id")),
    ),
    Known(
        id="acl-records",
        subject="several ACLs that one operation removes: the order of records",
        kafka=_BY_HASH,
        ours=_BY_INDEX,
        source="AclControlManager.deleteAclsForFilter",
        records=("RemoveAccessControlEntryRecord", ("id",)),
    ),
    Known(
        id="topic-records",
        subject="several topics that one operation removes: the order of records",
        kafka=_BY_HASH,
        ours=_AS_ASKED,
        source="ControllerApis.deleteTopics",
        records=("RemoveTopicRecord", ("topic_id",)),
    ),
    Known(
        id="config-records",
        subject="several configs of one operation: the order of records",
        kafka=_BY_NAME,
        ours=_AS_ASKED,
        source="ConfigurationControlManager.incrementalAlterConfigResource",
        records=("ConfigRecord", ("resource_type", "resource_name", "name")),
    ),
    Known(
        id="quota-records",
        subject="several quotas of one operation: the order of records, and of parts of an entity",
        kafka=_BY_NAME,
        ours=_AS_ASKED,
        source="ClientQuotaControlManager.alterClientQuotaEntity",
        records=("ClientQuotaRecord", ("entity", "key")),
        lists=r"log\.ClientQuotaRecord\.entity",
    ),
    Known(
        id="late-read",
        subject="DescribeConfigs and DescribeAcls right after a change",
        kafka="answered from what was published so far, which may be before it",
        ours="after it",
        source="KRaftMetadataCachePublisher, AclPublisher",
        late=frozenset({"DescribeConfigs", "DescribeAcls"}),
    ),
    Known(
        id="uneven-growth",
        subject="CreatePartitions of a topic whose partitions differ in their number of replicas",
        kafka="as many as the partition has that a hash table has first",
        ours="as many as partition 0 has",
        source="ReplicationControlManager.createPartitions",
        api="CreatePartitions",
        passed_over=_grows_unevenly,
    ),
    Known(
        id="moved-again",
        subject="a reassignment asked for during another one",
        kafka="loses which replicas the older one added",
        ours="keeps them",
        source="PartitionReassignmentReplicas",
        api="AlterPartitionReassignments",
        passed_over=_moves_again,
    ),
    Known(
        id="offline-assigned",
        subject="AssignReplicasToDirs to an offline directory, where the broker leaves the ISR",
        kafka="two changes, each without the other",
        ours="one change",
        source="ReplicationControlManager.handleAssignReplicasToDirs",
        api="AssignReplicasToDirs",
        passed_over=_leaves_offline,
    ),
    Known(
        id="all-offline",
        subject="a heartbeat that names all log directories of its broker as offline",
        kafka="a change record with no directory, which readers ignore",
        ours="none",
        source="ReplicationControlManager.handleDirectoriesOffline",
        api="BrokerHeartbeat",
        passed_over=_loses_all,
    ),
    Known(
        id="offline-elected",
        subject="a heartbeat that unfences its broker and names an offline directory",
        kafka="the broker is elected for partitions there",
        ours="it is not",
        source="ReplicationControlManager.processBrokerHeartbeat",
        api="BrokerHeartbeat",
        passed_over=_returns_without,
    ),
)
RECORDS: Final[Mapping[str, Known]] = {
    one.records[0]: one for one in KNOWN if one.records is not None
}
"""Type of a record that has no order -> its row."""
DEPENDS: Final = frozenset(one.api for one in KNOWN if one.api)
"""APIs of which some are passed over by what the log says: it is read first."""


@dataclass(slots=True)
class Excuses:
    """How often each row counted, and the first example of each."""

    counts: Counter[str] = field(default_factory=Counter)
    examples: dict[str, str] = field(default_factory=dict)

    def count(self, row: Known, example: object) -> None:
        """It did once more."""
        self.counts[row.id] += 1
        if row.id not in self.examples:
            self.examples[row.id] = str(example)[:400]

    def unordered(self, path: str, operation: Operation | None) -> Known | None:
        """The row by which the list at a path has no order; None: it has one."""
        kind = re.sub(r"\[\d+\]", "[]", path)
        for row in KNOWN:
            if row.lists and re.fullmatch(row.lists, kind):
                return row if operation is None or row.asked(operation.body) else None
        return None

    def passes(self, operation: Operation, names: Names) -> bool:
        """Whether an operation is passed over."""
        for row in KNOWN:
            if row.api != operation.api or row.passed_over is None:
                continue
            if row.passed_over(operation.body, names):
                self.count(row, operation)
                return True
        return False

    def late(self, operation: Operation) -> Known | None:
        """The row by which an answer may show what was before; None: it may not."""
        return next((row for row in KNOWN if operation.api in row.late), None)
