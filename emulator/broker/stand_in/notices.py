"""What a broker observed, for its owner to check or to count."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeAlias

from emulator.net.control import ControlRequest, ControlResponse


@dataclass(frozen=True, slots=True)
class ToldByController:
    """A control request was received and answered."""

    request: ControlRequest
    response: ControlResponse


@dataclass(frozen=True, slots=True)
class SentNonsense:
    """A peer sent an invalid request, and its connection was closed."""

    why: str


@dataclass(frozen=True, slots=True)
class RegisteredAs:
    """The controller accepted the registration."""

    broker_epoch: int


@dataclass(frozen=True, slots=True)
class LifecycleRefused:
    """The controller refused a registration or a heartbeat."""

    what: str
    error_code: int


@dataclass(frozen=True, slots=True)
class ControllerLost:
    """A connection to the controller ended or failed."""

    why: str


@dataclass(frozen=True, slots=True)
class RecordFetched:
    """One record of the metadata log."""

    offset: int
    leader_epoch: int
    value: bytes


@dataclass(frozen=True, slots=True)
class Diverged:
    """The leader's log differs from ours: we must truncate to ``end_offset``."""

    end_offset: int
    to_epoch: int
    to_end_offset: int


@dataclass(frozen=True, slots=True)
class ClientAnswered:
    """The answer to a forwarded client request; None: it was lost."""

    ticket: Any
    message: Any | None


BrokerNotice: TypeAlias = (
    ToldByController
    | SentNonsense
    | RegisteredAs
    | LifecycleRefused
    | ControllerLost
    | RecordFetched
    | Diverged
    | ClientAnswered
)
