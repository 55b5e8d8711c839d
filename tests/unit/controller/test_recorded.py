"""Requests that real brokers sent to Kafka's own controller, given to ours on the same metadata.

The metadata is Kafka's log of that run, replayed up to the batch the request led to.
"""

from __future__ import annotations

import random
from collections import Counter
from typing import Any

import pytest
from msgspec.structs import replace

from emulator.controller.context import Call, Context
from emulator.controller.queue.batches import record_version
from emulator.controller.queue.heartbeats import Heartbeats
from emulator.controller.registry import handlers
from emulator.controller.result import Result
from emulator.controller.rules import broker_changes
from emulator.controller.rules.authorizer import StandardAuthorizer
from emulator.controller.rules.forwarding import opening
from emulator.controller.tables.index import TipIndex
from emulator.metadata.brokers import FENCE, IN_CONTROLLED_SHUTDOWN, UNFENCE
from emulator.metadata.configs import BROKER
from emulator.metadata.image import Image
from emulator.metadata.migration_state import MigrationState
from emulator.seam import whole
from tests.unit.controller.recorded import Batch, Exchange, batches, exchanges, image_at
from tests.unit.controller.world import config
from wire import messages as m
from wire import records as r
from wire.frame import decode_response

FULL = "3.9.2-full"
OF_THE_RUN = StandardAuthorizer(frozenset({"User:ANONYMOUS"}))
RELEASES = [("3.4.1-short", "3.4", 8), ("3.7.2-short", "3.7", 19), (FULL, "3.9", 21)]


def of(folder: str, api: str) -> list[Exchange]:
    return [one for one in exchanges(folder) if one.api == api]


def surroundings(image: Image, call: Call, **fields: Any) -> Context:
    request = call.message
    cluster = getattr(request, "cluster_id", "")
    heartbeats = Heartbeats(9_000)
    return Context(
        config=config(cluster_id=cluster, migration_enabled=True, **fields),
        call=call,
        now_ms=0,
        next_offset=image.offset + 1,
        heartbeats=heartbeats,
        index=TipIndex(image),
        rng=random.Random(3),
    )


def answer(exchange: Exchange, image: Image, **fields: Any) -> Result[Any]:
    call = Call(ticket=1, header=exchange.header, message=exchange.request)
    handler = handlers()[exchange.header.api_key]
    return handler.result(image, exchange.request, surroundings(image, call, **fields))


def kinds(records: Any) -> Counter[str]:
    return Counter(type(record).__name__ for record in records)


def holding(folder: str, record_type: type, **fields: Any) -> Batch:
    """The one batch with a record of a type and these values."""
    (found,) = (
        batch
        for batch in batches(folder)
        if any(
            isinstance(record, record_type)
            and all(getattr(record, name) == value for name, value in fields.items())
            for record in batch.records
        )
    )
    return found


@pytest.mark.parametrize(("folder", "release", "level"), RELEASES)
@pytest.mark.requirement("R08", "R09", "R10", "N02", "N03", "V09")
def test_registrations_of_real_brokers_become_the_recorded_records(
    folder: str, release: str, level: int
) -> None:
    """KIP-866 "Broker Registration RPC": flag, features and listeners survive into the record."""
    registered = 0
    for exchange in of(folder, "BrokerRegistration"):
        if exchange.response.error_code:
            continue
        batch = holding(folder, r.RegisterBrokerRecord, broker_epoch=exchange.response.broker_epoch)
        index = next(
            at for at, one in enumerate(batch.records) if isinstance(one, r.RegisterBrokerRecord)
        )
        expected = batch.records[index]
        before = batch.before if index == 0 else image_at(folder, batch.create_time_ms - 1)
        image = replace(before, offset=expected.broker_epoch - 1)
        result = answer(exchange, image, release=release)
        assert result.records == (expected,)
        assert record_version(expected, image.metadata_version) == batch.versions[index]
        assert result.response == exchange.response
        ranges = {one.name: one for one in exchange.request.features}
        if exchange.request.is_migrating_zk_broker:
            assert ranges["metadata.version"].min_supported_version == level
            assert ranges["metadata.version"].max_supported_version == level
        registered += 1
    assert registered >= 3


def test_isr_changes_get_the_recorded_answers_and_records() -> None:
    """Every AlterPartition of two runs: each field of the answer, and the records written."""
    codes: Counter[int] = Counter()
    for folder in (FULL, "3.7.2-short"):
        written = {
            (record.topic_id, record.partition_id, _epoch(batch.before, record)): (batch, record)
            for batch in batches(folder)
            for record in batch.records
            if isinstance(record, r.PartitionChangeRecord)
        }
        for exchange in of(folder, "AlterPartition"):
            wanted = [
                (topic.topic_id, partition.partition_index, partition.partition_epoch)
                for topic in exchange.request.topics
                for partition in topic.partitions
            ]
            answers = [
                partition for topic in exchange.response.topics for partition in topic.partitions
            ]
            changed = [
                written[key]
                for key, one in zip(wanted, answers, strict=True)
                if one.error_code in {0, 108}
            ]
            image = changed[0][0].before if changed else image_at(folder, exchange.sent_ms)
            result = answer(exchange, image, release=folder[:3])
            assert result.response == exchange.response
            assert list(result.records) == [record for _, record in changed]
            codes.update(one.error_code for one in answers)
    assert codes[0] >= 80
    assert codes[107] >= 1
    assert codes[108] == 1


def _epoch(image: Image, record: r.PartitionChangeRecord) -> int | None:
    topic = image.topics.get(record.topic_id)
    partition = None if topic is None else topic.partitions.get(record.partition_id)
    return None if partition is None else partition.partition_epoch


def test_fencing_unfencing_and_shutdown_write_the_recorded_batches() -> None:
    """The same elections, ISR changes and order as Kafka's, partitions aside."""
    seen: Counter[str] = Counter()
    for folder in (FULL, "3.9.2-rollback-and-stale-migration-znode", "3.7.2-short", "3.4.1-short"):
        for batch in batches(folder):
            changes = [
                one for one in batch.records if isinstance(one, r.BrokerRegistrationChangeRecord)
            ]
            if len(changes) != 1 or changes[0].log_dirs:
                continue
            (change,) = changes
            image = batch.before
            enabled = image.migration_state is not MigrationState.POST_MIGRATION
            settings = config(migration_enabled=enabled, release=folder[:3])
            theirs = [one for one in batch.records if not _idle(image, one)]
            where = (image, settings, TipIndex(image), image.brokers[change.broker_id])
            if change.fenced == FENCE:
                ours, name = whole(broker_changes.fence(*where)), "fence"
                assert ours[-1] == theirs[-1] == change
            elif change.fenced == UNFENCE:
                ours, name = whole(broker_changes.unfence(*where)), "unfence"
                assert ours[0] == theirs[0] == change
            else:
                assert change.in_controlled_shutdown == IN_CONTROLLED_SHUTDOWN
                ours, name = whole(broker_changes.begin_controlled_shutdown(*where)), "shutdown"
                assert ours[0] == theirs[0] == change
            assert sorted(map(repr, ours)) == sorted(map(repr, theirs))
            seen[name] += 1
    assert seen["fence"] >= 8
    assert seen["unfence"] >= 12
    assert seen["shutdown"] >= 4


def _idle(image: Image, record: object) -> bool:
    """A NoOp in the batch, or what 3.4-3.8 write again for a partition already leaderless."""
    if isinstance(record, r.PartitionChangeRecord) and record.leader == -1:
        return image.topics[record.topic_id].partitions[record.partition_id].leader == -1
    return isinstance(record, r.NoOpRecord)


def test_producer_id_blocks_are_those_recorded() -> None:
    for exchange in of(FULL, "AllocateProducerIds"):
        batch = holding(
            FULL, r.ProducerIdsRecord, next_producer_id=exchange.response.producer_id_start + 1000
        )
        result = answer(exchange, batch.before)
        assert result.response == exchange.response
        assert result.records == batch.records


def inner(exchange: Exchange) -> tuple[Call, Any]:
    """The request inside a recorded Envelope, and Kafka's inner answer."""
    found = whole(opening(Call(ticket=1, header=exchange.header, message=exchange.request), "3.9"))
    assert isinstance(found, Call), found
    data = exchange.response.response_data
    _, response = decode_response(found.header.api_key, found.header.api_version, data)
    return found, response


@pytest.mark.requirement("I08", "I13")
def test_forwarded_requests_get_the_recorded_inner_answers() -> None:
    """KIP-590 "Envelope": header, principal, address and body; errors stay inside."""
    compared: Counter[str] = Counter()
    failed = 0
    for exchange in of(FULL, "Envelope"):
        envelope = exchange.request
        key = int.from_bytes(envelope.request_data[:2], "big")
        if key not in handlers() or key in TOKEN_KEYS:
            continue
        call, expected = inner(exchange)
        assert call.principal.startswith("User:")
        assert call.client_address == b"\x7f\x00\x00\x01"
        assert call.header.client_id == "adm"
        handler = handlers()[key]
        ours = [
            _comparable(
                handler.result(
                    image, call.message, surroundings(image, call, authorizer=OF_THE_RUN)
                ).response
            )
            for image in _images_around(exchange)
        ]
        assert _comparable(expected) in ours
        compared[type(call.message).__name__] += 1
        results = getattr(expected, "topics", getattr(expected, "results", []))
        failed += any(getattr(one, "error_code", 0) for one in results)
    assert compared["CreateTopicsRequest"] >= 8
    assert compared["IncrementalAlterConfigsRequest"] >= 5
    assert compared["CreatePartitionsRequest"] == 1
    assert compared["DeleteTopicsRequest"] == 1
    assert compared["AlterConfigsRequest"] == 1
    assert compared["AlterClientQuotasRequest"] >= 3
    assert compared["CreateAclsRequest"] == compared["DeleteAclsRequest"] == 2
    assert compared["UpdateFeaturesRequest"] == 1
    assert compared["ElectLeadersRequest"] == 3
    assert compared["AlterPartitionReassignmentsRequest"] == 2
    assert compared["ListPartitionReassignmentsRequest"] == 4
    assert compared["AlterUserScramCredentialsRequest"] >= 1
    assert failed >= 3


@pytest.mark.requirement("I08")
@pytest.mark.parametrize(
    ("api", "record", "least"),
    [
        ("AlterClientQuotas", r.ClientQuotaRecord, 4),
        ("AlterUserScramCredentials", r.UserScramCredentialRecord, 2),
        ("AlterUserScramCredentials", r.RemoveUserScramCredentialRecord, 1),
    ],
)
def test_quotas_and_scram_users_become_the_recorded_records(
    api: str, record: type, least: int
) -> None:
    """The keys of a SCRAM user are derived from the salted password as Kafka derives them."""
    recorded = [
        _without_order(batch.records)
        for batch in batches(FULL)
        if any(isinstance(one, record) for one in batch.records)
    ]
    seen = 0
    for exchange in of(FULL, "Envelope"):
        if int.from_bytes(exchange.request.request_data[:2], "big") != API_KEYS[api]:
            continue
        call, _ = inner(exchange)
        for image in _images_around(exchange):
            handler = handlers()[call.header.api_key]
            result = handler.result(image, call.message, surroundings(image, call))
            if _without_order(result.records) in recorded:
                seen += 1
                break
    assert seen >= least


TOKEN_KEYS = {38, 39, 40}
"""They need their secret and the time: see test_delegation_tokens.py."""
API_KEYS = {"AlterClientQuotas": 49, "AlterUserScramCredentials": 51}


def _without_order(records: Any) -> list[str]:
    """Kafka keeps no order among the keys of an entity, nor between its types."""
    for one in records:
        if isinstance(one, r.ClientQuotaRecord):
            one.entity.sort(key=lambda part: part.entity_type)
    return sorted(map(repr, records))


def _images_around(exchange: Exchange) -> list[Image]:
    """What the controller knew at that time; a batch is dated before its last append."""
    return [
        batch.before
        for batch in batches(FULL)
        if exchange.sent_ms - 600 <= batch.create_time_ms <= exchange.answered_ms + 600
    ]


def _comparable(response: Any) -> Any:
    """Without what is random (topic ids) and without texts, which are Kafka's own words."""
    if isinstance(response, m.CreateTopicsResponse):
        return [
            (one.name, one.error_code, one.num_partitions, one.replication_factor, one.configs)
            for one in response.topics
        ]
    if isinstance(response, m.DeleteTopicsResponse):
        return [(one.name, one.topic_id, one.error_code) for one in response.responses]
    if isinstance(response, m.ElectLeadersResponse):
        results = response.replica_election_results
        return sorted(
            (one.topic, [(each.partition_id, each.error_code) for each in one.partition_result])
            for one in results
        )
    if isinstance(response, m.AlterPartitionReassignmentsResponse):
        return [
            (one.name, [(each.partition_index, each.error_code) for each in one.partitions])
            for one in response.responses
        ]
    if isinstance(response, m.ListPartitionReassignmentsResponse | m.UpdateFeaturesResponse):
        return response
    if isinstance(response, m.CreatePartitionsResponse):
        return [(one.name, one.error_code) for one in response.results]
    if isinstance(response, m.AlterClientQuotasResponse | m.AlterUserScramCredentialsResponse):
        return response
    if isinstance(response, m.CreateAclsResponse | m.DeleteAclsResponse):
        return response
    return [(one.resource_type, one.resource_name, one.error_code) for one in response.responses]


def test_the_cluster_wide_broker_config_of_the_run_is_in_force() -> None:
    """Guards the comparison above: one of its config sources is a dynamic broker default."""
    image = image_at(FULL, of(FULL, "Envelope")[0].sent_ms)
    assert image.config(BROKER, "")["message.max.bytes"]
