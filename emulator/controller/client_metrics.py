"""Configs of resources of type CLIENT_METRICS: which metrics clients push. KIP-714.

They are in the log only; ZooKeeper has no znode for them.

Source: ClientMetricsConfigs, Kafka 3.7-3.9.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from emulator.config import java_pattern
from emulator.config.java_text import items, split, trim, whole
from emulator.controller.result import ApiError
from wire.errors import ErrorCode

INTERVAL: Final = "interval.ms"
MATCH: Final = "match"
NAMES: Final = frozenset({"metrics", INTERVAL, MATCH})
INTERVAL_MIN_MS, INTERVAL_MAX_MS = 100, 3_600_000
MATCHED: Final = frozenset(
    {
        "client_instance_id",
        "client_id",
        "client_software_name",
        "client_software_version",
        "client_source_address",
        "client_source_port",
    }
)
RELEASES_WITHOUT: Final = frozenset({"3.4", "3.5", "3.6"})


def error(name: str, values: Mapping[str, str]) -> ApiError | None:
    """Why a subscription cannot have these configs; None if it can.

    Brokers read ``match`` as a list of their own: an empty one is none, and blanks may surround a
    comma. What either of the two readings refuses is refused.
    """
    if not name:
        return ApiError(ErrorCode.INVALID_REQUEST, "Subscription name can't be empty")
    for key in values:
        if key not in NAMES:
            text = f"Unknown client metrics configuration: {key}"
            return ApiError(ErrorCode.INVALID_REQUEST, text)
    interval = values.get(INTERVAL)
    if interval is not None and not _good_interval(interval):
        text = (
            f"Invalid value {interval} for {INTERVAL}, interval must be between "
            f"{INTERVAL_MIN_MS} and {INTERVAL_MAX_MS} (1 hour)"
        )
        return ApiError(ErrorCode.INVALID_REQUEST, text)
    match = values.get(MATCH)
    for pattern in () if match is None else dict.fromkeys((*split(match, ","), *items(match))):
        if not _good_pattern(pattern):
            text = f"Illegal client matching pattern: {pattern}"
            return ApiError(ErrorCode.INVALID_CONFIG, text)
    return None


def _good_interval(text: str) -> bool:
    try:
        return INTERVAL_MIN_MS <= whole(text) <= INTERVAL_MAX_MS
    except ValueError:
        return False


def _good_pattern(pattern: str) -> bool:
    parts = split(pattern, "=")
    if len(parts) != 2 or trim(parts[0]) not in MATCHED:
        return False
    try:
        java_pattern.check(trim(parts[1]))
    except ValueError:
        return False
    return True
