"""Our broker and a Kafka 3.9.2 broker on one controller: the same call gets the same answer."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from emulator.metadata.acls import Operation, Permission, ResourceType
from emulator.servers.bridge import Bridge
from emulator.servers.waiting import wait_for
from tests.integration.broker_stage import (
    Caller,
    FormattedBridgeBroker,
    FormattedBroker,
    plain,
    unlike,
)
from tests.kit.requests import alter_config, metadata, upsert_scram
from wire import messages as m
from wire.releases import broker_ranges
from wire.schema import spec

pytestmark = [pytest.mark.jvm, pytest.mark.slow]

CLUSTER_ID = "MkU3OEVBNTcwNTJENDM2Qg"
ACLS: dict[str, object] = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
}
KAFKA, OURS = 1, 2
RANGES = broker_ranges("3.9", mode="kraft")


class Beside:
    """A controller of ours, a Kafka broker, one of ours, and a connection to each."""

    def __init__(self, folder: Any, stack: ExitStack) -> None:
        trusting = {**ACLS, "super.users": "User:ANONYMOUS"}
        self.controller = Bridge(folder / "controller", None, properties=trusting)
        stack.callback(self.controller.kill)
        port = self.controller.port
        guarded = {**ACLS, "super.users": "User:admin"}
        self.controller.format(CLUSTER_ID).start().wait_started()
        self.brokers = {
            id_: kind(
                "3.9.2", id_, folder / f"{id_}", None, controller_port=port, properties=guarded
            )
            for id_, kind in ((KAFKA, FormattedBroker), (OURS, FormattedBridgeBroker))
        }
        for broker in self.brokers.values():
            stack.callback(broker.kill)
            broker.format(CLUSTER_ID).start()
        self.callers = {
            id_: Caller(broker.wait_started().client_port) for id_, broker in self.brokers.items()
        }
        self.at_controller = Caller(port)
        for caller in (*self.callers.values(), self.at_controller):
            stack.callback(caller.close)
        for caller in self.callers.values():
            caller.eventually("both", metadata(), 12, lambda answer: len(answer.brokers) == 2)

    def both(self, request: Any, version: int) -> dict[str, Any]:
        """Both answers, without what may differ."""
        return {
            name: plain(self.callers[id_].ask(request, version))
            for name, id_ in (("Kafka's", KAFKA), ("ours", OURS))
        }

    def settled(self, what: str, request: Any, version: int) -> None:
        """Wait until both answer alike."""

        def alike() -> bool:
            told = self.both(request, version)
            return bool(told["Kafka's"] == told["ours"])

        wait_for(what, alike)

    def allow(self, *kinds: tuple[ResourceType, str]) -> None:
        """Let everybody do everything to resources."""
        creation = m.CreateAclsRequest.AclCreation
        entries = [
            creation(
                resource_type=kind,
                resource_name=name,
                resource_pattern_type=3,
                principal="User:*",
                host="*",
                operation=Operation.ALL,
                permission_type=Permission.ALLOW,
            )
            for kind, name in kinds
        ]
        answer = self.at_controller.ask(m.CreateAclsRequest(creations=entries), 3)
        assert all(one.error_code == 0 for one in answer.results), answer


EVERYTHING = [
    (ResourceType.CLUSTER, "kafka-cluster"),
    (ResourceType.TOPIC, "*"),
    (ResourceType.GROUP, "*"),
    (ResourceType.TRANSACTIONAL_ID, "*"),
]


def prepare(stage: Beside) -> None:
    """Topics, configs, quotas and users, made at the controller."""
    ask = stage.at_controller.ask
    kind = m.CreateTopicsRequest
    wanted = [
        kind.CreatableTopic(
            name=name,
            num_partitions=-1,
            replication_factor=-1,
            assignments=[
                kind.CreatableReplicaAssignment(partition_index=index, broker_ids=replicas)
                for index, replicas in enumerate(partitions)
            ],
            configs=[kind.CreatableTopicConfig(name="retention.ms", value="5000")],
        )
        for name, partitions in {
            "a": [(KAFKA, OURS), (OURS, KAFKA), (OURS, KAFKA)],
            "b": [(KAFKA,)] * 5,
            "__consumer_offsets": [(KAFKA, OURS), (OURS, KAFKA)] * 2,
        }.items()
    ]
    answer = ask(kind(topics=wanted, timeout_ms=20_000), 7)
    assert all(one.error_code == 0 for one in answer.topics), answer
    quota = m.AlterClientQuotasRequest
    entries = [
        quota.EntryData(
            entity=[quota.EntityData(entity_type=one, entity_name=name) for one, name in entity],
            ops=[quota.OpData(key="producer_byte_rate", value=1_000.0, remove=False)],
        )
        for entity in (
            [("user", "u")],
            [("user", None)],
            [("user", "u"), ("client-id", "c")],
            [("client-id", "c")],
        )
    ]
    assert all(one.error_code == 0 for one in ask(quota(entries=entries), 1).entries)
    for name, mechanism in (("alice", 1), ("alice", 2), ("bob", 2)):
        assert ask(upsert_scram(name, mechanism=mechanism), 0).results[0].error_code == 0
    answer = ask(alter_config(4, "background.threads", "3", ""), 1)
    assert answer.responses[0].error_code == 0


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Beside]:
    with ExitStack() as stack:
        made = Beside(tmp_path_factory.mktemp("beside"), stack)
        prepare(made)
        yield made


def configs(*resources: tuple[int, str], **fields: Any) -> m.DescribeConfigsRequest:
    kind = m.DescribeConfigsRequest.DescribeConfigsResource
    wanted = [
        kind(resource_type=one, resource_name=name, configuration_keys=None)
        for one, name in resources
    ]
    return m.DescribeConfigsRequest(resources=wanted, **fields)


def quotas(*parts: tuple[str, int, str | None], strict: bool = False) -> Any:
    kind = m.DescribeClientQuotasRequest
    components = [
        kind.ComponentData(entity_type=one, match_type=how, match=match)
        for one, how, match in parts
    ]
    return kind(components=components, strict=strict)


def users(*names: str) -> Any:
    kind = m.DescribeUserScramCredentialsRequest
    return kind(users=[kind.UserName(name=one) for one in names])


def pages(*names: str, limit: int = 2_000, cursor: tuple[str, int] | None = None) -> Any:
    kind = m.DescribeTopicPartitionsRequest
    place = None if cursor is None else kind.Cursor(topic_name=cursor[0], partition_index=cursor[1])
    topics = [kind.TopicRequest(name=one) for one in names]
    return kind(topics=topics, response_partition_limit=limit, cursor=place)


def acls(**fields: Any) -> Any:
    values = {
        "resource_type_filter": 1,
        "resource_name_filter": None,
        "pattern_type_filter": 1,
        "principal_filter": None,
        "host_filter": None,
        "operation": 1,
        "permission_type": 1,
    }
    return m.DescribeAclsRequest(**{**values, **fields})


def altered(*resources: tuple[int, str, list[tuple[str, int, str | None]]]) -> Any:
    kind = m.IncrementalAlterConfigsRequest
    wanted = [
        kind.AlterConfigsResource(
            resource_type=one,
            resource_name=name,
            configs=[
                kind.AlterableConfig(name=key, config_operation=how, value=value)
                for key, how, value in changes
            ],
        )
        for one, name, changes in resources
    ]
    return kind(resources=wanted, validate_only=True)


def replaced(*resources: tuple[int, str, dict[str, str | None]]) -> Any:
    kind = m.AlterConfigsRequest
    wanted = [
        kind.AlterConfigsResource(
            resource_type=one,
            resource_name=name,
            configs=[kind.AlterableConfig(name=key, value=value) for key, value in new.items()],
        )
        for one, name, new in resources
    ]
    return kind(resources=wanted, validate_only=True)


TOPIC, BROKER, LOGGER, METRICS = 2, 4, 8, 16
CALLS: dict[str, list[Any]] = {
    "Metadata": [
        metadata(),
        metadata("a", "none", "a b", "__consumer_offsets"),
        metadata("b", "none", "a b", include_topic_authorized_operations=True),
    ],
    "DescribeTopicPartitions": [
        pages(),
        pages("b", "a", "none", "a b"),
        pages(limit=3),
        pages(limit=3, cursor=("b", 1)),
        pages("a", "b", limit=4, cursor=("b", 2)),
        pages("a", cursor=("b", 0)),
        pages("a", cursor=("a", -1)),
        pages("a", cursor=("a", 99)),
    ],
    "FindCoordinator": [
        m.FindCoordinatorRequest(key_type=kind, coordinator_keys=("", "g", "my-group", "\u00fc"))
        for kind in (0, 2, 7)
    ],
    "DescribeCluster": [
        m.DescribeClusterRequest(include_cluster_authorized_operations=flag, endpoint_type=kind)
        for flag in (False, True)
        for kind in (1, 2, 5)
    ],
    "DescribeConfigs": [
        configs((TOPIC, "a"), (TOPIC, "none"), (TOPIC, "a b"), (BROKER, "")),
        configs((TOPIC, "a"), (BROKER, ""), include_synonyms=True),
        configs((METRICS, "none"), (METRICS, ""), (BROKER, "x"), (BROKER, "99")),
        configs((77, "a")),
    ],
    "DescribeAcls": [
        acls(),
        acls(resource_type_filter=2),
        acls(resource_name_filter="a", pattern_type_filter=2),
        acls(operation=3),
    ],
    "DescribeClientQuotas": [
        quotas(),
        quotas(("user", 0, "u")),
        quotas(("user", 1, None)),
        quotas(("user", 2, None)),
        quotas(("user", 2, None), strict=True),
        quotas(("user", 0, "u"), ("client-id", 0, "c"), strict=True),
        quotas(("", 0, "x")),
        quotas(("user", 0, "u"), ("user", 0, "u")),
        quotas(("planet", 0, "u")),
        quotas(("user", 0, None)),
        quotas(("user", 1, "u")),
        quotas(("user", 2, "u")),
        quotas(("user", 9, None)),
        quotas(("ip", 2, None), ("user", 2, None)),
    ],
    "DescribeUserScramCredentials": [users(), users("alice", "eve"), users("bob", "bob", "alice")],
    "DelegationTokens": [
        m.CreateDelegationTokenRequest(owner_principal_type=None, owner_principal_name=None),
        m.CreateDelegationTokenRequest(owner_principal_type="User", owner_principal_name="o"),
        m.RenewDelegationTokenRequest(hmac=b"h"),
        m.ExpireDelegationTokenRequest(hmac=b"h"),
        m.DescribeDelegationTokenRequest(owners=None),
    ],
    "IncrementalAlterConfigs": [
        altered((TOPIC, "a", [("retention.ms", 0, "7")])),
        altered((TOPIC, "a", [("retention.ms", 0, "x")]), (TOPIC, "none", [])),
        altered((TOPIC, "a", [("retention.ms", 0, "7")]), (TOPIC, "a", [])),
        altered((TOPIC, "a", [("retention.ms", 0, "7"), ("retention.ms", 1, None)])),
        altered((TOPIC, "a", [("retention.ms", 0, None)])),
        altered((TOPIC, "a", [("cleanup.policy", 2, "delete"), ("retention.ms", 2, "5")])),
        altered((BROKER, "", [("background.threads", 0, "4")])),
        altered((BROKER, "", [("background.threads", 0, "four")])),
        altered((BROKER, "", [("node.id", 0, "4")])),
        altered((BROKER, "", [("listeners", 0, "CLIENT://:1")])),
        altered((BROKER, "", [("ssl.keystore.type", 0, "JKS")])),
        altered((BROKER, "", [("background.threads", 2, "4")])),
        altered((BROKER, "99", [("background.threads", 0, "4")])),
        altered((BROKER, "x", [("background.threads", 0, "4")])),
        altered((METRICS, "m", [("interval.ms", 0, "1000")])),
        altered((METRICS, "m", [("interval.ms", 0, "x")])),
        altered((77, "a", [])),
    ],
    "AlterConfigs": [
        replaced((TOPIC, "a", {"retention.ms": "7"}), (TOPIC, "none", {})),
        replaced((TOPIC, "a", {"retention.ms": None})),
        replaced((BROKER, "", {"background.threads": "4"})),
        replaced((BROKER, "", {"node.id": "4"})),
        replaced((BROKER, "99", {}), (TOPIC, "a", {})),
    ],
    "Sasl": [m.SaslHandshakeRequest(mechanism="PLAIN"), m.SaslAuthenticateRequest()],
    "Reassignments": [m.ListPartitionReassignmentsRequest(topics=None)],
    "ClientMetrics": [m.ListClientMetricsResourcesRequest()],
}


OWN = {
    "node.id",
    "broker.id",
    "broker.rack",
    "listeners",
    "log.dirs",
}
"""Configs that differ between two brokers."""


def versions_of(request: Any) -> range:
    """Every version that can carry the request, newest first."""
    key = spec(type(request)).key
    assert key is not None
    low, high = RANGES[key]
    lowest = {
        m.MetadataRequest: 8 if getattr(request, "include_topic_authorized_operations", 0) else 4,
        m.FindCoordinatorRequest: 4,
        m.DescribeClusterRequest: int(getattr(request, "endpoint_type", 1) != 1),
        m.DescribeConfigsRequest: int(getattr(request, "include_synonyms", False)),
        m.DescribeAclsRequest: 1,
        m.CreateDelegationTokenRequest: 3,
    }.get(type(request), low)
    return range(high, lowest - 1, -1)


def compared(stage: Beside, name: str) -> list[str]:
    """What differs, call by call and version by version."""
    found = []
    for number, request in enumerate(CALLS[name]):
        for version in versions_of(request):
            told = stage.both(request, version)
            for answer in told.values():
                if "controller_id" in answer:  # Any of the brokers, at random.
                    answer["controller_id"] = answer["controller_id"] in {KAFKA, OURS}
            found += [
                f"{type(request).__name__} #{number} v{version}: {text}"
                for text in unlike(told["Kafka's"], told["ours"])
            ]
    return found


@pytest.mark.parametrize("access", ["nothing", "everything"])
def test_the_same_call_gets_the_same_answer(stage: Beside, access: str):
    if access == "everything":
        stage.allow(*EVERYTHING)
        caller = stage.callers[KAFKA]
        caller.eventually("a topic", metadata(), 12, lambda answer: len(answer.topics) == 3)
        stage.settled("topics at both", metadata(), 12)
    differences = [one for name in CALLS for one in compared(stage, name)]
    assert not differences, "\n".join(differences)


def test_each_tells_the_same_of_itself(stage: Beside):
    stage.allow(*EVERYTHING)
    told = []
    for id_, caller in stage.callers.items():
        request = configs((BROKER, str(id_)), include_synonyms=True)
        answer = caller.eventually(
            "configs", request, 4, lambda answer: answer.results[0].error_code == 0
        )
        (result,) = answer.results
        assert {one.name for one in result.configs} >= OWN
        result.configs = [one for one in result.configs if one.name not in OWN]
        result.resource_name = ""
        told.append(plain(answer))
    differences = unlike(*told)
    assert not differences, "\n".join(differences)


def test_a_coordinator_of_an_old_client_is_the_same(stage: Beside):
    stage.allow(*EVERYTHING)
    for key in ("", "g", "my-group", "\u00fc"):
        for version in range(4):
            request = m.FindCoordinatorRequest(key=key)
            for caller in stage.callers.values():
                caller.eventually("access", request, version, lambda answer: not answer.error_code)
            told = stage.both(request, version)
            assert not unlike(told["Kafka's"], told["ours"])
            assert told["ours"]["error_code"] == 0
