"""Znodes of every class tampered with while nobody looks: the next controller mends them all."""

from __future__ import annotations

import pytest

from emulator.metadata import client_quotas
from emulator.metadata.configs import BROKER
from emulator.metadata.scram import Credential, record_of
from emulator.migration.states import State
from tests.unit.migration.stories import A, ready_world, restart
from tests.unit.migration.world import World, differences
from wire import records as r

CREDENTIAL = Credential(b"salt", b"stored", b"server", 4_096)
ZNODES = {
    "topic": "/brokers/topics/b",
    "partition": "/brokers/topics/b/partitions/0/state",
    "topic config": "/config/topics/b",
    "broker config": "/config/brokers/1",
    "user": "/config/users/alice",
    "user and client": "/config/users/alice/clients/app%201",
    "client": "/config/clients/<default>",
    "ip": "/config/ips/10.0.0.1",
    "acl": "/kafka-acl/Topic/b",
    "prefixed acl": "/kafka-acl-extended/prefixed/Group/g-",
    "token": "/delegation_token/tokens/t1",
    "producer ids": "/latest_producer_id_block",
}


def filled() -> World:
    world = ready_world()
    world.advance(1_000)
    entry = {"principal": "User:a", "host": "*", "operation": 3, "permission_type": 3}
    world.append(
        *world.topic("b", A[:-1] + b"b", (1, 2)),
        r.ConfigRecord(resource_type=2, resource_name="b", name="k", value="v"),
        r.ConfigRecord(resource_type=BROKER, resource_name="1", name="k", value="v"),
        *(
            client_quotas.record_of(client_quotas.entity(entity), key, 7.0)
            for entity, key in (
                ([("user", "alice")], "producer_byte_rate"),
                ([("user", "alice"), ("client-id", "app 1")], "producer_byte_rate"),
                ([("client-id", None)], "request_percentage"),
                ([("ip", "10.0.0.1")], "connection_creation_rate"),
            )
        ),
        record_of(("alice", 1), CREDENTIAL),
        r.AccessControlEntryRecord(
            id=b"1" * 16, resource_type=2, resource_name="b", pattern_type=3, **entry
        ),
        r.AccessControlEntryRecord(
            id=b"2" * 16, resource_type=3, resource_name="g-", pattern_type=4, **entry
        ),
        r.DelegationTokenRecord(
            owner="User:a",
            requester="User:a",
            renewers=[],
            issue_timestamp=1,
            max_timestamp=9_000_000_000_000,
            expiration_timestamp=9_000_000_000_000,
            token_id="t1",
        ),
        r.ProducerIdsRecord(broker_id=1, broker_epoch=1, next_producer_id=5_000),
    )
    world.advance(1_000)
    assert differences(world) == {}
    assert set(ZNODES.values()) <= world.paths
    return world


def surplus(path: str) -> str:
    """Another znode of the same class, which no record stands for."""
    return f"{path.rpartition('/')[0]}/77"


def tamper(world: World, path: str, how: str) -> None:
    if how == "missing":
        for one in sorted(world.paths, reverse=True):
            if one == path or one.startswith(path + "/"):
                world.remove(one)
    elif how == "malformed":
        world.put(path, b"{")
    else:
        world.put(surplus(path), world.data(path))


ONLY_ONE = {"partition", "producer ids"}
"""What there is no other of."""
CASES = [
    *((how, [path]) for how in ("missing", "malformed") for path in ZNODES.values()),
    *(("surplus", [path]) for what, path in ZNODES.items() if what not in ONLY_ONE),
    *((how, list(ZNODES.values())) for how in ("missing", "malformed")),
    ("surplus", [path for what, path in ZNODES.items() if what not in ONLY_ONE]),
]


@pytest.mark.requirement("W13")
@pytest.mark.parametrize(("how", "paths"), CASES)
def test_the_next_controller_mends_it(how: str, paths: list[str]) -> None:
    """Kafka 3.9.2 never reaches dual write again after a missing partition or a malformed state."""
    world = filled()
    for path in paths:
        if path in world.paths:
            tamper(world, path, how)
    assert differences(world), "the judge sees it"
    world = restart(world)
    world.reach(State.DUAL_WRITE, 10_000)
    assert differences(world) == {}
    assert world.driver.status(world.now_ms).poisoned == ()
