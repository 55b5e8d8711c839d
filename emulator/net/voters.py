"""Connections to the other voters of the quorum: three to each.

One carries elections, one Fetch and FetchSnapshot, one calls of the controller: what waits at the
leader must not delay a Vote. Each request has exactly one outcome: its answer, or that there is
none.

Source: KafkaNetworkChannel, Kafka 3.9 (one connection there: a voter that leads has no Fetch that
waits for it).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import count
from typing import Any, Final, Generic, TypeVar

from emulator.config.sasl import SaslLogin
from emulator.net.channel import ChannelConfig, OutboundChannel
from emulator.net.greeting import Greeting
from emulator.net.login import Login
from emulator.net.outcomes import Answered, Broken, Opened, Turn, Unanswered
from emulator.seam import Effect, Event
from wire import messages as m

T = TypeVar("T")
_LANES: Final[Mapping[type, str]] = {
    m.FetchRequest: "follow",
    m.FetchSnapshotRequest: "follow",
    m.ControllerRegistrationRequest: "call",
}
_ELECT: Final = "elect"
CONNECT_MS_MAX: Final = 1_000
RECONNECT_MS: Final = 50
"""Pause before a lost connection is made again (reconnect.backoff.ms)."""


@dataclass(frozen=True, slots=True)
class VoterOutcome(Generic[T]):
    """What came of a request; ``message`` is None if it gets no answer, and ``why`` says why."""

    ticket: T
    message: Any
    why: str = ""


class VoterChannels(Generic[T]):
    """See the module's docstring.

    Args:
        addresses: node id -> host and port of the other voters.
        client_id: how this node names itself.
        request_ms: how long an answer is waited for.
        new_conn: allocates connection ids.
        login: to the other voters; None: they need none.
    """

    def __init__(
        self,
        addresses: Mapping[int, tuple[str, int]],
        client_id: str,
        request_ms: int,
        new_conn: Callable[[], int],
        login: SaslLogin | None = None,
    ) -> None:
        software = m.ApiVersionsRequest(
            client_software_name="kraft-bridge", client_software_version="1"
        )
        greeting = Greeting(software, login=Login.of(login))
        config = ChannelConfig(
            client_id, CONNECT_MS_MAX, request_ms, RECONNECT_MS, greeting=greeting
        )
        ids = count(1)
        self._channels: dict[tuple[int, str], OutboundChannel[T]] = {
            (node_id, lane): OutboundChannel(address, config, new_conn, ids)
            for node_id, address in addresses.items()
            for lane in sorted({_ELECT, *_LANES.values()})
        }
        self._outcomes: list[VoterOutcome[T]] = []

    @property
    def deadline_ms(self) -> int | None:
        """When ``tick`` is due."""
        if self._outcomes:
            return 0
        times = (channel.deadline_ms for channel in self._channels.values())
        return min((one for one in times if one is not None), default=None)

    def owns(self, conn: int) -> bool:
        """Whether a connection is one of these."""
        return any(channel.conn == conn for channel in self._channels.values())

    def put(self, node_id: int, message: object, ticket: T) -> None:
        """Send a request as soon as its connection allows; one that waits there is given up."""
        channel = self._channels[node_id, _LANES.get(type(message), _ELECT)]
        self._give_up(channel, "a later request took its place")
        channel.put(message, ticket)

    def handle(self, event: Event, now_ms: int) -> None:
        """Take an event of a connection."""
        for channel in self._channels.values():
            self._turns(channel, channel.handle(event, now_ms))

    def tick(self, now_ms: int) -> None:
        """Connect, and give up what takes too long."""
        for channel in self._channels.values():
            self._turns(channel, channel.tick(now_ms))

    def take_outcomes(self) -> list[VoterOutcome[T]]:
        """What came of requests since the last call."""
        outcomes, self._outcomes = self._outcomes, []
        return outcomes

    def effects(self, now_ms: int) -> list[Effect]:
        """Connections to open and close, bytes to send."""
        return [effect for channel in self._channels.values() for effect in channel.effects(now_ms)]

    def _turns(self, channel: OutboundChannel[T], turns: list[Turn[T]]) -> None:
        for turn in turns:
            match turn:
                case Answered(ticket=ticket, message=message):
                    self._outcomes.append(VoterOutcome(ticket, message))
                case Unanswered(ticket=ticket, by=by):
                    self._outcomes.append(VoterOutcome(ticket, None, by.value))
                case Broken(why=why):
                    self._give_up(channel, why)
                case Opened():
                    pass

    def _give_up(self, channel: OutboundChannel[T], why: str) -> None:
        """What was not sent is asked again, perhaps somebody else."""
        gone = channel.withdraw(lambda _: False)
        self._outcomes += [VoterOutcome(ticket, None, why) for ticket in gone]
