"""Whatever is asked, by whomever, and whatever happens meanwhile: each caller is answered once.

On a controller that has a bit of everything: users with and without rights, quotas, tokens, moving
partitions; behind Envelopes, while ZooKeeper lags, through changes of the leader, at any
metadata.version.
"""

from __future__ import annotations

import random
import sys
from collections import Counter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from emulator.controller.context import Call, ControllerEndpoint
from emulator.controller.registry import advertised, handlers
from emulator.controller.rules.authorizer import StandardAuthorizer
from emulator.controller.tables.index import TipIndex
from emulator.metadata.image import EMPTY, Image
from emulator.metadata.replay import replay
from tests.kit.laws import examples
from tests.laws.wire_values import Maker
from tests.unit.controller.test_index import contents
from tests.unit.controller.world import CLUSTER, World, create, registration, uuid
from wire import messages as m
from wire import records as r
from wire.codec import decode, encode
from wire.frame import RequestHeader, encode_request, encode_response
from wire.releases import forwardable
from wire.schema import Field, Layout, layout, spec

STRINGS = (
    *("", "t", "u", "a.b", "a_b", "0", "1", "9", "3000", CLUSTER, "INTERNAL"),
    *("metadata.version", "kraft.version", "retention.ms", "cleanup.policy", "log.cleaner.threads"),
    *("compact", "-1", "5", "delete", "true", "unclean.leader.election.enable"),
    *("user", "client-id", "ip", "User", "User:a", "User:*", "*", "10.0.0.1", "127.0.0.1", "a"),
    *("kafka-cluster", "controller_mutation_rate", "producer_byte_rate", "request_percentage"),
    *("connection_creation_rate", "broken", "x/y", ""),
)
NUMBERS = (-2, -1, 0, 1, 2, 3, 4, 8, 21, 101, 2**31 - 1)
PRINCIPALS = ("User:ANONYMOUS", "User:ANONYMOUS", "User:a", "User:b")
RELEASE = {1: "3.9", 4: "3.4", 8: "3.4", 10: "3.5", 11: "3.5", 14: "3.6", 18: "3.7", 20: "3.8"}
SASL_PLAINTEXT = 2


class Plausible(Maker):
    """Values that mean something to a controller, now and then ones that do not."""

    def __init__(self, rng: random.Random, world: World, hmacs: list[bytes]) -> None:
        super().__init__(rng, small=True, unknown=0.0)
        self.uuids = [
            bytes(16),
            *(uuid(number) for number in (0, 1, 2, 5000, 5001)),
            *world.tip.topics,
        ]
        self.brokers = [*world.tip.brokers.values()]
        self.hmacs = [b"", bytes(64), *hmacs]

    def message(self, form: Layout, depth: int = 0) -> Any:
        made = super().message(form, depth)
        if depth == 0 and self.rng.random() < 0.8:
            self.mend(made)
        return made

    def mend(self, request: Any) -> None:
        """Let a broker know who and where it is, or most requests would end there."""
        if isinstance(request, m.BrokerRegistrationRequest):
            good = registration(request.broker_id % 4)
            for name in ("cluster_id", "features", "listeners"):
                setattr(request, name, getattr(good, name))
            request.broker_id = good.broker_id
            request.log_dirs = good.log_dirs
        elif hasattr(request, "broker_epoch") and self.brokers:
            broker = self.rng.choice(self.brokers)
            request.broker_id, request.broker_epoch = broker.id, broker.epoch
            if isinstance(request, m.BrokerHeartbeatRequest):
                request.current_metadata_offset = broker.epoch + self.rng.randint(-1, 30)

    def single(self, entry: Field, depth: int) -> Any:
        if entry.group is not None or self.rng.random() < 0.1:
            return super().single(entry, depth)
        match entry.kind:
            case "string":
                return self.rng.choice(STRINGS)
            case "uuid":
                return self.rng.choice(self.uuids)
            case "bytes":
                return self.rng.choice(self.hmacs)
            case "float64":
                return self.rng.choice((-1.0, 0.0, 0.5, 1.0, 1000.0, float("inf"), float("nan")))
            case "int8" | "int16":
                return self.rng.choice((-1, 0, 1, 2, 3, 4, 21))
            case "int32":
                return self.rng.choice((*NUMBERS, 4096, 8192))
            case "int64":
                return self.rng.choice((*NUMBERS, 10_000, 2**63 - 1, -(2**63)))
        return super().single(entry, depth)


def empty(rng: random.Random) -> World:
    """Three brokers, at any level and in any state of a migration."""
    level = rng.choice((1, 4, 8, 10, 11, 14, 18, 20, 21, 21, 21, 21))
    migrating = level >= 8 and rng.random() < 0.4
    world = World(
        release=rng.choice((RELEASE.get(level, "3.9"), "3.9")),
        metadata_version=level,
        migration_enabled=migrating,
        num_partitions=2,
        authorizer=StandardAuthorizer(frozenset({"User:ANONYMOUS"})),
        listeners=(ControllerEndpoint("CONTROLLER", "127.0.0.1", 23000, SASL_PLAINTEXT),),
        properties={"delegation.token.secret.key": "secret"},
        leader_imbalance_check_interval_seconds=2,
    )
    if migrating:
        world.join(0, 1, 2, is_migrating_zk_broker=True, metadata_version=(level, level))
    else:
        world.join(0, 1, 2, metadata_version=(1, 21))
    if migrating and rng.random() < 0.8:
        world.controller.append([r.ZkMigrationStateRecord(zk_migration_state=1)], world.now_ms)
        world.commit()
    return world


def populated(world: World) -> list[bytes]:
    """Make a bit of everything that the level can hold; returns the passwords of tokens."""
    answers = [world.ask(request) for request in _population()]
    return [one.hmac for one in answers if isinstance(one, m.CreateDelegationTokenResponse)]


def _population() -> list[Any]:
    acls = m.CreateAclsRequest
    quotas = m.AlterClientQuotasRequest
    scram = m.AlterUserScramCredentialsRequest
    moving = m.AlterPartitionReassignmentsRequest
    return [
        create("t", 3, 2),
        create("a.b", 1, 1),
        acls(
            creations=[
                acls.AclCreation(
                    resource_type=kind,
                    resource_pattern_type=pattern,
                    resource_name=name,
                    principal="User:a",
                    host="*",
                    operation=operation,
                    permission_type=permission,
                )
                for kind, pattern, name, operation, permission in (
                    (2, 3, "t", 2, 3),
                    (2, 4, "a", 8, 3),
                    (2, 3, "*", 4, 2),
                    (4, 3, "kafka-cluster", 7, 3),
                    (4, 3, "kafka-cluster", 9, 3),
                )
            ]
        ),
        quotas(
            entries=[
                quotas.EntryData(
                    entity=[quotas.EntityData(entity_type="user", entity_name=name)],
                    ops=[quotas.OpData(key="controller_mutation_rate", value=rate)],
                )
                for name, rate in (("a", 0.5), (None, 5.0))
            ]
        ),
        scram(
            upsertions=[
                scram.ScramCredentialUpsertion(
                    name="a", mechanism=1, iterations=4096, salt=b"s", salted_password=b"p"
                )
            ]
        ),
        m.CreateDelegationTokenRequest(max_lifetime_ms=5_000),
        m.CreateDelegationTokenRequest(max_lifetime_ms=-1),
        moving(
            topics=[
                moving.ReassignableTopic(
                    name="t",
                    partitions=[moving.ReassignablePartition(partition_index=0, replicas=(2, 0))],
                )
            ]
        ),
    ]


def sensible(rng: random.Random, image: Image, request: Any, version: int) -> Any:
    """In place of a request about partitions or ACLs, one that fits what there is."""
    if isinstance(request, m.DeleteAclsRequest) and image.acls:
        acl = rng.choice([*image.acls.values()])
        wanted_acl = request.DeleteAclsFilter(
            resource_type_filter=rng.choice((1, acl.resource.resource_type)),
            resource_name_filter=acl.resource.name,
            principal_filter=rng.choice((None, acl.principal)),
            host_filter=None,
            operation=1,
            permission_type=1,
        )
        if version:
            wanted_acl.pattern_type_filter = rng.choice((1, 2, acl.resource.pattern_type))
        return m.DeleteAclsRequest(filters=[wanted_acl] * rng.choice((1, 1, 2)))
    partitions = [
        (topic, index, one)
        for topic in image.topics.values()
        for index, one in topic.partitions.items()
    ]
    if not partitions:
        return request
    topic, index, partition = rng.choice(partitions)
    if isinstance(request, m.AlterPartitionReassignmentsRequest):
        wanted = rng.sample(sorted(image.brokers), min(len(image.brokers), rng.randint(1, 3)))
        moving = request.ReassignablePartition(
            partition_index=index, replicas=None if rng.random() < 0.3 else tuple(wanted)
        )
        return m.AlterPartitionReassignmentsRequest(
            topics=[request.ReassignableTopic(name=topic.name, partitions=[moving])]
        )
    if isinstance(request, m.AlterPartitionRequest) and partition.leader in image.brokers:
        isr = {partition.leader, *rng.sample(partition.replicas, len(partition.replicas) - 1)}
        changed = request.PartitionData(
            partition_index=index,
            leader_epoch=partition.leader_epoch,
            partition_epoch=partition.partition_epoch,
        )
        if version < 3:
            changed.new_isr = tuple(isr)
        else:
            changed.new_isr_with_epochs = [
                request.BrokerState(broker_id=one, broker_epoch=-1) for one in isr
            ]
        named = request.TopicData(partitions=[changed])
        if version < 2:
            named.topic_name = topic.name
        else:
            named.topic_id = topic.id
        leader = image.brokers[partition.leader]
        return m.AlterPartitionRequest(
            broker_id=leader.id, broker_epoch=leader.epoch, topics=[named]
        )
    return request


def sound(image: Image) -> bool:
    """What holds of every partition, whatever was asked."""
    return all(
        one.replicas
        and one.isr
        and len({*one.replicas}) == len(one.replicas)
        and {*one.isr} <= {*one.replicas}
        and {*one.adding_replicas, *one.removing_replicas} <= {*one.replicas}
        and {*one.removing_replicas} != {*one.replicas}
        and one.leader in {-1, *one.isr}
        and len(one.directories) in {0, len(one.replicas)}
        for topic in image.topics.values()
        for one in topic.partitions.values()
    )


class Walk:
    """Steps of a controller's life; every answer must fit the request and its version."""

    steps_max = 1_000

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.world = empty(self.rng)
        self.hmacs = populated(self.world)
        self.asked: dict[object, RequestHeader] = {}
        self.inner: dict[object, RequestHeader] = {}
        self.answered: Counter[object] = Counter()

    def step(self) -> None:
        controller, now_ms = self.world.controller, self.world.now_ms
        dice = self.rng.random()
        if dice < 0.72:
            self.ask()
            if self.rng.random() < 0.4:
                return  # the next one is taken in the same step
        controller.flush()
        if dice < 0.72:
            pass
        elif dice < 0.82:
            self.world.commit()
        elif dice < 0.90:
            self.later(self.rng.choice((1, 100, 600, 3_000, 20_000)))
        elif dice < 0.96:
            room, hard_room = self.rng.choice(((0, 0), (0, 1), (0, None), (1, 9), (None, None)))
            controller.hold(now_ms=now_ms, room=room, hard_room=hard_room)
        elif dice < 0.98:
            self.change_of_leader()
        else:
            controller.left(lambda _ticket: self.rng.random() < 0.3, now_ms)
        self.collect()

    def ask(self) -> None:
        keys = sorted(handlers().keys() & advertised(self.world.config.release).keys())
        key = self.rng.choice([key for key in keys if key != spec(m.EnvelopeRequest).key])
        version = self.rng.randint(*advertised(self.world.config.release)[key])
        form = layout(handlers()[key].request, version)
        body = Plausible(self.rng, self.world, self.hmacs).message(form)
        if self.rng.random() < 0.8:
            body = sensible(self.rng, self.world.tip, body, version)
        ticket = len(self.asked)
        header = RequestHeader(
            api_key=key, api_version=version, correlation_id=ticket, client_id="client"
        )
        sender = self.rng.choice(PRINCIPALS)
        message: Any = decode(form.cls, version, encode(body, version))
        if key in forwardable(self.world.config.release) and self.rng.random() < 0.3:
            self.inner[ticket] = header
            data = encode_request(header, message)
            name = sender.encode().partition(b":")[2]
            message = m.EnvelopeRequest(
                request_data=data,
                request_principal=b"\0\0\x05User" + bytes([len(name) + 1]) + name + b"\0\0",
                client_host_address=self.rng.choice((b"\x7f\0\0\x01", bytes(16))),
            )
            header = RequestHeader(
                api_key=spec(m.EnvelopeRequest).key or 0,
                api_version=0,
                correlation_id=ticket,
                client_id="broker",
            )
            sender = self.rng.choice(("User:ANONYMOUS", "User:a"))
        self.asked[ticket] = header
        now_ms = self.world.now_ms
        made = Call(ticket, header, message, principal=sender, received_ms=now_ms)
        self.world.controller.request(made, now_ms)

    def later(self, milliseconds: int) -> None:
        world = self.world
        world.now_ms += milliseconds
        for _ in range(self.steps_max):
            due = world.controller.deadline_ms
            if due is None or due > world.now_ms:
                return
            world.controller.tick(world.now_ms)
            self.collect()
        raise AssertionError("there is always something due")

    def change_of_leader(self) -> None:
        world = self.world
        world.controller.resign(world.now_ms, leader_id=7)
        if self.rng.random() < 0.5:
            self.ask()
        while world.log.log_end_offset > world.log.high_watermark:
            world.log.batches.pop()
        world.log.leader_epoch += 1
        world.now_ms += self.rng.choice((0, 5_000))
        world.controller.activate(world.now_ms)
        world.commit()

    def collect(self) -> None:
        assert not self.world.controller.answers.failures.total
        for reply in self.world.controller.take_replies():
            self.answered[reply.ticket] += 1
            header = self.asked[reply.ticket]
            assert encode_response(header.api_key, header.api_version, 1, reply.message)
            data = getattr(reply.message, "response_data", None)
            if data is not None:
                head = self.inner[reply.ticket]
                assert int.from_bytes(data[:4], "big") == head.correlation_id

    def end(self) -> None:
        world = self.world
        world.controller.hold(now_ms=world.now_ms)
        world.commit()
        self.collect()
        self.later(100)
        world.commit()
        self.collect()


def replayed(world: World) -> dict[str, Any]:
    """What another reader makes of the log."""
    image = EMPTY
    for offset, record, _version in world.log.records():
        image = replay(image, record, offset, image.epoch)
    return told(image)


def told(image: Image) -> dict[str, Any]:
    """Everything but where in the log it stands."""
    fields = {name: getattr(image, name) for name in Image.__struct_fields__}
    return {name: found for name, found in fields.items() if name not in {"offset", "epoch"}}


@examples(100)
@given(seed=st.integers(0, 2**32))
def test_every_caller_is_answered_once_whatever_happens_meanwhile(seed: int) -> None:
    """What was appended reads the same from the log; nothing waits, nothing is due for ever."""
    walk = Walk(seed)
    for _ in range(60):
        walk.step()
    walk.end()
    world = walk.world
    assert len(world.controller.gate) == 0
    assert walk.answered == Counter(dict.fromkeys(walk.asked, 1))
    assert contents(world.controller._journal.index) == contents(TipIndex(world.tip))
    assert set(world.tip.brokers) == set(world.controller.heartbeats._sessions)
    assert replayed(world) == told(world.tip)
    assert sound(world.tip)


class SlowWalk(Walk):
    """The same, a few slices at a time."""

    steps_max = 1_000_000
    """8,192 partitions of a topic, in slices of one, take 130,000."""

    def step(self) -> None:
        super().step()
        for _ in range(self.rng.choice((0, 1, 3, 10))):
            if self.world.controller.busy:
                self.world.controller.go_on(self.world.now_ms)
        self.collect()


SLICES = (
    *("RECORDS_PER_SLICE", "ENTRIES_PER_SLICE", "TOPICS_PER_SLICE", "RESOURCES_PER_SLICE"),
    "CALLS_PER_STEP",
)


@examples(60)
@given(seed=st.integers(0, 2**32), size=st.sampled_from([1, 2, 5]))
def test_so_is_each_when_most_requests_are_long(seed: int, size: int) -> None:
    """Slices of a few entries or records: requests meet others, and other leaders, on their way."""
    with pytest.MonkeyPatch.context() as patch:
        handlers()
        for name, module in sorted(sys.modules.items()):
            for slices in SLICES if name.startswith("emulator.") else ():
                if hasattr(module, slices):
                    patch.setattr(module, slices, size)
        walk = SlowWalk(seed)
        for _ in range(60):
            walk.step()
        walk.end()
    world = walk.world
    assert not world.controller.busy
    assert len(world.controller.gate) == 0
    assert walk.answered == Counter(dict.fromkeys(walk.asked, 1))
    assert contents(world.controller._journal.index) == contents(TipIndex(world.tip))
    assert set(world.tip.brokers) == set(world.controller.heartbeats._sessions)
    assert replayed(world) == told(world.tip)
    assert sound(world.tip)
