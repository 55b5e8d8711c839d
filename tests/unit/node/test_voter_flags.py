"""What a leader knows of the flags of the other voters; only this term's answers count."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from emulator.node.finalising import VoterFlags
from emulator.node.inquiry import VoterAnswer

EPOCH = 7


def _answer(epoch: int = EPOCH, asked_ms: int = 0, **more: Any) -> VoterAnswer:
    return VoterAnswer(epoch=epoch, asked_ms=asked_ms, **more)


def _flags(
    answers: dict[int, VoterAnswer] | None, progress: dict[int, int] | None = None
) -> tuple[VoterFlags, list[int]]:
    again: list[int] = []
    raft: Any = SimpleNamespace(
        leader_epoch=EPOCH,
        config=SimpleNamespace(voters={1: None, 2: None, 3: None}),
        progress={
            voter: SimpleNamespace(last_caught_up_ms=at_ms)
            for voter, at_ms in (progress or {}).items()
        },
    )
    inquiry: Any = SimpleNamespace(voters=answers, ask_again=again.append)
    return VoterFlags(raft, None if answers is None else inquiry), again


@pytest.mark.parametrize(
    ("answer", "heard"),
    [
        (_answer(migrating=True), {2: True}),
        (_answer(migrating=False), {2: False}),
        (_answer(migrating=True, levels=(1, 21)), {2: True}),
        (_answer(migrating=True, levels=(1, 9_999)), {2: True}),
        (_answer(migrating=True, failure="away"), {2: None}),
        (_answer(migrating=True, levels=(1, 8)), {2: None}),
        (_answer(EPOCH - 1, migrating=True), {}),
        (_answer(EPOCH + 1, migrating=True), {}),
    ],
)
def test_what_an_answer_says(answer: VoterAnswer, heard: dict[int, bool | None]) -> None:
    flags, _ = _flags({2: answer})
    assert flags.heard == heard
    assert flags.with_flag == [voter for voter, flag in heard.items() if flag]


def test_all_are_known_once_each_was_asked() -> None:
    assert not _flags({2: _answer(), 3: _answer(EPOCH - 1)})[0].complete
    flags, _ = _flags({2: _answer(migrating=True), 3: _answer(failure="away")})
    assert flags.complete
    assert flags.with_flag == [2]


def test_a_voter_alone_asks_nobody() -> None:
    flags, _ = _flags(None)
    assert flags.heard == {}
    assert flags.with_flag == []
    assert flags.asked_since(10**15)
    flags.ask_all()


def test_each_other_voter_is_asked_again() -> None:
    flags, again = _flags({2: _answer(), 3: _answer()})
    flags.ask_all()
    assert again == [2, 3]


@pytest.mark.parametrize(("since_ms", "caught_up"), [(99, True), (100, True), (101, False)])
def test_who_has_the_whole_log(since_ms: int, caught_up: bool) -> None:
    flags, _ = _flags({}, {2: 100})
    assert flags.caught_up(2, since_ms) is caught_up
    assert not flags.caught_up(3, since_ms)


@pytest.mark.parametrize(
    ("other", "since_ms", "asked"),
    [
        (_answer(asked_ms=60), 50, True),
        (_answer(asked_ms=60), 51, False),
        (_answer(asked_ms=49), 50, False),
        (_answer(EPOCH - 1, asked_ms=60), 50, False),
    ],
)
def test_whether_each_was_asked_since(other: VoterAnswer, since_ms: int, asked: bool) -> None:
    flags, _ = _flags({2: _answer(asked_ms=50), 3: other})
    assert flags.asked_since(since_ms) is asked
