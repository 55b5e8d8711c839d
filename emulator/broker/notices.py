"""What a broker has seen or been told, for whoever runs it to judge or to count."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeAlias

from emulator.net.control import ControlRequest, ControlResponse


@dataclass(frozen=True, slots=True)
class ToldByController:
    """A control request came and was answered."""

    request: ControlRequest
    response: ControlResponse


@dataclass(frozen=True, slots=True)
class SentNonsense:
    """Who connected to us sent what no broker takes, and was cut off."""

    why: str


@dataclass(frozen=True, slots=True)
class RegisteredAs:
    """The controller took the registration."""

    broker_epoch: int


@dataclass(frozen=True, slots=True)
class LifecycleRefused:
    """The controller refused a registration or a heartbeat."""

    what: str
    error_code: int


@dataclass(frozen=True, slots=True)
class ControllerLost:
    """A connection to the controller ended, or could not be made."""

    why: str


@dataclass(frozen=True, slots=True)
class RecordFetched:
    """One record of the metadata log."""

    offset: int
    leader_epoch: int
    value: bytes


@dataclass(frozen=True, slots=True)
class Diverged:
    """The leader does not have what we follow: we stand at ``end_offset`` and must go back."""

    end_offset: int
    to_epoch: int
    to_end_offset: int


@dataclass(frozen=True, slots=True)
class ClientAnswered:
    """What was passed on for a client has its answer; None: nobody will ever know."""

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
