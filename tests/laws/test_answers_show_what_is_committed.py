"""An answer never shows what may still be lost: not what it appended, nor what it found.

An answer is decided on all that is appended. It is given when all of that is committed, or never:
what callers asked for, what they wait for no more, and what nobody asked for, as a fencing.
"""

from __future__ import annotations

from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from emulator.controller.queue.purgatory import Until
from emulator.controller.queue.writes import Writes
from emulator.controller.registry import handlers
from tests.kit.laws import examples
from tests.laws.admin_requests import SECRET, Admin
from tests.unit.controller.world import World, create, header
from wire import records as r

STEPS = (
    *Admin.KINDS,
    "create_topics",
    "heartbeat",
    "heartbeat",
    "time",
    "commit",
    "commit",
    "again",
)


class Story:
    """Requests, one of them again, while commits come late and sessions of brokers end."""

    def __init__(self, seed: int) -> None:
        self.rng = Random(seed)
        self.world = World(properties={"delegation.token.secret.key": SECRET})
        self.world.join(0, 1, 2)
        self.admin = Admin(self.rng, (0, 1, 2))
        self.last: object = None
        self.at_once = self.late = 0

    def step(self, name: str) -> None:
        world = self.world
        match name:
            case "commit":
                world.commit()
                world.answers()
            case "time":
                world.later(self.rng.choice((10, 3_000, 10_000)))
            case "heartbeat":
                broker_id = self.rng.randrange(3)
                offset = world.controller.stable.offset
                self.ask(world.heartbeat_of(broker_id, current_metadata_offset=offset))
            case "again":
                if self.last is not None:
                    self.ask(self.last)
            case _:
                self.last = self.admin.request(name, world.controller.tip)
                self.ask(self.last)

    def ask(self, message: Any) -> None:
        world = self.world
        found = self.appended
        answers = world.send(message, principal="User:alice", forwarded=True)
        if handlers()[header(message).api_key].read:
            return
        self.at_once += len(answers)
        self.late += not answers
        for answer in answers:
            shown = max(found, self.appended)
            assert shown < world.log.high_watermark, f"{answer} before {shown} is committed"

    @property
    def appended(self) -> int:
        """Offset of the last record that says anything."""
        known = [at for at, one, _ in self.world.log.records() if not isinstance(one, r.NoOpRecord)]
        return max(known, default=-1)


@pytest.mark.requirement("I05")
@examples(60)
@given(st.integers(0, 2**32), st.lists(st.sampled_from(STEPS), min_size=3, max_size=30))
def test_what_an_answer_shows_is_committed(seed: int, steps: list[str]) -> None:
    story = Story(seed)
    for name in steps:
        story.step(name)


def fenced() -> World:
    """Every broker is fenced because its time is over; nothing of that is committed."""
    world = World().join(0, 1)
    world.later(20_000)
    assert all(one.fenced for one in world.controller.tip.brokers.values())
    assert not any(one.fenced for one in world.controller.stable.brokers.values())
    return world


def test_a_refusal_because_of_a_fencing_waits_until_the_fencing_is_committed() -> None:
    world = fenced()
    assert world.send(create("t")) == []
    world.commit()
    (answer,) = world.answers()
    assert answer.topics[0].error_code != 0


def test_a_refusal_because_of_a_fencing_that_is_lost_is_never_given() -> None:
    world = fenced()
    assert world.send(create("t")) == []
    world.controller.resign(world.now_ms, 2)
    (answer,) = world.answers()
    assert answer.topics[0].error_code == 41  # NOT_CONTROLLER


def test_answers_at_once_are_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    def run() -> tuple[int, int]:
        at_once = late = 0
        for seed in range(5):
            story = Story(seed)
            for name in Random(seed).choices(STEPS, k=40):
                story.step(name)
            at_once, late = at_once + story.at_once, late + story.late
        return at_once, late

    assert min(run()) > 10
    with monkeypatch.context() as patched:
        patched.setattr(Writes, "_pending_offset", lambda self, until: None)
        with pytest.raises(AssertionError, match="is committed"):
            run()

    def asked_for(self: Writes, until: Until) -> int | None:
        return self.purgatory.highest_pending_offset(until)

    monkeypatch.setattr(Writes, "_pending_offset", asked_for)
    with pytest.raises(AssertionError, match="is committed"):
        run()
