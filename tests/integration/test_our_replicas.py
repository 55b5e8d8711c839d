"""Three brokers of ours with our controller, and with Kafka 3.9.2's: ISRs, moves, ids, the end."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from emulator.servers.bridge import Bridge
from emulator.servers.kafka import KraftController
from emulator.servers.waiting import wait_for
from tests.integration.broker_stage import Caller, FormattedBridgeBroker
from tests.kit import requests
from wire import messages as m
from wire.errors import ErrorCode

pytestmark = pytest.mark.slow

RELEASE = "3.9.2"
CLUSTER_ID = "5L6g3nShT-eMCtK--X86sw"


class Trio:
    """The controller, its brokers 1 to 3, and a connection to broker 1."""

    def __init__(self, controller: Bridge | KraftController, folder: Any, stack: ExitStack) -> None:
        self.controller = controller
        stack.callback(self.controller.kill)
        self.controller.start().wait_started()
        self.brokers = {}
        for id_ in (1, 2, 3):
            made = FormattedBridgeBroker(
                RELEASE, id_, folder / f"{id_}", None, controller_port=self.controller.port
            )
            stack.callback(made.kill)
            made.format(CLUSTER_ID).start()
            self.brokers[id_] = made
        self.callers = {}
        for id_, made in self.brokers.items():
            self.callers[id_] = Caller(made.wait_started().client_port)
            stack.callback(self.callers[id_].close)
        wait_for("three brokers", lambda: len(self.metadata().brokers) == 3)

    def ask(self, request: Any, version: int) -> Any:
        return self.callers[1].ask(request, version)

    def metadata(self, *names: str) -> Any:
        return self.ask(requests.metadata(*names), 12)

    def partitions(self, name: str) -> list[Any]:
        (topic,) = self.metadata(name).topics
        return sorted(topic.partitions, key=lambda one: one.partition_index)

    def create(self, name: str, *replicas: tuple[int, ...]) -> None:
        answer = self.ask(requests.create_topics(name, assigned=replicas, timeout_ms=20_000), 7)
        assert answer.topics[0].error_code == 0, answer
        wait_for(name, lambda: len(self.partitions(name)) == len(replicas))


CONTROLLERS = ["ours", pytest.param("Kafka's", marks=pytest.mark.jvm)]


@pytest.mark.parametrize("whose", CONTROLLERS)
def test_a_life_of_replicas(whose: str, tmp_path: Path):
    # A dead broker is fenced early.
    hasty: dict[str, object] = {"broker.session.timeout.ms": 3_000}
    folder = tmp_path / "controller"
    with ExitStack() as stack:
        controller: Bridge | KraftController
        if whose == "ours":
            controller = Bridge(folder, None, properties=hasty).format(CLUSTER_ID)
        else:
            controller = KraftController(RELEASE, folder, None, CLUSTER_ID, properties=hasty)
        live(Trio(controller, tmp_path, stack))


def live(trio: Trio) -> None:
    trio.create("t", (1, 2, 3), (2, 3, 1), (3, 1, 2))

    # A broker dies, and returns: its leaders move, and leaders take it back into their ISRs.
    trio.brokers[3].kill()
    wait_for("ISRs without 3", lambda: all(3 not in one.isr_nodes for one in trio.partitions("t")))
    assert all(one.leader_id in {1, 2} for one in trio.partitions("t"))
    trio.brokers[3].start().wait_started()
    wait_for("whole ISRs", lambda: all(len(one.isr_nodes) == 3 for one in trio.partitions("t")))

    # A reassignment ends: the leader takes the replicas that are added into the ISR.
    trio.create("moved", (1, 2))
    answer = trio.ask(requests.reassign("moved", (3, 2), 0, timeout_ms=20_000), 0)
    assert answer.responses[0].partitions[0].error_code == 0, answer
    nothing_left = m.ListPartitionReassignmentsRequest(topics=None, timeout_ms=20_000)
    wait_for("an end of moving", lambda: not trio.ask(nothing_left, 0).topics)
    wait_for("its replicas", lambda: list(trio.partitions("moved")[0].replica_nodes) == [3, 2])
    assert set(trio.partitions("moved")[0].isr_nodes) == {2, 3}

    # Producers of two brokers have ids of two blocks.
    ids = m.InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=60_000)
    given = set()
    for id_ in (1, 2):
        answer = trio.callers[id_].eventually(
            "an id",
            ids,
            4,
            lambda answer: answer.error_code != ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        )
        assert answer.error_code == 0
        given.add(answer.producer_id // 1_000)
    assert len(given) == 2

    # A stop is granted when nothing is led any more.
    assert any(one.leader_id == 2 for one in trio.partitions("t"))
    assert trio.brokers[2].stop() == 0
    assert all(one.leader_id in {1, 3} for one in trio.partitions("t"))
    assert all(2 not in one.isr_nodes for one in trio.partitions("t"))
