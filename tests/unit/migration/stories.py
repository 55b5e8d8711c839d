"""Clusters before, at and after the claim, that several tests begin from."""

from __future__ import annotations

from typing import Any

from emulator.migration.taking_over.preconditions import Why
from tests.unit.migration.world import World
from wire import records as r

A, B = (bytes([value]) * 16 for value in b"AB")
TOPIC_A = (
    b'{"version":3,"topic_id":"QUFBQUFBQUFBQUFBQUFBQQ","partitions":{"0":[1,2],"1":[2,1]},'
    b'"adding_replicas":{},"removing_replicas":{}}'
)
STATE = b'{"controller_epoch":1,"leader":1,"version":1,"leader_epoch":4,"isr":[1,2]}'
WALK = [
    "INACTIVE",
    "WAIT_FOR_CONTROLLER_QUORUM",
    "WAIT_FOR_BROKERS",
    "BECOME_CONTROLLER",
    "ZK_MIGRATION",
    "SYNC_KRAFT_TO_ZK",
    "KRAFT_CONTROLLER_TO_BROKER_COMM",
    "DUAL_WRITE",
]


def put_topic(world: World, name: str = "a", data: bytes = TOPIC_A) -> None:
    world.put(f"/brokers/topics/{name}", data)
    world.put(f"/config/topics/{name}", b'{"version":1,"config":{"retention.ms":"5"}}')
    for partition in (0, 1):
        world.put(f"/brokers/topics/{name}/partitions/{partition}/state", STATE)


def waiting(world: World) -> set[tuple[Why, str]]:
    return {(w.reason.why, w.reason.subject) for w in world.driver.status(world.now_ms).waiting}


def waiting_world(*brokers: int, **settings: Any) -> World:
    world = World(**settings)
    world.cluster(*(brokers or (1, 2)))
    put_topic(world)
    world.bootstrap()
    return world


def ready_world(**settings: Any) -> World:
    world = waiting_world(**settings)
    world.start(1, 2)
    return world


def restart(world: World) -> World:
    """The process dies and comes back over the same log, in the next epoch."""
    world.cut()
    world.journal.epoch += 1
    world.states.clear()
    world.multis.clear()
    world.requests.clear()
    world.start_process()
    world.journal.append([r.NoOpRecord()], world.now_ms)
    return world.start()
