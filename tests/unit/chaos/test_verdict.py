"""The verdict of a chaos run finds each planted loss, and nothing in a run without one."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from bench.chaos import verdict
from bench.judge.stores import from_log
from bench.load.admin import AdminResult, GivenUp
from bench.load.changes import TopicState
from bench.load.records import Acknowledged, ConsumeResult, ProduceResult, judge
from emulator.servers.process import ServerProcess

ID = "AAAAAAAAAAAAAAAAAAAAAQ"
SENT = [Acknowledged("r", 0, offset, offset) for offset in range(3)]


def log() -> list[dict[str, Any]]:
    """A topic of one partition with a config, as Kafka's tool prints it."""
    partition = {
        "topicId": ID, "partitionId": 0, "replicas": [1], "addingReplicas": [],
        "removingReplicas": [], "isr": [1], "leader": 1, "leaderEpoch": 0,
        "partitionEpoch": 0,
    }  # fmt: skip
    config = {"resourceType": 2, "resourceName": "load-1", "name": "k", "value": "v"}
    records = [
        ("TOPIC_RECORD", {"name": "load-1", "topicId": ID}),
        ("PARTITION_RECORD", partition),
        ("CONFIG_RECORD", config),
    ]
    return [
        {"type": kind, "data": data, "offset": offset}
        for offset, (kind, data) in enumerate(records)
    ]


def told(**changes: Any) -> AdminResult:
    found = AdminResult(prefix="load-", topics={"load-1": TopicState(1, {"k": "v"})})
    found.done["CreateTopics"] = 1
    for name, value in changes.items():
        setattr(found, name, value)
    return found


def of_clients(admin: AdminResult, read: list[tuple[int, int]], **failed: Any) -> list[str]:
    produced = ProduceResult(SENT, failed.get("produced", Counter()))
    positions = {("r", 0): failed.get("count", len(SENT))}
    errors = failed.get("consumed", Counter())
    consumed = ConsumeResult(len(SENT), errors, positions=positions)
    judged = judge(SENT, {("r", 0): read})
    return verdict.client_failures(verdict.Found(admin, produced, consumed, judged, {}, 3))


WHOLE = [(0, 0), (1, 1), (2, 2)]


def test_a_run_without_a_loss_has_nothing_wrong() -> None:
    assert verdict.agreement({1: log(), 2: log(), 3: log()[:2]}, 2) == []
    assert verdict.missing_from_logs(told(), {1: from_log(log())}) == []
    assert verdict.epochs_with_two_leaders({1: {3000}, 2: {3001}}) == []
    assert of_clients(told(), WHOLE) == []


@pytest.mark.parametrize("gone", [0, 1, 2])
def test_a_lost_record_is_found(gone: int) -> None:
    [line] = of_clients(told(), WHOLE[:gone] + WHOLE[gone + 1 :])
    assert "missing" in line
    assert f"offset={gone}" in line


@pytest.mark.parametrize("read", [[*WHOLE, (3, 1)], [(0, 0), (1, 1), (2, 2), (3, 2)]])
def test_a_record_that_is_there_twice_is_found(read: list[tuple[int, int]]) -> None:
    assert len(of_clients(told(), read)) == 1


@pytest.mark.parametrize("count", [0, 1, 2])
def test_a_group_that_stops_reading_is_found(count: int) -> None:
    lines = of_clients(told(), WHOLE, count=count)
    assert lines == [f"the group has not read r-0 beyond offset {count}"]


def test_what_a_client_was_refused_and_what_was_never_sent_are_found() -> None:
    assert of_clients(told(), WHOLE, consumed=Counter(Refused=1)) == ["consumer: 1 x Refused"]
    assert of_clients(told(), WHOLE, produced=Counter(Late=1)) == ["record: 1 x Late"]
    assert len(of_clients(told(unsent=1), WHOLE)) == 1


@pytest.mark.parametrize("node", [3000, 3001, 3002])
@pytest.mark.parametrize("at", [0, 1, 2])
def test_a_log_with_another_record_is_found(node: int, at: int) -> None:
    records = {each: log() for each in (3000, 3001, 3002)}
    records[node][at] = {**records[node][at], "type": "NO_OP_RECORD"}
    assert any(line.startswith(f"offset {at}: ") for line in verdict.agreement(records, 3))


def test_a_log_that_lacks_a_committed_record_is_found() -> None:
    assert verdict.agreement({1: log(), 2: log()[:1]}, 2) == [
        "controller 2: ends at 0, committed is 1"
    ]


def test_two_leaders_of_one_epoch_are_found() -> None:
    assert verdict.epochs_with_two_leaders({7: {3000, 3002}}) == ["epoch 7: led by [3000, 3002]"]


@pytest.mark.parametrize(
    ("admin", "told_of"),
    [
        (told(topics={"load-2": TopicState(1)}, doubtful={"load-1"}), "load-2 is missing"),
        (told(topics={"load-1": TopicState(2, {"k": "v"})}), "has 1 partitions"),
        (told(topics={"load-1": TopicState(1, {"k": "w"})}), "has configs"),
        (told(topics={}), "though its deletion was answered"),
        (told(deleted={"load-3"}), "load-3 was deleted, as was answered, and the log"),
    ],
    ids=["creation", "partitions", "config", "deletion", "creation before a deletion"],
)
def test_an_acknowledged_change_that_is_not_in_a_log_is_found(
    admin: AdminResult, told_of: str
) -> None:
    [line] = verdict.missing_from_logs(admin, {3001: from_log(log())})
    assert line.startswith("controller 3001: ")
    assert told_of in line


@pytest.mark.parametrize(
    "lines",
    [
        of_clients(told(), WHOLE, produced=Counter(E=1)),
        of_clients(told(), WHOLE, consumed=Counter(E=1)),
        of_clients(told(done=Counter()), WHOLE),
    ],
    ids=["record", "consumer", "nothing was done"],
)
def test_what_clients_were_refused_is_told(lines: list[str]) -> None:
    assert len(lines) == 1


REMOVED = {"type": "REMOVE_TOPIC_RECORD", "data": {"topicId": ID}, "offset": 3}


def more(*numbers: int) -> list[dict[str, Any]]:
    """Further partitions of the topic."""
    kind = "PARTITION_RECORD"
    return [{"type": kind, "data": {"topicId": ID, "partitionId": each}} for each in numbers]


EXISTS, UNKNOWN, PARTITIONS = (
    "TOPIC_ALREADY_EXISTS",
    "UNKNOWN_TOPIC_OR_PARTITION",
    "INVALID_PARTITIONS",
)


@pytest.mark.parametrize(
    ("api", "error", "partitions", "records", "wrong"),
    [
        ("CreateTopics", "REQUEST_TIMED_OUT", 1, log(), True),
        ("CreateTopics", EXISTS, 1, log(), False),
        ("CreateTopics", EXISTS, 1, [], True),
        ("CreateTopics", EXISTS, 2, log(), True),
        ("CreateTopics", EXISTS, 1, [*log(), REMOVED], True),
        ("DeleteTopics", UNKNOWN, None, [*log(), REMOVED], False),
        ("DeleteTopics", UNKNOWN, None, log(), True),
        ("DeleteTopics", "UNKNOWN_SERVER_ERROR", None, [*log(), REMOVED], True),
        ("IncrementalAlterConfigs", UNKNOWN, 1, [*log(), REMOVED], True),
        ("CreatePartitions", PARTITIONS, 3, [*log(), *more(1, 2)], False),
        ("CreatePartitions", PARTITIONS, 3, [*log(), *more(1)], True),
        ("CreatePartitions", PARTITIONS, 2, [*log(), *more(1, 2)], True),
        ("CreatePartitions", PARTITIONS, 3, log(), True),
        ("CreatePartitions", PARTITIONS, 3, [*log(), *more(1, 2), REMOVED], True),
        ("CreatePartitions", "NETWORK_EXCEPTION", 3, [*log(), *more(1, 2)], True),
    ],
)
def test_a_change_given_up_is_told_unless_its_first_attempt_was_carried_out(
    api: str, error: str, partitions: int | None, records: list[dict[str, Any]], *, wrong: bool
) -> None:
    admin = told(given_up={"load-1": GivenUp(api, error, partitions, 10, 20)})
    assert bool(verdict.refused(admin, records)) is wrong
    assert bool(verdict.refused(admin, records, [15])) is wrong


@pytest.mark.parametrize(
    ("lost_ns", "wrong"),
    [((), True), ((9,), True), ((20,), True), ((10,), False), ((3, 19), False)],
)
def test_only_what_was_in_flight_when_a_controller_was_lost_can_have_been_sent_twice(
    lost_ns: tuple[int, ...], *, wrong: bool
) -> None:
    twice = GivenUp("CreatePartitions", PARTITIONS, 2, sent_ns=10, answered_ns=20)
    found = verdict.refused(told(given_up={"load-1": twice}), [*log(), *more(1)], lost_ns)
    assert found == ["change given up: CreatePartitions of load-1: INVALID_PARTITIONS"] * wrong


def test_a_server_that_ended_by_itself_is_told(tmp_path: Path) -> None:
    ended = ServerProcess("one", tmp_path).launch(["/bin/false"])
    ended.wait()
    assert verdict.ended_servers([ended]) == [f"{tmp_path.name}/one ended with 1"]
    ended.kill()
