"""A client of the active controller, as an admin client with ``bootstrap.controllers`` does.

It knows all controllers, has a connection to each that it has asked, and asks the one that it takes
for the leader. As long as it knows none, it waits.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

from emulator.simulation.broker_settings import REQUEST_MS
from emulator.simulation.caller import Caller, OnAnswer
from emulator.simulation.network import Address, Network
from emulator.simulation.scheduler import MS, Scheduler

LOOK_MS: Final = 50
"""How often it looks whether a leader is known."""


class LeaderCaller:
    """See the module's docstring.

    Args:
        name: of the parties.
        addresses: of all controllers; a single one is not asked whether it leads.
        leader: where the leader is, as far as it is known.
        scheduler: the clock.
        network: between all of them.
    """

    def __init__(
        self,
        name: str,
        addresses: Sequence[Address],
        leader: Callable[[], Address | None],
        scheduler: Scheduler,
        network: Network,
    ) -> None:
        self._leader = leader if len(addresses) > 1 else lambda: addresses[0]
        self._scheduler = scheduler
        self._over = False
        self._callers = {
            address: Caller(f"{name} {at}" if at else name, address, REQUEST_MS, scheduler, network)
            for at, address in enumerate(addresses)
        }

    def ask(
        self, message: Any, version: int, on_answer: OnAnswer, left_ms: int = REQUEST_MS
    ) -> None:
        """Send a request, as soon as a leader is known; without an answer if none is in time."""
        address = self._leader()
        if self._over or (address is None and left_ms <= 0):
            on_answer(None)
        elif address is None:
            self._scheduler.after(
                LOOK_MS * MS, lambda: self.ask(message, version, on_answer, left_ms - LOOK_MS)
            )
        else:
            self._callers[address].ask(message, version, on_answer)

    def end(self) -> None:
        """Its process is dead: it waits for no answer any more."""
        self._over = True
        for caller in self._callers.values():
            caller.end()
