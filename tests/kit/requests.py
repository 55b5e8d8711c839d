"""Requests that many tests send; what is not named has the default of its message."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from wire import messages as m


def create_topics(
    *names: str,
    partitions: int = 1,
    factor: int = 1,
    assigned: Sequence[Sequence[int]] = (),
    **fields: Any,
) -> m.CreateTopicsRequest:
    """Topics with so many partitions, or with these replicas of each partition."""
    kinds = m.CreateTopicsRequest
    given = [
        kinds.CreatableReplicaAssignment(partition_index=index, broker_ids=one)
        for index, one in enumerate(assigned)
    ]
    topics = [
        kinds.CreatableTopic(
            name=name,
            num_partitions=-1 if given else partitions,
            replication_factor=-1 if given else factor,
            assignments=given,
        )
        for name in names
    ]
    return kinds(topics=topics, **fields)


def delete_topics(*names: str, **fields: Any) -> m.DeleteTopicsRequest:
    """By name, from version 6 on."""
    kinds = m.DeleteTopicsRequest
    return kinds(topics=[kinds.DeleteTopicState(name=name) for name in names], **fields)


def metadata(*names: str | None, **fields: Any) -> m.MetadataRequest:
    """Of these topics, or of all; none is made."""
    kinds = m.MetadataRequest
    topics = [kinds.MetadataRequestTopic(name=name) for name in names] or None
    return kinds(**{"topics": topics, "allow_auto_topic_creation": False, **fields})


def elect(topic: str, *indexes: int, kind: int = 0, **fields: Any) -> m.ElectLeadersRequest:
    """Of partitions of one topic; ``kind``: 0 preferred, 1 unclean."""
    kinds = m.ElectLeadersRequest
    wanted = kinds.TopicPartitions(topic=topic, partitions=indexes)
    return kinds(election_type=kind, topic_partitions=[wanted], **fields)


def reassign(
    topic: str, replicas: Sequence[int] | None, *indexes: int, **fields: Any
) -> m.AlterPartitionReassignmentsRequest:
    """Of partitions of one topic; None cancels."""
    kinds = m.AlterPartitionReassignmentsRequest
    parts = [kinds.ReassignablePartition(partition_index=i, replicas=replicas) for i in indexes]
    return kinds(topics=[kinds.ReassignableTopic(name=topic, partitions=parts)], **fields)


def alter_config(
    kind: int,
    key: str,
    value: str | None,
    *names: str,
    operation: int | None = None,
    **fields: Any,
) -> m.IncrementalAlterConfigsRequest:
    """Set one config of resources, or delete it; ``kind``: 2 topic, 4 broker."""
    kinds = m.IncrementalAlterConfigsRequest
    how = int(value is None) if operation is None else operation
    configs = [kinds.AlterableConfig(name=key, config_operation=how, value=value)]
    return kinds(
        resources=[
            kinds.AlterConfigsResource(resource_type=kind, resource_name=name, configs=configs)
            for name in names
        ],
        **fields,
    )


def quota(
    rate: float | None, *names: str | None, kind: str = "user", key: str = "producer_byte_rate"
) -> m.AlterClientQuotasRequest:
    """A limit of these users, or clients; None removes it."""
    kinds = m.AlterClientQuotasRequest
    ops = [kinds.OpData(key=key, value=0.0 if rate is None else rate, remove=rate is None)]
    return kinds(
        entries=[
            kinds.EntryData(entity=[kinds.EntityData(entity_type=kind, entity_name=name)], ops=ops)
            for name in names
        ]
    )


def upsert_scram(user: str, **fields: Any) -> m.AlterUserScramCredentialsRequest:
    """A credential of SCRAM-SHA-256, unless said otherwise."""
    kinds = m.AlterUserScramCredentialsRequest
    usual = {"mechanism": 1, "iterations": 4_096, "salt": b"salt", "salted_password": b"p" * 32}
    return kinds(upsertions=[kinds.ScramCredentialUpsertion(**{"name": user, **usual, **fields})])


def delete_scram(user: str) -> m.AlterUserScramCredentialsRequest:
    """The credential of SCRAM-SHA-256."""
    kinds = m.AlterUserScramCredentialsRequest
    return kinds(deletions=[kinds.ScramCredentialDeletion(name=user, mechanism=1)])


def allow(
    operation: int, name: str, *principals: str, kind: int = 2, pattern: int = 3
) -> m.CreateAclsRequest:
    """An operation on a resource, from everywhere; ``kind``: 2 topic, ``pattern``: 3 literal."""
    kinds = m.CreateAclsRequest
    return kinds(
        creations=[
            kinds.AclCreation(
                resource_type=kind,
                resource_name=name,
                resource_pattern_type=pattern,
                principal=principal,
                host="*",
                operation=operation,
                permission_type=3,
            )
            for principal in principals
        ]
    )


def raise_level(level: int, *, how: int = 1, timeout_ms: int = 60_000) -> m.UpdateFeaturesRequest:
    """Another metadata.version; ``how``: 1 upgrade, 2 safe downgrade, 3 unsafe."""
    kinds = m.UpdateFeaturesRequest
    key = kinds.FeatureUpdateKey(
        feature="metadata.version", max_version_level=level, upgrade_type=how
    )
    return kinds(feature_updates=[key], timeout_ms=timeout_ms)


def describe_config(kind: int, name: str, *keys: str, **fields: Any) -> m.DescribeConfigsRequest:
    """These configs of a resource, or all; ``kind``: 2 topic, 4 broker."""
    kinds = m.DescribeConfigsRequest
    wanted = kinds.DescribeConfigsResource(
        resource_type=kind, resource_name=name, configuration_keys=keys or None
    )
    return kinds(resources=[wanted], **fields)
