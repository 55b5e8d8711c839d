"""A voter that stands still and goes on leaves a leader that never was silent."""

from __future__ import annotations

from collections import deque

import pytest

from emulator.seam import Event
from tests.kit.joined import Asker, Joined, Party
from tests.unit.node.test_quorum import IDS, Quorum


class Pausing(Joined):
    """What is sent to a paused machine waits for it."""

    def __init__(self) -> None:
        super().__init__()
        self.paused: Party | None = None
        self._kept: deque[tuple[Party | Asker, Event]] = deque()

    def alive(self) -> list[Party]:
        return [party for party in super().alive() if party is not self.paused]

    def settle(self) -> None:
        while self._waiting:
            party, event = self._waiting.popleft()
            if party is self.paused:
                self._kept.append((party, event))
                continue
            self._waiting, rest = deque([(party, event)]), self._waiting
            super().settle()
            self._waiting = deque([*rest, *self._waiting])

    def resume(self) -> None:
        """Its timers come first, then what was sent to it."""
        party, self.paused = self.paused, None
        self.perform(party, party.machine.step([], self.now_ms))
        self._waiting = deque([*self._kept, *self._waiting])
        self._kept.clear()
        self.settle()


@pytest.mark.parametrize("seconds", [2.5, 7.0])
def test_a_follower_that_stood_still_follows_on(seconds):
    joined = Pausing()
    quorum = Quorum(joined)
    leader = quorum.leader
    assert quorum.change(leader, "ann") == 0
    quorum.wait_equal()
    epoch = quorum.node(leader).raft.leader_epoch
    follower = next(each for each in IDS if each != leader)
    joined.paused = quorum.parties[follower]
    joined.wait(int(seconds * 1_000))
    assert quorum.change(leader, "bob") == 0
    joined.resume()
    joined.wait(5_000)
    assert quorum.leader == leader
    assert quorum.node(leader).raft.leader_epoch == epoch
    quorum.wait_equal()
