"""Outcomes of outbound connections and of their requests."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Any, Generic, TypeAlias, TypeVar

T = TypeVar("T")


class EndedBy(Enum):
    """Why a connection, or the wait for an answer, ended."""

    PEER = "peer"
    """The peer closed the connection, or did not accept it."""
    TIME = "time"
    """A deadline passed."""
    NONSENSE = "invalid"
    """The peer sent an invalid answer."""
    REFUSAL = "refusal"
    """The peer refused ApiVersions or the login."""
    VERSIONS = "versions"
    """The peer offers no version that can carry the request; the connection stays."""
    OWNER = "owner"


@dataclass(frozen=True, slots=True)
class Opened:
    """The greeting is complete; requests are sent from now on."""


@dataclass(frozen=True, slots=True)
class Answered(Generic[T]):
    """``message`` answers the request that was put with ``ticket``."""

    ticket: T
    correlation_id: int
    message: Any


@dataclass(frozen=True, slots=True)
class Unanswered(Generic[T]):
    """No answer will come. ``correlation_id`` is None when the request was never sent."""

    ticket: T
    correlation_id: int | None
    by: EndedBy


@dataclass(frozen=True, slots=True)
class Broken:
    """The connection ended or failed; reported after every Unanswered of it.

    ``error`` is the LoginError, GreetingError or DecodeError behind it, if it was one.
    """

    by: EndedBy
    why: str
    error: Exception | None = None
    connected: bool = False
    """Whether there was a connection; else none could be made."""


Turn: TypeAlias = Opened | Answered[T] | Unanswered[T] | Broken
