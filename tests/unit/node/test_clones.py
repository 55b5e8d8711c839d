"""Which requests are of a second process, and how often that is said; the inquiry stands in."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from emulator.node.inquiry import VoterAnswer
from emulator.node.peers import SAID_EVERY_MS, SUSPECTS_MAX, ClonedVoters
from emulator.seam import Effect, Log
from wire import messages as m
from wire.errors import ErrorCode

T = 1_000_000
KNOWN = "a" * 16
TWICE = "a voter was started twice"


class Stage:
    """Voters 2 and 3; the process that answers at the address of 2 is ``KNOWN``."""

    def __init__(self, process: str = KNOWN, asked_ms: int = T) -> None:
        self.asked: list[int] = []
        self.voters = {
            2: VoterAnswer(process=process, process_asked_ms=asked_ms),
            3: VoterAnswer(process="b" * 16, process_asked_ms=asked_ms),
        }
        raft: Any = SimpleNamespace(
            config=SimpleNamespace(voters={2: ("host-2", 9093), 3: ("host-3", 9093)})
        )
        inquiry: Any = SimpleNamespace(voters=self.voters, ask_again=self.asked.append)
        self.clones = ClonedVoters(raft, inquiry)

    def ask(self, process: str, now_ms: int, voter: int = 2, message: object = None) -> Any:
        client = f"raft-client-{voter}.{process}"
        return self.clones.refusal(client, message or m.VoteRequest(), now_ms)


def _fields(effects: list[Effect]) -> list[dict[str, object]]:
    return [one.fields for one in effects if isinstance(one, Log)]


@pytest.mark.parametrize(
    ("client", "message"),
    [
        (None, m.VoteRequest()),
        ("", m.VoteRequest()),
        ("raft-client-2", m.VoteRequest()),
        (f"raft-client-2.{'c' * 15}", m.VoteRequest()),
        (f"raft-client-2.{'c' * 17}", m.VoteRequest()),
        (f"raft-client-2.{'C' * 16}", m.VoteRequest()),
        (f"raft-client-9.{'c' * 16}", m.VoteRequest()),
        (f"raft-client-2.{KNOWN}", m.VoteRequest()),
        (f"raft-client-2.{'c' * 16}", m.ApiVersionsRequest()),
        (f"raft-client-2.{'c' * 16}", m.DescribeQuorumRequest()),
    ],
)
def test_what_proves_nothing(client: str | None, message: object) -> None:
    stage = Stage(asked_ms=2 * T)
    assert stage.clones.refusal(client, message, T) is None
    assert stage.clones.refusal(client, message, 3 * T) is None
    assert stage.asked == []
    assert stage.clones.take_lines() == []


@pytest.mark.parametrize(("asked_ms", "refused"), [(T - 1, False), (T, False), (T + 1, True)])
def test_an_answer_to_a_question_that_was_asked_later_proves_it(
    asked_ms: int, refused: bool
) -> None:
    stage = Stage(asked_ms=T - 1)
    assert stage.ask("c" * 16, T) is None
    assert stage.asked == [2]
    stage.voters[2].process_asked_ms = asked_ms
    answer = stage.ask("c" * 16, T + 5)
    assert (answer is not None) is refused
    assert stage.asked == ([2] if refused else [2, 2])
    if refused:
        assert answer.error_code == ErrorCode.DUPLICATE_VOTER
        (said,) = _fields(stage.clones.take_lines())
        assert said["voter"] == 2
        assert said["address"] == "host-2:9093"
        assert (said["process"], said["refused"]) == (KNOWN, "c" * 16)
    assert stage.clones.take_lines() == []


@pytest.mark.parametrize(
    "request_", [m.FetchRequest(), m.BeginQuorumEpochRequest(), m.EndQuorumEpochRequest()]
)
def test_each_request_of_voters_is_refused(request_: object) -> None:
    stage = Stage(asked_ms=T + 1)
    answer = stage.ask("c" * 16, T, message=request_)
    assert answer.error_code == ErrorCode.DUPLICATE_VOTER


def test_who_turns_out_to_be_the_voter_is_no_suspect_any_more() -> None:
    stage = Stage(asked_ms=T - 1)
    assert stage.ask("c" * 16, T) is None
    stage.voters[2].process = "c" * 16
    assert stage.ask("c" * 16, T + 1) is None
    stage.voters[2].process, stage.voters[2].process_asked_ms = KNOWN, T + 2
    assert stage.ask("c" * 16, T + 3) is None, "it is asked about again from now on"
    stage.voters[2].process = ""
    assert stage.ask("c" * 16, T + 4) is None


def test_of_many_suspects_of_a_voter_the_oldest_are_kept() -> None:
    stage = Stage(asked_ms=T - 1)
    names = [f"{at:016x}" for at in range(SUSPECTS_MAX + 2)]
    for name in names:
        assert stage.ask(name, T) is None
    assert stage.ask(names[0], T, voter=3) is None
    stage.voters[2].process_asked_ms = T + 1
    refused = [name for name in names if stage.ask(name, T + 1) is not None]
    # A new one takes the place of the newest.
    assert names[0] in refused
    assert len(refused) < len(names)


def test_it_is_said_once_a_minute() -> None:
    stage = Stage(asked_ms=9 * T)
    times = (0, SAID_EVERY_MS - 1, SAID_EVERY_MS, SAID_EVERY_MS + 1, 2 * SAID_EVERY_MS)
    said = []
    for after_ms in times:
        assert stage.ask("c" * 16, T + after_ms) is not None
        said.append([one.event for one in stage.clones.take_lines() if isinstance(one, Log)])
    assert said == [[TWICE], [], [TWICE], [], [TWICE]]


def test_the_refused_one_says_so_once_a_minute() -> None:
    stage = Stage()
    refusal = m.VoteResponse(error_code=ErrorCode.DUPLICATE_VOTER)
    said = []
    for after_ms in (0, SAID_EVERY_MS - 1, SAID_EVERY_MS):
        stage.clones.answered(refusal, 3, T + after_ms)
        said.append(len(fields := _fields(stage.clones.take_lines())))
        assert all(one["by"] == 3 for one in fields)
    assert said == [1, 0, 1]
    for other in (m.VoteResponse(), m.VoteResponse(error_code=1), None):
        stage.clones.answered(other, 3, 9 * T)
    assert stage.clones.take_lines() == []
