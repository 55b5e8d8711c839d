"""What no frame may cause: each judge is a function of what was seen, and returns the faults."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import msgspec

from tools.fuzz.frames import ENVELOPE, Frame
from wire.errors import DecodeError, ErrorCode
from wire.frame import FrameReader, decode_request, decode_response, split_request
from wire.schema import lookup, spec

GROWS: Final = 1.1
"""A process may be so many times as large as it was at most while it warmed up."""
WARM_FRAMES: Final = 100_000
"""Frames of one process, in which caches fill and all code is loaded."""
STEP_MS: Final = 20.0
"""CPU of the thread that serves all others, from a frame to its answer."""
MIB: Final = 1 << 20
_SIGNS: Final = ("Traceback (most recent call last)", "internal error", "because of a bug")
_RAISED: Final = re.compile(
    r"""(?:why=["']?|before a login: )(?!ValueError|DecodeError|TooMany|Trailing)\w+Error\b"""
)
"""Log line of a connection that was closed by an exception which no frame should cause."""
_FAILURES: Final = re.compile(r"^kraft_bridge_request_failures_total\{.*\} [1-9].*$", re.MULTILINE)


def requests_of(frame: Frame) -> list[bytes]:
    """The whole requests in a frame, without lengths; none where a length is wrong."""
    try:
        return FrameReader().feed(frame.data)
    except DecodeError:
        return []


def of_answers(frame: Frame, answers: Sequence[bytes], *, closed: bool) -> str:
    """What is wrong with the answers to a frame; empty: nothing.

    Args:
        frame: what was sent.
        answers: in their order, without lengths.
        closed: whether the connection was closed after them.
    """
    requests = requests_of(frame)
    if len(answers) > len(requests):
        return f"{len(answers)} answers to {len(requests)} requests"
    for asked, answer in zip(requests, answers, strict=False):
        try:
            wrong = _of_answer(asked, answer)
        except DecodeError as error:
            wrong = f"the answer cannot be read: {error}"
        if wrong:
            return wrong
    may_close = frame.spoilt or frame.closes or frame.door == "before"
    if len(answers) < len(requests) and not may_close:
        return "the connection was closed" if closed else "no answer"
    return ""


def _of_answer(asked: bytes, data: bytes) -> str:
    header, _ = split_request(asked)
    offered = lookup("response", header.api_key)
    known = offered is not None and header.api_version in spec(offered).versions
    # ApiVersions alone is answered in a version that it does not know: in version 0.
    found_id, answer = decode_response(header.api_key, header.api_version * known, data)
    if found_id != header.correlation_id:
        return f"the answer is to request {found_id}, not {header.correlation_id}"
    if ErrorCode.UNKNOWN_SERVER_ERROR in _codes(answer):
        return f"UNKNOWN_SERVER_ERROR: {answer!r}"[:1_000]
    if header.api_key == ENVELOPE and answer.response_data:
        return _of_answer(
            decode_request(asked, trailing=True)[1].request_data, answer.response_data
        )
    return ""


def _codes(answer: Any) -> Iterator[int]:
    """All error codes in a message, at any depth."""
    if isinstance(answer, list):
        for one in answer:
            yield from _codes(one)
    elif isinstance(answer, msgspec.Struct):
        for name in answer.__struct_fields__:
            value = getattr(answer, name)
            if name.endswith("error_code"):
                yield value
            else:
                yield from _codes(value)


def of_log(lines: Sequence[str]) -> str:
    """The first line that a fault of the server has written; empty: there is none."""
    found = (one for one in lines if any(map(one.__contains__, _SIGNS)) or _RAISED.search(one))
    return next(found, "")


def of_metrics(page: str) -> str:
    """The failures that a server counts; empty: none."""
    return "; ".join(found[0] for found in _FAILURES.finditer(page))


def of_memory(readings: Sequence[tuple[int, int]], warm_frames: int = WARM_FRAMES) -> str:
    """Whether a process has grown; empty: it has not, or nothing is known yet.

    Args:
        readings: frames that the process had got, and its resident bytes then.
        warm_frames: so many frames the growth is not counted.
    """
    before = max((size for frames, size in readings if frames <= warm_frames), default=0)
    after = max((size for frames, size in readings if frames > warm_frames), default=0)
    if not before or after <= GROWS * before:
        return ""
    return (
        f"{before / MIB:.1f} MiB at most in the first {warm_frames} frames, "
        f"then {after / MIB:.1f} MiB"
    )


def of_steps(took_ms: Sequence[float]) -> str:
    """Whether a frame takes too long; empty: it does not.

    Args:
        took_ms: CPU of each time that it was sent. A collection of garbage or a snapshot may fall
            into one of them, not into each.
    """
    least = min(took_ms)
    return f"{least:.1f} ms of CPU at least, each time" if least > STEP_MS else ""


def least(done: Mapping[str, int]) -> int:
    """How many frames the API and version got that got the fewest."""
    return min(done.values(), default=0)
