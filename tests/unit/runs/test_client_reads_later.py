"""The client reads answers on which nothing depends after the load, and the others at once."""

from __future__ import annotations

from typing import Any

import pytest

from bench.runs.client import LostConnectionError, OpenLoop
from tests.unit.runs.test_client import Numbers, Server, played
from wire.errors import DecodeError


class Reading(Numbers):
    """Counts the answers that were read; answers that one must not be read fail."""

    def __init__(self, keys: int | None = None, bad: int | None = None) -> None:
        super().__init__(keys)
        self.read: list[int] = []
        self.bad = bad

    def answered(self, number: int, frame: bytes) -> int:
        assert int.from_bytes(frame[:4], "big") == number
        if number == self.bad:
            raise DecodeError("CreateTopicsResponse", 7, "", 0, "truncated")
        self.read.append(number)
        return number % 3


def loop_of(load: Any) -> OpenLoop:
    return played(Server(), OpenLoop(load, 30, 10_000, 4, "test"))


def test_creations_are_read_when_the_errors_are_asked_for_and_once() -> None:
    load = Reading()
    loop = loop_of(load)
    assert load.read == []
    assert [*loop.errors] == [number % 3 for number in range(30)]
    assert [row.error_code for row in loop.rows()] == [number % 3 for number in range(30)]
    assert sorted(load.read) == [*range(30)]


def test_changes_that_follow_each_other_are_read_at_once() -> None:
    load = Reading(keys=5)
    loop = loop_of(load)
    assert sorted(load.read) == [*range(30)]
    assert [*loop.errors] == [number % 3 for number in range(30)]


def test_an_answer_that_cannot_be_read_is_an_error_whenever_it_is_read() -> None:
    loop = loop_of(Reading(bad=7))
    with pytest.raises(LostConnectionError, match="cannot be read"):
        _ = loop.errors
    with pytest.raises(LostConnectionError, match="cannot be read"):
        loop_of(Reading(keys=5, bad=7))
