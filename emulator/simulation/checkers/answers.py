"""The answers that clients and brokers receive."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from emulator.migration.authority import Authority
from emulator.seam import Effect, Log
from emulator.simulation.checkers.base import Checker
from emulator.simulation.models.broker import FAILED, BrokerAsked, SimulatedBroker
from emulator.simulation.models.broker_settings import REQUEST_MS
from emulator.simulation.models.process import Process
from emulator.simulation.violation import Violated, ensure
from wire.errors import ErrorCode

TIMED_OUT: Final = ErrorCode.REQUEST_TIMED_OUT
LATEST_MS: Final = 2 * REQUEST_MS + 1_000
"""A request may wait so long, be sent then, and wait as long for its answer."""

TRANSIENT: Final = frozenset({"DUPLICATE_BROKER_REGISTRATION"})
"""The life before has not ended for the controller yet; the broker asks again."""
OUT: Final = frozenset({Authority.REFUSED, Authority.DEPOSED})
BY_OTHERS: Final = ("epoch-missing", "claim-taken")
"""Troubles of somebody else that refuse a controller, until an operator mends them."""


class HandlersCope(Checker):
    """No handler raises, and every answer fits its version: else a caller gets no answer."""

    name = "handlers-cope"

    def stepped(self, process: Process, effects: Sequence[Effect]) -> None:
        """Look for the log line of a request that failed."""
        for effect in effects:
            if isinstance(effect, Log) and effect.event == FAILED:
                raise Violated(self.name, f"{process.name}: {dict(effect.fields)}")


class AnsweredIsCommitted(Checker):
    """Invariant 5: every change that was acknowledged is in the log; later answers hold too."""

    name = "answered-is-committed"

    def granted(self, broker: SimulatedBroker) -> None:
        """An ISR that a leader was granted is in the log."""
        for hosted in broker.replicas.led:
            known = self.world.facts.partition(hosted.topic_id, hosted.key[1])
            late = known is not None and known.partition_epoch < hosted.partition.partition_epoch
            ensure(not late, self.name, f"{broker.name} leads {hosted}, the log says {known}")

    def unrest(self) -> str:
        """No client waits for an answer."""
        waiting = self.world.traffic.waiting
        return f"answers are missing: {waiting}" if waiting else ""

    def ended(self) -> None:
        """Compare what clients were promised."""
        self.world.traffic.load.compare()


class PassedOnUntilTimeout(Checker):
    """I14: a broker looks for the controller until the time of a request is over.

    So no client gets NOT_CONTROLLER. None gets REQUEST_TIMED_OUT before the time of its request is
    over, and none waits for longer.
    """

    name = "passed-on-until-timeout"

    def passed_on(self, asked: BrokerAsked) -> None:
        """Judge what a client got, and when."""
        what = f"{type(asked.message).__name__} through {asked.broker.name}"
        answer = asked.answer
        codes = error_codes(answer)
        ensure(ErrorCode.NOT_CONTROLLER not in codes, self.name, f"{what}: NOT_CONTROLLER")
        if answer is None or asked.waited_ms is None:
            return
        waited = f"{what}: answered after {asked.waited_ms} ms"
        ensure(asked.waited_ms <= LATEST_MS, self.name, waited)
        least_ms = min(getattr(asked.message, "timeout_ms", 0), REQUEST_MS)
        early = TIMED_OUT in codes and asked.waited_ms < least_ms
        ensure(not early, self.name, f"{waited}: timed out")


class RefusedUnnamed(Checker):
    """I15: a client sees no error about a right of its broker; it gets an unknown error instead.

    Clients may do everything here, so CLUSTER_AUTHORIZATION_FAILED can only be the broker's.
    """

    name = "refused-unnamed"

    def passed_on(self, asked: BrokerAsked) -> None:
        """Judge what a client got."""
        codes = error_codes(asked.answer)
        what = f"{type(asked.message).__name__} through {asked.broker.name}: {codes}"
        ensure(ErrorCode.CLUSTER_AUTHORIZATION_FAILED not in codes, self.name, what)
        may = self.world.scenario.envelope_refusals > 0
        ensure(may or ErrorCode.UNKNOWN_SERVER_ERROR not in codes, self.name, what)


def error_codes(message: Any) -> set[int]:
    """Every error code in a response, at any depth."""
    found: set[int] = set()
    for name in getattr(type(message), "__struct_fields__", ()):
        value = getattr(message, name)
        if name == "error_code":
            found.add(value)
        elif isinstance(value, list):
            found.update(*map(error_codes, value))
    return found


class NobodyRefused(Checker):
    """No broker is refused, no controller refused or deposed, by an operator who follows advice.

    Not judged: brokers that somebody else has configured or restarted wrongly, and controllers once
    ``/controller`` was given back.
    """

    name = "nobody-refused"

    def stepped(self, process: Process, effects: Sequence[Effect]) -> None:
        """Look at what a controller has refused, and whether it is refused itself."""
        del effects
        node, world = process.node, self.world
        for one in node.controller.surroundings.registrations.refusals():
            cause = one.cause
            right = cause.code in TRANSIENT or cause.broker_id in world.lives.blamed
            why = f"{process.name} refuses broker {cause.broker_id}: {cause.code} {cause.text}"
            ensure(right, self.name, why)
        if node.driver is not None and node.driver.authority in OUT:
            why = f"{process.name} is {node.driver.authority.value}: {process.refuses_because}"
            others = any(name in one for one in world.scenario.faults for name in BY_OTHERS)
            ensure(others or world.rolled_back or world.going_back, self.name, why)
