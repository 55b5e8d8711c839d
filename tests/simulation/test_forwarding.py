"""Clients ask through brokers while controllers come and go."""

import pytest

from emulator.simulation.checkers.answers import error_codes
from emulator.simulation.checkers.base import Checker
from emulator.simulation.models.broker import BrokerAsked
from emulator.simulation.models.broker_settings import REQUEST_MS
from emulator.simulation.scenarios.scenario import Scenario
from wire.errors import ErrorCode

SLACK_MS = 100
"""A broker looks for its controller this often."""


class Clients(Checker):
    """Counts what became of requests that a broker passed on."""

    def __init__(self, world):
        super().__init__(world)
        self.done_again = 0
        """Done, though the broker had to look for the controller again."""
        self.over = 0
        """Answered that their time was over, by a broker that had looked until then."""

    def passed_on(self, asked: BrokerAsked) -> None:
        codes = error_codes(asked.answer)
        self.done_again += asked.repeated and codes == {ErrorCode.NONE}
        late = asked.waited_ms is not None and asked.waited_ms >= REQUEST_MS - SLACK_MS
        self.over += late and ErrorCode.REQUEST_TIMED_OUT in codes


def away(world, for_ms):
    """The controller goes down and is started again later."""
    world.active.restarts = False
    world.process.crash()

    def again():
        world.active.restarts = True
        world.start_process(world.active)

    world.after_ms(for_ms, again)


@pytest.mark.requirement("I14")
@pytest.mark.parametrize("seed", range(2))
def test_a_broker_looks_for_the_controller_until_the_time_of_a_request_is_over(simulator, seed):
    """One is deposed and answers that it is not the controller; then there is none for too long."""
    run = simulator(
        seed,
        Scenario(
            faults=("epoch-bumped", "controller-crash", "epoch-bumped"),
            changes=60,
            change_every_ms=100,
            faults_within_ms=4_000,
        ),
    )
    clients = Clients(run.world)
    run.world.onlookers.append(clients)
    run.world.awaited.when(
        "DUAL_WRITE",
        lambda: run.world.after_ms(5_000, lambda: away(run.world, REQUEST_MS + 2_000)),
    )
    run.run()
    assert clients.done_again > 0
    assert clients.over > 0


class Refused(Checker):
    """Counts the clients that were told of an unknown error."""

    count = 0

    def passed_on(self, asked):
        self.count += ErrorCode.UNKNOWN_SERVER_ERROR in error_codes(asked.answer)


@pytest.mark.requirement("I15")
def test_a_client_whose_envelope_was_refused_is_told_of_an_unknown_error(simulator):
    """The checker `refused-unnamed` holds that none is told that the broker lacks a right."""
    run = simulator(1, Scenario(changes=60, envelope_refusals=0.3))
    refused = Refused(run.world)
    run.world.onlookers.append(refused)
    run.run()
    assert refused.count > 5
