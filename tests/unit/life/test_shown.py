"""Two brokers that show their clients something else are named, with what differs."""

from __future__ import annotations

import copy

from bench.life.shown import unequal


def answer():
    partition = {"leader": 1, "leader epoch": 4, "isr": [0, 1]}
    return {
        "cluster": "c",
        "brokers": {0: ("h", 1, "r0"), 1: ("h", 2, "r1")},
        "topics": {"t": {"id": b"1", "partitions": {0: partition}}},
    }


def test_equal_answers_have_no_difference():
    assert unequal({0: answer(), 1: answer(), 2: answer()}) == []


def test_each_difference_is_named():
    other = copy.deepcopy(answer())
    other["topics"]["t"]["partitions"][0]["leader epoch"] = 5
    del other["brokers"][1]
    assert unequal({0: answer(), 2: other}) == [
        "broker 0 and broker 2: brokers 1: ('h', 2, 'r1'), None",
        "broker 0 and broker 2: topics t partitions 0 leader epoch: 4, 5",
    ]
