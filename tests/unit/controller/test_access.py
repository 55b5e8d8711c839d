"""What every API of the controller asks of its caller: one row each, none left out."""

from __future__ import annotations

from typing import Any

import pytest

from emulator.controller.registry import handlers
from emulator.controller.rules.authorizer import IMPLIED, StandardAuthorizer
from emulator.metadata.acls import Operation, record_of
from emulator.net.raft_requests import RAFT_REQUESTS
from tests.kip.test_kip_866_controller import errors
from tests.unit.controller.envelopes import GOLDEN, enveloped
from tests.unit.controller.test_authorizer import acl
from tests.unit.controller.world import World, create, registration, uuid
from wire import messages as m
from wire.codec import encode
from wire.errors import ErrorCode
from wire.frame import RequestHeader, decode_response, encode_request
from wire.schema import spec

EVE = "User:eve"
NO_TOPIC, NO_CLUSTER, NO_TOKEN = (
    ErrorCode.TOPIC_AUTHORIZATION_FAILED,
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
    ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED,
)
DENIED = {NO_TOPIC, NO_CLUSTER, NO_TOKEN}
Config = m.IncrementalAlterConfigsRequest.AlterConfigsResource
OldConfig = m.AlterConfigsRequest.AlterConfigsResource
Described = m.DescribeConfigsRequest.DescribeConfigsResource
FETCH = m.FetchRequest(
    topics=[
        m.FetchRequest.FetchTopic(
            topic="__cluster_metadata", partitions=[m.FetchRequest.FetchPartition(partition=0)]
        )
    ]
)

APIS: list[tuple[Any, str | None, ErrorCode]] = [
    # request, what its caller needs (None: no ACL decides), what it is told without
    (FETCH, "CLUSTER_ACTION CLUSTER:kafka-cluster", NO_CLUSTER),
    (m.FetchSnapshotRequest(), "CLUSTER_ACTION CLUSTER:kafka-cluster", NO_CLUSTER),
    (m.VoteRequest(), "CLUSTER_ACTION CLUSTER:kafka-cluster", NO_CLUSTER),
    (m.BeginQuorumEpochRequest(), "CLUSTER_ACTION CLUSTER:kafka-cluster", NO_CLUSTER),
    (m.EndQuorumEpochRequest(), "CLUSTER_ACTION CLUSTER:kafka-cluster", NO_CLUSTER),
    (m.DescribeQuorumRequest(), "DESCRIBE CLUSTER:kafka-cluster", NO_CLUSTER),
    (
        m.ApiVersionsRequest(client_software_name="a", client_software_version="1"),
        None,
        ErrorCode.NONE,
    ),
    (enveloped(GOLDEN), "CLUSTER_ACTION CLUSTER:kafka-cluster", NO_CLUSTER),
    (create("n"), "CREATE TOPIC:n", NO_TOPIC),
    (create("n"), "CREATE CLUSTER:kafka-cluster", NO_TOPIC),
    (m.DeleteTopicsRequest(topic_names=("t",)), "DELETE TOPIC:t", NO_TOPIC),
    (m.DeleteTopicsRequest(topic_names=("t",)), "DELETE CLUSTER:kafka-cluster", NO_TOPIC),
    (
        m.CreatePartitionsRequest(
            topics=[m.CreatePartitionsRequest.CreatePartitionsTopic(name="t", count=2)]
        ),
        "ALTER TOPIC:t",
        NO_TOPIC,
    ),
    (
        m.AlterConfigsRequest(resources=[OldConfig(resource_type=2, resource_name="t")]),
        "ALTER_CONFIGS TOPIC:t",
        NO_TOPIC,
    ),
    (
        m.AlterConfigsRequest(resources=[OldConfig(resource_type=4, resource_name="0")]),
        "ALTER_CONFIGS CLUSTER:kafka-cluster",
        NO_CLUSTER,
    ),
    (
        m.DescribeConfigsRequest(resources=[Described(resource_type=2, resource_name="t")]),
        "DESCRIBE_CONFIGS TOPIC:t",
        NO_TOPIC,
    ),
    (
        m.DescribeConfigsRequest(resources=[Described(resource_type=4, resource_name="")]),
        "DESCRIBE_CONFIGS CLUSTER:kafka-cluster",
        NO_CLUSTER,
    ),
    (
        m.IncrementalAlterConfigsRequest(resources=[Config(resource_type=2, resource_name="t")]),
        "ALTER_CONFIGS TOPIC:t",
        NO_TOPIC,
    ),
    (
        m.IncrementalAlterConfigsRequest(resources=[Config(resource_type=4, resource_name="")]),
        "ALTER_CONFIGS CLUSTER:kafka-cluster",
        NO_CLUSTER,
    ),
    (
        m.IncrementalAlterConfigsRequest(resources=[Config(resource_type=16, resource_name="x")]),
        "ALTER_CONFIGS CLUSTER:kafka-cluster",
        NO_CLUSTER,
    ),
    (m.DescribeAclsRequest(), "DESCRIBE CLUSTER:kafka-cluster", NO_CLUSTER),
    (
        m.CreateAclsRequest(creations=[m.CreateAclsRequest.AclCreation()]),
        "ALTER CLUSTER:kafka-cluster",
        NO_CLUSTER,
    ),
    (
        m.DeleteAclsRequest(filters=[m.DeleteAclsRequest.DeleteAclsFilter()]),
        "ALTER CLUSTER:kafka-cluster",
        NO_CLUSTER,
    ),
    (
        m.AlterClientQuotasRequest(entries=[m.AlterClientQuotasRequest.EntryData()]),
        "ALTER_CONFIGS CLUSTER:kafka-cluster",
        NO_CLUSTER,
    ),
    (
        m.AlterUserScramCredentialsRequest(
            deletions=[m.AlterUserScramCredentialsRequest.ScramCredentialDeletion(name="u")]
        ),
        "ALTER CLUSTER:kafka-cluster",
        NO_CLUSTER,
    ),
    (
        m.CreateDelegationTokenRequest(owner_principal_type="User", owner_principal_name="bob"),
        "CREATE_TOKENS USER:User:bob",
        NO_TOKEN,
    ),
    # Owner and renewers decide.
    (m.SaslHandshakeRequest(), None, ErrorCode.NONE),
    (m.SaslAuthenticateRequest(), None, ErrorCode.NONE),
    (m.RenewDelegationTokenRequest(), None, ErrorCode.NONE),
    (m.ExpireDelegationTokenRequest(), None, ErrorCode.NONE),
    (m.ElectLeadersRequest(topic_partitions=None), "ALTER CLUSTER:kafka-cluster", NO_CLUSTER),
    (m.AlterPartitionReassignmentsRequest(), "ALTER CLUSTER:kafka-cluster", NO_CLUSTER),
    (m.ListPartitionReassignmentsRequest(), "DESCRIBE CLUSTER:kafka-cluster", NO_CLUSTER),
    (m.UpdateFeaturesRequest(), "ALTER CLUSTER:kafka-cluster", NO_CLUSTER),
    (m.DescribeClusterRequest(endpoint_type=2), "ALTER CLUSTER:kafka-cluster", NO_CLUSTER),
    (m.UnregisterBrokerRequest(broker_id=9), "ALTER CLUSTER:kafka-cluster", NO_CLUSTER),
    (m.AlterPartitionRequest(broker_id=9), "CLUSTER_ACTION CLUSTER:kafka-cluster", NO_CLUSTER),
    (registration(1), "CLUSTER_ACTION CLUSTER:kafka-cluster", NO_CLUSTER),
    (m.BrokerHeartbeatRequest(broker_id=9), "CLUSTER_ACTION CLUSTER:kafka-cluster", NO_CLUSTER),
    (m.AllocateProducerIdsRequest(broker_id=9), "CLUSTER_ACTION CLUSTER:kafka-cluster", NO_CLUSTER),
    (
        m.ControllerRegistrationRequest(controller_id=3000),
        "CLUSTER_ACTION CLUSTER:kafka-cluster",
        NO_CLUSTER,
    ),
    (
        m.AssignReplicasToDirsRequest(broker_id=9),
        "CLUSTER_ACTION CLUSTER:kafka-cluster",
        NO_CLUSTER,
    ),
]


def world() -> World:
    """A broker, a topic, and an authorizer that lets those of this world do everything."""
    made = World(authorizer=StandardAuthorizer(frozenset({"User:ANONYMOUS"})))
    made.join(0)
    assert made.ask(create("t")).topics[0].error_code == 0
    return made


def grant(made: World, *texts: str) -> None:
    first = len(made.tip.acls)
    records = [record_of(uuid(number), acl(text)) for number, text in enumerate(texts, first)]
    made.controller.append(records, made.now_ms)
    made.commit()


def codes(made: World, request: Any, principal: str = EVE) -> set[int]:
    """Error codes of the answer; none, if it goes to the Raft machine."""
    answers = made.send(request, principal=principal, forwarded=True)
    if made.controller.answers.take_forwarded():
        assert spec(type(request)).key in RAFT_REQUESTS
        assert answers == []
        return set()
    made.commit()
    (answer,) = answers + made.answers()
    encode(answer, spec(type(answer)).max_version)
    return errors(answer) - {0}


@pytest.mark.parametrize(("request_", "need", "code"), APIS)
def test_only_who_has_the_right_is_served(request_: Any, need: str | None, code: int) -> None:
    made = world()
    offset = made.log.log_end_offset
    if need is None:
        assert not codes(made, request_) & DENIED
        return
    assert codes(made, request_) == {code}
    assert made.log.log_end_offset == offset
    operation, _, resource = need.partition(" ")
    kind, _, name = resource.partition(":")
    enough = IMPLIED.get(Operation[operation], frozenset({Operation[operation]}))
    others = [one for one in Operation if one > Operation.ALL and one not in enough]
    grant(made, *(f"allow {one.name} {kind}:{name} {EVE}" for one in others))
    assert codes(made, request_) & DENIED, "what lets it pass is another right"
    grant(made, f"allow {operation} {kind}:{name} {EVE}")
    assert not codes(made, request_) & DENIED
    assert not codes(world(), request_, "User:ANONYMOUS") & DENIED


def test_no_api_is_left_out() -> None:
    listed = {type(request) for request, _, _ in APIS}
    assert listed == {one.request for one in handlers().values()} | {
        one.request for one in RAFT_REQUESTS.values()
    }


def test_a_topic_is_created_without_telling_its_configs() -> None:
    made = world()
    grant(made, f"allow CREATE TOPIC:n {EVE}")
    (told,) = made.ask(create("n", 3), principal=EVE).topics
    assert (told.error_code, told.topic_config_error_code) == (0, NO_TOPIC)
    assert (told.configs, told.num_partitions, told.replication_factor) == ([], -1, -1)
    assert told.topic_id == made.tip.topic_ids["n"]
    grant(made, *(f"allow {one} TOPIC:n2 {EVE}" for one in ("CREATE", "ALTER_CONFIGS")))
    (told,) = made.ask(create("n2", 3), principal=EVE).topics
    assert (told.num_partitions, told.topic_config_error_code) == (3, 0)
    assert told.configs


def test_one_request_has_topics_of_both_kinds() -> None:
    made = world()
    grant(made, f"allow CREATE TOPIC:a~ {EVE}")
    wanted = [create(name).topics[0] for name in ("ab", "b", "__cluster_metadata")]
    answer = made.ask(m.CreateTopicsRequest(topics=wanted), principal=EVE)
    told = {one.name: (one.error_code, one.error_message) for one in answer.topics}
    assert told["b"] == (NO_TOPIC, "Authorization failed.")
    assert told["ab"] == (0, None)
    assert told["__cluster_metadata"][0] == ErrorCode.INVALID_REQUEST
    assert set(made.tip.topic_ids) == {"t", "ab"}


def delete(made: World, *, name: str | None = None, topic_id: bytes = bytes(16)) -> Any:
    request = m.DeleteTopicsRequest(
        topics=[m.DeleteTopicsRequest.DeleteTopicState(name=name, topic_id=topic_id)]
    )
    (answer,) = made.ask(request, principal=EVE).responses
    return answer.name, answer.topic_id, answer.error_code


def test_deleting_hides_what_may_not_be_described() -> None:
    """By name nothing is told; by id not the name."""
    made = world()
    known = made.tip.topic_ids["t"]
    zero = bytes(16)
    for name in ("t", "no such topic"):
        assert delete(made, name=name) == (name, zero, NO_TOPIC)
    assert delete(made, topic_id=known) == (None, known, NO_TOPIC)
    assert delete(made, topic_id=uuid(77)) == (None, uuid(77), ErrorCode.UNKNOWN_TOPIC_ID)
    grant(made, f"allow DESCRIBE TOPIC:* {EVE}")
    assert delete(made, name="t") == ("t", zero, NO_TOPIC)
    assert delete(made, name="u") == ("u", zero, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    assert delete(made, topic_id=known) == ("t", known, NO_TOPIC)
    grant(made, f"allow DELETE TOPIC:t {EVE}")
    assert delete(made, name="t") == ("t", known, 0)
    assert made.tip.topic("t") is None


@pytest.mark.requirement("I12")
def test_the_outer_principal_is_judged_outside() -> None:
    """KIP-590 "Security": only who may act for the cluster forwards; the rest is not looked at."""
    made = world()
    (answer,) = made.send(enveloped(b"not even read", request_principal=None), principal=EVE)
    assert answer == m.EnvelopeResponse(response_data=None, error_code=NO_CLUSTER)


def principal(name: str) -> bytes:
    return b"\x00\x00\x05User" + bytes([len(name) + 1]) + name.encode() + b"\x00\x00"


@pytest.mark.requirement("I13")
def test_the_inner_principal_and_address_are_judged_inside() -> None:
    """KIP-590: whom the broker speaks for, where that client is; refused inside, 0 outside."""
    made = world()
    grant(made, f"allow CREATE TOPIC:t1 {EVE} 10.0.0.7")

    def forwarded(name: str, host: bytes) -> tuple[int, int]:
        inner = enveloped(GOLDEN, request_principal=principal(name), client_host_address=host)
        answer = made.ask(inner)
        _, response = decode_response(19, 5, answer.response_data)
        return answer.error_code, response.topics[0].error_code

    assert forwarded("eve", bytes([10, 0, 0, 8])) == (0, NO_TOPIC)
    assert forwarded("bob", bytes([10, 0, 0, 7])) == (0, NO_TOPIC)
    assert made.tip.topic("t1") is None
    assert forwarded("eve", bytes([10, 0, 0, 7])) == (0, 0)
    assert made.tip.topic("t1") is not None


def test_a_right_on_the_whole_cluster_is_refused_inside_too() -> None:
    made = world()
    header = RequestHeader(api_key=43, api_version=2, correlation_id=5, client_id="c")
    inner = encode_request(header, m.ElectLeadersRequest(topic_partitions=None))
    answer = made.ask(enveloped(inner, request_principal=principal("eve")))
    assert answer.error_code == 0
    _, response = decode_response(43, 2, answer.response_data)
    assert response.error_code == NO_CLUSTER


def test_a_call_is_refused_before_it_is_sent_to_the_leader() -> None:
    """On a standby, and before the copy, a stranger is told the same as anywhere."""
    authorizer = StandardAuthorizer(frozenset({"User:ANONYMOUS"}))
    standby = World(authorizer=authorizer)
    standby.controller.resign(standby.now_ms, 3001)
    waiting = World(authorizer=authorizer, migration_enabled=True)
    for made in (standby, waiting):
        assert codes(made, m.AllocateProducerIdsRequest()) == {NO_CLUSTER}
        assert codes(made, m.AllocateProducerIdsRequest(), "User:ANONYMOUS") == {41}


def test_until_the_acls_are_loaded_only_super_users_are_served() -> None:
    """The listener opens early; AuthorizerNotReadyException has no code of its own."""
    authorizer = StandardAuthorizer(
        frozenset({"User:ANONYMOUS"}), allow_everyone_if_no_acl_found=True
    )

    def told(request: Any, who: str = EVE) -> set[int]:
        made = World(authorizer=authorizer, activate=False)
        made.log.high_watermark = -1
        return codes(made, request, who)

    for request, _, _ in APIS:
        if isinstance(request, m.ApiVersionsRequest):
            assert told(request) == set()
        else:
            assert told(request) == {ErrorCode.UNKNOWN_SERVER_ERROR}
            assert ErrorCode.UNKNOWN_SERVER_ERROR not in told(request, "User:ANONYMOUS")
    made = World(authorizer=authorizer, activate=False)
    made.log.high_watermark = 0
    assert codes(made, m.AllocateProducerIdsRequest()) == {ErrorCode.NOT_CONTROLLER}


def test_what_the_caller_may_do_to_the_cluster_is_told_on_request() -> None:
    """KIP-430."""
    made = world()
    grant(made, f"allow ALTER CLUSTER:kafka-cluster {EVE}")
    request = m.DescribeClusterRequest(endpoint_type=2, include_cluster_authorized_operations=True)
    (eve,) = made.send(request, principal=EVE)
    assert eve.cluster_authorized_operations == (1 << Operation.ALTER | 1 << Operation.DESCRIBE)
    (everything,) = made.send(request)
    assert everything.cluster_authorized_operations.bit_count() == 7
    (plain,) = made.send(m.DescribeClusterRequest(endpoint_type=2))
    assert plain.cluster_authorized_operations == -(2**31)


def test_a_quota_that_is_denied_says_what_kafkas_does() -> None:
    request = m.AlterClientQuotasRequest(entries=[m.AlterClientQuotasRequest.EntryData()])
    (entry,) = world().ask(request, principal=EVE).entries
    assert entry.error_message == "Cluster authorization failed."
