"""Two controllers are compared: what differs is found, made short, and can be seen again."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from bench.conformance.oracle import compare, grammar
from bench.conformance.oracle.known import KNOWN, ROWS_MAX, Excuses
from bench.conformance.oracle.operation import Operation, read, written
from bench.conformance.oracle.run import Progress, strangers
from bench.conformance.oracle.shrink import shrunk
from bench.conformance.oracle.side import Names, Partition, Registered
from emulator.testing import Cluster
from tests.unit.commands.running import run
from tests.unit.conformance.faulty import Plant, Proxy
from tests.unit.conformance.plants import answering
from wire import messages as m
from wire import records as r

OPTIONS = ("--allow-disruptive", "--seed", "7")
APIS = ("CreateTopics", "DeleteTopics", "BrokerRegistration", "BrokerHeartbeat")
RANGES = dict.fromkeys(APIS, (0, 1))
PROPERTIES = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS",
    "broker.session.timeout.ms": "600000",
    "auto.leader.rebalance.enable": "false",
}
"""Sessions and elections by a clock are no part of a history."""


@pytest.fixture(scope="module")
def two() -> Iterator[list[str]]:
    """Two controllers without brokers."""
    made = [Cluster(brokers=0, fsync=False, properties=PROPERTIES) for _ in range(2)]
    with made[0] as one, made[1] as other:
        yield [one.controllers, other.controllers]


def against(reference: str, ours: str, *options: object) -> tuple[int, str, str]:
    places = ("--against", reference, "--bootstrap-controller", ours)
    return run("conformance", *places, *OPTIONS, *map(str, options))


def test_nothing_differs_between_two_of_the_same(two: list[str], tmp_path: Path) -> None:
    """And a run goes on where it ended."""
    kept = tmp_path / "progress.json"
    code, out, err = against(*two, "--operations", 300, "--progress", kept)
    assert code == 0, out + err
    assert out.startswith("comparison OK: nothing differs; ")
    first = json.loads(kept.read_text())
    assert first["operations"] >= 300
    code, out, _ = against(*two, "--operations", first["operations"] + 1, "--progress", kept)
    assert code == 0, out
    assert json.loads(kept.read_text())["history"] == first["history"] + 1


def refusing(answer: m.CreatePartitionsResponse, _version: int) -> None:
    for one in answer.results:
        one.error_code = one.error_code or 44


def test_a_planted_difference_is_found_and_made_short(two: list[str], tmp_path: Path) -> None:
    proxy = Proxy(two[1], answering(m.CreatePartitionsRequest, refusing))
    try:
        code, out, err = against(two[0], proxy.address, "--operations", 5_000)
        assert code == 1, out + err
        assert "comparison FAILED: a difference no row names" in out
        assert "CreatePartitions.results[0].error_code: 0 there, 44 here" in out
        _, _, rest = out.partition(", for --replay:\n")
        operations, _ = read(rest)
        assert len(operations) <= 10
        assert operations[-1].api == "CreatePartitions"
        file = tmp_path / "transcript.jsonl"
        file.write_text(rest)
        again = against(two[0], proxy.address, "--replay", file)
        assert again[0] == 1
        assert "error_code: 0 there, 44 here" in again[1]
    finally:
        proxy.close()
    assert against(*two, "--replay", file)[0] == 0, "of the proxy alone"


def test_a_record_that_differs_is_found(two: list[str]) -> None:
    """Though all answers are the same: a config is not what was asked for."""

    def other(request: m.CreateTopicsRequest, _version: int) -> None:
        for topic in request.topics:
            for one in topic.configs:
                if (one.name, one.value) == ("retention.ms", "1000"):
                    one.value = "2000"

    key = 19
    proxy = Proxy(two[1], Plant(key=key, request=other))
    try:
        code, out, err = against(two[0], proxy.address, "--operations", 20_000)
    finally:
        proxy.close()
    assert code == 1, out + err
    assert '"1000" there, "2000" here' in out


def test_controllers_that_hold_something_else_are_left_alone(two: list[str]) -> None:
    with Cluster(brokers=1, fsync=False) as used:
        code, _, err = against(two[0], used.controllers)
    assert code == 3
    assert "holds a broker, 0: histories would remove it" in err


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (("--against", "h:1"), "--bootstrap-controller HOST:PORT too"),
        (("--against", "h:1", "--bootstrap-controller", "h:2"), "add --allow-disruptive"),
        (("--against", "h:1", "--only", "acls"), "takes none of"),
        (("--bootstrap-server", "h:1", "--replay", "x"), "need --against"),
        (
            ("--against", "h:1", "--bootstrap-controller", "h:2", *OPTIONS, "--replay", "/no/such"),
            "--replay /no/such",
        ),
        (
            ("--against", "h:1", "--bootstrap-controller", "h:2", *OPTIONS, "--progress", "/no/f"),
            "--progress /no/f",
        ),
    ],
)
def test_a_wrong_line_ends_with_2(options: tuple[str, ...], told: str) -> None:
    code, _, err = run("conformance", *options)
    assert code == 2
    assert told in err


def test_the_table_is_listed() -> None:
    code, out, _ = run("conformance", "--against", "h:1", "--list")
    assert code == 0
    assert [line.partition(":")[0] for line in out.splitlines()] == [row.id for row in KNOWN]
    assert len(KNOWN) == len({row.id for row in KNOWN}) <= ROWS_MAX
    for row in KNOWN:
        kinds = (row.lists, row.records, row.late, row.passed_over)
        assert any(kinds), row.id
        assert all((row.subject, row.kafka, row.ours, row.source)), row.id


# ------------------------------------------------------------------ the parts
def test_a_history_is_a_function_of_its_seed() -> None:
    one, other = (grammar.history(3, 8, RANGES, 21) for _ in range(2))
    assert one == other
    assert one != grammar.history(3, 10, RANGES, 21)
    assert not one.placed
    assert grammar.history(3, 9, RANGES, 21).placed
    assert {each.api for each in one.operations} <= set(RANGES)


def test_a_transcript_is_read_as_it_was_written() -> None:
    drawn = grammar.history(1, 1, RANGES, 21)
    text = written(drawn.operations, {"placed": drawn.placed})
    assert read(text) == ([*drawn.operations], True)
    for bad in ("", "{}", "[]", "no", '{"oracle": 2}', text + "{}"):
        with pytest.raises(ValueError, match="no transcript"):
            read(bad)


def test_progress_is_read_as_it_was_written(tmp_path: Path) -> None:
    file = tmp_path / "kept"
    progress = Progress(5, 2, 99, 1.5, ["a", "b"])
    progress.excuses.count(KNOWN[0], "an example")
    progress.write(file)
    assert Progress.read(file) == progress
    file.write_text("{}")
    with pytest.raises(ValueError, match="no progress"):
        Progress.read(file)


def test_a_list_is_made_short() -> None:
    assert shrunk(range(100), lambda some: {3, 50, 99} <= {*some}) == [3, 50, 99]
    assert shrunk([1], lambda some: True) == [1]


def deleted(*names: str) -> dict[str, Any]:
    return {"responses": [{"name": name, "error_code": 0} for name in names]}


def test_only_a_list_of_the_table_has_no_order() -> None:
    excuses = Excuses()
    delete, create = (Operation(name, 1) for name in ("DeleteTopics", "CreateTopics"))
    assert compare.answers(delete, deleted("a", "b"), deleted("b", "a"), excuses) == []
    assert excuses.counts == {"delete-order": 1}
    (found,) = compare.answers(create, deleted("a", "b"), deleted("b", "a"), excuses)
    assert found.path == "CreateTopics.responses.order"
    other = deleted("b", "a")
    other["responses"][0]["error_code"] = 3
    (found,) = compare.answers(delete, deleted("a", "b"), other, excuses)
    assert (found.path, found.ours) == ("DeleteTopics.responses[1].error_code", 3)
    assert compare.answers(delete, deleted("a", "b"), deleted("a"), excuses)


def test_of_what_is_asked_by_name_the_order_counts() -> None:
    there, here = ({"topics": [{"name": one} for one in names]} for names in ("ab", "ba"))
    for topics, differs in ((None, False), ([], True)):
        asked = Operation("ListPartitionReassignments", 0, {"topics": topics})
        assert bool(compare.answers(asked, there, here, Excuses())) is differs


def change(number: int, **fields: Any) -> dict[str, Any]:
    return {"record": "PartitionChangeRecord", "topic_id": "t", "partition_id": number, **fields}


def test_only_records_of_the_table_have_no_order() -> None:
    def differences(one: list[Any], other: list[Any]) -> list[str]:
        return [each.path for each in compare.logs(one, other, Excuses(), placed=False)]

    moved, back = (
        [change(0, leader=1), change(1, leader=2)],
        [change(1, leader=2), change(0, leader=1)],
    )
    assert differences(moved, back) == []
    twice, other = (
        [change(0, leader=1), change(0, leader=2)],
        [change(0, leader=2), change(0, leader=1)],
    )
    assert differences(twice, other) == ["log.PartitionChangeRecord.leader"]
    assert differences(moved, moved[:1]) == ["log.PartitionChangeRecord"]
    fenced = [{"record": "BrokerRegistrationChangeRecord", "broker_id": one} for one in (1, 2)]
    assert differences(fenced, fenced[::-1]) == ["log.BrokerRegistrationChangeRecord.broker_id"]


def placed(*replicas: int, **fields: Any) -> dict[str, Any]:
    values = {"isr": [*replicas], "leader": replicas[0], "partition_id": 0, "topic_id": "t"}
    return {"record": "PartitionRecord", "replicas": [*replicas], **values, **fields}


@pytest.mark.parametrize(
    "wrong",
    [placed(0, 0), placed(0, 2), placed(9), placed(0, 1, leader=1), placed(0, 1, isr=[0])],
)
def test_placement_is_judged_by_kafka_s_rule(wrong: dict[str, Any]) -> None:
    """Racks are a and b in turn: two replicas are on both."""
    right = placed(1, 0)
    assert compare.logs([right], [placed(2, 3)], Excuses(), placed=True) == []
    (found,) = compare.logs([right], [wrong], Excuses(), placed=True)
    assert found.path == compare.PLACEMENT


HERE, THERE = bytes(15) + b"\1", bytes(15) + b"\2"


def log(**partition: Any) -> Names:
    names = Names()
    names.topic("a", b"id")
    values = {"replicas": (0, 1), "isr": (0, 1), "leader": 0, "leader_epoch": 0}
    names.partitions[b"id", 0] = Partition(**{**values, "partition_epoch": 0, **partition})
    names.brokers[0] = Registered(fenced=False, directories=(HERE, THERE))
    return names


def moved_to(replicas: list[int] | None) -> Operation:
    part = {"partition_index": 0, "replicas": replicas}
    topics = [{"name": "a", "partitions": [part]}]
    return Operation("AlterPartitionReassignments", 0, {"topics": topics})


def assigned(directory: bytes) -> Operation:
    topics = [{"topic_id": {"$": "topic", "topic": "a"}, "partitions": [{"partition_index": 0}]}]
    body = {"broker_id": 0, "directories": [{"id": directory.hex(), "topics": topics}]}
    return Operation("AssignReplicasToDirs", 0, body)


def beat(*offline: bytes) -> Operation:
    body = {"broker_id": 0, "offline_log_dirs": [one.hex() for one in offline]}
    return Operation("BrokerHeartbeat", 1, body)


def grown(count: int) -> Operation:
    return Operation("CreatePartitions", 0, {"topics": [{"name": "a", "count": count}]})


def uneven() -> Names:
    names = log()
    names.partitions[b"id", 1] = Partition((0,), (0,), 0, 0, 0)
    return names


def fenced() -> Names:
    names = log(leader=-1)
    names.brokers[0].fenced = True
    return names


GONE = b"\7" * 16


@pytest.mark.parametrize(
    ("names", "operation", "row"),
    [
        (log(), moved_to([1, 2]), None),
        (log(adding=True), moved_to([1, 2]), "moved-again"),
        (log(adding=True), moved_to(None), None),
        (log(), assigned(HERE), None),
        (log(), assigned(GONE), "offline-assigned"),
        (log(isr=(1,), leader=1), assigned(GONE), None),
        (log(isr=(1,), leader=-1), assigned(GONE), "offline-assigned"),
        (log(), beat(), None),
        (log(), beat(GONE, THERE), None),
        (log(), beat(HERE, THERE), "all-offline"),
        (fenced(), beat(THERE), "offline-elected"),
        (fenced(), beat(GONE), None),
        (log(), grown(3), None),
        (uneven(), grown(3), "uneven-growth"),
        (uneven(), grown(2), None),
    ],
)
def test_only_what_differs_for_a_known_reason_is_passed_over(
    names: Names, operation: Operation, row: str | None
) -> None:
    excuses = Excuses()
    assert excuses.passes(operation, names) is (row is not None)
    assert [*excuses.counts] == ([] if row is None else [row])


def test_what_a_history_did_not_make_is_a_stranger() -> None:
    made = grammar.known_bytes("incarnation", 1, 0)
    ours = [
        r.TopicRecord(name="oracle-a", topic_id=HERE),
        r.RegisterBrokerRecord(broker_id=1, incarnation_id=made),
        r.AccessControlEntryRecord(id=HERE, resource_name="*"),
    ]
    others = [
        r.TopicRecord(name="orders", topic_id=THERE),
        r.RegisterBrokerRecord(broker_id=1, incarnation_id=HERE),
        r.AccessControlEntryRecord(id=GONE, resource_name="orders"),
    ]
    gone = [
        r.RemoveTopicRecord(topic_id=THERE),
        r.UnregisterBrokerRecord(broker_id=1),
        r.RemoveAccessControlEntryRecord(id=GONE),
    ]
    assert strangers(ours) == []
    assert strangers([*ours, *others]) == ["a topic, orders", "a broker, 1", "an ACL, of orders"]
    assert strangers([*ours, *others, *gone]) == []
