"""ApiVersions, DescribeCluster, UnregisterBroker, AllocateProducerIds, and the registry."""

from __future__ import annotations

from typing import Any

import pytest

from emulator.controller.api.api_versions import unsupported
from emulator.controller.registry import advertised, handlers, handles, supported_features
from tests.kit.requests import upsert_scram
from tests.unit.controller.world import (
    World,
    broker,
    call,
    handle,
    image_of,
    level,
    partition,
    topic,
    uuid,
)
from wire import messages as m
from wire import records as r
from wire.errors import ErrorCode
from wire.frame import encode_response
from wire.releases import RELEASES, controller_ranges

SOFTWARE = {"client_software_name": "apache-kafka-java", "client_software_version": "3.9.2"}


def versions(image: Any = None, version: int = 4, **fields: Any) -> Any:
    request = m.ApiVersionsRequest(**SOFTWARE)
    return handle(image_of() if image is None else image, request, version, **fields).response


@pytest.mark.parametrize("release", RELEASES)
def test_listed_is_what_that_release_lists_as_far_as_it_is_answered(release: str) -> None:
    listed = {
        one.api_key: (one.min_version, one.max_version)
        for one in versions(version=3, release=release).api_keys
    }
    real = controller_ranges(release)
    assert listed == {key: real[key] for key in listed}
    # What is not answered is not promised.
    assert set(listed) == ({1, 52, 53, 54, 55, 59} | set(handlers())) & set(real)


FEATURES = [
    # release, version -> metadata.version maximum, kraft.version listed, finalised, ready flag
    ("3.4", 3, 8, False, False, False),
    ("3.5", 3, 11, False, False, True),
    ("3.6", 3, 14, False, True, True),
    ("3.7", 3, 19, False, True, True),
    ("3.8", 3, 20, False, True, True),
    ("3.9", 3, 21, False, True, True),
    ("3.9", 4, 21, True, True, True),
]


@pytest.mark.parametrize("row", FEATURES)
@pytest.mark.requirement("R04")
def test_tagged_fields_by_release(
    row: tuple[str, int, int, bool, bool, bool],
) -> None:
    """KIP-866 "ApiVersionsResponse": the tag says whether the migration is configured."""
    release, version, top, kraft, finalised, ready = row
    image = image_of(r.NoOpRecord(), mv=8)
    found = versions(image, version, release=release, migration_enabled=True)
    supported = {one.name: (one.min_version, one.max_version) for one in found.supported_features}
    assert supported["metadata.version"] == (1, top)
    assert ("kraft.version" in supported) is kraft
    levels = [
        (one.name, one.min_version_level, one.max_version_level) for one in found.finalized_features
    ]
    assert levels == ([("metadata.version", 8, 8)] if finalised else [])
    assert found.finalized_features_epoch == (1 if finalised else -1)
    assert found.zk_migration_ready is ready
    off = versions(image, version, release=release, migration_enabled=False)
    assert off.zk_migration_ready is False


@pytest.mark.parametrize("version", range(5))
def test_every_version_can_be_encoded(version: int) -> None:
    assert encode_response(18, version, 1, versions(version=version, migration_enabled=True))


def test_before_any_metadata_is_loaded() -> None:
    world = World(activate=False)
    (found,) = world.send(m.ApiVersionsRequest(**SOFTWARE))
    assert [(one.name, one.max_version_level) for one in found.finalized_features] == [
        ("metadata.version", 1)
    ]
    assert found.finalized_features_epoch == -1


def test_the_epoch_of_features_moves_only_with_features() -> None:
    world = World()
    (before,) = world.send(m.ApiVersionsRequest(**SOFTWARE))
    world.join(1)
    (after,) = world.send(m.ApiVersionsRequest(**SOFTWARE))
    assert before.finalized_features_epoch == after.finalized_features_epoch == 4
    world.controller.append([level(21)], world.now_ms)
    world.commit()
    (raised,) = world.send(m.ApiVersionsRequest(**SOFTWARE))
    assert raised.finalized_features_epoch == world.log.log_end_offset - 1


@pytest.mark.parametrize(
    ("name", "number", "version", "code"),
    [
        ("a", "1", 3, 0),
        ("my-client.x", "1.0-SNAPSHOT", 4, 0),
        ("", "1", 3, 42),
        ("a", "", 3, 42),
        ("-a", "1", 3, 42),
        ("a b", "1", 4, 42),
        ("", "", 2, 0),
    ],
)
def test_names_of_client_software(name: str, number: str, version: int, code: int) -> None:
    request = m.ApiVersionsRequest(client_software_name=name, client_software_version=number)
    found = handle(image_of(), request, version).response
    assert found.error_code == code
    assert bool(found.api_keys) is (code == 0)


def test_a_version_not_spoken_gets_one_key_in_the_body_of_version_0() -> None:
    """Byte for byte: error 35, one entry, no throttle time; the header has no tags."""
    found = handle(image_of(), m.ApiVersionsRequest(), 5).response
    assert found == unsupported("3.9")
    frame = encode_response(18, 0, 5, found)
    assert frame.hex() == "00000005" + "0023" + "00000001" + "0012" + "0000" + "0004"
    assert encode_response(18, 0, 5, unsupported("3.4")).hex().endswith("001200000003")


def test_unknown_releases_are_refused() -> None:
    with pytest.raises(ValueError, match="no release"):
        supported_features("4.0")


def test_two_handlers_for_one_key_are_an_error() -> None:
    handlers()
    with pytest.raises(ValueError, match="two handlers"):
        handles(m.ApiVersionsRequest, refused=lambda *_: None)(lambda *_: None)


def test_an_api_without_handler_is_not_offered_and_cannot_even_be_refused() -> None:
    world = World()
    world.may_fail = True
    world.controller.request(call(m.LeaderAndIsrRequest()), world.now_ms)
    (answered,) = world.controller.take_replies()
    assert (answered.message, answered.payload) == (None, None)
    assert 4 not in advertised("3.9")


CLUSTER = [
    (0, 1, 21, ErrorCode.INVALID_REQUEST),
    (1, 1, 21, ErrorCode.MISMATCHED_ENDPOINT_TYPE),
    (1, 3, 21, ErrorCode.UNSUPPORTED_ENDPOINT_TYPE),
    (1, 1, 14, ErrorCode.UNSUPPORTED_VERSION),
    (1, 2, 14, ErrorCode.UNSUPPORTED_VERSION),
    (1, 2, 15, ErrorCode.NONE),
]


@pytest.mark.parametrize(("version", "endpoint_type", "mv", "code"), CLUSTER)
def test_describe_cluster(version: int, endpoint_type: int, mv: int, code: int) -> None:
    request = m.DescribeClusterRequest(endpoint_type=endpoint_type)
    found = handle(image_of(mv=mv), request, version).response
    assert found.error_code == code
    assert (found.error_message is None) == (code == 0)


def test_describe_cluster_lists_the_controllers_of_the_caller_s_listener() -> None:
    world = World()
    (found,) = world.send(m.DescribeClusterRequest(endpoint_type=2))
    assert [(one.broker_id, one.host, one.port) for one in found.brokers] == [
        (3000, "127.0.0.1", 23000)
    ]
    assert (found.controller_id, found.endpoint_type) == (3000, 2)
    assert found.cluster_id == world.config.cluster_id
    (elsewhere,) = world.send(m.DescribeClusterRequest(endpoint_type=2), listener="OTHER")
    assert elsewhere.brokers == []


def test_unregistering_leaves_every_isr_first() -> None:
    image = image_of(broker(0), broker(1), topic("t", 1), partition(1, replicas=(0, 1)))
    result = handle(image, m.UnregisterBrokerRequest(broker_id=0))
    assert result.response.error_code == 0
    assert result.records == (
        r.PartitionChangeRecord(partition_id=0, topic_id=uuid(1), isr=(1,), leader=1),
        r.UnregisterBrokerRecord(broker_id=0, broker_epoch=100),
    )


def test_unregistering_a_stranger() -> None:
    found = handle(image_of(), m.UnregisterBrokerRequest(broker_id=9))
    assert found.response.error_code == ErrorCode.BROKER_ID_NOT_REGISTERED
    assert found.response.error_message == ""
    assert found.records == ()


PRODUCER_IDS = [(1, 100, 77), (2, 101, 77), (1, 101, 0)]


@pytest.mark.parametrize(("broker_id", "epoch", "code"), PRODUCER_IDS)
def test_producer_id_blocks(broker_id: int, epoch: int, code: int) -> None:
    image = image_of(broker(1), r.ProducerIdsRecord(next_producer_id=5000))
    request = m.AllocateProducerIdsRequest(broker_id=broker_id, broker_epoch=epoch)
    result = handle(image, request)
    assert result.response.error_code == code
    if code == 0:
        assert (result.response.producer_id_start, result.response.producer_id_len) == (5000, 1000)
        assert result.records == (
            r.ProducerIdsRecord(broker_id=1, broker_epoch=101, next_producer_id=6000),
        )
    else:
        assert result.records == ()


@pytest.mark.parametrize(("left", "code"), [(1000, 0), (999, -1)])
def test_producer_ids_run_out(left: int, code: int) -> None:
    image = image_of(broker(1), r.ProducerIdsRecord(next_producer_id=2**63 - 1 - left))
    request = m.AllocateProducerIdsRequest(broker_id=1, broker_epoch=101)
    assert handle(image, request).response.error_code == code


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({}, ErrorCode.NONE),
        ({"salted_password": b""}, ErrorCode.UNACCEPTABLE_CREDENTIAL),
        ({"name": ""}, ErrorCode.UNACCEPTABLE_CREDENTIAL),
        ({"mechanism": 3}, ErrorCode.UNSUPPORTED_SASL_MECHANISM),
        ({"iterations": 4_095}, ErrorCode.UNACCEPTABLE_CREDENTIAL),
        ({"iterations": 16_384}, ErrorCode.NONE),
        ({"iterations": 16_385}, ErrorCode.UNACCEPTABLE_CREDENTIAL),
    ],
)
def test_a_scram_credential_is_judged_as_by_kafka(fields: dict[str, Any], code: int) -> None:
    result = handle(image_of(level(21)), upsert_scram("u", **fields))
    (answer,) = result.response.results
    assert answer.error_code == code
    assert len(result.records) == (code == ErrorCode.NONE)
