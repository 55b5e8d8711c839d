"""An operator that does what ``next_steps`` says, and nothing else, brings a migration to its end.

From the first start on, and from states into which faults and mistakes have brought it.
"""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from emulator.metadata.migration_state import MigrationState
from emulator.migration.taking_over.preconditions import Why
from emulator.node import introspection
from emulator.operations.next_steps import Action, BrokerMode, NextStep, next_steps
from tests.unit.node.migrating_quorum import BROKER
from tests.unit.node.test_quorum import IDS
from tests.unit.node.test_quorum_finalising import FinalisingQuorum
from wire import messages as m

STEPS_MAX = 60


class Operated(FinalisingQuorum):
    """A quorum with one broker, and its operator. ``taken``: the steps, without those that wait."""

    def __init__(self, *, level: int) -> None:
        super().__init__(level=level)
        self.taken: list[NextStep] = []
        self.compared = False
        self.mode: BrokerMode | None = None
        """In which the broker runs; None: it is down, or without the migration."""

    def look(self) -> NextStep:
        """What the first controller that runs says, and then the one that it names."""
        asked = next(iter(self.parties))
        for _ in IDS:
            document = json.loads(
                json.dumps(introspection.status(self.node(asked), self.joined.now_ms))
            )
            if document["migration"] is not None:
                waiting = document["migration"]["waiting"]
                # The broker here registers and does no more: nobody listens at its address.
                kept = [one for one in waiting if one["why"] != Why.BROKER_UNREACHABLE.value]
                document["migration"]["waiting"] = kept
            step, *_ = next_steps(document, compared=self.compared)
            if step.action is not Action.ASK:
                return step
            assert step.node is not None
            asked = step.node
        raise AssertionError("no controller answers for the quorum")

    def beat(self) -> None:
        """The broker sends a heartbeat, if it runs."""
        if self.mode is None or not self.active():
            return
        node = self.node(self.active()[0])
        known = node.controller.stable.brokers.get(BROKER)
        if known is None:
            return
        request = m.BrokerHeartbeatRequest(
            broker_id=BROKER,
            broker_epoch=known.epoch,
            current_metadata_offset=node.controller.stable.offset,
            want_fence=False,
            want_shut_down=False,
        )
        asker = self.joined.ask((f"host-{self.active()[0]}", 9093))
        asker.send(request, 0)
        self.joined.settle()

    def take(self, step: NextStep) -> None:
        """Do it, as an operator would."""
        if step.action not in {Action.WAIT, Action.NOTHING}:
            self.taken.append(step)
        match step.action:
            case Action.DIFF:
                assert self.differences() == {}
                self.compared = True
            case Action.START_CONTROLLER:
                assert step.node is not None
                if step.node not in self.parties:
                    if step.flag is not None:
                        (self.without_flag.discard if step.flag else self.without_flag.add)(
                            step.node
                        )
                    self.start(step.node)
            case Action.RESTART_CONTROLLER:
                assert step.node is not None
                assert step.flag is not None
                self.stop(step.node)
                self.restart(step.node, flag=step.flag)
            case Action.START_BROKER | Action.RESTART_BROKER:
                if step.action is Action.RESTART_BROKER or self.mode is None:
                    self.mode = None
                    self.joined.wait(10_000)
                    kraft = step.mode is BrokerMode.KRAFT
                    if not kraft:
                        self.register()
                    elif self.register_kraft() != 0:
                        return
                    self.mode = step.mode
            case Action.WAIT | Action.REPAIR | Action.NOTHING:
                pass
            case _:
                raise AssertionError(step.text)

    def operate(self, until: Callable[[NextStep], bool]) -> None:
        """Look and act, until a step is there."""
        for _ in range(STEPS_MAX):
            for _ in range(4):
                self.beat()
                self.joined.wait(1_000)
            step = self.look()
            if until(step):
                return
            self.take(step)
        raise AssertionError([one.what for one in self.taken], step.text)


def over(step: NextStep) -> bool:
    return step.action is Action.NOTHING


def kraft_begins(step: NextStep) -> bool:
    return step.mode is BrokerMode.KRAFT


def controllers_begin(step: NextStep) -> bool:
    return step.flag is False


@pytest.mark.parametrize("level", [14, 21])
def test_from_the_start_to_the_end_each_step_is_taken_once(level: int) -> None:
    quorum = Operated(level=level)
    quorum.operate(over)
    assert quorum.states() == {MigrationState.POST_MIGRATION}
    taken = [(one.action, one.mode, one.flag) for one in quorum.taken]
    assert [one for one in taken if one[0] is not Action.REPAIR] == [
        (Action.RESTART_BROKER, BrokerMode.MIGRATION, None),
        (Action.DIFF, None, None),
        (Action.RESTART_BROKER, BrokerMode.KRAFT, None),
        *[(Action.RESTART_CONTROLLER, None, False)] * 3,
    ]
    assert {one.node for one in quorum.taken if one.flag is False} == set(IDS)


@pytest.mark.parametrize("level", [14, 21])
@pytest.mark.parametrize("begins", [kraft_begins, controllers_begin])
@pytest.mark.parametrize("leader", [True, False], ids=["leader", "follower"])
def test_a_voter_that_is_killed_is_started_before_anything_else(
    level: int, begins: Callable[[NextStep], bool], leader: bool
) -> None:
    quorum = Operated(level=level)
    quorum.operate(begins)
    count = len(quorum.taken)
    victim = quorum.leader if leader else next(one for one in IDS if one != quorum.leader)
    quorum.kill(victim)
    quorum.joined.wait(10_000)
    quorum.operate(over)
    first = next(one for one in quorum.taken[count:] if one.action is not Action.START_BROKER)
    assert (first.action, first.node) == (Action.START_CONTROLLER, victim)
    assert quorum.states() == {MigrationState.POST_MIGRATION}


@pytest.mark.parametrize("level", [14, 21])
def test_controllers_that_lost_the_flag_too_early_get_it_back(level: int) -> None:
    quorum = Operated(level=level)
    quorum.operate(kraft_begins)
    leader = quorum.leader
    for each in (one for one in IDS if one != leader):
        quorum.stop(each)
        quorum.restart(each)
        quorum.joined.wait(3_000)
    count = len(quorum.taken)
    quorum.operate(kraft_begins)
    assert [(one.action, one.flag) for one in quorum.taken[count:]] == [
        (Action.RESTART_CONTROLLER, True)
    ] * 2
    quorum.operate(over)
    assert quorum.states() == {MigrationState.POST_MIGRATION}


@pytest.mark.parametrize("level", [14, 21])
def test_without_the_mark_a_controller_gets_the_flag_again(level: int) -> None:
    """The last controller with the flag was killed, and came back without it."""
    quorum = Operated(level=level)
    quorum.operate(controllers_begin)
    for each in sorted(IDS, key=lambda one: one == quorum.leader):
        if len(quorum.without_flag) < len(IDS) - 1:
            quorum.stop(each)
        else:
            quorum.kill(each)
            quorum.joined.wait(10_000)
        quorum.restart(each)
        quorum.joined.wait(3_000)
    assert quorum.states() == {MigrationState.MIGRATION}
    count = len(quorum.taken)
    quorum.operate(over)
    flags = [one.flag for one in quorum.taken[count:] if one.action is Action.RESTART_CONTROLLER]
    assert flags[0] is True
    assert quorum.states() == {MigrationState.POST_MIGRATION}
