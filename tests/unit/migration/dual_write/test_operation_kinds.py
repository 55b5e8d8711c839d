"""Each data operation counts for one kind of work."""

from __future__ import annotations

import pytest

from emulator.migration.dual_write.unit import EncodedGroup, operation_kind, operations
from emulator.zookeeper.ops import Create, Delete, SetData, ZkOp

ACLS, CHANGES = "/kafka-acl", "/config/changes/config_change_"


def _notice(entity: str) -> Create:
    return Create(CHANGES, b'{"version":2,"entity_path":"%s"}' % entity.encode())


KINDS = [
    (Create("/brokers/topics/t", b""), "topic_create"),
    (SetData("/brokers/topics/t/partitions/0/state", b""), "partition_change"),
    (Delete("/brokers/topics/t"), "topic_delete"),
    (Delete("/admin/delete_topics/t"), "topic_delete"),
    (Create("/config/topics/t", b""), "topic_config"),
    (SetData("/config/topics/t", b""), "topic_config"),
    (Delete("/config/topics/t"), "topic_delete"),
    (SetData("/config/brokers/1", b""), "broker_config"),
    (SetData("/config/users/a", b""), "client_entities"),
    (Create("/config/clients/a", b""), "client_entities"),
    (Delete("/config/ips/a"), "client_entities"),
    (_notice("brokers/1"), "broker_config"),
    (_notice("topics/t"), "topic_config"),
    (_notice("users/a"), "client_entities"),
    (Create(CHANGES, None), "client_entities"),
    (Delete(f"{CHANGES}7"), "client_entities"),
    (SetData("/latest_producer_id_block", b""), "producer_ids"),
    (Create(f"{ACLS}/Topic/t", b""), "acls"),
    (Create(f"{ACLS}-changes/acl_changes_", b""), "acls"),
    (SetData(f"{ACLS}-extended/prefixed/Topic/t", b""), "acls"),
    (Create(f"{ACLS}-extended-changes/prefixed", b""), "acls"),
    (Create("/delegation_token/tokens/t", b""), "delegation_tokens"),
    (SetData("/config/other/t", b""), "other"),
    (SetData("/brokers/ids", b""), "other"),
    (SetData("/feature", b""), "other"),
]


@pytest.mark.parametrize(("op", "kind"), KINDS, ids=lambda one: getattr(one, "path", one))
def test_the_path_says_the_kind(op: ZkOp, kind: str) -> None:
    assert operation_kind(op) == kind


def test_a_multi_is_counted_by_kind_and_the_chain_has_what_is_left() -> None:
    groups: list[EncodedGroup] = [
        ((SetData("/config/topics/t", b""), _notice("topics/t")), b"a" * 10),
        ((Create("/brokers/topics/t", b""),), b"b" * 7),
        ((Delete("/config/ips/a"),), b"c" * 5),
        ((SetData("/config/topics/u", b""), _notice("topics/u")), b"d" * 20),
    ]
    found = operations(groups, 100)
    assert [(one.operation, one.ops, one.bytes) for one in found] == [
        ("client_entities", 1, 5),
        ("topic_config", 4, 30),
        ("topic_create", 1, 7),
        ("chain", 3, 58),
    ]
