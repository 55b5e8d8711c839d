"""The brokers in ZooKeeper mode for which something waits, and that this controller cannot reach.

A broker connects to the controllers, so it registers and heartbeats where they cannot connect to
it: a firewall, a listener's address that only brokers know, a login that it refuses. It is told
nothing then, and goes on with what it knows.
"""

from __future__ import annotations

from collections.abc import Iterable

from emulator.config.listeners import HostPort
from emulator.migration.status import Waiting
from emulator.migration.taking_over.preconditions import Reason, Why
from emulator.net.outcomes import Answered, Broken, EndedBy
from emulator.seam import Effect, Log


class Unreached:
    """Follows the connections. ``waiting``: the brokers, and why, for ``/status``."""

    def __init__(self) -> None:
        self._brokers: dict[int, Waiting] = {}

    @property
    def waiting(self) -> tuple[Waiting, ...]:
        """One reason for each broker whose last connection ended before it had answered all."""
        return tuple(self._brokers[broker_id] for broker_id in sorted(self._brokers))

    def follow(
        self, broker_id: int, at: HostPort, turns: Iterable[object], now_ms: int, *, waits: bool
    ) -> list[Effect]:
        """Take what happened on the connection to a broker; a line is logged once.

        Args:
            broker_id: the broker.
            at: its address.
            turns: in their order.
            now_ms: the time.
            waits: whether something is still to be told.
        """
        effects: list[Effect] = []
        for turn in turns:
            if isinstance(turn, Answered):
                self.forget(broker_id)
            elif isinstance(turn, Broken) and waits and turn.by is not EndedBy.NONSENSE:
                effects += self._broken(broker_id, at, turn, now_ms)
        return effects

    def _broken(self, broker_id: int, at: HostPort, ended: Broken, now_ms: int) -> list[Effect]:
        known = self._brokers.get(broker_id)
        since_ms = now_ms if known is None else known.since_ms
        self._brokers[broker_id] = Waiting(_reason(broker_id, at, ended), since_ms)
        if known is not None:
            return []
        about: dict[str, object] = {"broker": broker_id, "at": str(at), "why": ended.why}
        return [Log("warning", "a broker cannot be told anything", about)]

    def forget(self, broker_id: int) -> None:
        """It has answered, or need not be told anything."""
        self._brokers.pop(broker_id, None)


def _reason(broker_id: int, at: HostPort, ended: Broken) -> Reason:
    refused = "refuses the login of this controller" if ended.by is EndedBy.REFUSAL else ""
    text = (
        f"broker {broker_id} {refused or 'cannot be reached'} at {at}, and is told nothing: "
        f"{ended.why}. Controllers connect to each broker in ZooKeeper mode, at its listener of "
        "inter.broker.listener.name"
    )
    return Reason(Why.BROKER_UNREACHABLE, str(broker_id), text)
