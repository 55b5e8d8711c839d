"""Kind scale: what a row needs, where replicas are, what counts of the fleet's trace."""

from __future__ import annotations

import dataclasses
import json
import shutil
from types import SimpleNamespace

import pytest

from bench.runs import loads, scale, seeding
from bench.runs import run as runner
from bench.runs.reading import ScenarioError, find, read
from bench.runs.row import BenchRow
from bench.runs.scenario import Case, Kind, Planned, Scenario, WarmUp, planned
from bench.runs.store import Store
from bench.runs.table import measures_of
from emulator.io.trace_file import TraceFile
from emulator.trace.rows import RequestRow
from tests.unit.runs.kit import row
from wire.frame import decode_request

CASE = Case("large", rate=25, count=25, topics_present=100, partitions=100)
GIB = 1 << 30


class Tree:
    """What a client of ZooKeeper was told to create."""

    def __init__(self):
        self.made = {}

    def transaction(self):
        return self

    def create(self, path, data):
        self.made[path] = data

    def commit_async(self):
        return self

    def get(self, timeout):
        return []


def partitions(brokers, count):
    tree = Tree()
    seeding.topics(tree, 1, count, brokers)
    topic = json.loads(tree.made["/brokers/topics/present-000000"])["partitions"]
    for index in range(count):
        path = f"/brokers/topics/present-000000/partitions/{index}/state"
        state = json.loads(tree.made[path])
        assert state["isr"] == topic[str(index)]
        assert state["leader"] == state["isr"][0]
    return [topic[str(index)] for index in range(count)]


def test_the_first_partition_of_each_topic_is_led_by_the_broker_that_dies():
    assert partitions(3, 3) == [[0, 1, 2]] * 3
    assert partitions(5, 4) == [[0, 1, 2], [1, 2, 3], [2, 3, 4], [0, 1, 2]]


def test_every_broker_hosts_something():
    assert {one for isr in partitions(100, 100) for one in isr} == {*range(100)}


def test_changes_begin_with_the_epochs_that_the_copy_left():
    """With broker 0 late during the copy, all 500 changes of a row were refused."""
    load = loads.IsrChanges(2, 7, [(2, 5)])
    asked = [decode_request(load.frame(number)[4:])[1].topics[0].partitions[0] for number in (0, 1)]
    assert [(one.leader_epoch, one.partition_epoch) for one in asked] == [(2, 5), (0, 0)]


@pytest.mark.parametrize("before", [0, 1, -1])
def test_a_broker_that_led_nothing_has_no_time_of_its_death(monkeypatch, before):
    later, killed = iter([-1, 1, 2]), []

    def get(path):
        return json.dumps({"leader": next(later) if killed else before}).encode(), None

    on = SimpleNamespace(
        case=CASE,
        client=SimpleNamespace(get=get),
        brokers=SimpleNamespace(kill=lambda: killed.append(0)),
        row=SimpleNamespace(death_s=None),
    )
    monkeypatch.setattr(scale, "_drained", lambda _: None)
    monkeypatch.setattr(scale, "_controllers", lambda _: SimpleNamespace(step_ms=lambda: 3.0))
    scale._death(on)
    assert next(later, None) is None, "that there is no leader is waited out"
    assert (on.row.death_s is not None) == (before == 0)
    assert on.row.death_step_ms == 3.0


@pytest.mark.parametrize(
    ("looks", "seen"),
    [
        ([(0.0, 0, 0)], 1),
        ([(9.0, 0, 0), (9.1, 0, 0)], 2),
        ([(0.0, 2, 0), (0.0, 1, 0), (9.0, 0, 0), (9.0, 0, 1), (9.1, 0, 0)], 5),
    ],
    ids=["at rest", "a snapshot", "brokers take long"],
)
def test_changes_begin_when_brokers_have_answered_and_controllers_rest(monkeypatch, looks, seen):
    """A quarter of what changes seemed to take at a million partitions were such answers."""
    left, taken = iter(looks), []

    def metrics():
        _, waiting, cut = taken[-1]
        return {
            'kraft_bridge_broker_requests_waiting{broker="0"}': 0.0,
            'kraft_bridge_broker_requests_waiting{broker="1"}': waiting,
            "kraft_bridge_brokers_not_answering": cut,
            "kraft_bridge_longest_step_ms": 7.0,
        }

    monkeypatch.setattr(scale, "_drained", lambda _: None)
    monkeypatch.setattr(scale, "_controllers", lambda _: SimpleNamespace(metrics=metrics))
    monkeypatch.setattr(scale, "_cpu_s", lambda _: taken[-1][0] if taken else 0.0)
    monkeypatch.setattr(scale.time, "sleep", lambda _: taken.append(next(left)))
    scale._settled(None)
    assert len(taken) == seen
    assert next(left, None) is None


def test_the_longest_step_is_by_the_cpu_of_its_thread():
    page = {
        'kraft_bridge_longest_step_ms{step="any"}': 84.0,
        'kraft_bridge_longest_step_ms{step="cpu"}': 12.0,
    }
    controllers = scale.Controllers.__new__(scale.Controllers)
    controllers.all = [
        SimpleNamespace(alive=True, metrics=lambda: page),
        SimpleNamespace(alive=True, metrics=dict),
        SimpleNamespace(alive=False, metrics=None),
    ]
    assert controllers.step_ms() == 12.0


def test_the_room_grows_with_partitions_and_with_the_brokers_that_know_them():
    small, large = (scale.needed(dataclasses.replace(CASE, topics_present=n)) for n in (100, 200))
    assert all(more > less for more, less in zip(large, small, strict=True))
    single = scale.needed(dataclasses.replace(CASE, topics_present=100_000, partitions=1))
    assert single[1] > 3 * 571 * (1 << 20) + GIB, "three controllers that were restarted, ZooKeeper"
    many = scale.needed(dataclasses.replace(CASE, brokers=100))
    assert many[1] > small[1]
    million = dataclasses.replace(CASE, topics_present=10_000)
    assert max(scale.needed(million)) < 20 * GIB


@pytest.mark.parametrize("case", read(find("scale")).cases, ids=lambda case: case.name)
def test_no_case_of_the_package_needs_more_than_20_gib(case):
    assert max(scale.needed(case)) <= 20 * GIB


def test_what_the_machine_lacks_is_said_before_anything_starts(monkeypatch, tmp_path):
    usage = shutil.disk_usage(tmp_path)
    monkeypatch.setattr(scale.shutil, "disk_usage", lambda _: usage._replace(free=GIB // 8))
    scenario = Scenario("big", "", Kind.SCALE, (CASE,), ("kraft-bridge",), WarmUp(), ("large",))
    plan, said = planned(scenario, ["kraft-bridge"], 1), []
    monkeypatch.setattr(scale, "take", lambda *_: pytest.fail("it was started"))
    rows = runner.run(
        plan, Store(tmp_path / "run"), patience_s=0, command="me", print_line=said.append
    )
    assert rows == []
    assert said == ["FAILED big.large.kraft-bridge.r1: it needs 0.5 GiB of disk; 0.1 are free"]


def test_heartbeats_of_the_changes_alone_count(tmp_path):
    file = TraceFile(tmp_path, "a-run", "fleet")
    for api, due_ms, took_ms in (
        ("BrokerHeartbeat", 999, 50),
        ("BrokerHeartbeat", 1_000, 5),
        ("BrokerHeartbeat", 1_999, 7),
        ("BrokerHeartbeat", 2_000, 50),
        ("AlterPartition", 1_500, 50),
    ):
        file.append(
            RequestRow(
                request_id=due_ms,
                api=api,
                api_version=0,
                client_id="1",
                correlation_id=due_ms,
                intended_ns=due_ms * 1_000_000,
                answered_ns=(due_ms + took_ms) * 1_000_000,
            )
        )
    file.close()
    waits = scale._beats(tmp_path, 1_000_000_000, 2_000_000_000)
    assert sorted(waits) == [5.0, 7.0]
    made = row(begin_ns=0)
    scale._heartbeats(made, waits)
    assert (made.heartbeats, made.heartbeat_p99_ms, made.heartbeat_max_ms) == (2, None, 7.0)


def test_the_table_shows_columns_that_rows_have():
    columns = {field.name for field in dataclasses.fields(BenchRow)}
    shown = {measure.column for measure in measures_of("scale")}
    assert shown <= columns
    assert {"copy_s", "death_s", "failover_s", "listening_s", "partition_bytes"} <= shown
    assert "copy_s" not in {measure.column for measure in measures_of("copy")}


@pytest.mark.parametrize(
    ("more", "sentence"),
    [
        ('targets = ["kafka"]', "targets: kafka and kind scale do not go together"),
        ('targets = ["kraft-bridge"]\nfreeze_s = 1\nfault_at_s = 1', "kind scale has no faults"),
        ('targets = ["kraft-bridge"]\ntopics_present = 0', "kind scale needs topics"),
    ],
)
def test_what_does_not_go_with_it(tmp_path, more, sentence):
    path = tmp_path / "mine.toml"
    lines = [f'kind = "{Kind.SCALE}"', "rate = 10", "count = 20", more]
    if "topics_present" not in more:
        lines.append("topics_present = 5")
    path.write_text("\n".join([*lines, "[[case]]", 'name = "one"']))
    with pytest.raises(ScenarioError) as error:
        read(path)
    assert any(sentence in problem for problem in error.value.problems), error.value.problems


def test_other_kinds_have_three_brokers(tmp_path):
    path = tmp_path / "mine.toml"
    path.write_text('kind = "create"\nrate = 1\ncount = 1\nbrokers = 5\n[[case]]\nname = "one"\n')
    with pytest.raises(ScenarioError, match="brokers is for kind scale alone"):
        read(path)


def test_a_row_says_how_many_brokers_it_had():
    scenario = Scenario("big", "", Kind.SCALE, (CASE,), ("kraft-bridge",), WarmUp(), ("large",))
    case = dataclasses.replace(CASE, brokers=100)
    assert BenchRow.of(Planned(scenario, case, "kraft-bridge", 1, 0)).brokers == 100
