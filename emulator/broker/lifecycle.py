"""The life of a broker as its controller sees it: registration, heartbeats, controlled shutdown.

One request at a time. A registration that is refused or lost is sent again until its time is over.
Heartbeats ask to stay fenced until the broker has read the metadata. A shutdown is asked for by
heartbeats, until the controller grants it.

Source: BrokerLifecycleManager, Kafka 3.4-3.9; KIP-631, KIP-841.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum
from types import MappingProxyType
from typing import Final, Literal, Protocol, TypeAlias

from typing_extensions import override

from emulator.broker.controller_channel import ControllerChannel, Outcome
from emulator.net.channel import Answered, EndedBy, Unanswered
from emulator.seam import Effect, Event, Log, Part, earliest, state_after
from wire import messages as m
from wire.errors import ErrorCode, named

# A part of a broker: it has connections of its own, and something to do at times.


class BrokerPart(Part, Protocol):
    """A pure machine inside a broker's; the broker calls it in the order of these methods."""

    def start(self, now_ms: int) -> None:
        """Begin; called once."""

    def handle(self, event: Event, now_ms: int) -> None:
        """Take an event of any outbound connection; those of others are ignored."""

    def tick(self, now_ms: int) -> None:
        """Do what is due."""

    def effects(self, now_ms: int) -> list[Effect]:
        """All effects since the last call."""

    def close(self) -> None:
        """Close its connections; only :meth:`effects` is called afterwards."""


CATCHING_UP_MS: Final = 10
"""Pause between heartbeats until the broker has read its own registration."""
SHUTTING_DOWN_MS: Final = 50
"""Pause after the first heartbeat that asks for a shutdown; later ones have the usual pause."""
BACKOFF_MS: Final = 100
"""Pause after the first failed request; twice as long after each one that follows."""
SHUTDOWN_MS_MAX: Final = 5 * 60_000
"""How long a controlled shutdown may take."""
MAKE_ZEROS_SINCE: Final = 4
"""Below this version of BrokerRegistration features with a minimum of 0 are left out."""


HINTS: Final[Mapping[int, str]] = MappingProxyType(
    {
        ErrorCode.DUPLICATE_BROKER_REGISTRATION: (
            "another node has this id, or a broker that ended without a shutdown still has a "
            "session, which ends by itself (broker.session.timeout.ms of the controller)"
        ),
        ErrorCode.INCONSISTENT_CLUSTER_ID: (
            "cluster.id in meta.properties is not that of the controller's cluster"
        ),
        ErrorCode.INVALID_REGISTRATION: (
            "in a migration inter.broker.listener.name of the controller must be a listener of "
            "this broker; directory.id of a log folder must not be that of another one"
        ),
        ErrorCode.UNSUPPORTED_VERSION: (
            "the controller's metadata.version is not one of this release (kraftbridge.release), "
            "or in a migration not that of inter.broker.protocol.version"
        ),
    }
)
"""What an operator may look at, by the error of a registration or heartbeat."""


class LifeState(Enum):
    """State of a broker."""

    NOT_RUNNING = "not running"
    STARTING = "starting"
    """Not registered yet, or its registration is not read yet."""
    RECOVERY = "recovery"
    """Caught up, and fenced."""
    RUNNING = "running"
    PENDING_CONTROLLED_SHUTDOWN = "pending controlled shutdown"
    SHUTTING_DOWN = "shutting down"


class LifeEvent(Enum):
    """Why a broker changes its state."""

    STARTED = "started"
    CAUGHT_UP = "caught up"
    """By the answer to a heartbeat it has read its own registration."""
    UNFENCED = "unfenced"
    """By the answer to a heartbeat clients are led to it."""
    CONTROLLED_SHUTDOWN_BEGUN = "controlled shutdown begun"
    """It is to stop, and the controller moves its leaders first."""
    STOPPED = "stopped"
    """It stops without asking the controller."""
    CONTROLLED_SHUTDOWN_GRANTED = "controlled shutdown granted"
    TIMED_OUT = "timed out"
    """The registration, or the controlled shutdown, takes too long."""
    UNREGISTERED = "unregistered"
    """Its registration was taken back, or the attempt has failed, or there is none yet."""


_S, _E = LifeState, LifeEvent
NEXT: Final[Mapping[tuple[LifeState, LifeEvent], LifeState]] = MappingProxyType(
    {
        (_S.NOT_RUNNING, _E.STARTED): _S.STARTING,
        (_S.NOT_RUNNING, _E.STOPPED): _S.SHUTTING_DOWN,
        (_S.STARTING, _E.CAUGHT_UP): _S.RECOVERY,
        (_S.STARTING, _E.STOPPED): _S.SHUTTING_DOWN,
        (_S.STARTING, _E.TIMED_OUT): _S.SHUTTING_DOWN,
        (_S.STARTING, _E.UNREGISTERED): _S.SHUTTING_DOWN,
        (_S.RECOVERY, _E.UNFENCED): _S.RUNNING,
        (_S.RECOVERY, _E.STOPPED): _S.SHUTTING_DOWN,
        (_S.RECOVERY, _E.UNREGISTERED): _S.SHUTTING_DOWN,
        (_S.RUNNING, _E.CONTROLLED_SHUTDOWN_BEGUN): _S.PENDING_CONTROLLED_SHUTDOWN,
        (_S.RUNNING, _E.STOPPED): _S.SHUTTING_DOWN,
        (_S.RUNNING, _E.UNREGISTERED): _S.SHUTTING_DOWN,
        (_S.PENDING_CONTROLLED_SHUTDOWN, _E.CONTROLLED_SHUTDOWN_GRANTED): _S.SHUTTING_DOWN,
        (_S.PENDING_CONTROLLED_SHUTDOWN, _E.TIMED_OUT): _S.SHUTTING_DOWN,
        (_S.PENDING_CONTROLLED_SHUTDOWN, _E.UNREGISTERED): _S.SHUTTING_DOWN,
    }
)
"""State and event -> the state after it. An event in any other state is a bug."""

Kind: TypeAlias = Literal["registration", "heartbeat", "unregistration"]


@dataclass(frozen=True, slots=True)
class LifeSettings:
    """What a broker registers, and its times in milliseconds.

    ``features``: lowest and highest level by name. ``registration_ms`` None: it tries for ever, as
    a broker in ZooKeeper mode does.
    """

    broker_id: int
    cluster_id: str
    incarnation_id: bytes
    listeners: tuple[m.BrokerRegistrationRequest.Listener, ...]
    features: Mapping[str, tuple[int, int]]
    rack: str | None
    log_dirs: tuple[bytes, ...]
    heartbeat_ms: int
    session_ms: int
    registration_ms: int | None
    is_migrating_zk_broker: bool = False


class LifecycleManager(BrokerPart):
    """``epoch`` is that of the registration, -1 before; ``over`` the end, if it came.

    Args:
        settings: see there.
        channel: the channel ``heartbeat`` (in ZooKeeper mode ``quorum``).
        reached: offset of the last record of the metadata log that was applied.
        ready: whether it has read what was committed when it started.
    """

    def __init__(
        self,
        settings: LifeSettings,
        channel: ControllerChannel[Kind],
        reached: Callable[[], int],
        ready: Callable[[], bool],
    ) -> None:
        self.epoch = -1
        self.state = LifeState.NOT_RUNNING
        self.over: tuple[int, str] | None = None
        """Exit code and reason, once this life has ended."""
        self._settings = settings
        self._channel = channel
        self._reached = reached
        self._ready = ready
        self._due_ms: int | None = None
        """When the next request is due; None while one is in flight, and before the start."""
        self._give_up_ms: int | None = None
        """When a registration or a shutdown takes too long."""
        self._failures = 0
        self._again = False
        """Whether the registration is to be sent again, in the same life."""
        self._asked_to_leave = False
        self._leaving_why: str | None = None
        """Why the broker unregisters; None: it does not."""
        self._refusal = "no controller answered"
        self._effects: list[Effect] = []

    # ---------------------------------------------------------------- a part
    @property
    @override
    def deadline_ms(self) -> int | None:
        if self.over is not None:
            return None
        times = (self._due_ms, self._give_up_ms, self._channel.deadline_ms)
        return earliest(times)

    @override
    def start(self, now_ms: int) -> None:
        self._enter(LifeEvent.STARTED)
        self._due_ms = now_ms
        if self._settings.registration_ms is not None:
            self._give_up_ms = now_ms + self._settings.registration_ms

    @override
    def handle(self, event: Event, now_ms: int) -> None:
        self._take(self._channel.handle(event, now_ms), now_ms)

    @override
    def tick(self, now_ms: int) -> None:
        if self.over is None and self._give_up_ms is not None and self._give_up_ms <= now_ms:
            self._given_up()
        if self.over is None and self._due_ms is not None and self._due_ms <= now_ms:
            self._due_ms = None
            self._send(now_ms)
        self._take(self._channel.tick(now_ms), now_ms)

    @override
    def effects(self, now_ms: int) -> list[Effect]:
        effects, self._effects = self._effects, []
        return effects + self._channel.effects(now_ms)

    @override
    def close(self) -> None:
        self._due_ms = None
        self._channel.close()

    # ---------------------------------------------------------------- what its owner wants
    def hurry(self, now_ms: int) -> None:
        """Send the next heartbeat at once: the broker has become ready."""
        if self._due_ms is not None and self.epoch >= 0:
            self._due_ms = min(self._due_ms, now_ms)

    def register_again(self, now_ms: int) -> None:
        """The controller could not keep all that was registered, and now it can."""
        self._again = True
        self.hurry(now_ms)

    def shut_down(self, now_ms: int, *, controlled: bool) -> None:
        """Leave: ask the controller to move the leaders elsewhere first, if it can be asked."""
        if self.state is LifeState.RUNNING and controlled:
            self._enter(LifeEvent.CONTROLLED_SHUTDOWN_BEGUN)
            self._give_up_ms = now_ms + SHUTDOWN_MS_MAX
            self.hurry(now_ms)
        elif self.state is not LifeState.PENDING_CONTROLLED_SHUTDOWN:
            self._end(LifeEvent.STOPPED, 0, "stopped")

    def unregister(self, why: str, now_ms: int) -> None:
        """Take the registration back and end with exit code 1, whatever the controller says.

        Without one it ends at once: the id may be that of another broker, whose registration an
        UnregisterBroker would remove. A registration in flight is waited for.
        """
        if self._leaving_why is not None or self.over is not None:
            return
        if self.epoch < 0 and self._due_ms is not None:
            self._end(LifeEvent.UNREGISTERED, 1, why)
            return
        self._leaving_why = why
        self._give_up_ms = now_ms + self._settings.session_ms
        if self._due_ms is not None:
            self._due_ms = now_ms

    # ---------------------------------------------------------------- requests
    def _send(self, now_ms: int) -> None:
        own = self._settings
        if self._leaving_why is not None:
            request = m.UnregisterBrokerRequest(broker_id=own.broker_id)
            self._channel.put(request, "unregistration", now_ms)
        elif self.epoch < 0 or self._again:
            self._channel.put(self._registration(), "registration", now_ms)
        else:
            heartbeat = m.BrokerHeartbeatRequest(
                broker_id=own.broker_id,
                broker_epoch=self.epoch,
                current_metadata_offset=max(self._reached(), 0),
                want_fence=not self._ready(),
                want_shut_down=self.state is LifeState.PENDING_CONTROLLED_SHUTDOWN,
            )
            self._channel.put(heartbeat, "heartbeat", now_ms)

    def _registration(self) -> m.BrokerRegistrationRequest:
        kind, own = m.BrokerRegistrationRequest, self._settings
        return kind(
            broker_id=own.broker_id,
            cluster_id=own.cluster_id,
            incarnation_id=own.incarnation_id,
            listeners=list(own.listeners),
            features=[
                kind.Feature(name=name, min_supported_version=low, max_supported_version=high)
                for name, (low, high) in own.features.items()
                if low > 0 or self._zeros
            ],
            rack=own.rack,
            is_migrating_zk_broker=own.is_migrating_zk_broker,
            log_dirs=own.log_dirs,
        )

    @property
    def _zeros(self) -> bool:
        """Whether the controller, if it is known, takes features that may be absent."""
        offered = self._channel.versions
        return offered is not None and offered.get(62, (0, -1))[1] >= MAKE_ZEROS_SINCE

    # ---------------------------------------------------------------- answers
    def _take(self, outcomes: list[Outcome[Kind]], now_ms: int) -> None:
        for outcome in outcomes:
            match outcome:
                case Answered(message=m.BrokerRegistrationResponse() as answer):
                    self._registered(answer, now_ms)
                case Answered(message=m.BrokerHeartbeatResponse() as answer):
                    self._beaten(answer, now_ms)
                case Answered(message=m.UnregisterBrokerResponse()):
                    assert self._leaving_why is not None
                    self._end(LifeEvent.UNREGISTERED, 1, self._leaving_why)
                case Unanswered(ticket=what, by=EndedBy.VERSIONS):
                    self._failed(f"{what}: the controller has no version that can carry it", now_ms)
                case Unanswered(ticket=what, by=EndedBy.REFUSAL):
                    self._failed(f"{what}: the controller refuses the login", now_ms)
                case _:
                    why = f"{outcome.ticket} was not answered"
                    self._failed(why, now_ms, event="the controller does not answer")

    def _registered(self, answer: m.BrokerRegistrationResponse, now_ms: int) -> None:
        if answer.error_code:
            self._refused("registration", answer.error_code, now_ms)
            return
        self._failures, self._refusal = 0, ""
        if self.state is LifeState.STARTING and self._leaving_why is None:
            self._give_up_ms = None
        self.epoch, self._again = answer.broker_epoch, False
        self._due_ms = now_ms
        self._effects.append(Log("info", "registered", {"broker_epoch": self.epoch}))

    def _beaten(self, answer: m.BrokerHeartbeatResponse, now_ms: int) -> None:
        if answer.error_code:
            self._refused("heartbeat", answer.error_code, now_ms)
            return
        self._failures, self._refusal = 0, ""
        pause_ms = self._settings.heartbeat_ms
        match self.state:
            case LifeState.STARTING if answer.is_caught_up:
                self._enter(LifeEvent.CAUGHT_UP)
                pause_ms = 0 if self._ready() else pause_ms
            case LifeState.STARTING:
                pause_ms = CATCHING_UP_MS
            case LifeState.RECOVERY if not answer.is_fenced:
                self._enter(LifeEvent.UNFENCED)
            case LifeState.PENDING_CONTROLLED_SHUTDOWN if answer.should_shut_down:
                self._end(
                    LifeEvent.CONTROLLED_SHUTDOWN_GRANTED, 0, "stopped; the controller granted it"
                )
                return
            case LifeState.PENDING_CONTROLLED_SHUTDOWN:
                pause_ms = pause_ms if self._asked_to_leave else SHUTTING_DOWN_MS
                self._asked_to_leave = True
            case _:
                """It stays as it is."""
        self._due_ms = now_ms if self._leaving_why is not None else now_ms + pause_ms

    def _refused(self, what: str, code: int, now_ms: int) -> None:
        self._failed(f"{what} refused: {named(code)}", now_ms, hint=HINTS.get(code, ""))

    def _failed(
        self, why: str, now_ms: int, *, event: str = "the controller refuses", hint: str = ""
    ) -> None:
        if why != self._refusal:
            fields: dict[str, object] = {"why": why, "hint": hint} if hint else {"why": why}
            self._effects.append(Log("warning", event, fields))
        self._refusal = why
        pause_ms = min(BACKOFF_MS << min(self._failures, 20), self._settings.session_ms)
        self._failures += 1
        self._due_ms = now_ms + pause_ms
        if self._leaving_why is not None:
            self._end(LifeEvent.UNREGISTERED, 1, self._leaving_why)

    # ---------------------------------------------------------------- the end
    def _given_up(self) -> None:
        if self._leaving_why is not None:
            self._end(LifeEvent.UNREGISTERED, 1, self._leaving_why)
        elif self.state is LifeState.PENDING_CONTROLLED_SHUTDOWN:
            why = "stopped; the controller did not grant a controlled shutdown"
            self._end(LifeEvent.TIMED_OUT, 1, why)
        else:
            why = f"not registered with the controller in time: {self._refusal}"
            self._end(LifeEvent.TIMED_OUT, 1, why)

    def _end(self, event: LifeEvent, exit_code: int, why: str) -> None:
        if self.over is None:
            self._enter(event)
            self.over = (exit_code, why)

    def _enter(self, event: LifeEvent) -> None:
        self.state = state_after(NEXT, self.state, event)
        self._effects.append(Log("info", "broker state", {"state": self.state.value}))
