"""Our controller as a process under faults: afterwards every change is in ZooKeeper, once."""

from __future__ import annotations

import json
import re
import signal
from collections.abc import Callable, Iterator
from operator import gt
from typing import Any

import pytest
from typer.testing import CliRunner

from bench.judge import stores as judge
from emulator.cli import app
from emulator.servers.fault_proxy import Kind
from emulator.servers.zookeeper import ZooKeeper
from tests.integration import node_stage as stages
from tests.integration.node_stage import BOUND, NODE_ID, Stage, new_topic, staged, until
from tests.integration.staged_brokers import announce
from tests.integration.zookeeper_frames import MULTI
from wire.errors import ErrorCode

pytestmark = [pytest.mark.jvm, pytest.mark.slow]

BARE = 3
"""Operations of a multi without data: the check and the two counters."""
TIMED_OUT = int(ErrorCode.REQUEST_TIMED_OUT)


@pytest.fixture(scope="module")
def module_stage(zookeeper: ZooKeeper, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    with staged(zookeeper, tmp_path_factory.mktemp("node")) as made:
        yield made


@pytest.fixture
def stage(module_stage: Stage) -> Stage:
    """The cluster in dual write, nothing behind, whatever the test before has done."""
    module_stage.revive()
    return module_stage


def lose_reply(stage: Stage) -> None:
    stage.proxy.plan(Kind.LOSE_REPLY, MULTI)


def lose_request(stage: Stage) -> None:
    stage.proxy.plan(Kind.LOSE_REQUEST, MULTI)


def cut(stage: Stage) -> None:
    assert stage.proxy.cut()


def touch_migration(stage: Stage) -> None:
    stage.client.set("/migration", stage.client.get("/migration")[0])


def stop_zookeeper(stage: Stage) -> None:
    """Longer than the controller waits for an answer."""
    stage.zookeeper.pause()


@pytest.mark.parametrize(
    "fault",
    [
        pytest.param(lose_reply, marks=pytest.mark.requirement("W07", "W09")),
        pytest.param(lose_request, marks=pytest.mark.requirement("W07")),
        pytest.param(cut, marks=pytest.mark.requirement("W07")),
        pytest.param(touch_migration, marks=pytest.mark.requirement("W05")),
        pytest.param(stop_zookeeper, marks=pytest.mark.requirement("W07")),
    ],
)
def test_after_a_fault_each_change_is_there_once(
    stage: Stage, fault: Callable[[Stage], None]
) -> None:
    answers: list[stages.Answered] = []
    with stage.written_once() as names:
        names += [stage.name() for _ in range(14)]
        stage.proxy.delay(5, 5)
        stage.begin([new_topic(name) for name in names], answers)
        until("first answers", lambda: len(answers) > 3)
        noted = stage.troubles()
        fault(stage)
        until("the fault to be noticed", lambda: stage.troubles() > noted)
        stage.zookeeper.resume()
        until("answers", lambda: len(answers) == len(names))
    assert not any(answered.error for answered in answers)
    assert stage.disagreements() == []


@pytest.mark.requirement("W07")
def test_what_was_in_flight_is_sent_again_in_its_order(stage: Stage) -> None:
    """The second multi makes what lies below what the first one makes."""
    noted = refusals(stage)
    with stage.written_once() as names:
        for _ in range(5):
            names.append(stage.name())
            before = len(stage.seen)
            with stage.frozen(answers=True):
                stage.create(names[-1], 900)
                until("two multis on their way", lambda at=before: len(stage.multis(at)) >= 2)
                assert stage.proxy.cut()
            stage.settle()
            if all(len(multi) > BARE for multi in stage.multis(before)[:2]):
                break  # else one of the two only said how far ZooKeeper is
        else:
            raise AssertionError("two multis with data were never in flight together")
    assert refusals(stage) == noted
    assert stage.disagreements() == []


def session_of(stage: Stage) -> str:
    """The controller's newest, as it logged it."""
    connected = [line for line in stage.bridge.lines() if "zookeeper connected" in line]
    found = re.search(r"0x[0-9a-f]+", connected[-1])
    assert found is not None, connected[-1]
    return found[0]


@pytest.mark.requirement("U11")
def test_a_session_that_zookeeper_ends_costs_nothing(stage: Stage) -> None:
    """Changes are asked for before it ends, while it is over, and after."""
    answers: list[stages.Answered] = []
    with stage.written_once() as names:
        names += [stage.name() for _ in range(12)]
        old = session_of(stage)
        assert old in stage.zookeeper.four_letters("dump")
        with stage.frozen():
            stage.begin([new_topic(name) for name in names], answers)
            until("the end", lambda: old not in stage.zookeeper.four_letters("dump"))
        until("answers", lambda: len(answers) == len(names))
    fenced = [line for line in stage.bridge.lines() if "zookeeper session fenced" in line]
    assert old in fenced[-1]
    assert "expired" in fenced[-1]
    assert session_of(stage) != old
    assert not any(answered.error for answered in answers)
    assert stage.disagreements() == []


def refusals(stage: Stage) -> int:
    """How often ZooKeeper has refused a multi."""
    return sum("zookeeper refused a multi" in line for line in stage.bridge.lines())


@pytest.mark.requirement("Z03", "E04")
def test_killed_under_load_it_comes_back_and_nothing_is_lost(stage: Stage) -> None:
    stage.proxy.delay(200, 200)
    answers: list[stages.Answered] = []
    with stage.written_once() as names:
        asked = [stage.name() for _ in range(200)]
        stage.begin([new_topic(name) for name in asked], answers)
        until("load", lambda: len(answers) > 20)
        stage.bridge.kill()
        holder, stat = stage.client.get("/controller")
        assert json.loads(holder)["brokerid"] == NODE_ID
        assert stat.ephemeralOwner == 0
        assert not set(asked[: len(answers)]) <= stage.topics()
        stage.proxy.delay()
        stage.bridge.start().wait_dual_write()
        stage.settle()
        names += [name for name in asked if name in stage.topics()]
        assert names[: len(answers)] == asked[: len(answers)]
    assert stage.disagreements() == []


@pytest.mark.requirement("B03")
def test_sigterm_waits_for_zookeeper(stage: Stage) -> None:
    names = [stage.name() for _ in range(5)]
    with stage.frozen():
        answers = stage.ask(*map(new_topic, names))
        assert not any(answered.error for answered in answers)
        stage.bridge.signal(signal.SIGTERM)
        stage.bridge.wait_line("stopping")
        assert not set(names) & stage.topics()
        assert stage.bridge.alive
    until("the end of the controller", lambda: not stage.bridge.alive)
    assert stage.bridge.exit_code == 0
    log = judge.from_log(judge.dump_log(stage.bridge.data))
    tree = judge.from_tree(stage.tree())
    assert judge.differences(tree, log) == []
    assert tree.offset == log.offset


@pytest.mark.requirement("Z05")
def test_another_claim_is_noticed_and_not_fought(stage: Stage) -> None:
    """What a ZooKeeper-mode broker does once an operator has deleted /controller."""
    epoch, stat = stage.client.get("/controller_epoch")
    foreign = {"version": 2, "brokerid": 1, "timestamp": "1", "kraftControllerEpoch": -1}
    claim = stage.client.transaction()
    claim.delete("/controller")
    claim.create("/controller", json.dumps(foreign).encode(), ephemeral=True)
    claim.set_data("/controller_epoch", str(int(epoch) + 1).encode(), stat.version)
    name = stage.name()
    with stage.frozen():  # else it may notice before the topic is asked for
        claim.commit()
        stage.create(name)
    status = stage.bridge.wait_status("its end", lambda s: bool(s["migration"]["deposed_because"]))
    assert status["migration"]["lag"]["records_without_no_ops"] > 0
    (sent_away,) = stage.ask(new_topic(stage.name()))
    assert sent_away.error == ErrorCode.NOT_CONTROLLER
    assert name not in stage.topics()
    assert json.loads(stage.client.get("/controller")[0]) == foreign
    assert stage.client.get("/controller_epoch")[0] == str(int(epoch) + 1).encode()
    stage.bridge.kill()
    stage.client.delete("/controller")
    stage.bridge.start().wait_status("a refusal", lambda status: _refuses(status["migration"]))
    assert name not in stage.topics()
    stage.client.set("/controller_epoch", epoch)  # as if nobody had come between
    stage.bridge.wait_dual_write()
    stage.settle()
    assert name in stage.topics()


def _refuses(migration: dict[str, Any]) -> bool:
    return any(each["why"] == "zookeeper_mode_took_over" for each in migration["waiting"])


@pytest.mark.requirement("W02", "U03", "W07", "U13")
def test_without_zookeeper_callers_wait_and_nothing_is_lost(stage: Stage) -> None:
    stage.zookeeper.kill()
    admitted: list[str] = []
    refused: list[str] = []
    while not refused:
        request = new_topic(stage.name(), timeout_ms=500)
        (answered,) = stage.ask(request)
        if answered.error:
            assert answered.error == TIMED_OUT
            assert 500 <= answered.ms < 1_500
            refused.append(request.topics[0].name)
        else:
            admitted.append(request.topics[0].name)
        assert stage.scrape()[stages.PENDING] <= BOUND + 1
    assert len(admitted) * 2 >= BOUND - 2
    patient: list[stages.Answered] = []
    admitted.append(stage.name())
    stage.begin([new_topic(admitted[-1])], patient)
    stage.zookeeper.start().wait_started()
    until("the answer", lambda: patient)
    assert patient[0].error == 0
    assert stage.disagreements() == []
    assert set(admitted) <= stage.topics()
    assert not set(refused) & stage.topics()


# ---------------------------------------------------------------- strangers
@pytest.mark.requirement("U05")
def test_a_broker_that_is_only_in_zookeeper_gets_no_connection(stage: Stage) -> None:
    with stage.listening() as (port, connections):
        announce(stage.client, 9, port)
        try:
            before = stage.updates()
            stage.create(stage.name())
            until("news at the brokers", lambda: all(map(gt, stage.updates(), before)))
            stage.bridge.kill()
            stage.bridge.start().wait_dual_write()
            before = stage.updates()
            stage.create(stage.name())
            until("news at the brokers", lambda: all(map(gt, stage.updates(), before)))
            assert connections == []
        finally:
            stage.client.delete("/brokers/ids/9")


# ---------------------------------------------------------------- tampering
def diff(stage: Stage) -> tuple[int, set[str]]:
    """Exit code of ``kraft-bridge zk diff``, and the znodes that it names."""
    options = ["--zookeeper", stage.zookeeper.hosts, "--log-dir", str(stage.bridge.data)]
    result = CliRunner().invoke(app, ["zk", "diff", *options])
    return result.exit_code, {line.split()[1] for line in result.stdout.splitlines()[1:]}


def test_zk_diff_names_what_was_changed_by_hand(stage: Stage) -> None:
    stage.create(stage.name())
    assert stage.bridge.stop() == 0
    assert diff(stage) == (0, set())
    topic = f"/brokers/topics/{stages.OLD_TOPIC}"
    changes = {
        topic: ("partitions", {"0": [0, 1, 2], "1": [2, 1, 0]}),
        f"{topic}/partitions/1/state": ("leader_epoch", 77),
        f"/config/topics/{stages.OLD_TOPIC}": ("config", {"retention.ms": "100001"}),
        "/config/brokers/0": ("config", {}),
        "/latest_producer_id_block": ("block_end", "5999"),
        "/controller": ("brokerid", 1),
        "/migration": ("kraft_metadata_offset", 3),
        "/kraft_bridge": ("node_id", 1),
    }
    for path, (member, value) in changes.items():
        data, _ = stage.client.get(path)
        changed = {**json.loads(data), member: value}
        assert changed != json.loads(data)
        stage.client.set(path, json.dumps(changed).encode())
        code, named = diff(stage)
        assert (code, path in named) == (1, True), (path, named)
        stage.client.set(path, data)
    epoch, _ = stage.client.get("/controller_epoch")
    stage.client.set("/controller_epoch", b"1000")
    assert diff(stage) == (1, {"/controller_epoch"})
    stage.client.set("/controller_epoch", epoch)
    assert diff(stage) == (0, set())


def reconcile(stage: Stage, *more: str) -> tuple[int, set[str]]:
    """Exit code of ``kraft-bridge zk reconcile``, and the znodes that it names."""
    options = ["--log-dir", str(stage.bridge.data), *more]
    result = CliRunner().invoke(app, ["zk", "reconcile", *options])
    return result.exit_code, {line.split()[1] for line in result.stdout.splitlines()[:-1]}


def test_zk_reconcile_repairs_what_was_changed_by_hand(stage: Stage) -> None:
    """By the leader, then from its folder when it is stopped; then it goes on."""
    topic = stage.name()
    stage.create(topic)
    stage.settle()
    config = f"/config/topics/{stages.OLD_TOPIC}"
    state = f"/brokers/topics/{topic}/partitions/0/state"
    foreign = {config, state, "/config/users/eve"}
    leader = ["--url", stage.bridge.url]
    stopped = ["--zookeeper", stage.zookeeper.hosts]
    for where in (leader, stopped):
        kept = {path: stage.client.get(path)[0] for path in (config, state)}
        stage.client.set(config, b'{"version":1,"config":{"retention.ms":"100001"}}')
        isr = {**json.loads(kept[state]), "isr": []}
        stage.client.set(state, json.dumps(isr).encode())
        stage.client.ensure_path("/config/users/eve")
        quota = b'{"version":1,"config":{"producer_byte_rate":"1"}}'
        stage.client.set("/config/users/eve", quota)
        assert reconcile(stage, *where, "--dry-run") == (1, foreign)
        assert stage.client.get(config)[0] != kept[config]
        assert reconcile(stage, *where, "--yes") == (0, foreign)
        assert reconcile(stage, *where, "--dry-run") == (0, set())
        assert {path: json.loads(stage.client.get(path)[0]) for path in kept} == {
            path: json.loads(data) for path, data in kept.items()
        }
        if where is leader:
            assert reconcile(stage, *stopped, "--yes")[0] == 1, "its folder is in use"
            assert stage.bridge.stop() == 0
    stage.bridge.start().wait_dual_write()
    stage.settle()
    assert stage.disagreements() == []
