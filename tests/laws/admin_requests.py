"""Requests of an admin who changes everything there is, mostly things that exist."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

from emulator.controller.rules.delegation_tokens import token_hmac
from emulator.metadata.image import Image
from wire import messages as m

SECRET = "law-secret"
PRINCIPALS = ("User:alice", "User:bob", "User:a:b c/d%")
NAMES = ("alice", "bob", "a:b c/d%", "é", "<default>")
TOPICS = ("t", "t.u", "x_1", "-")
SET, DELETE, APPEND, SUBTRACT = range(4)


class Admin:
    """Draws one request after the other.

    ``KINDS`` are the names of its methods, one per kind of request.
    """

    KINDS = (
        *("create_topics", "delete_topics", "create_partitions", "topic_config", "broker_config"),
        *("client_metrics", "quotas", "scram", "create_acls", "delete_acls", "create_token"),
        *("renew_token", "expire_token", "reassign", "elect"),
    )

    def __init__(self, rng: Random, brokers: tuple[int, ...]) -> None:
        self.rng = rng
        self.brokers = brokers
        self.now_ms = 0

    def request(self, kind: str, image: Image) -> object:
        draw: Callable[[Image], object] = getattr(self, kind)
        return draw(image)

    def _topic(self, image: Image) -> str:
        names = sorted(image.topic_ids)
        return self.rng.choice(names) if names and self.rng.random() < 0.8 else self._new()

    def _new(self) -> str:
        return self.rng.choice(TOPICS)

    def create_topics(self, _image: Image) -> object:
        request = m.CreateTopicsRequest
        configs = [request.CreatableTopicConfig(name="retention.ms", value="7")]
        topics = [
            request.CreatableTopic(
                name=name,
                num_partitions=self.rng.choice((1, 2, 5)),
                replication_factor=self.rng.choice((1, 2)),
                configs=configs if self.rng.random() < 0.4 else [],
            )
            for name in self.rng.sample(TOPICS, self.rng.randint(1, 2))
        ]
        return request(topics=topics)

    def delete_topics(self, image: Image) -> object:
        states = [m.DeleteTopicsRequest.DeleteTopicState(name=self._topic(image))]
        return m.DeleteTopicsRequest(topics=states)

    def create_partitions(self, image: Image) -> object:
        asked = m.CreatePartitionsRequest.CreatePartitionsTopic(
            name=self._topic(image), count=self.rng.randint(1, 8), assignments=None
        )
        return m.CreatePartitionsRequest(topics=[asked])

    def _configs(self, kind: int, name: str, values: dict[str, tuple[str, ...]]) -> object:
        request = m.IncrementalAlterConfigsRequest
        configs = []
        for key in self.rng.sample(sorted(values), self.rng.randint(1, 2)):
            operation = self.rng.choice((SET, SET, DELETE))
            value = self.rng.choice(values[key]) if operation == SET else None
            configs.append(
                request.AlterableConfig(name=key, config_operation=operation, value=value)
            )
        resource = request.AlterConfigsResource(
            resource_type=kind, resource_name=name, configs=configs
        )
        return request(resources=[resource])

    def topic_config(self, image: Image) -> object:
        values = {
            "retention.ms": ("1", "2"),
            "cleanup.policy": ("compact", "delete,compact"),
            "leader.replication.throttled.replicas": ("*", "0:1,1:2"),
        }
        return self._configs(2, self._topic(image), values)

    def broker_config(self, _image: Image) -> object:
        values = {"log.cleaner.threads": ("1", "2"), "background.threads": ("3",)}
        return self._configs(4, self.rng.choice(("", "1", "2")), values)

    def client_metrics(self, _image: Image) -> object:
        values = {"metrics": ("", "*"), "interval.ms": ("100",), "match": ("client_id=a.*",)}
        return self._configs(16, self.rng.choice(("s", "t")), values)

    def quotas(self, image: Image) -> object:
        request = m.AlterClientQuotasRequest
        types = self.rng.choice((("user",), ("client-id",), ("user", "client-id"), ("ip",)))
        entity = [(one, self.rng.choice((None, *NAMES))) for one in types]
        if types == ("ip",):
            entity = [("ip", self.rng.choice((None, "10.1.2.3", "::1")))]
        known = list(image.client_quotas)
        if known and self.rng.random() < 0.5:
            entity = [(part.type, part.name_or_none) for part in self.rng.choice(known)]
        keys = ("connection_creation_rate",)
        if entity[0][0] != "ip":
            keys = ("producer_byte_rate", "request_percentage", "consumer_byte_rate")
        ops = [
            request.OpData(
                key=key, value=self.rng.choice((1.0, 2.5e9, 1e15)), remove=self.rng.random() < 0.4
            )
            for key in self.rng.sample(keys, self.rng.randint(1, len(keys)))
        ]
        parts = [request.EntityData(entity_type=one, entity_name=name) for one, name in entity]
        return request(entries=[request.EntryData(entity=parts, ops=ops)])

    def scram(self, image: Image) -> object:
        request = m.AlterUserScramCredentialsRequest
        known = list(image.scram_credentials)
        if known and self.rng.random() < 0.4:
            name, mechanism = self.rng.choice(known)
            return request(
                deletions=[request.ScramCredentialDeletion(name=name, mechanism=mechanism)]
            )
        upsertion = request.ScramCredentialUpsertion(
            name=self.rng.choice(NAMES),
            mechanism=self.rng.choice((1, 2)),
            iterations=self.rng.choice((4096, 8192)),
            salt=self.rng.randbytes(5),
            salted_password=self.rng.randbytes(32),
        )
        return request(upsertions=[upsertion])

    def create_acls(self, _image: Image) -> object:
        kind, operations = self.rng.choice(((2, (2, 3, 4)), (3, (3,)), (4, (8, 12)), (5, (4,))))
        pattern = 3 if kind == 4 else self.rng.choice((3, 4))
        name = "kafka-cluster" if kind == 4 else self.rng.choice(("*", "t", "p-", "a b/c%"))
        creation = m.CreateAclsRequest.AclCreation(
            resource_type=kind,
            resource_name=name,
            resource_pattern_type=pattern,
            principal=self.rng.choice(PRINCIPALS),
            host=self.rng.choice(("*", "10.0.0.1")),
            operation=self.rng.choice(operations),
            permission_type=self.rng.choice((2, 3)),
        )
        return m.CreateAclsRequest(creations=[creation])

    def delete_acls(self, _image: Image) -> object:
        wanted = m.DeleteAclsRequest.DeleteAclsFilter(
            resource_type_filter=self.rng.choice((1, 2, 3)),
            resource_name_filter=self.rng.choice((None, "t", "p-")),
            pattern_type_filter=self.rng.choice((1, 3, 4)),
            principal_filter=self.rng.choice((None, *PRINCIPALS)),
            host_filter=None,
            operation=1,
            permission_type=1,
        )
        return m.DeleteAclsRequest(filters=[wanted])

    def create_token(self, _image: Image) -> object:
        request = m.CreateDelegationTokenRequest
        renewers = [request.CreatableRenewers(principal_type="User", principal_name="bob")]
        return request(
            renewers=renewers if self.rng.random() < 0.5 else [],
            max_lifetime_ms=self.rng.choice((-1, 1_000, 100_000)),
        )

    def _hmac(self, image: Image) -> bytes:
        known = sorted(image.delegation_tokens)
        return token_hmac(SECRET, self.rng.choice(known)) if known else b"none"

    def renew_token(self, image: Image) -> object:
        return m.RenewDelegationTokenRequest(
            hmac=self._hmac(image), renew_period_ms=self.rng.choice((-1, 5_000))
        )

    def expire_token(self, image: Image) -> object:
        return m.ExpireDelegationTokenRequest(
            hmac=self._hmac(image), expiry_time_period_ms=self.rng.choice((-1, 0, 5_000))
        )

    def reassign(self, image: Image) -> object:
        request = m.AlterPartitionReassignmentsRequest
        replicas: Any = None
        if self.rng.random() < 0.8:
            replicas = tuple(self.rng.sample(self.brokers, self.rng.randint(1, 2)))
        partition = request.ReassignablePartition(
            partition_index=self.rng.randint(0, 1), replicas=replicas
        )
        topic = request.ReassignableTopic(name=self._topic(image), partitions=[partition])
        return request(topics=[topic])

    def elect(self, _image: Image) -> object:
        return m.ElectLeadersRequest(topic_partitions=None)
