"""Connections to the other voters of the quorum: four to each.

One carries elections, one Fetch and FetchSnapshot, one calls of the controller, one questions for
the status: what waits at the leader must not delay a Vote. Each request has exactly one outcome:
its answer, or that there is none.

A connection is made when there is something to send. After each one that failed the pause before
the next grows; a request that would wait longer than the shortest pause is given up at once, so
that its sender can turn to another voter.

Source: KafkaNetworkChannel and KafkaRaftManager, Kafka 3.9 (one connection there: a voter that
leads has no Fetch that waits for it).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import count
from typing import Any, Final, Generic, TypeVar

from emulator.config.sasl import OPEN_ACCESS, PeerAccess
from emulator.net.channel import (
    Answered,
    Broken,
    ChannelConfig,
    ChannelState,
    EndedBy,
    Opened,
    OutboundChannel,
    Turn,
    Unanswered,
)
from emulator.net.greeting import Greeting
from emulator.net.login import Login
from emulator.seam import Closed, Connected, Effect, Received, earliest
from wire import messages as m

T = TypeVar("T")
_CALL: Final = "call"
_LOOK: Final = "look"
_LANES: Final[Mapping[type, str]] = {
    m.FetchRequest: "follow",
    m.FetchSnapshotRequest: "follow",
    m.ControllerRegistrationRequest: _CALL,
    m.ApiVersionsRequest: _LOOK,
    m.DescribeQuorumRequest: _LOOK,
}
_ELECT: Final = "elect"
CONNECT_MS_MAX: Final = 1_000
RECONNECT_MS: Final = 50
"""Pause before a lost connection is made again."""
RECONNECT_MS_MAX: Final = 500
"""It doubles with each connection that brought no answer, up to this one, as Kafka's does."""
_DOUBLINGS_MAX: Final = 8
_WHY: Final[Mapping[EndedBy, str]] = {
    EndedBy.PEER: "the connection was refused, or closed",
    EndedBy.TIME: "no answer in time",
    EndedBy.NONSENSE: "an answer that cannot be decoded",
    EndedBy.REFUSAL: "ApiVersions or the login was refused",
    EndedBy.VERSIONS: "it supports no version of the request that can carry it",
    EndedBy.OWNER: "the connection was closed here",
}
"""What is said of a request without an answer."""


@dataclass(frozen=True, slots=True)
class VoterOutcome(Generic[T]):
    """What came of a request; ``message`` is None if it gets no answer, and ``why`` says why."""

    ticket: T
    message: Any
    why: str = ""


class _Lane(Generic[T]):
    """The connections to one voter for one purpose, one after the other.

    Args:
        dial: makes a channel that is not connected.
    """

    def __init__(self, dial: Callable[[], OutboundChannel[T]]) -> None:
        self.channel = dial()
        self.at_rest = True
        """Nothing happens here before the next request, or event of the connection."""
        self._dial = dial
        self._failures = 0
        self._from_ms = 0
        """No connection is made before."""
        self._effects: list[Effect] = []

    @property
    def deadline_ms(self) -> int | None:
        """When ``tick`` is due."""
        if self.channel.state is ChannelState.IDLE:
            return self._from_ms if self.channel.outstanding else None
        return self.channel.deadline_ms

    def answered(self) -> None:
        """The voter is there."""
        self._failures = 0

    def lost(self, now_ms: int) -> None:
        """The connection is lost; the next is made when there is something to send."""
        self._effects += self.channel.effects(None)
        self.channel = self._dial()
        pause_ms = RECONNECT_MS << min(self._failures, _DOUBLINGS_MAX)
        self._from_ms = now_ms + min(pause_ms, RECONNECT_MS_MAX)
        self._failures += 1

    def is_given_up(self, now_ms: int) -> bool:
        """Whether what waits here would wait for long."""
        idle = self.channel.state is ChannelState.IDLE
        return idle and self.channel.outstanding > 0 and self._from_ms - now_ms > RECONNECT_MS

    def effects(self, now_ms: int) -> list[Effect]:
        """Connections to open and close, bytes to send."""
        effects, self._effects = self._effects, []
        waits = self.channel.state is ChannelState.IDLE and now_ms < self._from_ms
        effects += self.channel.effects(None if waits else now_ms)
        self.at_rest = not self.channel.outstanding and self.channel.deadline_ms is None
        return effects


class VoterChannels(Generic[T]):
    """See the module's docstring.

    Args:
        addresses: node id -> host and port of the other voters.
        node_id: of this voter.
        request_ms: how long an answer is waited for.
        new_conn: allocates connection ids.
        access: how connections to the other voters are secured.
        process: the name of this one, which requests of Raft carry in their client id.
    """

    def __init__(
        self,
        addresses: Mapping[int, tuple[str, int]],
        node_id: int,
        request_ms: int,
        new_conn: Callable[[], int],
        access: PeerAccess = OPEN_ACCESS,
        *,
        process: str = "",
    ) -> None:
        software = m.ApiVersionsRequest(
            client_software_name="kraft-bridge", client_software_version="1"
        )
        greeting = Greeting(software, login=Login.of(access.login))
        ids = count(1)

        def lane(address: tuple[str, int], name: str) -> _Lane[T]:
            # Kafka's Raft client and its registration are two clients.
            raft = f"raft-client-{node_id}" + (f".{process}" if process else "")
            client_id = str(node_id) if name == _CALL else raft
            config = ChannelConfig(
                client_id,
                CONNECT_MS_MAX,
                request_ms,
                retry_ms=None,
                greeting=greeting,
                tls=access.tls,
            )
            return _Lane(lambda: OutboundChannel(address, config, new_conn, ids))

        self._lanes = {
            (each, name): lane(address, name)
            for each, address in addresses.items()
            for name in sorted({_ELECT, *_LANES.values()})
        }
        self._every = tuple(self._lanes.values())
        self._outcomes: list[VoterOutcome[T]] = []

    @property
    def deadline_ms(self) -> int | None:
        """When ``tick`` is due."""
        return 0 if self._outcomes else earliest(lane.deadline_ms for lane in self._awake)

    def owns(self, conn: int) -> bool:
        """Whether a connection is one of these."""
        return self._of(conn) is not None

    def put(self, node_id: int, message: object, ticket: T) -> None:
        """Send a request as soon as its connection allows; one that waits there is given up."""
        lane = self._lanes[node_id, _LANES.get(type(message), _ELECT)]
        lane.at_rest = False
        self._give_up(lane, "a later request took its place")
        lane.channel.put(message, ticket)

    def handle(self, event: Received | Closed | Connected, now_ms: int) -> None:
        """Take an event of a connection; nothing if it is not one of these."""
        lane = self._of(event.conn)
        if lane is not None:
            lane.at_rest = False
            self._turns(lane, lane.channel.handle(event, now_ms), now_ms)

    def tick(self, now_ms: int) -> None:
        """Give up what takes too long."""
        for lane in self._awake:
            self._turns(lane, lane.channel.tick(now_ms), now_ms)

    def take_outcomes(self) -> list[VoterOutcome[T]]:
        """What came of requests since the last call."""
        outcomes, self._outcomes = self._outcomes, []
        return outcomes

    def effects(self, now_ms: int) -> list[Effect]:
        """Connections to open and close, bytes to send."""
        effects: list[Effect] = []
        for lane in self._awake:
            if lane.is_given_up(now_ms):
                self._give_up(lane, "the voter could not be reached a moment ago")
            effects += lane.effects(now_ms)
        return effects

    @property
    def _awake(self) -> list[_Lane[T]]:
        """The few lanes that have something to do, or will have without being asked."""
        return [lane for lane in self._every if not lane.at_rest]

    def _of(self, conn: int) -> _Lane[T] | None:
        """The lane that has a connection now."""
        for lane in self._every:
            if lane.channel.conn == conn:
                return lane
        return None

    def _turns(self, lane: _Lane[T], turns: list[Turn[T]], now_ms: int) -> None:
        for turn in turns:
            match turn:
                case Answered(ticket=ticket, message=message):
                    lane.answered()
                    self._outcomes.append(VoterOutcome(ticket, message))
                case Unanswered(ticket=ticket, by=by):
                    self._outcomes.append(VoterOutcome(ticket, None, _WHY[by]))
                case Broken(why=why):
                    self._give_up(lane, why)
                    lane.lost(now_ms)
                case Opened():
                    pass

    def _give_up(self, lane: _Lane[T], why: str) -> None:
        """What was not sent is asked again, perhaps somebody else."""
        gone = lane.channel.withdraw()
        self._outcomes += [VoterOutcome(ticket, None, why) for ticket in gone]
