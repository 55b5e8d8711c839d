"""Levels of metadata.version that a quorum takes or not, and who moves leaders."""

from dataclasses import replace

import pytest

from emulator.migration.states import State
from emulator.migration.taking_over.preconditions import Why
from emulator.simulation.clients.caller import Caller
from emulator.simulation.facts import METADATA_VERSION
from emulator.simulation.models.broker_settings import address_of
from emulator.simulation.scenarios import settings
from emulator.simulation.scenarios.scenario import Scenario
from emulator.zookeeper.ops import Create, Delete
from tests.kit import requests
from wire import messages as m
from wire import records as r
from wire.errors import ErrorCode

UPGRADE = 1
HIGHEST = 21
"""3.9-IV0."""
KRAFT = Scenario(controllers=3, migration=False, metadata_version="3.7-IV4", changes=0)
EVERYTHING = m.ElectLeadersRequest(election_type=0, topic_partitions=None, timeout_ms=3_000)
VERSIONS = m.ApiVersionsRequest(client_software_name="a", client_software_version="1")


def until(world, holds, ms=60_000):
    end_ms = world.scheduler.now_ms + ms
    while not holds():
        world.scheduler.step()
        assert world.scheduler.now_ms < end_ms, "\n".join(world.scheduler.lines[-20:])


def wait(world, ms):
    end_ms = world.scheduler.now_ms + ms
    until(world, lambda: world.scheduler.now_ms >= end_ms, ms + 1_000)


def begun(world):
    world.begin()
    until(world, lambda: world.traffic.begun)
    return world


def caller(world, name, address):
    return Caller(name, address, 5_000, world.scheduler, world.network)


def answer_of(world, ask):
    """What comes to a request that is sent now."""
    got = []
    ask(got.append)
    until(world, lambda: bool(got))
    return got[0]


def raise_level(world, level):
    """Through a broker, which passes it on; returns the codes of the answer."""
    request = requests.raise_level(level, timeout_ms=4_000)
    broker = world.brokers[0]
    answer = answer_of(world, lambda on: broker.ask_as_client(request, 1, on)).answer
    return {answer.error_code, *(one.error_code for one in answer.results)}


@pytest.fixture
def configured(monkeypatch):
    """Node id -> what the next life of a controller has otherwise in its configuration."""
    changes = {}
    made = settings.configured

    def with_changes(scenario, node_id=settings.FIRST_ID, **more):
        return replace(made(scenario, node_id, **more), **changes.get(node_id, {}))

    monkeypatch.setattr(settings, "configured", with_changes)
    return changes


@pytest.mark.requirement("V07")
@pytest.mark.parametrize(("level", "begins"), [(7, False), (8, True)])
def test_below_level_8_the_driver_never_leaves_its_wait(simulated_world, level, begins):
    """An unknown broker holds it up until all others have registered and the level has fallen.

    Below 8 none can register, so the level would never be the only reason to wait.
    """
    world = simulated_world(1, Scenario(metadata_version="3.4-IV0", brokers=1, topics=1, changes=0))
    world.begin()
    assert world.foreign_write(Create("/config/brokers/9", b'{"version":1,"config":{}}'))
    until(world, lambda: len(world.facts.brokers) == len(world.brokers))
    node = world.process.node
    record = r.FeatureLevelRecord(name=METADATA_VERSION, feature_level=level)
    node.controller.append([record], world.scheduler.now_ms)
    wait(world, 1_000)
    assert world.facts.level == level
    assert world.foreign_write(Delete("/config/brokers/9"))
    states = set()
    for _ in range(12):
        wait(world, 250)
        states.add(node.driver.state)
    assert (State.DUAL_WRITE in states) is begins
    if not begins:
        assert states == {State.WAIT_FOR_BROKERS}
        assert {one.reason.why for one in node.driver.waits.reasons} == {Why.METADATA_VERSION}
        assert world.claimed_kraft_epoch == -1


@pytest.mark.requirement("K12")
def test_only_the_active_controller_elects_and_brokers_pass_on_to_it(simulated_world):
    world = begun(simulated_world(1, Scenario(controllers=3, changes=0, brokers=2, topics=1)))
    for crashed in (False, True):
        if crashed:
            before = world.active.node_id
            world.process.crash()
            until(world, lambda before=before: world.active.node_id != before)
            until(world, lambda: world.controllers_run and world.process.node.active)
        for node_id, address in settings.voters(world.scenario).items():
            admin = caller(world, f"admin of {node_id}", address)
            answer = answer_of(world, lambda on, admin=admin: admin.ask(EVERYTHING, 2, on))
            expected = (
                ErrorCode.NONE if node_id == world.active.node_id else ErrorCode.NOT_CONTROLLER
            )
            assert answer.error_code == expected, node_id
        for broker in world.brokers.values():
            asked = answer_of(
                world, lambda on, broker=broker: broker.ask_as_client(EVERYTHING, 2, on)
            )
            assert asked.answer.error_code == ErrorCode.NONE, broker.name


@pytest.mark.requirement("K19")
@pytest.mark.parametrize("automatic", [True, False])
def test_leaders_return_without_being_asked_for(simulated_world, configured, automatic):
    """KIP-183 "Proposed Changes": nobody needs the command while the balance is automatic."""
    configured[settings.FIRST_ID] = {
        "leader_imbalance_check_interval_seconds": 10,
        "auto_leader_rebalance_enable": automatic,
    }
    world = begun(simulated_world(3, Scenario(changes=0, topics=4)))

    def partitions():
        return [one for topic in world.facts.topics.values() for one in topic.partitions.values()]

    def moved():
        """Partitions with all replicas in sync that another one leads than the preferred."""
        whole = [one for one in partitions() if {*one.isr} == {*one.replicas}]
        return [one for one in whole if one.leader != one.replicas[0]]

    until(world, lambda: not moved() or not automatic)
    victim = max(world.brokers.values(), key=lambda b: sum(p.leader == b.id for p in partitions()))
    led = sum(one.leader == victim.id and len(one.replicas) > 1 for one in partitions())
    assert led
    world.lives.kill(victim)
    until(world, lambda: bool(moved()))
    wait(world, 25_000)
    assert all({*one.isr} == {*one.replicas} for one in partitions())
    assert bool(moved()) is not automatic


@pytest.mark.requirement("J10")
def test_a_level_is_raised_when_every_voter_supports_it(simulated_world, configured):
    """KIP-778 asks for a majority; Kafka, and so we, for all that have registered."""
    old = settings.FIRST_ID
    configured[old] = {"release": "3.7"}
    world = begun(simulated_world(1, KRAFT))
    before = world.facts.level
    assert world.active.node_id != old, "void: it asks only itself"
    assert raise_level(world, HIGHEST) == {ErrorCode.NONE, ErrorCode.INVALID_UPDATE_VERSION}
    assert world.facts.level == before
    del configured[old]
    world.set_flag(old, flag=True)
    host = world.controllers[old]
    life = host.process
    life.crash()
    until(world, lambda: host.process is not life and world.process.node.active)
    wait(world, 5_000)
    assert raise_level(world, HIGHEST) == {ErrorCode.NONE}
    until(world, lambda: world.facts.level == HIGHEST)


@pytest.mark.requirement("J16")
def test_a_raise_closes_no_connection_and_a_new_one_sees_it(simulated_world):
    """KIP-778 leaves it to brokers to close them; as in Kafka none does."""
    world = begun(simulated_world(1, KRAFT))
    addresses = [address_of(each) for each in world.brokers]
    addresses += settings.voters(KRAFT).values()
    old = [caller(world, f"old client of {address[0]}", address) for address in addresses]

    def levels(clients):
        answers = [
            answer_of(world, lambda on, one=one: one.ask(VERSIONS, 3, on)) for one in clients
        ]
        return [answer.finalized_features[0].max_version_level for answer in answers]

    assert set(levels(old)) == {19}
    conns = [one.conn for one in old]
    assert None not in conns
    assert raise_level(world, HIGHEST) == {ErrorCode.NONE}
    wait(world, 3_000)
    assert [one.conn for one in old] == conns
    new = [caller(world, f"new client of {address[0]}", address) for address in addresses]
    assert set(levels(new)) == {HIGHEST}
    assert set(levels(old)) == {HIGHEST}
    assert [one.conn for one in old] == conns
