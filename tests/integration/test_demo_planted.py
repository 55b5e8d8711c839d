"""A demonstration of real servers in which four things go wrong: each is FAILED, and nothing else.

It may run beside anything: what is judged is waited for.
"""

from __future__ import annotations

import asyncio
import json
import re
from pathlib import Path
from typing import Any

import pytest
from aiokafka import AIOKafkaProducer

from bench.demo import run as demo
from bench.demo.clients import Clients
from bench.demo.controllers import Controllers
from bench.demo.narrator import Check, Narrator
from bench.demo.seed import ask
from bench.demo.stage import Options, Stage
from bench.load import cluster_api as api
from bench.load.admin import AdminResult
from bench.load.records import Acknowledged, Verdict

pytestmark = [pytest.mark.jvm, pytest.mark.slow, pytest.mark.timeout(3_600)]


def plant_a_voter_that_does_not_come_back(patch: pytest.MonkeyPatch) -> None:
    replace = Controllers.replace

    def replaced(self: Controllers) -> tuple[int, int, float]:
        old, new, took_s = replace(self)
        self.nodes[old].kill()
        return old, new, took_s

    patch.setattr(Controllers, "replace", replaced)


def plant_a_record_twice(patch: pytest.MonkeyPatch) -> None:
    verify = Clients.verify

    async def send(bootstrap: str, record: Acknowledged) -> None:
        async with AIOKafkaProducer(bootstrap_servers=bootstrap, acks="all") as producer:
            key = str(record.sequence).encode()
            await producer.send_and_wait(
                record.topic, b"again", key=key, partition=record.partition
            )

    def verified(self: Clients, acknowledged: list[Acknowledged]) -> Verdict:
        asyncio.run(send(self._bootstrap, acknowledged[0]))
        return verify(self, acknowledged)

    patch.setattr(Clients, "verify", verified)


def plant_a_lost_change_and_a_znode_that_differs(patch: pytest.MonkeyPatch) -> None:
    judge = demo.judge_and_stop

    def judged(stage: Stage, narrator: Narrator, load: AdminResult) -> None:
        lost = min(load.topics)
        broker = stage.cluster.brokers[0].bootstrap
        ask(lambda: api.delete_topic(broker, lost))
        client = stage.look()
        path = "/config/topics/orders"
        data = json.loads(client.get(path)[0])
        data["config"]["retention.ms"] = "1"
        client.set(path, json.dumps(data).encode())
        judge(stage, narrator, load)

    patch.setattr(demo, "judge_and_stop", judged)


@pytest.fixture
def planted(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> tuple[int, list[Check], str]:
    """The exit code of a demonstration with all four, what it checked, what it said; no report."""
    narrators: list[Narrator] = []

    def narrator(*_: Any) -> Narrator:
        narrators.append(Narrator())
        return narrators[0]

    monkeypatch.setattr(demo, "Narrator", narrator)
    monkeypatch.setattr(demo, "interrupt_on_terminate", lambda *_: None)
    monkeypatch.setattr(demo, "analyse", lambda *_: None)
    plant_a_voter_that_does_not_come_back(monkeypatch)
    plant_a_record_twice(monkeypatch)
    plant_a_lost_change_and_a_znode_that_differs(monkeypatch)
    out = tmp_path / "out"
    out.mkdir()
    code = demo.run(Options(out, seconds=30.0))
    return code, narrators[0].checks, capsys.readouterr().err


def test_a_lost_change_a_znode_a_record_twice_and_a_missing_voter_are_each_failed(
    planted: tuple[int, list[Check], str],
) -> None:
    code, checks, said = planted
    assert code == 1
    pages = re.findall(r"node (\d+): live page at http://127\.0\.0\.1:\d+/$", said, re.MULTILINE)
    assert len(set(pages)) == 3
    safety = {each.what: each for each in checks if not each.of_speed}
    failed = {what for what, each in safety.items() if each.held is not True}
    assert failed == {
        "the leading controller, killed, was replaced, and is back",
        "every acknowledged record read back once, in order",
        "the stores are equal, entity by entity",
        "the stores hold what the load asked for",
        "stopped in order",
        "after the end of all, ZooKeeper is equal to each controller's log",
    }
    assert "1 twice" in safety["every acknowledged record read back once, in order"].figures
    assert "retention.ms" in str(safety["the stores are equal, entity by entity"].wrong)
    assert "is missing" in str(safety["the stores hold what the load asked for"].wrong)
    assert all(each.held is not None for each in safety.values())
