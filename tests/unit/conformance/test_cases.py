"""What cases demand of answers that are made up: neither too much, nor nothing."""

from __future__ import annotations

import random

from bench.conformance.case import Facts, Stage, Where
from bench.conformance.cases.records import stored


def stage(here: Where, **facts: object) -> Stage:
    return Stage(Facts(**facts), here, "case", random.Random(1), {})


def test_topics_of_records_do_not_depend_on_defaults_of_the_broker() -> None:
    asked = next(stored(stage(Where.BROKER, brokers=(1,))))
    configs = {one.name: one.value for one in asked.request.topics[0].configs}
    assert configs["message.timestamp.type"] == "CreateTime"
    assert configs["cleanup.policy"] == "delete"
