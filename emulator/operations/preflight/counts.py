"""Counts of entities, and estimated durations."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, NamedTuple

from emulator.config.words import duration, several
from emulator.operations.preflight.engine import NotRun, Outcome, finding, rule
from emulator.operations.preflight.survey import RoundTrips, Survey
from emulator.znodes import controller
from emulator.znodes.tree import ZnodeError

READS_PER_REQUEST: Final = 500
OPS_PER_MULTI: Final = 400
READ_US: Final = 10
"""Per znode: 8,120 were read from a real ZooKeeper in 39 to 90 ms, on one machine with it."""
WRITE_US: Final = 40
"""Per znode in a large multi: 12,415 partitions a second were measured, of two znodes each."""
RECORD_US: Final = 40
"""Per record of the copy: 26 to 36 were measured, to read, replay and encode one."""
MIN_BATCH: Final = 200
"""``zookeeper.metadata.migration.min.batch.size``."""
KAFKA_READS_IN_FLIGHT: Final = 10
"""``zookeeper.max.in.flight.requests``; Kafka asks for one znode in a request."""
KAFKA_BATCH_MS: Final = 30
"""Kafka waits for each batch's commit: 1,002 batches took 32.2 s in KAFKA-16007."""


@dataclass(frozen=True, slots=True)
class Counts:
    """Entities of a tree; ``configs``, ``quotas`` and ``acls`` count entries, not znodes."""

    topics: int
    partitions: int
    topic_configs: int
    broker_configs: int
    quotas: int
    scram: int
    acls: int
    tokens: int
    producer_ids: int
    replicas_by_broker: Counter[int]


def count(survey: Survey) -> Counts:
    """Count what would be copied; unreadable znodes are not counted."""
    names = [one for one in survey.children("/brokers/topics") if one not in survey.pending]
    replicas: Counter[int] = Counter()
    partitions = 0
    for name in names:
        for brokers in survey.replicas(name):
            partitions += 1
            replicas.update(brokers)
    scram, quotas = 0, 0
    for root in ("/config/users", "/config/clients", "/config/ips"):
        for path, _ in survey.below(root):
            keys = survey.config(path)
            of_user = sum(key.startswith("SCRAM-") for key in keys)
            scram, quotas = scram + of_user, quotas + len(keys) - of_user
    return Counts(
        topics=len(names),
        partitions=partitions,
        topic_configs=sum(len(survey.config(f"/config/topics/{one}")) for one in names),
        broker_configs=sum(
            len(survey.config(f"/config/brokers/{one}"))
            for one in survey.children("/config/brokers")
        ),
        quotas=quotas,
        scram=scram,
        acls=sum(
            len(survey.entries(path))
            for root in ("/kafka-acl", "/kafka-acl-extended")
            for path, node in survey.below(root)
            if node.data
        ),
        tokens=len(survey.children("/delegation_token/tokens")),
        producer_ids=int(bool(survey.data("/latest_producer_id_block"))),
        replicas_by_broker=replicas,
    )


@rule("I01", "amount of metadata")
def amounts(survey: Survey) -> Iterator[Outcome]:
    """Entities by class."""
    found = count(survey)
    block = survey.json("/latest_producer_id_block").get("block_end", "none handed out")
    yield finding(
        "I01",
        "/",
        f"{several(len(survey.nodes), 'znode')}: {several(found.topics, 'topic')}, "
        f"{several(found.partitions, 'partition')}, "
        f"{several(found.topic_configs, 'topic config')}, "
        f"{several(found.broker_configs, 'broker config')}, {several(found.acls, 'ACL')}, "
        f"{several(found.scram, 'SCRAM credential')}, {several(found.quotas, 'quota')}, "
        f"{several(found.tokens, 'delegation token')}, producer ids up to {block}",
    )


@rule("I02", "estimated duration")
def durations(survey: Survey) -> Iterator[Outcome]:
    """Copy and full comparison, from measured round trips."""
    records = sum(survey.copy.records.values())
    batches = -(-records // MIN_BATCH)
    yield finding(
        "I02",
        "/",
        f"{several(records, 'record')} in about {several(batches, 'batch', 'batches')} of "
        f"{MIN_BATCH}",
    )
    trips = survey.round_trips
    if trips is None:
        yield NotRun("I02", "times need measured round trips: use --zookeeper")
        return
    znodes = len(survey.nodes)
    times = estimated(records, znodes, trips)
    kafka_ms = znodes * trips.read_ms / KAFKA_READS_IN_FLIGHT + batches * KAFKA_BATCH_MS
    yield finding(
        "I02",
        "/",
        f"round trips: {trips.read_ms:.2f} ms to read, {trips.sync_ms:.2f} ms through the leader; "
        f"estimated: copy {duration(times.copy_ms)}; reading all znodes after a failover "
        f"{duration(times.reading_ms)}, writing all of them, if all differed, "
        f"{duration(times.writing_ms)}; Apache Kafka's copy by the model of KAFKA-16007 "
        f"{duration(kafka_ms)}",
        "during the copy no administrative change is accepted; produce and consume go on",
        reference="KAFKA-16007",
    )


class Estimated(NamedTuple):
    """Durations in ms: the copy; reading all znodes; writing all of them."""

    copy_ms: float
    reading_ms: float
    writing_ms: float


def estimated(records: int, znodes: int, trips: RoundTrips) -> Estimated:
    """Durations of our controller, by the figures above."""
    batches = -(-records // MIN_BATCH)
    reading_ms = -(-znodes // READS_PER_REQUEST) * trips.read_ms + znodes * READ_US / 1e3
    copy_ms = reading_ms + records * RECORD_US / 1e3 + batches * trips.sync_ms
    writing_ms = -(-znodes // OPS_PER_MULTI) * trips.sync_ms + znodes * WRITE_US / 1e3
    return Estimated(copy_ms, reading_ms, writing_ms)


@rule("I03", "writes per change")
def costs(survey: Survey) -> Iterator[Outcome]:
    """Operations in ZooKeeper of one administrative change in dual write."""
    yield finding(
        "I03",
        "/",
        "znodes written in dual write: a config, quota, credential or ACL 2 (with its "
        "notification); a topic of p partitions 3 + 2p to make or to delete; a leader or ISR "
        "change 1 for each partition",
    )
    found = count(survey).replicas_by_broker
    if found:
        broker_id, replicas = max(found.items(), key=lambda one: (one[1], -one[0]))
        yield finding(
            "I03",
            f"/brokers/ids/{broker_id}",
            f"its loss changes up to {several(replicas, 'partition state')}: as many writes, in "
            f"about {several(-(-replicas // OPS_PER_MULTI), 'multi')}",
        )


@rule("I05", "epoch headroom")
def headroom(survey: Survey) -> Iterator[Outcome]:
    """How far /controller_epoch is above the quorum's epoch: elections that a rollback survives."""
    try:
        epoch = controller.parse_epoch(survey.data(controller.EPOCH_PATH))
    except ZnodeError:
        return
    holder = controller.try_parse(survey.data(controller.PATH))
    epochs = [one.election_epoch for one in survey.folders if one.election_epoch is not None]
    epochs += [holder.kraft_epoch] if holder is not None and holder.kraft_epoch >= 0 else []
    if not epochs:
        yield finding("I05", controller.EPOCH_PATH, f"{epoch}; no epoch of a quorum is known")
        return
    yield finding(
        "I05",
        controller.EPOCH_PATH,
        f"{epoch}, and the quorum is in epoch {max(epochs)}: {epoch - max(epochs)} above it",
        "each election of the quorum takes one away unless the new leader claims; below 0 "
        "partitions may stay offline after a rollback",
        reference="KAFKA-20488",
    )
