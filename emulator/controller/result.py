"""What a handler returns: records to append, and the response to send once they are committed.

Types shared by all handlers; they do not depend on a cluster, a clock or API versions.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Generic, NamedTuple, TypeAlias, TypeVar

import msgspec

from wire.errors import ErrorCode

Record: TypeAlias = object
"""A metadata record of ``wire.records``."""

ResponseT_co = TypeVar("ResponseT_co", covariant=True)


TEXTS_MAX: Final = 1_000_000
"""Maximum characters of the error texts of one answer, and one text more."""
TEXT_MAX: Final = 2_000
"""Maximum characters of a text that quotes a caller: at most 8 kB; strings may have 32 kB."""


def shortened(text: str, longest: int = TEXT_MAX) -> str:
    """The text, without its middle if it is too long for a response or a log line.

    Args:
        text: any text.
        longest: maximum characters of the result, 50 or more.

    >>> shortened("short")
    'short'
    >>> shortened("a" * 50 + "b" * 50, 50)
    'aaaaaaaaaaaa... (76 left out) ...bbbbbbbbbbbb'
    """
    if len(text) <= longest:
        return text
    kept = (longest - 26) // 2
    return f"{text[:kept]}... ({len(text) - 2 * kept} left out) ...{text[-kept:]}"


class Texts:
    """The error texts of one answer: once they are ``TEXTS_MAX`` characters, the rest have none.

    A partition takes four bytes of a request, and the text for it may quote a long name.
    """

    def __init__(self) -> None:
        self._left = TEXTS_MAX

    def take(self, text: str | None) -> str | None:
        """The text of the next error, or None.

        >>> Texts().take("short")
        'short'
        """
        if text is None or self._left <= 0:
            return None
        self._left -= len(text)
        return text


@dataclass(frozen=True, slots=True)
class ApiError:
    """An expected refusal, as a value: Kafka's error code and the text a client shows.

    The text is shortened, as it may quote the caller.
    """

    code: ErrorCode
    message: str | None = None

    def __post_init__(self) -> None:
        if self.message is not None:
            object.__setattr__(self, "message", shortened(self.message))


class Contact(msgspec.Struct, frozen=True, gc=False):
    """What a heartbeat says about a broker (soft state, never in the log).

    If ``shutting_down`` is set, the sessions keep the end offset of this operation, once: every
    other active broker must have applied it before the shutdown is granted.
    """

    broker_id: int
    metadata_offset: int
    shutting_down: bool = False


class RefusedAttempt(NamedTuple):
    """One registration that was refused. ``peer``: address and principal of the caller."""

    at_ms: int
    peer: str = ""
    offered: str = ""
    needed: str = ""
    remedy: str = ""


class Registering(NamedTuple):
    """A broker that asked to be registered, and why it was refused; None if it was not."""

    broker_id: int
    error: ApiError | None
    attempt: RefusedAttempt | None = None


class Spent(NamedTuple):
    """The tokens that a request left in a bucket of the controller mutation quota (KIP-599).

    ``user`` and ``client`` name who shares the bucket, empty for all. ``tokens`` are partitions,
    below zero if the bucket is overdrawn.
    """

    user: str
    client: str
    tokens: float
    at_ms: int


class Result(msgspec.Struct, Generic[ResponseT_co], frozen=True, gc=False):
    """Outcome of one handler call; nothing is appended yet.

    Records are replayed in order. ``atomic`` ones stay in one batch, so readers see all or none
    (at most 10,000 records and 8 MiB); others may be cut into several batches.

    Source: ControllerResult, Kafka 3.9.
    """

    response: ResponseT_co
    records: tuple[Record, ...] = ()
    atomic: bool = True
    contact: Contact | None = None
    spent: Spent | None = None
    registering: Registering | None = None
