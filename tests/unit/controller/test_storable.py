"""What is answered NONE can be written to ZooKeeper: every znode, as it will be rendered."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pytest

from emulator.config.passwords import PasswordSettings
from emulator.controller.rules import storable
from emulator.metadata import client_quotas
from emulator.metadata.image import Image
from emulator.metadata.znodes import ZnodeKey
from emulator.migration.dual_write.chain import DIGEST_CHARS, INCARNATION_CHARS, Chain, room_for_one
from emulator.migration.plan import compare
from emulator.migration.position import Counters, Position, Term
from emulator.migration.sizes import ZnodeSizes
from emulator.znodes.entities import entities
from emulator.znodes.passwords import Passwords
from emulator.znodes.reader import Tree
from emulator.zookeeper import acl, jute
from emulator.zookeeper.ops import ZkOp
from tests.kit.edges import EdgeAdmin, refusals
from tests.kit.requests import upsert_scram
from tests.kit.shares import rest_slow
from tests.unit.controller.test_delegation_tokens import ALICE, ON
from tests.unit.controller.test_delegation_tokens import ask as ask_for_token
from tests.unit.controller.world import (
    World,
    broker,
    create,
    handle,
    image_of,
    partition,
    topic,
)
from wire import messages as m
from wire import records as r
from wire.errors import ErrorCode

MIGRATION = r.ZkMigrationStateRecord(zk_migration_state=1)
PASSWORDS = PasswordSettings(secret="s")
ENTITIES = entities(Passwords(PASSWORDS))
LONGEST = Term(*[2**31 - 1] * 4, "i" * INCARNATION_CHARS, 2**62, 2**62)
NEARLY = 2_000
"""Bytes by which a change may miss what a frame holds and still be refused."""


def sizes(chroot: str = "", *, set_acl: bool = False) -> ZnodeSizes:
    op_size = partial(acl.op_size, chroot=chroot, set_acl=set_acl)
    return ZnodeSizes(ENTITIES, op_size, room_for_one(op_size))


def groups(image: Image) -> Iterator[tuple[ZkOp, ...]]:
    """What a plan makes of an image: each group must go into one multi."""
    for piece in compare(Tree(), image, controller_epoch=2**31 - 1, entities=ENTITIES):
        yield from piece


def frame(group: tuple[ZkOp, ...], chroot: str, *, set_acl: bool) -> int:
    """Bytes of the request with a group; ZooKeeper closes the connection above the limit."""
    ops = [acl.protected_op(op) if set_acl else op for op in group]
    chain = Chain(LONGEST, Counters(None, None), lambda _offset: "f" * DIGEST_CHARS)
    multi = chain.build(ops, Position(2**62, 2**30, 2**30))
    return len(jute.encode_request(multi, 1, chroot))


def migrating(**fields: Any) -> World:
    world = World(migration_enabled=True, **fields).join(
        0, 1, 2, is_migrating_zk_broker=True, metadata_version=(21, 21)
    )
    world.controller.append([MIGRATION], world.now_ms)
    world.commit()
    return world


@pytest.mark.parametrize("seed", rest_slow(range(3), 1))
@pytest.mark.parametrize(("chroot", "set_acl"), [("", False), ("/" + "c" * 999, True)])
def test_whatever_is_accepted_fits_one_request(seed: int, chroot: str, set_acl: bool) -> None:
    world = migrating(znodes=sizes(chroot, set_acl=set_acl), authorizer=Everybody())
    admin = EdgeAdmin(random.Random(seed), (0, 1, 2))
    codes = []
    for _ in range(40):
        request = admin.request()
        end = world.log.log_end_offset
        codes += (found := refusals(request, world.ask(request)))
        written = world.records_since(end)
        assert not (found and len(written) >= 10_000)
    assert ErrorCode.POLICY_VIOLATION in codes
    assert ErrorCode.UNKNOWN_SERVER_ERROR not in codes
    for group in groups(world.tip):
        assert frame(group, chroot, set_acl=set_acl) <= jute.FRAME_BYTES_MAX + 4


class Everybody:
    """An authorizer that lets everybody do everything."""

    def is_super_user(self, _principal: str) -> bool:
        return True

    def allows(self, *_what: object) -> bool:
        return True


@pytest.mark.parametrize(("chroot", "set_acl"), [("", False), ("/" + "c" * 20_000, True)])
def test_what_just_fits_fits_one_request(chroot: str, set_acl: bool) -> None:
    """Names that are long in the path, and in what tells of it: the largest salt that is taken."""
    measuring = sizes(chroot, set_acl=set_acl)
    kind = m.AlterUserScramCredentialsRequest

    def tried(salt: int) -> Any:
        one = kind.ScramCredentialUpsertion(
            name="é" * 10_000, mechanism=1, iterations=4096, salt=b"s" * salt, salted_password=b"p"
        )
        return handle(image_of(MIGRATION), kind(upsertions=[one]), znodes=measuring)

    fits, fits_not = 100_000, 1_000_000
    while fits_not - fits > 3:
        middle = (fits + fits_not) // 2
        result = tried(middle)
        assert result.response.results[0].error_code in {0, ErrorCode.UNACCEPTABLE_CREDENTIAL}
        fits, fits_not = (middle, fits_not) if result.records else (fits, middle)
    image = image_of(MIGRATION, *tried(fits).records)
    (size,) = [
        frame(group, chroot, set_acl=set_acl)
        for group in groups(image)
        if group[0].path.startswith("/config/users/")
    ]
    assert jute.FRAME_BYTES_MAX - NEARLY < size <= jute.FRAME_BYTES_MAX + 4


def configs(count: int, value: str, resource: str = "0", kind: int = 4, name: str = "k{}") -> Any:
    request = m.IncrementalAlterConfigsRequest
    each = [request.AlterableConfig(name=name.format(n), value=value) for n in range(count)]
    one = request.AlterConfigsResource(resource_type=kind, resource_name=resource, configs=each)
    return request(resources=[one])


IMAGE = image_of(broker(0), broker(1), topic("t", 1), partition(1, replicas=(0, 1)), MIGRATION)


@pytest.mark.parametrize(
    ("value", "fitting"),
    [("x" * 32_000, 32), ("\x01" * 32_000, 5), ("é" * 16_000, 32), ('"' * 32_000, 16)],
)
def test_configs_of_a_broker_are_measured_as_they_are_written(value: str, fitting: int) -> None:
    """A control character takes six bytes in JSON, a quotation mark two."""
    fields = {"znodes": sizes(), "migration_enabled": True}
    good = handle(IMAGE, configs(fitting, value), **fields)
    assert good.response.responses[0].error_code == 0
    assert len(good.records) == fitting
    bad = handle(IMAGE, configs(fitting + 1, value), **fields)
    (answer,) = bad.response.responses
    assert answer.error_code == ErrorCode.POLICY_VIOLATION
    assert "/config/brokers/0 would take" in answer.error_message
    assert bad.records == ()


def test_one_resource_is_refused_and_the_others_of_the_request_are_altered() -> None:
    both = configs(40, "x" * 32_000)
    both.resources.append(configs(1, "y", "1").resources[0])
    result = handle(IMAGE, both, znodes=sizes(), migration_enabled=True)
    assert [one.error_code for one in result.response.responses] == [44, 0]
    assert [record.resource_name for record in result.records] == ["1"]


def test_a_password_takes_what_it_is_encoded_as() -> None:
    properties = {"password.encoder.secret": "s"}
    fields = {"znodes": sizes(), "migration_enabled": True, "properties": properties}
    key = "listener.name.l{}.ssl.keystore.password"
    count = [
        handle(IMAGE, configs(n, "p" * 32_000, name=key), **fields).response.responses[0].error_code
        for n in (20, 26)
    ]
    assert count == [0, ErrorCode.POLICY_VIOLATION]


def test_what_is_too_large_already_may_become_smaller() -> None:
    """A ZooKeeper with a larger jute.maxbuffer may hold it."""
    many = [
        r.ConfigRecord(resource_type=4, resource_name="0", name=f"k{n}", value="x" * 32_000)
        for n in range(40)
    ]
    image = image_of(broker(0), *many, MIGRATION)
    fields = {"znodes": sizes(), "migration_enabled": True}
    for count, value, code in ((1, "y", 0), (1, "z" * 32_001, 44)):
        (answer,) = handle(image, configs(count, value), **fields).response.responses
        assert answer.error_code == code


@pytest.mark.parametrize("state", [0, 3])
def test_without_a_migration_nothing_is_measured(state: int) -> None:
    image = image_of(
        broker(0), *([r.ZkMigrationStateRecord(zk_migration_state=state)] * bool(state))
    )
    result = handle(image, configs(40, "x" * 32_000), znodes=sizes())
    assert result.response.responses[0].error_code == 0


def test_a_token_with_many_long_renewers() -> None:
    renewers = [
        m.CreateDelegationTokenRequest.CreatableRenewers(
            principal_type="User", principal_name=f"{n}{'x' * 32_000}"
        )
        for n in range(40)
    ]
    image = image_of(MIGRATION)
    for count, code in ((31, 0), (40, ErrorCode.POLICY_VIOLATION)):
        request = m.CreateDelegationTokenRequest(renewers=renewers[:count])
        result = ask_for_token(image, request, properties=ON, principal=ALICE, forwarded=True)
        assert result.response.error_code == 0, "nothing is measured without znodes"
        result = ask_for_token(
            image, request, properties=ON, principal=ALICE, forwarded=True, znodes=sizes()
        )
        assert result.response.error_code == code
        assert len(result.records) == (code == 0)


def test_a_credential_with_a_salt_that_no_znode_holds() -> None:
    image = image_of(MIGRATION)
    for salt, code in ((700_000, 0), (800_000, ErrorCode.UNACCEPTABLE_CREDENTIAL)):
        result = handle(image, upsert_scram("u", salt=b"s" * salt), znodes=sizes())
        assert result.response.results[0].error_code == code
        assert len(result.records) == (code == 0)


def test_a_credential_and_quotas_share_one_znode() -> None:
    kind = m.AlterClientQuotasRequest

    def credential(salt: int) -> r.UserScramCredentialRecord:
        return r.UserScramCredentialRecord(
            name="u", mechanism=1, salt=b"s" * salt, stored_key=b"", server_key=b"", iterations=4096
        )

    key = ZnodeKey("client_entities", client_quotas.entity([("user", "u")]))
    free = sizes().bytes_max - sizes().measure(image_of(MIGRATION, credential(0)), key).bytes
    image = image_of(MIGRATION, credential((free - 60) // 4 * 3))
    assert 0 <= sizes().bytes_max - sizes().measure(image, key).bytes < 70
    entity = [kind.EntityData(entity_type="user", entity_name="u")]
    keys = ("producer_byte_rate", "consumer_byte_rate")
    for count, code in ((0, 0), (2, ErrorCode.POLICY_VIOLATION)):
        ops = [kind.OpData(key=key, value=2.0**62) for key in keys[:count]]
        request = kind(entries=[kind.EntryData(entity=entity, ops=ops)])
        (answer,) = handle(image, request, znodes=sizes()).response.entries
        assert answer.error_code == code


def test_a_topic_with_more_partitions_than_its_znode_shows() -> None:
    ids = tuple(range(2**31 - 40, 2**31))
    image = image_of(*(broker(one) for one in ids), MIGRATION)
    kind = m.CreateTopicsRequest

    def asked(count: int) -> Any:
        manual = [
            kind.CreatableReplicaAssignment(partition_index=index, broker_ids=ids)
            for index in range(count)
        ]
        return create("big", -1, -1, assignments=manual)

    for count, code in ((2_300, 0), (2_400, ErrorCode.POLICY_VIOLATION)):
        result = handle(image, asked(count), znodes=sizes())
        assert result.response.topics[0].error_code == code
        assert bool(result.records) == (code == 0)
    image = image_of(*(broker(one) for one in ids), *handle(image, asked(2_300)).records, MIGRATION)
    kinds = m.CreatePartitionsRequest
    more = [kinds.CreatePartitionsTopic(name="big", count=2_400, assignments=None)]
    (answer,) = handle(image, kinds(topics=more), znodes=sizes()).response.results
    assert answer.error_code == ErrorCode.POLICY_VIOLATION


def test_a_reassignment_names_each_replica_twice() -> None:
    ids = tuple(range(2**31 - 60, 2**31))
    several = [partition(1, index=index, replicas=ids[:20]) for index in range(2_500)]
    image = image_of(*(broker(one) for one in ids), topic("t", 1), *several, MIGRATION)
    kind = m.AlterPartitionReassignmentsRequest
    wanted = [
        kind.ReassignablePartition(partition_index=index, replicas=ids[20:])
        for index in range(2_500)
    ]
    request = kind(topics=[kind.ReassignableTopic(name="t", partitions=wanted)])
    result = handle(image, request, znodes=sizes())
    codes = [one.error_code for one in result.response.responses[0].partitions]
    accepted = codes.count(0)
    assert 0 < accepted < 2_500
    assert codes == [0] * accepted + [ErrorCode.POLICY_VIOLATION] * (2_500 - accepted)
    after = image_of(
        *(broker(one) for one in ids), topic("t", 1), *several, MIGRATION, *result.records
    )
    key = ZnodeKey("topics", topic("t", 1).topic_id)
    assert 0 <= sizes().bytes_max - sizes().measure(after, key).bytes < NEARLY


def test_growth_is_never_taken_for_less_than_it_is() -> None:
    """Or a change could be accepted unmeasured that does not fit."""
    rng = random.Random(3)
    world = migrating(znodes=sizes(), authorizer=Everybody())
    admin = EdgeAdmin(rng, (0, 1, 2))
    for _ in range(40):
        before, end = world.tip, world.log.log_end_offset
        world.ask(admin.request())
        growth: dict[ZnodeKey, int] = {}
        for record, _ in world.records_since(end):
            key = storable._key(record)
            assert key is not None
            growth[key] = growth.get(key, 0) + storable._growth(record)
        for key, most in growth.items():
            measure: Callable[[Image, ZnodeKey], Any] = sizes().measure
            was = measure(before, key).bytes or sizes().bytes_new
            assert measure(world.tip, key).bytes - was <= most


def test_znodes_that_are_far_from_full_are_not_rendered(monkeypatch: pytest.MonkeyPatch) -> None:
    measured = []
    measure = ZnodeSizes.measure

    def watched(self: ZnodeSizes, image: Image, key: ZnodeKey) -> Any:
        measured.append(key)
        return measure(self, image, key)

    monkeypatch.setattr(ZnodeSizes, "measure", watched)
    image = image_of(broker(0), MIGRATION)
    kind = m.CreateAclsRequest
    creations = [
        kind.AclCreation(
            resource_type=2,
            resource_name="t",
            resource_pattern_type=3,
            principal=f"User:{n:060}",
            host="*",
            operation=3,
            permission_type=3,
        )
        for n in range(9_000)
    ]
    result = handle(image, kind(creations=creations), znodes=sizes(), authorizer=Everybody())
    refused = [one for one in result.response.results if one.error_code]
    assert 0 < len(refused) < 5_000
    assert len(measured) < 50
