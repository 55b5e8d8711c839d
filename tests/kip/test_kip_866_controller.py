"""KIP-866, as far as the controller alone can show it.

Sections cited: "Broker Registration", "Pre-Migration State", "Migration Overview",
"Controller Migration".
"""

from __future__ import annotations

from typing import Any

import pytest

from emulator.controller.registry import handlers
from emulator.metadata.migration_state import MigrationState
from tests.kit.requests import raise_level
from tests.unit.controller.world import World, create, registration
from wire import messages as m
from wire import records as r
from wire.errors import ErrorCode
from wire.frame import decode_response, encode_response
from wire.schema import spec

ZK = {"is_migrating_zk_broker": True, "metadata_version": (21, 21)}

DESCRIBE_CONFIGS = m.DescribeConfigsRequest(
    resources=[m.DescribeConfigsRequest.DescribeConfigsResource(resource_type=4, resource_name="")]
)
ALTER_SCRAM = m.AlterUserScramCredentialsRequest(
    deletions=[m.AlterUserScramCredentialsRequest.ScramCredentialDeletion(name="u")]
)


def matrix() -> list[tuple[Any, int | None]]:
    """Every API with a handler, and the error of its answer before the copy; None: none."""
    return [
        (m.ApiVersionsRequest(client_software_name="a", client_software_version="1"), None),
        (registration(1, **ZK), None),
        (m.BrokerHeartbeatRequest(broker_id=0), None),
        (m.UnregisterBrokerRequest(broker_id=0), None),
        (m.ControllerRegistrationRequest(controller_id=3000), None),
        (raise_level(21), 95),
        (m.DescribeClusterRequest(endpoint_type=2), None),
        (create("t"), 41),
        (create("t", validate_only=True), 41),
        (m.DeleteTopicsRequest(topic_names=("t",)), 41),
        (
            m.CreatePartitionsRequest(
                topics=[m.CreatePartitionsRequest.CreatePartitionsTopic(name="t", count=2)]
            ),
            41,
        ),
        (
            m.AlterConfigsRequest(
                resources=[
                    m.AlterConfigsRequest.AlterConfigsResource(resource_type=4, resource_name="")
                ]
            ),
            41,
        ),
        (
            m.IncrementalAlterConfigsRequest(
                resources=[
                    m.IncrementalAlterConfigsRequest.AlterConfigsResource(
                        resource_type=4, resource_name=""
                    )
                ]
            ),
            41,
        ),
        (m.AlterPartitionRequest(broker_id=0), 41),
        (m.AllocateProducerIdsRequest(broker_id=0), 41),
        (m.ElectLeadersRequest(topic_partitions=None), 41),
        (m.AlterPartitionReassignmentsRequest(), 41),
        (m.ListPartitionReassignmentsRequest(), None),
        (m.AssignReplicasToDirsRequest(broker_id=0), 41),
        (m.AlterClientQuotasRequest(entries=[m.AlterClientQuotasRequest.EntryData()]), 41),
        (ALTER_SCRAM, 41),
        (m.DescribeAclsRequest(), 54),
        (m.CreateAclsRequest(creations=[m.CreateAclsRequest.AclCreation()]), 41),
        (m.DeleteAclsRequest(filters=[m.DeleteAclsRequest.DeleteAclsFilter()]), 41),
        (m.CreateDelegationTokenRequest(), 41),
        (m.RenewDelegationTokenRequest(), 41),
        (DESCRIBE_CONFIGS, None),
        (m.ExpireDelegationTokenRequest(), 41),
        (m.SaslHandshakeRequest(mechanism="PLAIN"), 34),
        (m.SaslAuthenticateRequest(auth_bytes=b""), 34),
    ]


def errors(message: Any) -> set[int]:
    """Every error code inside an answer."""
    found: set[int] = set()
    for name in message.__struct_fields__:
        value = getattr(message, name)
        if name == "error_code":
            found.add(int(value))
        elif isinstance(value, list):
            for one in value:
                found |= errors(one) if hasattr(one, "__struct_fields__") else set()
    return found


def waiting() -> World:
    """A controller before the copy with one ZooKeeper-mode broker."""
    return World(migration_enabled=True).join(0, **ZK)


def copied(world: World) -> World:
    """The same after the copy."""
    world.controller.append([r.BeginTransactionRecord(name="ZK Migration")], world.now_ms)
    done = [r.ZkMigrationStateRecord(zk_migration_state=1), r.EndTransactionRecord()]
    world.controller.append(done, world.now_ms)
    world.commit()
    return world


@pytest.mark.requirement("O01", "O02", "O03")
def test_the_matrix_of_apis_before_the_copy() -> None:
    """ "Pre-Migration State": Raft, registration and heartbeats go on, the rest is refused."""
    for request, expected in matrix():
        world = waiting()
        if hasattr(request, "broker_epoch"):
            request.broker_epoch = world.tip.brokers[0].epoch
        offset = world.log.log_end_offset
        answer = world.ask(request)
        found = errors(answer) - {0}
        assert found == (set() if expected is None else {expected}), request
        assert expected is None or world.log.log_end_offset == offset
    covered = {spec(type(request)).key for request, _ in matrix()}
    assert covered | {58} == set(handlers()), "an API without a row here"


@pytest.mark.requirement("O04")
def test_the_same_requests_are_served_after_the_copy() -> None:
    """ "Pre-Migration State": normal operation afterwards, without a restart."""
    world = copied(waiting())
    assert world.ask(create("t")).topics[0].error_code == 0
    for request, _ in matrix():
        if hasattr(request, "broker_epoch"):
            request.broker_epoch = world.tip.brokers[0].epoch
        if isinstance(request, m.UnregisterBrokerRequest):
            continue
        assert ErrorCode.NOT_CONTROLLER not in errors(world.ask(request)), request


@pytest.mark.requirement("P11")
def test_while_copying_writes_are_refused_and_heartbeats_live() -> None:
    """ "Controller Migration": no broker RPC is handled, yet sessions survive a long copy."""
    world = waiting()
    world.controller.append([r.BeginTransactionRecord(name="ZK Migration")], world.now_ms)
    for second in range(0, 30, 2):
        world.later(2_000)
        assert world.heartbeat(0).error_code == 0
        world.controller.append(
            [r.TopicRecord(name=f"t{second}", topic_id=bytes(15) + bytes([second + 1]))],
            world.now_ms,
        )
        answer = world.ask(create("n"))
        assert errors(answer) == {ErrorCode.NOT_CONTROLLER}
    assert not world.tip.brokers[0].fenced
    assert world.controller.stable.topic("t0") is None
    copied_records = [r.ZkMigrationStateRecord(zk_migration_state=1), r.EndTransactionRecord()]
    world.controller.append(copied_records, world.now_ms)
    (delta,) = world.commit()
    assert delta.after.topic("t0") is not None
    assert world.ask(create("n")).topics[0].error_code == 0


@pytest.mark.requirement("S02", "S03")
def test_the_states_a_log_begins_with() -> None:
    """ "Migration Overview": None without the setting, Pre with it."""
    assert World().tip.migration_state is MigrationState.NONE
    assert World(migration_enabled=True).tip.migration_state is MigrationState.PRE_MIGRATION


@pytest.mark.parametrize(("offered", "code"), [(20, 35), (21, 0), (22, 35)])
@pytest.mark.requirement("N04")
def test_inter_broker_protocol_must_equal_metadata_version(offered: int, code: int) -> None:
    """ "Broker Registration": accepted exactly when the two levels are equal."""
    world = World(migration_enabled=True)
    answer = world.register(1, is_migrating_zk_broker=True, metadata_version=(offered, offered))
    assert answer.error_code == code


@pytest.mark.requirement("N04", "J22")
def test_every_level_that_can_migrate_takes_the_broker_of_that_level_alone() -> None:
    """ "Broker Registration" and KIP-778: each IBP from 3.4-IV0 on has its metadata.version."""
    for level in range(8, 22):
        for offered in range(8, 22):
            world = World(migration_enabled=True, metadata_version=level)
            answer = world.register(
                1, is_migrating_zk_broker=True, metadata_version=(offered, offered)
            )
            assert (answer.error_code == 0) == (level == offered)


@pytest.mark.requirement("N10")
def test_a_kraft_broker_takes_the_id_of_a_zookeeper_mode_one_only_when_that_is_gone() -> None:
    """ "Broker Registration": refused while the old session lives, accepted after it left."""
    world = copied(waiting())
    kraft = registration(0, incarnation_id=b"\xbb" * 16)
    assert world.ask(kraft).error_code == ErrorCode.DUPLICATE_BROKER_REGISTRATION
    assert world.heartbeat(0, want_shut_down=True).should_shut_down
    assert world.ask(kraft).error_code == 0
    assert not world.tip.brokers[0].is_migrating_zk_broker


def test_answers_of_the_matrix_can_be_encoded() -> None:
    """A refusal is worth nothing if it cannot be sent."""
    for request, _ in matrix():
        what = spec(type(request))
        assert what.key is not None
        world = waiting()
        for version in what.versions:
            if isinstance(request, m.DescribeClusterRequest):
                request.endpoint_type = 1 if version == 0 else 2  # v0 has no such field
            answer = world.ask(request, version)
            frame = encode_response(what.key, version, 3, answer)
            assert decode_response(what.key, version, frame)[0] == 3
