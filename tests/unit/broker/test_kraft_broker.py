"""A broker in KRaft mode with our controller: registration, the log, and its clients."""

from __future__ import annotations

import pytest

from tests.kit.requests import create_topics, metadata
from tests.unit.broker.joined_brokers import CLUSTER_ID, Stage
from wire import messages as m
from wire.errors import ErrorCode
from wire.releases import RELEASES, broker_ranges


def test_it_registers_follows_the_log_and_is_unfenced() -> None:
    stage = Stage()
    (broker,) = stage.running(1)
    image = broker.side.cluster.image
    known = image.brokers[1]
    assert not known.fenced
    assert broker.side.broker_epoch == known.epoch
    assert image.offset == known.epoch + 1, "its unfencing follows"
    endpoints = [(one.name, one.host, one.port) for one in known.endpoints]
    assert endpoints == [("PLAINTEXT", "broker-1", 9092)]
    assert known.log_dirs == (b"\x01" * 16,)


@pytest.mark.requirement("A02")
def test_metadata_names_a_random_broker_that_is_alive_as_the_controller() -> None:
    stage = Stage()
    stage.running(1, 2, 3)
    client = stage.client(1)
    answers = [client.ask(m.MetadataRequest(topics=[]), 12) for _ in range(40)]
    assert {one.controller_id for one in answers} == {1, 2, 3}
    assert all(one.cluster_id == CLUSTER_ID for one in answers)
    assert [(b.node_id, b.host, b.port) for b in answers[0].brokers] == [
        (1, "broker-1", 9092),
        (2, "broker-2", 9092),
        (3, "broker-3", 9092),
    ]


def test_a_topic_created_through_it_is_in_the_metadata_of_all_brokers() -> None:
    stage = Stage()
    brokers = stage.running(1, 2, 3)
    created = stage.client(1).ask(create_topics("orders", partitions=6, factor=3), 7)
    (one,) = created.topics
    assert (one.error_code, one.num_partitions) == (0, 6)
    stage.joined.wait(1_000)
    for node_id in (1, 2, 3):
        told = stage.client(node_id).ask(wanted("orders"), 12)
        (found,) = told.topics
        assert found.error_code == 0
        assert found.topic_id == one.topic_id
        assert [p.partition_index for p in found.partitions] == list(range(6))
        assert {p.leader_id for p in found.partitions} == {1, 2, 3}
    first, *others = stage.images_of(*brokers)
    assert all(image is first for image in others), "equal images are one object"


@pytest.mark.parametrize("release", RELEASES)
def test_it_offers_what_a_broker_of_its_release_offers(release: str) -> None:
    stage = Stage(level=8, kraftbridge_release="3.9")
    stage.running(1, kraftbridge_release=release)
    answer = stage.client(1).ask(m.ApiVersionsRequest("a", "1"), 3)
    known = {one.api_key: (one.min_version, one.max_version) for one in answer.api_keys}
    kafkas = broker_ranges(release, mode="kraft")
    telemetry = {71, 72}  # hidden without a receiver, as by Kafka's
    assert known == {key: kafkas[key] for key in kafkas if key not in telemetry}
    assert answer.error_code == ErrorCode.NONE


def wanted(*names: str, create: bool = True) -> m.MetadataRequest:
    return metadata(*names, allow_auto_topic_creation=create)


def test_a_topic_that_a_client_needs_is_created_through_the_controller() -> None:
    stage = Stage()
    stage.running(1, num_partitions="3")
    client = stage.client(1)
    (missing,) = client.ask(wanted("new"), 12).topics
    assert missing.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    stage.joined.wait(1_000)
    (found,) = client.ask(wanted("new"), 12).topics
    assert (found.error_code, len(found.partitions)) == (0, 3)
    (invalid,) = client.ask(wanted("a/b"), 12).topics
    assert invalid.error_code == ErrorCode.INVALID_TOPIC_EXCEPTION


def test_it_is_asked_for_once_while_nobody_answers() -> None:
    stage = Stage()
    (broker,) = stage.running(1)
    stage.joined.leave(stage.controller)
    client = stage.client(1)
    for _ in range(5):
        client.ask(wanted("new"), 12)
    assert broker.forwarding.outstanding == 1
    stage.joined.wait(31_000)
    client.ask(wanted("new"), 12)
    assert broker.forwarding.outstanding == 1, "and again once that is over"


@pytest.mark.parametrize("version", [4, 12])
def test_nothing_is_created_where_client_or_broker_forbid_it(version: int) -> None:
    stage = Stage()
    brokers = [*stage.running(1), *stage.running(2, auto_create_topics_enable="false")]
    stage.client(1).ask(wanted("new", create=False), version)
    stage.client(2).ask(wanted("new"), version)
    stage.client(1).ask(m.MetadataRequest(topics=None), version)
    stage.joined.wait(1_000)
    assert not any(broker.forwarding.counts.envelopes_total for broker in brokers)


def test_all_topics_are_described_anew_after_each_change_and_by_version() -> None:
    stage = Stage()
    one, two = stage.running(1, 2)
    client = stage.client(1)
    everything = m.MetadataRequest(topics=None)
    before = client.ask(everything, 12)
    assert client.ask(everything, 12).topics == before.topics
    client.ask(create_topics("late", factor=2), 7)
    stage.joined.wait(1_000)
    (late,) = client.ask(everything, 12).topics
    assert late.name == "late"
    assert late.partitions[0].offline_replicas == ()
    party = stage.parties[2]
    stage.joined.perform(party, two.shutdown(stage.joined.now_ms))
    stage.joined.until(lambda: party.halt is not None)
    stage.joined.wait(1_000)
    for version in range(13):
        request = m.MetadataRequest(topics=[] if version == 0 else None)
        answer = client.ask(request, version)
        assert [broker.node_id for broker in answer.brokers] == [1]
        (found,) = answer.topics
        assert found.partitions[0].leader_id == 1
        if version >= 5:
            assert list(found.partitions[0].offline_replicas) == [2]
    assert stage.images_of(one)[0].topic("late") is not None
