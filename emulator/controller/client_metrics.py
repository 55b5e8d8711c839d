"""Configs of resources of type CLIENT_METRICS: which metrics clients push. KIP-714.

They are in the log only; ZooKeeper has no znode for them.

Source: ClientMetricsConfigs, Kafka 3.7-3.9.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

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
_JAVA_CLASS: Final = re.compile(r"\\[pP](\{\w+\}|\w)")
"""Character classes of Java's patterns that Python does not have."""


def error(name: str, values: Mapping[str, str]) -> ApiError | None:
    """Why a subscription cannot have these configs; None if it can.

    Patterns are checked with Python's syntax, which differs from Java's in rare cases.
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
    for pattern in values[MATCH].split(",") if MATCH in values else ():
        if not _good_pattern(pattern):
            text = f"Illegal client matching pattern: {pattern}"
            return ApiError(ErrorCode.INVALID_CONFIG, text)
    return None


def _good_interval(text: str) -> bool:
    if re.fullmatch(r"[+-]?[0-9]{1,10}", text) is None:
        return False
    return INTERVAL_MIN_MS <= int(text) <= INTERVAL_MAX_MS


def _good_pattern(pattern: str) -> bool:
    parts = pattern.rstrip("=").split("=")
    if len(parts) != 2 or parts[0].strip() not in MATCHED:
        return False
    try:
        re.compile(_JAVA_CLASS.sub("x", parts[1].strip()))
    except (re.error, RecursionError, OverflowError):
        return False
    return True
