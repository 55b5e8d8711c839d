"""Claim and chain of multis on a real ZooKeeper under faults, looked at with KazooClient."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from typing import cast

import pytest
from kazoo.client import KazooClient
from kazoo.exceptions import BadVersionError

from emulator.migration.dual_write.chain import Chain, Standing
from emulator.migration.position import Claimer, Position
from emulator.migration.taking_over import claim
from emulator.servers.fault_proxy import FaultProxy, Kind
from emulator.servers.seeded import connected
from emulator.servers.zookeeper import ZooKeeper
from emulator.zookeeper import jute
from emulator.zookeeper.errors import ZkCode
from emulator.zookeeper.ops import (
    Create,
    GetData,
    MultiRead,
    OpValue,
    ReadValue,
    ZkFailed,
    ZkLost,
    ZkOutcome,
    ZkResult,
)
from tests.integration.zookeeper_wire import Wire

DATA = "/chain"
OPS = 20


@pytest.fixture
def kafka_like(zookeeper: ZooKeeper, zk_client: KazooClient) -> KazooClient:
    """A tree in which brokers elected a controller 41 times, and nothing else of Kafka's."""
    prepare(zk_client)
    return zk_client


def prepare(client: KazooClient) -> None:
    for path in (DATA, "/controller", "/controller_epoch", "/migration", "/kraft_bridge"):
        if client.exists(path):
            client.delete(path, recursive=True)
    client.create(DATA, b"")
    client.create("/controller_epoch", b"0")
    for epoch in range(1, 42):
        client.set("/controller_epoch", str(epoch).encode())
    holder = {"version": 2, "brokerid": 0, "timestamp": "1", "kraftControllerEpoch": -1}
    client.create("/controller", json.dumps(holder).encode(), ephemeral=True)


class Offsets:
    """A log of which only offsets are looked at."""

    log_start_offset = 0
    high_watermark = 1

    def epoch_at(self, offset: int) -> int | None:
        return None if offset < 0 else 5

    def digest_at(self, offset: int) -> str:
        return "" if offset < 0 else f"{offset:032x}"


def standing(found: claim.Found) -> Standing:
    return Standing(found.counters, found.own.sequence)


def find(wire: Wire) -> claim.Found:
    outcome = wire.ask(MultiRead(tuple(GetData(path) for path in claim.PATHS)))
    assert isinstance(outcome, ZkResult)
    found = claim.parse(cast("list[ReadValue]", outcome.value))
    assert isinstance(found, claim.Found)
    return found


def claimed(wire: Wire, node_id: int = 3000, kraft_epoch: int = 5) -> Chain:
    """Claim as the driver does, read back, start the chain."""
    who = Claimer(node_id, kraft_epoch, f"process of {node_id}")
    outcome = wire.ask(claim.multi(find(wire), Offsets(), who, 17))
    assert isinstance(outcome, ZkResult), outcome
    return chain_of(wire, who)


def chain_of(wire: Wire, who: Claimer) -> Chain:
    """The chain of a claim that stands."""
    assert claim.already_ours(find(wire), who)
    term, counters, _ = claim.claimed(find(wire), who)
    return Chain(term, counters, Offsets().digest_at)


def send(wire: Wire, chain: Chain, first: int, count: int) -> None:
    """Chain multis of which number ``i`` makes 20 znodes and says offset ``i``."""
    for i in range(first, first + count):
        ops = [Create(f"{DATA}/{i:04d}-{j}", b"x" * 50) for j in range(OPS)]
        wire.submit(i, chain.build(ops, Position(i, 5)))


def acknowledge(chain: Chain, outcomes: list[ZkOutcome]) -> None:
    for outcome in outcomes:
        if isinstance(outcome, ZkResult):
            assert chain.acknowledge(cast("list[OpValue]", outcome.value))


def settled(wire: Wire, chain: Chain) -> int:
    """How many multis in doubt were applied, by the counters read after the fence."""
    wire.until_fenced()
    found = find(wire)
    count = chain.applied(standing(found))
    assert count is not None
    chain.resume(standing(found))
    return count


def holds_exactly(client: KazooClient, multis: int) -> None:
    """No hole, nothing half, nothing later; ``/migration`` says so."""
    names = sorted(client.get_children(DATA))
    assert names == sorted(f"{i:04d}-{j}" for i in range(multis) for j in range(OPS))
    if multis:
        said = json.loads(client.get("/migration")[0])
        assert said["kraft_metadata_offset"] == multis - 1
        assert json.loads(client.get("/kraft_bridge")[0])["offset"] == multis - 1


@pytest.mark.requirement("Z01", "Z06", "E03", "E04", "E06", "E08")
def test_the_claim(zookeeper: ZooKeeper, kafka_like: KazooClient) -> None:
    before = kafka_like.exists("/controller_epoch").version
    wire = Wire(zookeeper.port)
    chain = claimed(wire)
    send(wire, chain, 0, 1)
    acknowledge(chain, wire.collect(1))
    wire.end()
    epoch, stat = kafka_like.get("/controller_epoch")
    assert (epoch, stat.version) == (b"42", before + 1)
    holder, stat = kafka_like.get("/controller")
    assert json.loads(holder) == {
        "version": 2,
        "brokerid": 3000,
        "timestamp": "17",
        "kraftControllerEpoch": 5,
    }
    assert stat.owner_session_id is None
    assert json.loads(kafka_like.get("/migration")[0]) == {
        "version": 0,
        "kraft_controller_id": 3000,
        "kraft_controller_epoch": 5,
        "kraft_metadata_offset": 0,
        "kraft_metadata_epoch": 5,
    }


@pytest.mark.requirement("E01")
def test_what_the_old_controller_had_on_its_way_is_refused(
    zookeeper: ZooKeeper, kafka_like: KazooClient
) -> None:
    """As Kafka's controller writes: each multi checks the version of ``/controller_epoch``."""
    _, seen = kafka_like.get("/controller_epoch")
    kafka_like.create(f"{DATA}/state", b"before")

    def write(version: int) -> list[object]:
        multi = kafka_like.transaction()
        multi.check("/controller_epoch", version)
        multi.set_data(f"{DATA}/state", b"after")
        return list(multi.commit())

    ours = Wire(zookeeper.port)
    claimed(ours)
    assert isinstance(write(seen.version)[0], BadVersionError)
    assert kafka_like.get(f"{DATA}/state")[0] == b"before"
    write(seen.version + 1)
    assert kafka_like.get(f"{DATA}/state")[0] == b"after", "the version alone held it back"
    ours.end()


@pytest.mark.requirement("Z04", "W05", "E09")
def test_of_two_claims_one_wins_and_fences_the_other(
    zookeeper: ZooKeeper, kafka_like: KazooClient
) -> None:
    one, other = Wire(zookeeper.port), Wire(zookeeper.port)
    both_saw = find(one)
    # A clone: the same id, and the same epoch.
    ours, theirs = Claimer(3000, 5, "one"), Claimer(3000, 5, "other")
    assert isinstance(one.ask(claim.multi(both_saw, Offsets(), ours, 17)), ZkResult)
    late = other.ask(claim.multi(both_saw, Offsets(), theirs, 18))
    assert late == ZkFailed("ask", ZkCode.BAD_VERSION, 0)
    assert not claim.already_ours(find(other), theirs)
    old = chain_of(one, ours)
    send(one, old, 0, 1)
    acknowledge(old, one.collect(1))
    new = claimed(other, 3001, 6)
    send(one, old, 1, 3)
    assert one.collect(3) == [ZkFailed(i, ZkCode.BAD_VERSION, 0) for i in (1, 2, 3)]
    send(other, new, 1, 1)
    acknowledge(new, other.collect(1))
    one.end()
    other.end()
    holds_exactly(kafka_like, 2)


@pytest.mark.parametrize("times", [1, 2, 3])
@pytest.mark.requirement("W05")
def test_foreign_writes_of_migration_leave_no_hole(
    zookeeper: ZooKeeper, kafka_like: KazooClient, times: int
) -> None:
    """With one counter, one foreign write makes one multi fail and all later ones succeed."""
    wire = Wire(zookeeper.port, max_in_flight=60)
    chain = claimed(wire)
    send(wire, chain, 0, 20)
    acknowledge(chain, wire.collect(20))
    for _ in range(times):
        kafka_like.set("/migration", kafka_like.get("/migration")[0])
    send(wire, chain, 20, 30)
    outcomes = wire.collect(30)
    assert all(isinstance(o, ZkFailed) and o.code == ZkCode.BAD_VERSION for o in outcomes)
    assert chain.applied(standing(find(wire))) is None
    wire.end()
    holds_exactly(kafka_like, 20)


@pytest.mark.parametrize("kind", list(Kind))
@pytest.mark.requirement("W09")
def test_a_lost_multi_is_recognised_and_the_rest_written_once(
    zookeeper: ZooKeeper,
    kafka_like: KazooClient,
    fault_proxy: Callable[..., FaultProxy],
    kind: Kind,
) -> None:
    proxy = fault_proxy(zookeeper.port)
    wire = Wire(proxy.port, max_in_flight=60, session_timeout_ms=2_000)
    chain = claimed(wire)
    send(wire, chain, 0, 5)
    acknowledge(chain, wire.collect(5))
    fault = proxy.plan(kind, jute.OP_MULTI, skip=2)
    send(wire, chain, 5, 10)
    outcomes = wire.collect(10)
    assert fault.struck
    acknowledge(chain, outcomes)
    acked = sum(isinstance(o, ZkResult) for o in outcomes)
    assert acked <= 2
    assert all(isinstance(o, ZkResult | ZkLost) for o in outcomes)
    applied = settled(wire, chain)
    assert applied >= (kind is not Kind.LOSE_REQUEST)
    done = 5 + acked + applied
    holds_exactly(kafka_like, done)
    send(wire, chain, done, 4)
    acknowledge(chain, wire.collect(4))
    wire.end()
    holds_exactly(kafka_like, done + 4)


def test_bytes_held_in_the_network_are_dead_after_the_fence(
    zookeeper: ZooKeeper, kafka_like: KazooClient, fault_proxy: Callable[..., FaultProxy]
) -> None:
    """Reading alone is no fence: released later, these multis would still apply."""
    proxy = fault_proxy(zookeeper.port)
    wire = Wire(proxy.port, zookeeper.port, max_in_flight=60, session_timeout_ms=2_000)
    chain = claimed(wire)
    send(wire, chain, 0, 10)
    acknowledge(chain, wire.collect(10))
    proxy.freeze(to_client=False)
    send(wire, chain, 10, 20)
    assert wire.collect(20) == [ZkLost(i) for i in range(10, 30)]
    assert settled(wire, chain) == 0
    assert wire.client.server.endswith(str(zookeeper.port))
    send(wire, chain, 10, 1)
    acknowledge(chain, wire.collect(1))
    proxy.thaw()
    deadline = time.monotonic() + 0.5
    while time.monotonic() < deadline:
        wire.pump()
    send(wire, chain, 11, 1)
    acknowledge(chain, wire.collect(1))
    wire.end()
    holds_exactly(kafka_like, 12)


@pytest.mark.parametrize("frozen_s", [0.5, 4])
def test_a_frozen_zookeeper(zookeeper: ZooKeeper, kafka_like: KazooClient, frozen_s: float) -> None:
    """Shorter than two thirds of the session: nothing is lost. Longer: in doubt, then settled."""
    wire = Wire(zookeeper.port, max_in_flight=60, session_timeout_ms=3_000)
    chain = claimed(wire)
    outcomes: list[ZkOutcome] = []
    with zookeeper.paused():
        send(wire, chain, 0, 30)
        end = time.monotonic() + frozen_s
        while time.monotonic() < end:
            wire.pump()
            outcomes += wire.client.take_results()
    outcomes += wire.collect(30 - len(outcomes))
    acknowledge(chain, outcomes)
    acked = sum(isinstance(o, ZkResult) for o in outcomes)
    if frozen_s < 2:
        assert acked == 30
        assert wire.client.generation == 1
        applied = 0
    else:
        assert acked == 0
        applied = settled(wire, chain)
    wire.end()
    holds_exactly(kafka_like, acked + applied)


@pytest.mark.slow
def test_a_killed_zookeeper_leaves_a_clean_prefix(
    make_zookeeper: Callable[..., ZooKeeper],
) -> None:
    server = make_zookeeper()
    with connected(server.hosts) as client:
        prepare(client)
    wire = Wire(server.port, max_in_flight=200, session_timeout_ms=10_000)
    chain = claimed(wire)
    send(wire, chain, 0, 150)
    outcomes = wire.collect(10)
    server.kill()
    outcomes += wire.collect(150 - len(outcomes))
    acknowledge(chain, outcomes)
    acked = sum(isinstance(o, ZkResult) for o in outcomes)
    server.start().wait_started()
    applied = settled(wire, chain)
    wire.end()
    with connected(server.hosts) as again:
        holds_exactly(again, acked + applied)
