"""What a broker tells of the cluster, configs, ACLs, quotas, credentials and tokens."""

from __future__ import annotations

from typing import Any

import pytest

from emulator.metadata.acls import Operation, Permission, ResourceType
from tests.kit.requests import describe_config
from tests.unit.broker.asking import ACLS, ask
from tests.unit.controller.world import broker, image_of, partition, topic, uuid
from wire import messages as m
from wire import records as r
from wire.errors import ErrorCode

BROKERS = (broker(1), broker(2), broker(3, fenced=True))


def acl(
    operation: Operation,
    kind: ResourceType = ResourceType.CLUSTER,
    name: str = "kafka-cluster",
    *,
    number: int = 700,
    pattern: int = 3,
    permission: Permission = Permission.ALLOW,
) -> r.AccessControlEntryRecord:
    return r.AccessControlEntryRecord(
        id=uuid(number),
        resource_type=kind,
        resource_name=name,
        pattern_type=pattern,
        principal="User:ANONYMOUS",
        host="*",
        operation=operation,
        permission_type=permission,
    )


# ---------------------------------------------------------------- DescribeCluster
def test_the_cluster_is_the_brokers_that_are_alive():
    answer = ask(image_of(*BROKERS), m.DescribeClusterRequest())
    assert answer.cluster_id == "a-cluster"
    assert [(one.broker_id, one.port) for one in answer.brokers] == [(1, 29_091), (2, 29_092)]
    assert answer.controller_id in {1, 2}
    assert answer.cluster_authorized_operations == -(2**31)


def test_operations_are_shown_to_who_may_describe():
    request = m.DescribeClusterRequest(include_cluster_authorized_operations=True)
    assert ask(image_of(*BROKERS), request).cluster_authorized_operations.bit_count() == 7
    assert ask(image_of(), request, properties=ACLS).cluster_authorized_operations == 0
    image = image_of(acl(Operation.ALTER))
    mask = ask(image, request, properties=ACLS).cluster_authorized_operations
    assert mask == 1 << Operation.ALTER | 1 << Operation.DESCRIBE


@pytest.mark.parametrize(
    ("kind", "version", "code"),
    [
        (2, 1, ErrorCode.MISMATCHED_ENDPOINT_TYPE),
        (9, 1, ErrorCode.UNSUPPORTED_ENDPOINT_TYPE),
    ],
)
def test_controllers_are_not_told_of(kind: int, version: int, code: ErrorCode):
    answer = ask(image_of(*BROKERS), m.DescribeClusterRequest(endpoint_type=kind), version)
    assert answer.error_code == code
    assert answer.brokers == []


# ---------------------------------------------------------------- DescribeConfigs
def configs_of(answer: Any) -> dict[str, Any]:
    (result,) = answer.results
    assert result.error_code == 0, result
    return {one.name: one for one in result.configs}


def test_a_topic_has_its_own_values_over_those_of_this_broker():
    image = image_of(
        *BROKERS,
        topic("t", 1),
        partition(1),
        r.ConfigRecord(resource_type=2, resource_name="t", name="retention.ms", value="5"),
    )
    own = {"log.segment.bytes": "1048576"}
    told = configs_of(ask(image, describe_config(2, "t"), properties=own))
    assert (told["retention.ms"].value, told["retention.ms"].config_source) == ("5", 1)
    assert (told["segment.bytes"].value, told["segment.bytes"].config_source) == ("1048576", 4)


def test_this_broker_tells_of_itself_and_of_all_only():
    image = image_of(
        *BROKERS,
        r.ConfigRecord(resource_type=4, resource_name="1", name="background.threads", value="3"),
        r.ConfigRecord(resource_type=4, resource_name="", name="num.io.threads", value="4"),
    )
    told = configs_of(ask(image, describe_config(4, "1")))
    assert told["background.threads"].value == "3"
    assert told["num.io.threads"].value == "4"
    assert told["node.id"].value == "1"
    assert [*configs_of(ask(image, describe_config(4, "")))] == ["num.io.threads"]
    (other,) = ask(image, describe_config(4, "2")).results
    assert other.error_code == ErrorCode.INVALID_REQUEST


def test_a_topic_that_is_not_there_and_one_that_may_not_be_seen():
    (result,) = ask(image_of(), describe_config(2, "t")).results
    assert result.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    (result,) = ask(image_of(), describe_config(2, "t"), properties=ACLS).results
    assert result.error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED


# ---------------------------------------------------------------- DescribeAcls
ANY = {
    "resource_type_filter": 1,
    "resource_name_filter": None,
    "pattern_type_filter": 1,
    "principal_filter": None,
    "host_filter": None,
    "operation": 1,
    "permission_type": 1,
}


def test_acls_are_told_to_who_may_describe_the_cluster():
    request = m.DescribeAclsRequest(**ANY)
    image = image_of(acl(Operation.DESCRIBE))
    assert ask(image, request).error_code == ErrorCode.SECURITY_DISABLED
    (resource,) = ask(image, request, properties=ACLS).resources
    assert (resource.resource_name, resource.acls[0].principal) == (
        "kafka-cluster",
        "User:ANONYMOUS",
    )
    denied = ask(image_of(), request, properties=ACLS)
    assert denied.error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    assert denied.resources == []


# ---------------------------------------------------------------- DescribeClientQuotas
def quota(*parts: tuple[str, str | None], value: float = 9.5) -> r.ClientQuotaRecord:
    kind = r.ClientQuotaRecord
    entity = [kind.EntityData(entity_type=one, entity_name=name) for one, name in parts]
    return kind(entity=entity, key="producer_byte_rate", value=value, remove=False)


QUOTAS = image_of(
    quota(("user", "u")),
    quota(("user", None)),
    quota(("user", "u"), ("client-id", "c")),
    quota(("client-id", None)),
    quota(("ip", "10.0.0.1")),
)


def quotas(*components: tuple[str, int, str | None], strict: bool = False, **fields: Any) -> Any:
    kind = m.DescribeClientQuotasRequest
    parts = [
        kind.ComponentData(entity_type=one, match_type=how, match=match)
        for one, how, match in components
    ]
    return ask(QUOTAS, kind(components=parts, strict=strict), **fields)


def entities(answer: Any) -> set[tuple[tuple[str, str | None], ...]]:
    assert answer.error_code == 0
    return {
        tuple((one.entity_type, one.entity_name) for one in entry.entity)
        for entry in answer.entries
    }


USER, DEFAULT_USER = (("user", "u"),), (("user", None),)
BOTH = (("client-id", "c"), ("user", "u"))


def test_no_filter_selects_every_entity():
    answer = quotas()
    assert len(answer.entries) == 5
    assert answer.entries[0].values[0].value == 9.5
    assert entities(quotas(strict=True)) == set()


def test_a_filter_selects_by_name_default_or_any():
    assert entities(quotas(("user", 0, "u"))) == {USER, BOTH}
    assert entities(quotas(("user", 0, "u"), strict=True)) == {USER}
    assert entities(quotas(("user", 1, None))) == {DEFAULT_USER}
    assert entities(quotas(("user", 2, None))) == {USER, DEFAULT_USER, BOTH}
    assert entities(quotas(("user", 2, None), ("client-id", 2, None))) == {BOTH}
    assert entities(quotas(("ip", 0, "10.0.0.1"), strict=True)) == {(("ip", "10.0.0.1"),)}


WRONG = [
    ([("", 0, "x")], ErrorCode.INVALID_REQUEST),
    ([("user", 0, "x"), ("user", 2, None)], ErrorCode.INVALID_REQUEST),
    ([("planet", 0, "x")], ErrorCode.UNSUPPORTED_VERSION),
    ([("user", 0, None)], ErrorCode.INVALID_REQUEST),
    ([("user", 1, "x")], ErrorCode.INVALID_REQUEST),
    ([("user", 2, "x")], ErrorCode.INVALID_REQUEST),
    ([("user", 7, None)], ErrorCode.INVALID_REQUEST),
    ([("ip", 2, None), ("user", 2, None)], ErrorCode.INVALID_REQUEST),
]


@pytest.mark.parametrize(("components", "code"), WRONG)
def test_a_wrong_filter_is_refused(components: Any, code: ErrorCode):
    answer = quotas(*components)
    assert answer.error_code == code
    assert answer.error_message
    assert answer.entries is None


def test_quotas_need_describe_configs_on_the_cluster():
    assert quotas(properties=ACLS).error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED


# ---------------------------------------------------------------- DescribeUserScramCredentials
def scram(name: str, mechanism: int) -> r.UserScramCredentialRecord:
    return r.UserScramCredentialRecord(
        name=name,
        mechanism=mechanism,
        salt=b"s",
        stored_key=b"k",
        server_key=b"v",
        iterations=4_096,
    )


USERS = image_of(scram("alice", 1), scram("alice", 2), scram("bob", 2))


def users(*names: str, image: Any = USERS, **fields: Any) -> Any:
    kind = m.DescribeUserScramCredentialsRequest
    wanted = [kind.UserName(name=one) for one in names]
    return ask(image, kind(users=wanted), **fields)


def test_credentials_of_all_users_or_of_some():
    told = {one.user: [info.mechanism for info in one.credential_infos] for one in users().results}
    assert told == {"alice": [1, 2], "bob": [2]}
    everyone = ask(USERS, m.DescribeUserScramCredentialsRequest(users=None))
    assert len(everyone.results) == 2
    (bob,) = users("bob").results
    assert bob.credential_infos[0].iterations == 4_096


def test_a_user_named_twice_and_one_that_is_not_there():
    told = {one.user: one.error_code for one in users("bob", "eve", "bob").results}
    assert told == {"bob": ErrorCode.DUPLICATE_RESOURCE, "eve": ErrorCode.RESOURCE_NOT_FOUND}


def test_credentials_need_describe_on_the_cluster():
    assert users(properties=ACLS).error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    assert users(properties=ACLS, principal="User:admin").error_code == 0


# ---------------------------------------------------------------- delegation tokens
TOKENS = [
    m.CreateDelegationTokenRequest(owner_principal_type=None, owner_principal_name=None),
    m.RenewDelegationTokenRequest(hmac=b"h"),
    m.ExpireDelegationTokenRequest(hmac=b"h"),
    m.DescribeDelegationTokenRequest(owners=None),
]


@pytest.mark.parametrize("request_", TOKENS, ids=lambda one: type(one).__name__)
def test_tokens_are_not_for_a_plaintext_listener(request_: Any):
    answer = ask(image_of(*BROKERS), request_)
    assert answer.error_code == ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED


def test_a_refused_token_names_its_owner_and_requester():
    request = m.CreateDelegationTokenRequest(
        owner_principal_type="User", owner_principal_name="other"
    )
    answer = ask(image_of(), request)
    assert (answer.principal_name, answer.token_requester_principal_name) == (
        "other",
        "ANONYMOUS",
    )
    assert answer.issue_timestamp_ms == -1
