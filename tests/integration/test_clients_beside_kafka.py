"""Python clients of our broker on our controller get the answers of Kafka's broker on Kafka's.

Both clusters run at the same time and answer for themselves; `make matrix` has the whole table.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor

import pytest

from bench.matrix.clients import run, table
from bench.matrix.clients.clients import PythonClient
from bench.matrix.clients.columns import KAFKA, OURS, RELEASE, Column
from bench.matrix.clients.known import KNOWN
from bench.matrix.readers.outcome import Outcome
from emulator.broker.machine import FOR_CONTROLLERS_SINCE
from wire.releases import broker_ranges

CLIENTS = {
    "frames": "frames_calls",
    "aiokafka": "aiokafka_calls",
    "confluent-kafka": "confluent_calls",
    "kafka-python 3": "kafka_python_calls",
}
TELEMETRY = {71, 72}
"""Hidden by a broker without a plugin that receives telemetry."""


def answers(stage: Column) -> list[Outcome]:
    with stage:
        return run.column(stage, [PythonClient(name, module) for name, module in CLIENTS.items()])


@pytest.fixture(scope="module")
def kraft_brokers(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, Column]:
    """Kafka's cluster and ours, not started yet."""
    columns = [
        Column(owner, owner, tmp_path_factory.mktemp(owner) / "cluster") for owner in (KAFKA, OURS)
    ]
    return {column.name: column for column in columns}


@pytest.fixture(scope="module")
def found(kraft_brokers: Mapping[str, Column]) -> dict[str, list[Outcome]]:
    """Every answer, by column."""
    with ThreadPoolExecutor(len(kraft_brokers)) as pool:
        return dict(zip(kraft_brokers, pool.map(answers, kraft_brokers.values()), strict=True))


@pytest.mark.jvm
@pytest.mark.requirement("I10", "I11", "I13", "I16")
def test_python_clients_get_kafkas_answers(found: dict[str, list[Outcome]]) -> None:
    judged = table.judge(table.rows(found), KNOWN)
    assert not judged.wrong, table.details(judged)
    assert not judged.stale, table.details(judged)
    # What was compared: answers, refusals by the controller for the client's principal, and values.
    told = {(one.tool, one.what): one.text for one in found[f"{OURS} + {OURS}"]}
    assert len(told) > 200
    assert "TOPIC_AUTHORIZATION_FAILED" in told["confluent-kafka", "delete_topics, denied"]
    assert "TOPIC_ALREADY_EXISTS" in told["confluent-kafka", "create_topics c1 again"]
    assert "4000" in told["aiokafka", "describe_configs one of a1"]
    assert not [name for name, text in told.items() if text.startswith("NO ANSWER")]


@pytest.mark.jvm
@pytest.mark.requirement("I17")
def test_the_versions_that_the_kip_planned_are_in_no_release(
    found: dict[str, list[Outcome]],
) -> None:
    """Kafka's broker under Kafka's controller lists what our table of its release lists.

    `make matrix` asks brokers of all six releases, in ZooKeeper mode.
    """
    told = {(one.tool, one.what): one.text for one in found[f"{KAFKA} + {KAFKA}"]}
    rows = re.findall(r"api (\d+): \[(\d+), (\d+)\]", told["frames", "ApiVersions 4"])
    listed = {int(key): (int(oldest), int(newest)) for key, oldest, newest in rows}
    table = dict(broker_ranges(RELEASE[:3]))
    assert listed == {key: table[key] for key in table.keys() - TELEMETRY}
    lacking = {key for key, since in FOR_CONTROLLERS_SINCE.items() if listed[key][1] < since}
    assert lacking == {39, 40, 44}, "the others were raised for other reasons"
