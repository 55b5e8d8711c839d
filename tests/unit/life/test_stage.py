"""What a stage waits for: it comes, a server has ended, or 15 minutes are over."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from kazoo.exceptions import ConnectionLoss

from bench.demo.controllers import IDS
from bench.life import stores
from bench.life.clients import RECORDS, LifeClients
from bench.life.stage import Stage
from bench.life.standing import BrokerStanding, Mode, Quorum, Standing
from bench.load.records import Acknowledged, ConsumeResult, ProduceResult
from emulator.servers import patience
from emulator.servers.kafka import KafkaBroker
from emulator.servers.process import ProcessError
from emulator.servers.waiting import wait_for


@pytest.fixture
def stage(tmp_path):
    """Servers that were never started."""
    brokers = {each: BrokerStanding(Mode.ZOOKEEPER, "3.9.2") for each in range(3)}
    return Stage(tmp_path, Standing("3.9.2", "code", brokers))


def test_a_server_that_does_not_answer_is_asked_again(stage):
    answers = iter([TimeoutError("30 s"), ConnectionLoss(), False, "here"])

    def ready():
        found = next(answers)
        if isinstance(found, Exception):
            raise found
        return found

    assert stage.wait("it", ready) == "here"


def test_what_does_not_come_is_named_with_what_was_last_heard(stage, monkeypatch):
    def silent():
        raise ConnectionRefusedError("nobody listens")

    monkeypatch.setattr(patience, "wait_for", lambda what, ask, _: wait_for(what, ask, 0.0))
    with pytest.raises(
        TimeoutError, match=r"no it within .*ConnectionRefusedError: nobody listens"
    ):
        stage.wait("it", silent)


def test_a_server_that_ended_by_itself_ends_the_wait(stage, monkeypatch):
    monkeypatch.setattr(KafkaBroker, "exit_code", property(lambda one: 1 if one.id == 2 else None))
    with pytest.raises(ProcessError, match="broker-2 ended by itself with 1"):
        stage.wait("it", lambda: False)


@pytest.mark.parametrize("quorum", Quorum)
def test_controllers_that_are_to_have_ended_are_not_missed(stage, quorum):
    stage.standing.quorum = quorum
    ports = {one.port for one in stage.controllers.nodes.values()}
    watched = {one.port for one in stage._servers() if hasattr(one, "port")}
    assert watched == (set() if quorum is Quorum.ABSENT else ports)


def test_of_two_that_say_they_lead_the_later_epoch_does(stage, monkeypatch):
    found = [
        {"active": True, "node_id": IDS[0], "leader_epoch": 4},
        {"active": False, "node_id": IDS[1], "leader_epoch": 6},
        {"active": True, "node_id": IDS[2], "leader_epoch": 5},
    ]
    monkeypatch.setattr(Stage, "_statuses", lambda _: iter(found))
    assert stage.status()["node_id"] == IDS[2]


def test_stores_are_compared_once_zookeeper_has_the_end_of_the_log(stage, monkeypatch):
    reached = iter([10, 7, 8, 9])
    kinds = [*["CONFIG_RECORD"] * 9, "NO_OP_RECORD"]
    config = {"resourceType": 2, "resourceName": "t", "name": "k", "value": "v"}
    records = [{"type": one, "data": config, "offset": at} for at, one in enumerate(kinds)]
    read = []
    monkeypatch.setattr(Stage, "znode", lambda *_: {"kraft_metadata_offset": next(reached)})
    monkeypatch.setattr(Stage, "leader", lambda _: None)
    monkeypatch.setattr(stores, "tree", lambda _: read.append("tree"))
    monkeypatch.setattr(stores, "_records", lambda *_: records)
    monkeypatch.setattr(stores.judge, "differences", lambda *_: ["topic t"])
    log, wrong = stores.agree(stage)
    assert log.last_change == 8
    assert wrong == ["topic t"], "what differs then is not waited for"
    assert read == ["tree"] * 3, "beyond the log, and before its last change, none was compared"


def test_the_group_is_waited_for_until_it_has_read_what_every_producer_wrote():
    known = [Acknowledged(topic, 0, 5, 1) for topic in RECORDS]
    clients = LifeClients("nobody:1", SimpleNamespace(records=lambda: known), None, 1)
    clients._consume = SimpleNamespace(result=ConsumeResult())
    clients._consumed = SimpleNamespace(done=lambda: False)
    for topic in RECORDS:
        assert not clients._at_end(ProduceResult(known[:1]))
        clients._consume.result.positions[topic, 0] = 6
    assert clients._at_end(ProduceResult(known[:1]))
    clients.abandon()
