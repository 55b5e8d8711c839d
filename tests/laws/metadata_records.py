"""Random logs: sequences of records that each fit the image before them."""

from __future__ import annotations

from collections.abc import Callable

from hypothesis import strategies as st
from hypothesis.strategies import DrawFn, SearchStrategy

from emulator.metadata import (
    EMPTY,
    Feature,
    Image,
    MetadataVersion,
    MigrationState,
    client_quotas,
    replay,
)
from tests.kit.laws import examples
from wire import records as r

IDS = [bytes(15) + bytes([n]) for n in range(1, 7)]
ACL_IDS = [bytes(14) + bytes([1, n]) for n in range(1, 7)]
NAMES = ["a", "b", "c"]
BROKERS = [1, 2, 3, 1000]
LAW = examples(25)
"""A log is drawn record by record, each on the image before it: no cheap examples."""

LEVELS = st.sampled_from([1, 4, 6, 7, 8, 13, 15, 17, 21])

replica_lists = st.lists(st.sampled_from(BROKERS), min_size=1, max_size=3, unique=True)
uuids = st.sampled_from([bytes(16), *IDS])
numbers = st.integers(0, 2**31 - 1)
QUOTAS = ["producer_byte_rate", "consumer_byte_rate", "request_percentage"]


@st.composite
def logs(draw: DrawFn, *, size: int = 20) -> list[object]:
    """Records of one log; every entity comes, changes and goes."""
    level = draw(LEVELS)
    records: list[object] = []
    image = EMPTY
    if level >= 4:
        records.append(r.FeatureLevelRecord(name="metadata.version", feature_level=level))
        image = replay(image, records[0], 0, 1)
    for _ in range(draw(st.integers(0, size))):
        record = draw(draw(st.sampled_from(_possible(image)))(image))
        image = replay(image, record, len(records), 1)
        records.append(record)
    return records


Kind = Callable[[Image], SearchStrategy[object]]


def _possible(image: Image) -> list[Kind]:
    version = image.metadata_version
    kinds: list[Kind] = [_registration, _config, _producer_ids, _client_quota, _acl]
    if image.acls:
        kinds += [_remove_acl]
    if version.supports(Feature.SCRAM):
        kinds += [_scram]
    if image.scram_credentials:
        kinds += [_remove_scram]
    if version.supports(Feature.DELEGATION_TOKENS):
        kinds += [_token, _remove_token]
    if len(image.topics) < len(NAMES):
        kinds += [_topic] * 2
    if image.topics:
        kinds += [_partition] * 2 + [_remove]
    if any(topic.partitions for topic in image.topics.values()):
        kinds += [_change] * 3
    if image.brokers:
        kinds += [_unregister, _fence]
    if image.brokers and version.supports(Feature.REGISTRATION_CHANGE):
        kinds += [_registration_change]
    if version.level >= 4:
        kinds += [_feature]
    if version.supports(Feature.NO_OP_RECORD):
        kinds += [_no_op]
    if version.supports(Feature.MIGRATION) and image.migration_state != 3:
        kinds += [_migration_state]
    if version.supports(Feature.CONTROLLER_REGISTRATION):
        kinds += [_controller]
    return kinds


def _directories(version: MetadataVersion, count: int) -> SearchStrategy[list[bytes]]:
    if not version.supports(Feature.DIRECTORIES):
        return st.just([])
    return st.lists(uuids, min_size=count, max_size=count)


def _topic(image: Image) -> SearchStrategy[object]:
    # An id never comes back under another name: Kafka draws ids at random.
    return st.sampled_from(
        [
            r.TopicRecord(name=name, topic_id=topic_id)
            for topic_id, name in zip(IDS, NAMES * 2, strict=True)
            if name not in image.topic_ids and topic_id not in image.topics
        ]
    )


def _partition(image: Image) -> SearchStrategy[object]:
    version = image.metadata_version

    def with_replicas(replicas: list[int]) -> SearchStrategy[object]:
        return st.builds(
            r.PartitionRecord,
            partition_id=st.integers(0, 3),
            topic_id=st.sampled_from(list(image.topics)),
            replicas=st.just(replicas),
            isr=replica_lists,
            leader=st.sampled_from([-1, *BROKERS]),
            removing_replicas=st.just([]) | replica_lists,
            adding_replicas=st.just([]) | replica_lists,
            leader_recovery_state=st.integers(
                0, int(version.supports(Feature.LEADER_RECOVERY_STATE))
            ),
            leader_epoch=st.integers(0, 1000),
            partition_epoch=st.integers(0, 120),  # each is a write to ZooKeeper
            directories=_directories(version, len(replicas)),
        )

    return replica_lists.flatmap(with_replicas)


def _change(image: Image) -> SearchStrategy[object]:
    version = image.metadata_version
    existing = [(t.id, index) for t in image.topics.values() for index in t.partitions]

    def with_replicas(replicas: list[int] | None) -> SearchStrategy[object]:
        known = version.supports(Feature.DIRECTORIES) and replicas is not None
        return st.sampled_from(existing).flatmap(
            lambda one: st.builds(
                r.PartitionChangeRecord,
                partition_id=st.just(one[1]),
                topic_id=st.just(one[0]),
                replicas=st.just(replicas),
                isr=st.none() | replica_lists,
                leader=st.sampled_from([-2, -1, *BROKERS]),
                removing_replicas=st.none() | st.just([]) | replica_lists,
                adding_replicas=st.none() | st.just([]) | replica_lists,
                leader_recovery_state=st.integers(
                    -1, int(version.supports(Feature.LEADER_RECOVERY_STATE))
                ),
                directories=_directories(version, len(replicas or ())) if known else st.none(),
            )
        )

    return (st.none() | replica_lists).flatmap(with_replicas)


def _remove(image: Image) -> SearchStrategy[object]:
    return st.builds(r.RemoveTopicRecord, topic_id=st.sampled_from(list(image.topics)))


def _config(_image: Image) -> SearchStrategy[object]:
    resources = st.sampled_from([*((2, name) for name in NAMES), (4, ""), (4, "1")])
    return resources.flatmap(
        lambda one: st.builds(
            r.ConfigRecord,
            resource_type=st.just(one[0]),
            resource_name=st.just(one[1]),
            name=st.sampled_from("xyz"),
            value=st.none() | st.text(max_size=3),
        )
    )


def _client_quota(_image: Image) -> SearchStrategy[object]:
    name = st.sampled_from([None, "a", "b c", "d%e", ".", "<default>"])
    quotas = {
        ("user",): QUOTAS,
        ("client-id",): QUOTAS,
        ("user", "client-id"): QUOTAS,
        ("ip",): ["connection_creation_rate"],
    }
    return st.sampled_from(list(quotas)).flatmap(
        lambda types: st.builds(
            client_quotas.record_of,
            st.tuples(*(name.map(lambda n, t=t: (t, n)) for t in types)).map(client_quotas.entity),
            st.sampled_from(quotas[types]),
            st.none() | st.integers(1, 9).map(float),
        )
    )


def _scram(_image: Image) -> SearchStrategy[object]:
    return st.builds(
        r.UserScramCredentialRecord,
        name=st.sampled_from(["a", "b c", "<default>"]),
        mechanism=st.sampled_from([1, 2]),
        salt=st.binary(max_size=2),
        stored_key=st.binary(max_size=2),
        server_key=st.binary(max_size=2),
        iterations=st.integers(4096, 4099),
    )


def _remove_scram(image: Image) -> SearchStrategy[object]:
    return st.sampled_from(list(image.scram_credentials)).map(
        lambda one: r.RemoveUserScramCredentialRecord(name=one[0], mechanism=one[1])
    )


def _acl(image: Image) -> SearchStrategy[object]:
    free = [one for one in ACL_IDS if one not in image.acls]
    if not free:
        return _remove_acl(image)
    return st.builds(
        r.AccessControlEntryRecord,
        id=st.sampled_from(free),
        resource_type=st.sampled_from([2, 3, 4, 5, 6, 7]),
        resource_name=st.sampled_from(["a", "*", "b:c"]),
        pattern_type=st.sampled_from([3, 4]),
        principal=st.sampled_from(["User:a", "User:*"]),
        host=st.sampled_from(["*", "10.0.0.1"]),
        operation=st.integers(2, 14),
        permission_type=st.sampled_from([2, 3]),
    )


def _remove_acl(image: Image) -> SearchStrategy[object]:
    return st.sampled_from(list(image.acls)).map(
        lambda one: r.RemoveAccessControlEntryRecord(id=one)
    )


def _token(_image: Image) -> SearchStrategy[object]:
    return st.builds(
        r.DelegationTokenRecord,
        owner=st.just("User:a"),
        requester=st.sampled_from(["User:a", "User:b c"]),
        renewers=st.lists(st.sampled_from(["User:c", "User:d,e"]), max_size=2, unique=True),
        issue_timestamp=st.just(1),
        max_timestamp=st.just(9),
        expiration_timestamp=st.integers(1, 9),
        token_id=st.sampled_from(["t1", "t2"]),
    )


def _remove_token(_image: Image) -> SearchStrategy[object]:
    return st.builds(r.RemoveDelegationTokenRecord, token_id=st.sampled_from(["t1", "t2"]))


def _registration(image: Image) -> SearchStrategy[object]:
    version = image.metadata_version
    allowed = st.booleans()
    return st.builds(
        r.RegisterBrokerRecord,
        broker_id=st.sampled_from(BROKERS),
        is_migrating_zk_broker=allowed if version.supports(Feature.MIGRATION) else st.just(False),
        incarnation_id=uuids,
        broker_epoch=numbers,
        end_points=st.lists(
            st.builds(
                r.RegisterBrokerRecord.BrokerEndpoint,
                name=st.sampled_from(["PLAINTEXT", "SASL"]),
                host=st.sampled_from(["h", "::1"]),
                port=st.integers(0, 65535),
                security_protocol=st.integers(0, 3),
            ),
            max_size=2,
            unique_by=lambda one: one.name,
        ),
        features=st.lists(
            st.builds(
                r.RegisterBrokerRecord.BrokerFeature,
                name=st.sampled_from(["metadata.version", "kraft.version"]),
                min_supported_version=st.integers(0, 8),
                max_supported_version=st.integers(8, 21),
            ),
            max_size=2,
            unique_by=lambda one: one.name,
        ),
        rack=st.none() | st.sampled_from(["", "r1"]),
        fenced=allowed,
        in_controlled_shutdown=(
            allowed if version.supports(Feature.CONTROLLED_SHUTDOWN_STATE) else st.just(False)
        ),
        log_dirs=(
            st.lists(uuids, max_size=2) if version.supports(Feature.DIRECTORIES) else st.just([])
        ),
    )


def _unregister(image: Image) -> SearchStrategy[object]:
    return st.sampled_from(list(image.brokers.values())).map(
        lambda one: r.UnregisterBrokerRecord(broker_id=one.id, broker_epoch=one.epoch)
    )


def _fence(image: Image) -> SearchStrategy[object]:
    return st.sampled_from(list(image.brokers.values())).flatmap(
        lambda one: st.sampled_from(
            [
                r.FenceBrokerRecord(id=one.id, epoch=one.epoch),
                r.UnfenceBrokerRecord(id=one.id, epoch=one.epoch),
            ]
        )
    )


def _registration_change(image: Image) -> SearchStrategy[object]:
    version = image.metadata_version
    shutdown = int(version.supports(Feature.CONTROLLED_SHUTDOWN_STATE))
    return st.sampled_from(list(image.brokers.values())).flatmap(
        lambda one: st.builds(
            r.BrokerRegistrationChangeRecord,
            broker_id=st.just(one.id),
            broker_epoch=st.just(one.epoch),
            fenced=st.integers(-1, 1),
            in_controlled_shutdown=st.integers(0, shutdown),
            log_dirs=_directories(version, 1) | st.just([]),
        )
    )


def _controller(_image: Image) -> SearchStrategy[object]:
    return st.builds(
        r.RegisterControllerRecord,
        controller_id=st.sampled_from([3000, 3001]),
        incarnation_id=uuids,
        zk_migration_ready=st.booleans(),
        end_points=st.just([]),
        features=st.just([]),
    )


def _producer_ids(image: Image) -> SearchStrategy[object]:
    return st.builds(
        r.ProducerIdsRecord,
        broker_id=st.sampled_from([-1, *BROKERS]),
        broker_epoch=numbers,
        next_producer_id=st.integers(1, 1000).map(image.producer_ids.next_producer_id.__add__),
    )


def _feature(image: Image) -> SearchStrategy[object]:
    higher = [level for level in (4, 8, 13, 17, 21) if level >= image.metadata_version.level]
    rise = st.builds(
        r.FeatureLevelRecord,
        name=st.just("metadata.version"),
        feature_level=st.sampled_from(higher),
    )
    other = st.builds(
        r.FeatureLevelRecord, name=st.just("group.version"), feature_level=st.integers(0, 2)
    )
    return rise | other


def _migration_state(_image: Image) -> SearchStrategy[object]:
    return st.builds(
        r.ZkMigrationStateRecord, zk_migration_state=st.sampled_from(list(map(int, MigrationState)))
    )


def _no_op(_image: Image) -> SearchStrategy[object]:
    return st.builds(r.NoOpRecord)
