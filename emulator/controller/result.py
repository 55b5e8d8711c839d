"""What a handler returns: records to append, and the response to send once they are committed.

Types shared by all handlers; they do not depend on a cluster, a clock or API versions.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Final, Generic, NamedTuple, TypeAlias, TypeVar

import msgspec

from emulator.seam import Log
from wire.errors import ErrorCode
from wire.schema import api_name

Record: TypeAlias = object
"""A metadata record of ``wire.records``."""

ResponseT = TypeVar("ResponseT")
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


def one_error(
    response: Callable[..., ResponseT], **same: Any
) -> Callable[[Any, ErrorCode, str | None], ResponseT]:
    """How an API is refused whose response has one error for the whole request.

    The text is in the response if that has a field for it; ``same`` are further fields of it.
    """
    texted = "error_message" in getattr(response, "__struct_fields__", ())

    def refused(_request: Any, code: ErrorCode, text: str | None) -> ResponseT:
        texts = {"error_message": text} if texted else {}
        return response(error_code=code, **texts, **same)

    return refused


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


# Requests that failed with an unexpected error: counted and identified by a fingerprint.
#
# A fingerprint is the API, the exception type and the code location that raised it. So the number
# of fingerprints is bounded, whatever callers send.

OURS: Final = ("emulator.", "wire.")


@dataclass(frozen=True, slots=True)
class RequestFailure:
    """One failure. ``place`` is module, function and line; ``first``: a new fingerprint."""

    api_key: int
    error: str
    place: str
    text: str
    first: bool


class RequestFailures:
    """Failures since the start; ``total`` counts them by API key, error and place."""

    def __init__(self) -> None:
        self.total: Counter[tuple[int, str, str]] = Counter()
        self.new: list[RequestFailure] = []

    def note(self, api_key: int, error: Exception) -> None:
        """Record a failure."""
        fingerprint = (api_key, type(error).__name__, place(error.__traceback__))
        self.total[fingerprint] += 1
        first = self.total[fingerprint] == 1
        self.new.append(RequestFailure(*fingerprint, shortened(str(error)), first))

    def take(self) -> list[RequestFailure]:
        """Failures recorded since the last call."""
        taken, self.new = self.new, []
        return taken


def place(trace: TracebackType | None) -> str:
    """The innermost function of this project in a traceback; empty if there is none."""
    found = ""
    while trace is not None:
        module = trace.tb_frame.f_globals.get("__name__", "")
        if module.startswith(OURS):
            found = f"{module}.{trace.tb_frame.f_code.co_qualname}:{trace.tb_lineno}"
        trace = trace.tb_next
    return found


def failure_line(failure: RequestFailure) -> Log:
    """The log line of a failed request; the first of its kind has level error."""
    fields: dict[str, object] = {
        "api": api_name(failure.api_key),
        "error": failure.error,
        "place": failure.place,
        "text": failure.text,
    }
    level = "error" if failure.first else "debug"
    return Log(level, "a request failed with an internal error", fields)
