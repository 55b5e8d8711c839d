"""A controller ends between the commit of a change and its answer; the client asks again."""

import json

import pytest

from emulator.metadata.configs import TOPIC
from emulator.simulation.scenarios import settings
from emulator.simulation.scenarios.scenario import Scenario
from tests.kit.requests import alter_config, create_topics
from tests.simulation.test_levels_and_leaders import answer_of, begun, caller, until, wait
from wire import messages as m
from wire.errors import ErrorCode

SMALL = Scenario(controllers=3, changes=0, brokers=2, topics=1, partitions_max=2)
NAME, CLEANUP = "asked-twice", "cleanup.policy"
APPEND = 2
CREATE = create_topics(NAME, partitions=2, factor=2, timeout_ms=3_000)
EXTEND = alter_config(TOPIC, CLEANUP, "compact", NAME, operation=APPEND)
"""The list of a config by one more entry."""


def stated(world):
    """What the two requests change, as the committed records say it."""
    topic = world.facts.topic(NAME)
    assigned = topic and (topic.id, {i: p.replicas for i, p in topic.partitions.items()})
    return assigned, dict(world.facts.config(TOPIC, NAME))


def active(world, name):
    return caller(world, name, settings.voters(world.scenario)[world.active.node_id])


@pytest.mark.requirement("I05")
def test_asked_again_after_a_failover_it_is_as_it_was(simulated_world):
    world = begun(simulated_world(1, SMALL))
    codes = []
    for request, version in ((CREATE, 7), (EXTEND, 1)):
        before, unanswered = stated(world), []
        active(world, f"client {version}").ask(request, version, unanswered.append)
        until(world, lambda before=before: stated(world) != before)
        assert unanswered == [], "void: it was answered"
        committed, leader = stated(world), world.active.node_id
        world.process.crash()
        until(world, lambda leader=leader: world.active.node_id != leader)
        until(world, lambda: world.controllers_run and world.process.node.active)
        assert stated(world) == committed
        again = active(world, f"client {version} again")
        answer = answer_of(
            world, lambda on, one=(again, request, version): one[0].ask(one[1], one[2], on)
        )
        codes += [one.error_code for one in getattr(answer, "topics", None) or answer.responses]
        wait(world, 500)
        assert stated(world) == committed
        assert unanswered in ([], [None])
    assert codes == [ErrorCode.TOPIC_ALREADY_EXISTS, ErrorCode.NONE]
    config = json.loads(world.tree.get(f"/config/topics/{NAME}").data)
    assert config["config"] == {CLEANUP: "delete,compact"}
    assert world.tree.get(f"/brokers/topics/{NAME}")


def test_a_broker_asks_again_and_the_client_is_told_of_a_deletion_that_nothing_is_there(
    simulated_world,
):
    """Its only request: no error before, no doubt. Kafka's brokers do the same (``bench/load``)."""
    world = begun(simulated_world(1, SMALL))
    (topic,) = world.facts.topics.values()
    request = m.DeleteTopicsRequest(
        topics=[m.DeleteTopicsRequest.DeleteTopicState(name=topic.name)], timeout_ms=8_000
    )
    got = []
    world.brokers[0].ask_as_client(request, 6, got.append)
    until(world, lambda: world.facts.topic(topic.name) is None)
    assert got == [], "void: it was answered"
    world.process.crash()
    until(world, lambda: bool(got))
    (asked,) = got
    assert asked.repeated
    assert [one.error_code for one in asked.answer.responses] == [
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    ]
