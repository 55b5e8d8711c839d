"""The brokers in ZooKeeper mode for which something waits, and that do not answer.

One that was never connected is unreachable: a broker connects to the controllers, so it registers
and heartbeats where they cannot connect to it: a firewall, a listener's address that only brokers
know, a login that it refuses. One that was connected and gives no answer in time is slow. Either
goes on with what it knows.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from emulator.config.listeners import HostPort
from emulator.migration.status import Waiting
from emulator.migration.taking_over.preconditions import Reason, Why
from emulator.net.channel import Answered, Broken, EndedBy, Turn, Unanswered
from emulator.net.control import ControlRequest, ControlResponse, Told, api_of
from emulator.seam import Effect, Log
from emulator.znodes import controller
from wire.errors import ErrorCode

# The brokers to which our controller epoch is an old one: they refuse all control requests.
#
# They know a higher one from an earlier claim. A claim takes an epoch above all that ZooKeeper
# shows (``taking_over/claim.py``), so this happens only if ZooKeeper has forgotten claims: it was
# restored from an older state than our own znode allows to count from.


class Outdated:
    """Follows the brokers' answers. ``waiting``: the brokers, and what to do, for ``/status``."""

    def __init__(self) -> None:
        self._brokers: dict[int, Waiting] = {}

    @property
    def waiting(self) -> tuple[Waiting, ...]:
        """One reason for each broker whose last answer was a refusal of our epoch."""
        return tuple(self._brokers[broker_id] for broker_id in sorted(self._brokers))

    def answered(
        self, broker_id: int, request: ControlRequest, response: ControlResponse, now_ms: int
    ) -> None:
        """Take a broker's answer to a control request."""
        if response.error_code != ErrorCode.STALE_CONTROLLER_EPOCH:
            self._brokers.pop(broker_id, None)
        elif broker_id not in self._brokers:
            self._brokers[broker_id] = Waiting(_reason(broker_id, request), now_ms)

    def forget(self, broker_id: int) -> None:
        """There is no connection to this broker any more."""
        self._brokers.pop(broker_id, None)


def _reason(broker_id: int, request: ControlRequest) -> Reason:
    text = (
        f"broker {broker_id} knows a controller epoch above ours ({request.controller_epoch}) and "
        "refuses what it is told: ZooKeeper was restored from an older state. Stop this "
        f"controller, write the epoch that the broker knows into {controller.EPOCH_PATH} (its log "
        "names it as the latest known controller epoch) and start this controller again; or "
        "restart the broker, which then knows none"
    )
    return Reason(Why.STALE_CONTROLLER_EPOCH, str(broker_id), text, fatal=True)


class Unreached:
    """Follows the connections. ``waiting``: the brokers, and why, for ``/status``.

    Args:
        reply_ms: how long an answer is waited for.
        login_ms: how long one to a request of the login.
    """

    def __init__(self, reply_ms: int, login_ms: int) -> None:
        self._reply_ms = reply_ms
        self._login_ms = login_ms
        self._brokers: dict[int, Waiting] = {}

    @property
    def waiting(self) -> tuple[Waiting, ...]:
        """One reason for each broker whose last connection ended before it had answered all."""
        return tuple(self._brokers[broker_id] for broker_id in sorted(self._brokers))

    def follow(
        self, broker_id: int, at: HostPort, turns: Iterable[Turn[Told]], now_ms: int, requests: int
    ) -> list[Effect]:
        """Take what happened on the connection to a broker; a line is logged once.

        Args:
            broker_id: the broker.
            at: its address.
            turns: in their order.
            now_ms: the time.
            requests: how many have no answer.
        """
        effects: list[Effect] = []
        asked = ""
        for turn in turns:
            match turn:
                case Answered():
                    self.forget(broker_id)
                case Unanswered(ticket=request):
                    asked = api_of(request)
                case Broken(by) if requests and by is not EndedBy.NONSENSE:
                    effects += self._broken(broker_id, _Ended(at, turn, asked, requests), now_ms)
        return effects

    def _broken(self, broker_id: int, ended: _Ended, now_ms: int) -> list[Effect]:
        why = Why.BROKER_SLOW if ended.slow else Why.BROKER_UNREACHABLE
        known = self._brokers.get(broker_id)
        new = known is None or known.reason.why is not why
        if known is not None and not new:
            since_ms = known.since_ms
        elif ended.slow:
            since_ms = now_ms - (self._reply_ms if ended.asked else self._login_ms)
        else:
            since_ms = now_ms
        text = f"broker {broker_id} {ended.text((now_ms - since_ms) // 1000)}"
        self._brokers[broker_id] = Waiting(Reason(why, str(broker_id), text), since_ms)
        return [ended.log(broker_id)] if new else []

    def forget(self, broker_id: int) -> None:
        """The broker has answered, or needs no control request any more."""
        self._brokers.pop(broker_id, None)


class _Ended(msgspec.Struct, frozen=True):
    """How a connection ended, to a broker that has not answered all requests."""

    at: HostPort
    how: Broken
    asked: str
    """The API of the request without an answer; empty: none was sent."""
    requests: int

    @property
    def slow(self) -> bool:
        """Whether the broker was connected, and gave no answer in time."""
        return self.how.connected and self.how.by is EndedBy.TIME

    def text(self, seconds: int) -> str:
        """For an operator, without the broker; ``seconds``: for how long."""
        asked, waits = self.asked or "the login", f"{self.requests:,} requests wait"
        if self.requests == 1:
            waits = "1 request waits"
        if self.slow:
            return f"is slow: no answer to {asked} for {seconds} s, {waits}"
        if self.how.connected and self.how.by is EndedBy.PEER:
            return f"closed the connection before it answered {asked}: {self.how.why}; {waits}"
        refused = "refuses the login of this controller"
        what = refused if self.how.by is EndedBy.REFUSAL else "cannot be reached"
        return (
            f"{what} at {self.at}, and is told nothing: {self.how.why}. Controllers connect to "
            "each broker in ZooKeeper mode, at its listener of inter.broker.listener.name"
        )

    def log(self, broker_id: int) -> Log:
        about: dict[str, object] = {"broker": broker_id, "at": str(self.at), "why": self.how.why}
        if not self.slow:
            return Log("warning", "a broker cannot be told anything", about)
        about |= {"request": self.asked, "requests_waiting": self.requests}
        return Log("warning", "a broker is slow to answer", about)
