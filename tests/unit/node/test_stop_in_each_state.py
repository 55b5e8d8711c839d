"""A stop at each answer of ZooKeeper in a takeover, whatever becomes of the ones in flight."""

from __future__ import annotations

import random
from functools import cache
from typing import Final, NamedTuple

import pytest

from emulator.config import load
from emulator.metadata.migration_state import MigrationState
from emulator.migration.dual_write.modes import Mode
from emulator.migration.states import State
from emulator.node.machine import Node
from emulator.node.stopping import DRAIN_MS_MAX
from emulator.raft.format import MetaProperties
from emulator.seam import Close, Effect, Event, Halt, Received, Send
from tests.kit.joined import Party
from tests.unit.broker.joined_brokers import CLUSTER_ID, CONTROLLER
from tests.unit.broker.zookeeper_stage import MIGRATING, OF_THE_CONTROLLER, ZooKeeperStage

READ_TIMEOUT_MS: Final = 18_000
"""zookeeper.session.timeout.ms: after less a client takes the silence for a lost connection."""


class Found(NamedTuple):
    """What a node was doing."""

    state: State
    owes: bool
    """Whether ZooKeeper is to get what the log has: it has a copy, and the claim is made."""
    in_flight: int


def found(node: Node) -> Found:
    """What it is doing."""
    assert node.zk is not None
    assert node.driver is not None
    copied = node.history.tip.migration_state is MigrationState.MIGRATION
    claimed = node.driver.write_behind.mode is not Mode.STOPPED
    return Found(node.driver.state, copied and claimed, node.zk.in_flight_count)


class Takeover(ZooKeeperStage):
    """A controller takes over a small cluster: for the first time, or ``again`` in its next life.

    It is stopped after that many answers of ZooKeeper, which does ``then`` what its name says:
    "answers", "lost" (the next answer is lost with its connection), or "silent".
    """

    def __init__(self, *, again: bool, stop_at: int = 0, then: str = "answers") -> None:
        super().__init__()
        self.had_a_cluster(a={0: [1], 1: [1]}, b={0: [1]})
        self.seen: list[Found] = []
        """At each answer before the stop, and at the end."""
        self.stopped_ms = self.ended_ms = -1
        self._stop_at, self._then = stop_at, then
        self._now = "answers"
        self._answer, self.zookeeper.machine.step = self.zookeeper.machine.step, self._serve  # type: ignore[method-assign]
        node = self.controller()
        self.party = self.joined.parties[-1]
        if again:
            self.running(1, raw=MIGRATING)
            self.until_dual_write(node)
            self.end()
            node = self.begin()
        self._watch(node)
        if again:
            self.party = self._join(node)
        else:
            self.running(1, raw=MIGRATING)

    def begin(self) -> Node:
        """The next life on the same folder, not started yet."""
        return Node(
            load.load(OF_THE_CONTROLLER)[0],
            MetaProperties(CLUSTER_ID, 3000, bytes(15) + b"x"),
            self.party.files,
            rng=random.Random(2),
            stamp=lambda: self.joined.now_ms * 1_000_000,
            new_conn=self.joined.new_conn,
            now_ms=self.joined.now_ms,
        )

    def end(self) -> None:
        """The process is gone, and its session."""
        self.joined.leave(self.party)
        self.joined.wait(READ_TIMEOUT_MS)

    def until_dual_write(self, node: Node) -> None:
        driver = node.driver
        assert driver is not None
        self.joined.until(
            lambda: driver.state is State.DUAL_WRITE and driver.write_behind.idle, 120_000
        )

    def begin_again(self) -> None:
        """After the stop: the next life comes to dual write."""
        self._now = "answers"
        self.end()
        node = self.begin()
        self.party = self._join(node)
        self.until_dual_write(node)
        assert len(node.controller.stable.topics) == 2

    def _join(self, node: Node) -> Party:
        return self.joined.join("controller", node, {CONTROLLER: "CONTROLLER"}, self.party.files)

    def _serve(self, events: list[Event], now_ms: int) -> list[Effect]:
        effects = self._answer(events, now_ms)
        if self._now == "answers" or not any(isinstance(one, Send) for one in effects):
            return effects
        ended = [one.conn for one in effects if isinstance(one, Send)]
        if self._now == "silent":
            return []
        self._now = "answers"
        for conn in ended:
            self.zookeeper.machine.model.disconnected(conn)
        return [Close(conn) for conn in ended]

    def _watch(self, node: Node) -> None:
        step, zk = node.step, node.zk
        assert zk is not None

        def stepped(events: list[Event], now_ms: int) -> list[Effect]:
            answers = [one for one in events if isinstance(one, Received) and zk.owns(one.conn)]
            effects = step(events, now_ms)
            if answers and self.stopped_ms < 0:
                self.seen.append(found(node))
                if len(self.seen) == self._stop_at:
                    self.stopped_ms, self._now = now_ms, self._then
                    effects += node.shutdown(now_ms)
            if any(isinstance(one, Halt) for one in effects):
                self.ended_ms = now_ms
                self.seen.append(found(node))
            return effects

        node.step = stepped  # type: ignore[method-assign]


@cache
def answers(*, again: bool) -> list[Found]:
    """What a takeover is doing at each answer, with something more in flight, by the first ones."""
    whole = Takeover(again=again)
    whole.joined.wait(3_000)
    return whole.seen


STATES: Final = (
    (False, State.WAIT_FOR_BROKERS),
    (False, State.BECOME_CONTROLLER),
    (False, State.ZK_MIGRATION),
    (False, State.SYNC_KRAFT_TO_ZK),
    (True, State.UNINITIALIZED),
    (True, State.BECOME_CONTROLLER),
    (True, State.SYNC_KRAFT_TO_ZK),
)


@pytest.mark.parametrize("then", ["answers", "lost", "silent"])
@pytest.mark.parametrize(("again", "state"), STATES)
def test_a_stop_waits_for_what_zookeeper_is_owed_and_for_nothing_else(
    again: bool, state: State, then: str
) -> None:
    seen = answers(again=again)
    stops = [at for at, one in enumerate(seen, 1) if one.state is state and one.in_flight]
    for at in stops[-3 if state is State.BECOME_CONTROLLER else -1 :]:
        stage = Takeover(again=again, stop_at=at, then=then)
        stage.joined.wait(3_000 + DRAIN_MS_MAX)
        halt, owes = stage.party.halt, stage.seen[-1].owes
        assert halt is not None
        assert halt.exit_code == (then == "silent" if owes else again), halt
        took_ms = stage.ended_ms - stage.stopped_ms
        if then == "silent" and owes:
            assert took_ms == DRAIN_MS_MAX, halt
        else:
            assert took_ms <= (READ_TIMEOUT_MS if then == "silent" else 1_000), halt
        stage.begin_again()
    assert stops
