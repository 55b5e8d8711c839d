"""Scripts as people write them: what is read, and what is refused by name."""

from __future__ import annotations

import json
import re

import pytest

from emulator.net.faults.entities import ENTITIES
from emulator.net.faults.fault import (
    DELAY_MS_MAX,
    TEXT_MAX,
    Fault,
    ScriptError,
    read_json,
    read_toml,
)
from emulator.net.faults.script import FaultScript
from wire.schema import declared_messages

TOML = """
[[fault]]
api = "CreateTopics"
error = "NOT_CONTROLLER"
times = 2

[[fault]]
api = "AlterPartition"
topic = "*"
partition = 3
error = "INELIGIBLE_REPLICA"
probability = 0.25
seed = 7

[[fault]]
api = "brokerheartbeat"
delay_ms = 500
executed = true
client_id = "0"
nth = 3
may_miss = true
"""
READ = [
    Fault(api="CreateTopics", error="NOT_CONTROLLER", times=2),
    Fault(
        api="AlterPartition",
        topic="*",
        partition=3,
        error="INELIGIBLE_REPLICA",
        probability=0.25,
        seed=7,
    ),
    Fault(api="brokerheartbeat", delay_ms=500, executed=True, client_id="0", nth=3, may_miss=True),
]


def test_a_script_is_read_from_toml_and_from_json() -> None:
    assert read_toml(TOML) == READ
    assert [one.key for one in READ] == [19, 56, 63]
    script = FaultScript()
    script.add(*READ)
    counts = {"calls", "fired", "unfit"}
    shown = [{k: v for k, v in one.items() if k not in counts} for one in script.status()]
    # What GET shows can be posted again.
    assert read_json(json.dumps({"fault": shown})) == READ
    assert read_toml("") == read_json("{}") == []


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ({"api": "CreateTopic"}, "no API of that name"),
        ({"api": "CreateTopics"}, "needs error, drop, silent or delay_ms"),
        ({"api": "CreateTopics", "error": "NOT_CONTROLER"}, "'NOT_CONTROLER' is no error of Kafka"),
        ({"api": "CreateTopics", "error": "NONE"}, "'NONE' is no error of Kafka"),
        ({"api": "CreateTopics", "error": "NOT_CONTROLLER", "drop": True}, "one of error, drop"),
        ({"api": "CreateTopics", "silent": True, "delay_ms": 5}, "cannot be late"),
        ({"api": "CreateTopics", "error": "NOT_CONTROLLER", "executed": True}, "is not executed"),
        ({"api": "CreateTopics", "drop": True, "message": "x"}, "a message needs an error"),
        ({"api": "BrokerHeartbeat", "drop": True, "topic": "a"}, "cannot be told by topic"),
        ({"api": "CreateTopics", "drop": True, "partition": 1}, "a partition needs a topic"),
        (
            {"api": "CreateTopics", "drop": True, "topic": "a", "partition": 1},
            "cannot be told by partition",
        ),
        ({"api": "CreateTopics", "drop": True, "probability": 0.5}, "belong together"),
        ({"api": "CreateTopics", "drop": True, "seed": 5}, "belong together"),
        (
            {"api": "CreateTopics", "drop": True, "probability": 1.5, "seed": 5},
            "probability is not",
        ),
        (
            {"api": "CreateTopics", "drop": True, "probability": float("nan"), "seed": 5},
            "probability is not",
        ),
        ({"api": "CreateTopics", "drop": True, "nth": 0}, "nth is not"),
        ({"api": "CreateTopics", "drop": True, "times": 0}, "times is not"),
        ({"api": "CreateTopics", "delay_ms": -1}, "delay_ms is not"),
        ({"api": "CreateTopics", "delay_ms": DELAY_MS_MAX + 1}, "delay_ms is not"),
        ({"api": "CreateTopics", "drop": True, "client_id": "x" * (TEXT_MAX + 1)}, "too long"),
        ({"api": "CreateTopics", "drop": True, "tims": 3}, "unknown field `tims`"),
        ({"api": "CreateTopics", "drop": "yes"}, "Expected `bool`"),
        ({"api": "CreateTopics", "drop": True, "nth": "3"}, "Expected `int"),
        ({"drop": True}, "missing required field `api`"),
        ({"api": 19, "drop": True}, "Expected `str`"),
        ("CreateTopics", "Expected `object`"),
    ],
)
def test_what_is_wrong_with_a_fault_is_said(given: object, why: str) -> None:
    text = json.dumps({"fault": [{"api": "DeleteTopics", "drop": True}, given]})
    with pytest.raises(ScriptError, match=re.escape(why)) as refused:
        read_json(text)
    assert str(refused.value).startswith("fault 2: ")


def test_a_fault_of_python_is_checked_alike() -> None:
    with pytest.raises(ScriptError, match="no API of that name"):
        Fault(api="CreateTopic", drop=True)


@pytest.mark.parametrize(
    "text",
    [
        "fault = 3",
        "faults = []",
        "[[fault]]\napi = ",
        "x = " + "[" * 50_000,
        "fault = [" + '{api="CreateTopics",drop=true},' * 1_001 + "]",
    ],
)
def test_hostile_toml_is_refused(text: str) -> None:
    with pytest.raises(ScriptError):
        read_toml(text)


@pytest.mark.parametrize(
    "text", ["[]", "3", '{"fault": {}}', "[" * 100_000, '{"a":' * 50_000, "9" * 9_000]
)
def test_hostile_json_is_refused(text: str) -> None:
    with pytest.raises(ScriptError):
        read_json(text)


def test_what_is_struck_are_fields_of_the_messages() -> None:
    requests = {
        one.key: set(kind.__struct_fields__)
        for kind, one in declared_messages().items()
        if one.kind == "request"
    }
    for key, one in ENTITIES.items():
        assert one.asked in requests[key]
        assert one.answered in one.response.__struct_fields__


def test_a_script_has_a_bound() -> None:
    script = FaultScript()
    one = Fault(api="CreateTopics", drop=True)
    script.add(*[one] * 1_000)
    with pytest.raises(ScriptError, match="at most"):
        script.add(one)
