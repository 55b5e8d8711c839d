"""Kafka's own servers fail no case: what the judge demands is what Kafka does."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from bench.conformance.case import Where
from bench.conformance.output import Report
from emulator.servers.kafka import KafkaBroker, KraftController
from emulator.servers.ports import HOST
from tests.unit.conformance.faulty import Plant, Proxy
from tests.unit.conformance.plants import WITH_RECORDS
from tests.unit.conformance.test_conformance import AUTHORIZER, address, run

pytestmark = [pytest.mark.jvm, pytest.mark.slow]

RELEASE = "3.9.2"
CLUSTER_ID = "MkU3OEVBNTcwNTJENDM2Qg"


class Kafka:
    """One controller and some brokers, all of Kafka's."""

    def __init__(self, folder: Path, stack: ExitStack, brokers: int, **properties: object) -> None:
        self.controller = KraftController(RELEASE, folder, None, CLUSTER_ID, properties=properties)
        stack.callback(self.controller.kill)
        self.controller.format()
        self.controller.start()
        self.brokers = [
            KafkaBroker(
                RELEASE,
                id_,
                folder,
                None,
                controller_port=self.controller.port,
                properties=properties,
                broker_count=brokers,
            )
            for id_ in range(brokers)
        ]
        self.controller.wait_started()
        for one in self.brokers:
            stack.callback(one.kill)
            one.identify(CLUSTER_ID).start()
        for one in self.brokers:
            one.wait_started()

    def judged(self, *words: str, plant: Plant | None = None) -> Report:
        proxy = Proxy(self.brokers[0].bootstrap, plant or Plant())
        places = {
            Where.BROKER: address(proxy.address if plant else self.brokers[0].bootstrap),
            Where.CONTROLLER: address(f"{HOST}:{self.controller.port}"),
        }
        try:
            return run(places, *words)
        finally:
            proxy.close()


@pytest.fixture(scope="module")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kafka]:
    with ExitStack() as stack:
        yield Kafka(tmp_path_factory.mktemp("kafka"), stack, 2)


def failures(report: Report) -> list[str]:
    return [f"{one.id}: {one.why}: expected {one.expected}, got {one.got}" for one in report.failed]


def test_kafka_fails_nothing(kafka: Kafka) -> None:
    report = kafka.judged()
    assert failures(report) == []
    assert report.left == []
    assert report.facts.release == "3.9"


def test_kafka_with_an_authorizer_and_one_broker_fails_nothing(tmp_path: Path) -> None:
    with ExitStack() as stack:
        alone = Kafka(tmp_path, stack, 1, **AUTHORIZER)
        report = alone.judged("acls", "records", "apis", "metadata", "topics", "configs")
        missed = [
            name
            for name, case, plant, _ in WITH_RECORDS
            if [one.case.id for one in alone.judged("records", plant=plant).failed] != [case]
        ]
    assert failures(report) == []
    assert report.groups["acls"]["passed"] >= 8
    assert report.groups["records"]["passed"] == 5
    assert missed == [], "faults of records that no case found"
