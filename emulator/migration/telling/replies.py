"""What the replies of brokers to control requests say.

Source: LeaderAndIsrResponse, UpdateMetadataResponse, StopReplicaResponse, Kafka 3.9.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Final

import msgspec

from emulator.net.control import TYPE_FULL, ControlRequest, ControlResponse
from emulator.seam import Log
from wire import messages as m
from wire.errors import ErrorCode

KINDS_TOLD_MAX: Final = 5
"""Maximum lines in the log about one answer."""


class PartitionError(msgspec.Struct, frozen=True):
    """One error in a reply; ``topic`` is empty for an error of the whole request."""

    topic: str
    partition: int
    error_code: int


def cannot_look_for_strays(request: ControlRequest, response: object) -> bool:
    """Whether a broker failed a FULL LeaderAndIsr as a whole; see ``channels.py``."""
    return (
        isinstance(request, m.LeaderAndIsrRequest)
        and isinstance(response, m.LeaderAndIsrResponse)
        and request.type == TYPE_FULL
        and response.error_code == ErrorCode.UNKNOWN_SERVER_ERROR
    )


def errors_of(response: object) -> Iterator[PartitionError]:
    """The errors a reply of a broker carries, the one of the whole request first."""
    assert isinstance(response, ControlResponse), type(response)
    if response.error_code:
        yield PartitionError("", -1, response.error_code)
    if isinstance(response, m.LeaderAndIsrResponse):
        for topic in response.topics:
            for p in topic.partition_errors:
                if p.error_code:
                    yield PartitionError(topic.topic_id.hex(), p.partition_index, p.error_code)
    if isinstance(response, m.StopReplicaResponse):
        for q in response.partition_errors:
            if q.error_code:
                yield PartitionError(q.topic_name, q.partition_index, q.error_code)


def error_name(code: int) -> str:
    """Kafka's name of an error code, or the number if it has none."""
    try:
        return ErrorCode(code).name
    except ValueError:
        return str(code)


def told_errors(
    broker_id: int, request: ControlRequest, response: ControlResponse
) -> tuple[list[Log], int]:
    """The errors of a reply for the log, and how many there are.

    One line for each kind, with the first partition that has it: many may have one.
    """
    errors = [*errors_of(response)]
    if not errors:
        return [], 0
    first: dict[int, PartitionError] = {}
    times: Counter[int] = Counter()
    for error in errors:
        times[error.error_code] += 1
        first.setdefault(error.error_code, error)
    about = {"broker": broker_id, "request": type(request).__name__}
    logs = [
        Log(
            "warning",
            "broker answered a control request with errors",
            {
                **about,
                "topic": first[code].topic,
                "partition": first[code].partition,
                "error": error_name(code),
                "times": count,
            },
        )
        for code, count in times.most_common(KINDS_TOLD_MAX)
    ]
    return logs, len(errors)
