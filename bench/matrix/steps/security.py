"""Dual write of quotas, SCRAM credentials, ACLs and delegation tokens."""

from __future__ import annotations

from typing import Final

from bench.matrix.login import HASHES, LoginError, call_as, salted_password
from bench.matrix.stage import Stage, WrongError, accepted, same
from bench.matrix.steps.entities import OLD, EntityClass
from wire import messages as m

Q = m.AlterClientQuotasRequest
A = m.CreateAclsRequest
_TOPIC, _GROUP, _LITERAL, _PREFIXED, _MATCH = 2, 3, 3, 4, 2
_ALL, _READ, _DESCRIBE, _ALLOW, _ANY = 2, 3, 8, 3, 1
_REFUSED, _LOGIN_REFUSED = 29, 58
_READER: Final = "User:reader"


# --------------------------------------------------------------------- quotas
def _quotas(stage: Stage, entity: dict[str, str | None], **values: float | None) -> None:
    entry = Q.EntryData(
        entity=[Q.EntityData(entity_type=kind, entity_name=name) for kind, name in entity.items()],
        ops=[Q.OpData(key=k, value=v or 0.0, remove=v is None) for k, v in values.items()],
    )
    answer = stage.ask(Q(entries=[entry]))
    accepted(f"AlterClientQuotas {entity}", answer.entries[0].error_code)


def _seed_quotas(stage: Stage) -> None:
    _quotas(stage, {"user": "a b"}, producer_byte_rate=1024.0, consumer_byte_rate=2048.0)
    _quotas(stage, {"client-id": "c1"}, producer_byte_rate=4096.0)
    _quotas(stage, {"user": "a b", "client-id": "c1"}, request_percentage=55.5)
    _quotas(stage, {"ip": "10.9.9.9"}, connection_creation_rate=7.0)
    _quotas(stage, {"user": None}, consumer_byte_rate=9999.0)


def _change_quotas(stage: Stage) -> None:
    _quotas(stage, {"user": "a b"}, producer_byte_rate=2000.0, consumer_byte_rate=None)
    _quotas(stage, {"user": None, "client-id": None}, producer_byte_rate=7777.0)
    # The last value of an entity: what Kafka 3.9.2 leaves in ZooKeeper.
    _quotas(stage, {"client-id": "c1"}, producer_byte_rate=None)
    _quotas(stage, {"ip": "10.9.9.9"}, connection_creation_rate=None)
    _quotas(stage, {"user": None}, consumer_byte_rate=None)
    tree, _ = stage.agree()
    wanted = {
        ("quota", "user=a b"): {"producer_byte_rate": 2000.0},
        ("quota", "client-id=c1", "user=a b"): {"request_percentage": 55.5},
        ("quota", "client-id=<default>", "user=<default>"): {"producer_byte_rate": 7777.0},
    }
    same("quotas in ZooKeeper", tree.of("quota"), wanted)
    for broker in stage.alive:
        check_quotas(stage, broker)


def check_quotas(stage: Stage, broker: int) -> None:
    """Whether a broker describes the quotas that are left."""
    answer = stage.ask(m.DescribeClientQuotasRequest(components=[]), broker)
    accepted("DescribeClientQuotas", answer.error_code)
    described = {
        tuple(sorted((one.entity_type, one.entity_name or "") for one in entry.entity)): {
            value.key: value.value for value in entry.values
        }
        for entry in answer.entries
    }
    shown = described.get((("user", "a b"),))
    same(f"quota of user a b on broker {broker}", shown, {"producer_byte_rate": 2000.0})
    same("number of quotas described", len(described), 3)


# --------------------------------------------------------------------- SCRAM
def _upsertion(
    user: str, password: str, mechanism: int
) -> m.AlterUserScramCredentialsRequest.ScramCredentialUpsertion:
    salt = f"salt of {user}".encode()
    return m.AlterUserScramCredentialsRequest.ScramCredentialUpsertion(
        name=user,
        mechanism=mechanism,
        iterations=4096,
        salt=salt,
        salted_password=salted_password(list(HASHES.values())[mechanism - 1], password, salt, 4096),
    )


def _scram(stage: Stage, request: m.AlterUserScramCredentialsRequest) -> None:
    answer = stage.ask(request)
    accepted("AlterUserScramCredentials", *(one.error_code for one in answer.results))


def may_log_in(stage: Stage, broker: int, user: str, password: str, number: int) -> bool:
    """Whether a SCRAM login succeeds there."""
    try:
        call_as(stage.sasl(broker), list(HASHES)[number - 1], user, password)
    except LoginError as refused:
        if refused.code != _LOGIN_REFUSED:
            raise WrongError(f"login of {user} on broker {broker}: {refused}") from refused
        return False
    return True


def _seed_scram(stage: Stage) -> None:
    upsertions = [_upsertion("alice", "one", 1), _upsertion("alice", "one", 2)]
    upsertions.append(_upsertion("bob", "one", 2))
    _scram(stage, m.AlterUserScramCredentialsRequest(upsertions=upsertions))


def _change_scram(stage: Stage) -> None:
    kinds = m.AlterUserScramCredentialsRequest
    gone = kinds.ScramCredentialDeletion(name="bob", mechanism=2)
    fresh = [_upsertion("alice", "two", 1), _upsertion("carol", "one", 2)]
    _scram(stage, kinds(upsertions=fresh, deletions=[gone]))
    tree, _ = stage.agree()
    wanted = {("alice", "SCRAM-SHA-256"), ("alice", "SCRAM-SHA-512"), ("carol", "SCRAM-SHA-512")}
    same("SCRAM users in ZooKeeper", {key[1:] for key in tree.of("scram")}, wanted)
    stage.each("the new logins", lambda broker: check_logins(stage, broker))


def check_logins(stage: Stage, broker: int) -> bool:
    """Whether the remaining users, and only they, can log in with their last passwords."""
    return (
        may_log_in(stage, broker, "alice", "two", 1)
        and may_log_in(stage, broker, "alice", "one", 2)
        and may_log_in(stage, broker, "carol", "one", 2)
        and not may_log_in(stage, broker, "alice", "one", 1)
        and not may_log_in(stage, broker, "bob", "one", 2)
    )


# --------------------------------------------------------------------- ACLs
def _acl(name: str, pattern: int, operation: int, kind: int = _TOPIC) -> A.AclCreation:
    return A.AclCreation(
        resource_type=kind,
        resource_name=name,
        resource_pattern_type=pattern,
        principal=_READER,
        host="*",
        operation=operation,
        permission_type=_ALLOW,
    )


def _create_acls(stage: Stage, *creations: A.AclCreation) -> None:
    answer = stage.ask(A(creations=list(creations)))
    accepted("CreateAcls", *(one.error_code for one in answer.results))


def may_describe(stage: Stage, broker: int, topic: str) -> bool:
    """Whether a broker describes a topic to ``reader``."""
    wanted = m.MetadataRequest.MetadataRequestTopic(name=topic)
    request = m.MetadataRequest(topics=[wanted], allow_auto_topic_creation=False)
    (answer,) = stage.ask_as("reader", request, broker=broker)
    (found,) = answer.topics
    if found.error_code not in (0, _REFUSED):
        raise WrongError(f"Metadata of {topic} for reader: error {found.error_code}")
    return bool(found.error_code == 0)


def _seed_acls(stage: Stage) -> None:
    _create_acls(
        stage,
        _acl("pair", _LITERAL, _READ),
        _acl("pair", _LITERAL, _DESCRIBE),
        _acl("pa", _PREFIXED, _READ, _GROUP),
        _acl("*", _LITERAL, _ALL, _GROUP),
    )


def _change_acls(stage: Stage) -> None:
    _create_acls(stage, _acl("ol", _PREFIXED, _DESCRIBE), _acl("*", _LITERAL, _READ, _GROUP))
    kinds = m.DeleteAclsRequest
    gone = kinds.DeleteAclsFilter(
        resource_type_filter=_TOPIC,
        resource_name_filter="pair",
        pattern_type_filter=_LITERAL,
        principal_filter=None,
        host_filter=None,
        operation=_ANY,
        permission_type=_ANY,
    )
    (result,) = stage.ask(kinds(filters=[gone])).filter_results
    accepted("DeleteAcls", result.error_code, *(one.error_code for one in result.matching_acls))
    same("ACLs deleted", len(result.matching_acls), 2)
    tree, _ = stage.agree()
    wanted = {("topic", "prefixed", "ol"), ("group", "prefixed", "pa"), ("group", "literal", "*")}
    same("resources with ACLs in ZooKeeper", {key[1:] for key in tree.of("acl")}, wanted)
    stage.each("the new rights", lambda broker: check_acls(stage, broker))


def check_acls(stage: Stage, broker: int) -> bool:
    """Whether the ACLs that are left are in force."""
    return may_describe(stage, broker, OLD) and not may_describe(stage, broker, "pair")


# --------------------------------------------------------------------- tokens
def _token(stage: Stage) -> m.CreateDelegationTokenResponse:
    kinds = m.CreateDelegationTokenRequest
    renewer = kinds.CreatableRenewers(principal_type="User", principal_name="reader")
    request = kinds(
        owner_principal_type=None,
        owner_principal_name=None,
        renewers=[renewer],
        max_lifetime_ms=-1,
    )
    (made,) = stage.ask_as("admin", request)
    accepted("CreateDelegationToken", made.error_code)
    return made  # type: ignore[no-any-return]  # of the type of what was asked


def known_tokens(stage: Stage, broker: int) -> dict[str, int]:
    """Token id -> expiry, as a broker's cache has them."""
    (answer,) = stage.ask_as("admin", m.DescribeDelegationTokenRequest(owners=None), broker=broker)
    accepted("DescribeDelegationToken", answer.error_code)
    return {one.token_id: one.expiry_timestamp for one in answer.tokens}


def _seed_tokens(stage: Stage) -> None:
    stage.kept["old tokens"] = [_token(stage), _token(stage)]


def _change_tokens(stage: Stage) -> None:
    keep, drop = stage.kept["old tokens"]
    made = _token(stage)
    (renewed,) = stage.ask_as(
        "reader", m.RenewDelegationTokenRequest(hmac=keep.hmac, renew_period_ms=7_200_000)
    )
    accepted("RenewDelegationToken", renewed.error_code)
    expire = m.ExpireDelegationTokenRequest(hmac=drop.hmac, expiry_time_period_ms=-1)
    (expired,) = stage.ask_as("admin", expire)
    accepted("ExpireDelegationToken", expired.error_code)
    tree, _ = stage.agree()
    wanted = {
        keep.token_id: renewed.expiry_timestamp_ms,
        made.token_id: made.expiry_timestamp_ms,
    }
    stored = {key[1]: value["expiry"] for key, value in tree.of("token").items()}
    same("tokens in ZooKeeper", stored, wanted)
    stage.kept["tokens"] = wanted
    stage.each("the tokens", lambda broker: known_tokens(stage, broker) == wanted)


CLASSES: Final = (
    EntityClass("quotas", _seed_quotas, _change_quotas),
    EntityClass("SCRAM", _seed_scram, _change_scram),
    EntityClass("ACLs", _seed_acls, _change_acls),
    EntityClass("tokens", _seed_tokens, _change_tokens),
)
