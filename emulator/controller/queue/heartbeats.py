"""Broker sessions: time of the last heartbeat, and the metadata offset that a broker reported.

Soft state of the active controller, never in the log. The image knows which brokers are fenced;
callers pass that in.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import Enum, auto

from emulator.metadata.image import Image

UNKNOWN_OFFSET = -1
NO_ACTIVE_BROKER = 2**63 - 1


class BrokerState(Enum):
    """The states of a registered broker as the controller sees them.

    Source: BrokerControlState, Kafka 3.9.
    """

    FENCED = auto()
    UNFENCED = auto()
    CONTROLLED_SHUTDOWN = auto()
    SHUTDOWN_NOW = auto()


@dataclass(slots=True)
class Session:
    """Last contact, last reported metadata offset (-1 unknown), shutdown offset (-1 none)."""

    last_contact_ms: int
    metadata_offset: int = UNKNOWN_OFFSET
    controlled_shutdown_offset: int = -1


def next_state(
    current: BrokerState,
    *,
    want_fence: bool,
    want_shut_down: bool,
    caught_up: bool,
    leads: bool,
    others_caught_up: bool,
) -> BrokerState:
    """The state of a broker after one heartbeat.

    Args:
        current: state before the heartbeat.
        want_fence: the broker asks to be or stay fenced.
        want_shut_down: the broker asks to leave.
        caught_up: its reported metadata offset has reached its registration.
        leads: it leads at least one partition.
        others_caught_up: every active broker has applied its controlled shutdown.

    Source: BrokerHeartbeatManager.calculateNextBrokerState, Kafka 3.9.

    >>> next_state(BrokerState.FENCED, want_fence=False, want_shut_down=False, caught_up=True,
    ...            leads=False, others_caught_up=False).name
    'UNFENCED'
    """
    match current:
        case BrokerState.FENCED:
            if want_shut_down:
                return BrokerState.SHUTDOWN_NOW
            return BrokerState.UNFENCED if caught_up and not want_fence else BrokerState.FENCED
        case BrokerState.UNFENCED:
            if want_fence:
                return BrokerState.SHUTDOWN_NOW if want_shut_down else BrokerState.FENCED
            if not want_shut_down:
                return BrokerState.UNFENCED
            return BrokerState.CONTROLLED_SHUTDOWN if leads else BrokerState.SHUTDOWN_NOW
        case BrokerState.CONTROLLED_SHUTDOWN:
            if leads or not others_caught_up:
                return BrokerState.CONTROLLED_SHUTDOWN
            return BrokerState.SHUTDOWN_NOW
        case _:
            return BrokerState.SHUTDOWN_NOW


class Heartbeats:
    """Sessions of all registered brokers, oldest contact first.

    Invariant: iteration order of ``_sessions`` is the order of last contact, so the first unfenced
    broker is the next one to expire.

    Source: BrokerHeartbeatManager and BrokerHeartbeatTracker, Kafka 3.9.
    """

    def __init__(self, session_timeout_ms: int) -> None:
        self._session_timeout_ms = session_timeout_ms
        self._sessions: dict[int, Session] = {}

    @property
    def leaving(self) -> frozenset[int]:
        """Brokers in controlled shutdown."""
        sessions = self._sessions.items()
        return frozenset([each for each, one in sessions if one.controlled_shutdown_offset >= 0])

    def activate(self, broker_ids: Iterable[int], now_ms: int) -> None:
        """Start a new session for every registered broker; earlier heartbeats are dropped."""
        self._sessions = {broker_id: Session(now_ms) for broker_id in sorted(broker_ids)}

    def register(self, broker_id: int, now_ms: int) -> None:
        """A registration was appended: new contact time, offset unknown, no controlled shutdown."""
        self.remove(broker_id)
        self._sessions[broker_id] = Session(now_ms)

    def remove(self, broker_id: int) -> None:
        """The broker is no longer registered."""
        self._sessions.pop(broker_id, None)

    def fenced(self, broker_id: int) -> None:
        """A fenced broker leaves controlled shutdown; its next heartbeat may end it at once."""
        session = self._sessions.get(broker_id)
        if session is not None:
            session.controlled_shutdown_offset = -1

    def contact(self, broker_id: int, metadata_offset: int | None, now_ms: int) -> None:
        """A heartbeat arrived; None keeps the last known metadata offset."""
        session = self._sessions.pop(broker_id, None) or Session(now_ms)
        session.last_contact_ms = now_ms
        if metadata_offset is not None:
            session.metadata_offset = metadata_offset
        self._sessions[broker_id] = session

    def begin_controlled_shutdown(self, broker_id: int, end_offset: int) -> None:
        """Keep the offset that other brokers must reach; only the first call sets it."""
        session = self._sessions.get(broker_id)
        if session is not None and session.controlled_shutdown_offset < 0:
            session.controlled_shutdown_offset = end_offset

    def session(self, broker_id: int) -> Session | None:
        """The session of a broker; None if it is not registered."""
        return self._sessions.get(broker_id)

    def shutting_down(self, broker_id: int) -> bool:
        """Whether the broker is in controlled shutdown."""
        session = self._sessions.get(broker_id)
        return session is not None and session.controlled_shutdown_offset >= 0

    def state(self, image: Image, broker_id: int) -> BrokerState:
        """Current state of a registered broker."""
        if self.shutting_down(broker_id):
            return BrokerState.CONTROLLED_SHUTDOWN
        if image.brokers[broker_id].fenced:
            return BrokerState.FENCED
        return BrokerState.UNFENCED

    def has_valid_session(self, image: Image, broker_id: int, now_ms: int) -> bool:
        """Whether the broker is unfenced and was heard from within the session timeout."""
        broker = image.brokers.get(broker_id)
        session = self._sessions.get(broker_id)
        if broker is None or broker.fenced or session is None:
            return False
        return now_ms - session.last_contact_ms < self._session_timeout_ms

    def others_caught_up(self, image: Image, broker_id: int) -> bool:
        """Whether every active broker has applied the controlled shutdown of this one."""
        session = self._sessions.get(broker_id)
        offset = -1 if session is None else session.controlled_shutdown_offset
        return offset <= self.lowest_active_offset(image)

    def lowest_active_offset(self, image: Image) -> int:
        """Lowest offset of the unfenced brokers not in controlled shutdown; 2^63-1 if none."""
        return min(
            (
                session.metadata_offset
                for broker_id, session in self._sessions.items()
                if session.controlled_shutdown_offset < 0
                and (broker := image.brokers.get(broker_id)) is not None
                and not broker.fenced
            ),
            default=NO_ACTIVE_BROKER,
        )

    def oldest(
        self, image: Image, leads: Callable[[int], bool] = lambda _broker_id: False
    ) -> tuple[int, int] | None:
        """(broker id, ms at which its session ends) of the broker with the oldest heartbeat.

        Considered are unfenced brokers, and fenced brokers for which ``leads`` is true.
        """
        for broker_id, session in self._sessions.items():
            broker = image.brokers.get(broker_id)
            if broker is not None and (not broker.fenced or leads(broker_id)):
                return broker_id, session.last_contact_ms + self._session_timeout_ms
        return None
