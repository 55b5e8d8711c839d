"""Which API versions each release speaks, on which listener.

Each row lists only what differs from the release before it. Unstable versions, which a release
hides unless told otherwise, are not listed; telemetry (71, 72) is listed although a broker hides it
without a telemetry receiver.

Source: ApiKeys.apisForListener run on the jars 3.4.1, 3.5.2, 3.6.2, 3.7.2, 3.8.1 and 3.9.2.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, Literal, TypeAlias

Ranges: TypeAlias = Mapping[int, tuple[int, int]]
"""API key -> lowest and highest version."""

RELEASES: Final = ("3.4", "3.5", "3.6", "3.7", "3.8", "3.9")

_CONTROLLER: Final = {
    "3.4": (
        "1:0-13 7:0-3 17:0-1 18:0-3 19:0-7 20:0-6 29:0-3 30:0-3 31:0-3 33:0-2 36:0-2 "
        "37:0-3 43:0-2 44:0-1 45:0 46:0 49:0-1 52:0 53:0 54:0 55:0-1 56:0-2 57:0-1 58:0 "
        "59:0 62:0-1 63:0 64:0 67:0"
    ),
    "3.5": ("1:0-15 50:0 51:0 56:0-3"),
    "3.6": ("38:0-3 39:0-2 40:0-2 41:0-3"),
    "3.7": ("1:0-16 32:0-4 60:0-1 62:0-3 63:0-1 70:0 73:0"),
    "3.8": (""),
    "3.9": ("1:0-17 18:0-4 52:0-1 53:0-1 54:0-1 55:0-2 59:0-1 62:0-4 80:0 81:0 82:0"),
}
_KRAFT_BROKER: Final = {
    "3.4": (
        "0:0-9 1:0-13 2:0-7 3:0-12 8:0-8 9:0-8 10:0-4 11:0-9 12:0-4 13:0-5 14:0-5 15:0-5 "
        "16:0-4 17:0-1 18:0-3 19:0-7 20:0-6 21:0-2 22:0-4 23:0-4 24:0-3 25:0-3 26:0-3 "
        "27:0-1 28:0-3 29:0-3 30:0-3 31:0-3 32:0-4 33:0-2 34:0-2 35:0-4 36:0-2 37:0-3 "
        "42:0-2 43:0-2 44:0-1 45:0 46:0 47:0 48:0-1 49:0-1 55:0-1 57:0-1 60:0 61:0 64:0 "
        "65:0 66:0"
    ),
    "3.5": ("1:0-15 2:0-8 50:0 51:0"),
    "3.6": ("24:0-4 38:0-3 39:0-2 40:0-2 41:0-3"),
    "3.7": ("0:0-10 1:0-16 8:0-9 9:0-9 60:0-1 68:0 71:0 72:0 74:0"),
    "3.8": ("0:0-11 10:0-5 16:0-5 22:0-5 24:0-5 25:0-4 26:0-4 28:0-4 66:0-1 69:0 75:0"),
    "3.9": ("1:0-17 2:0-9 10:0-6 18:0-4 55:0-2 80:0 81:0"),
}
_ZK_BROKER: Final = {
    "3.4": (
        "0:0-9 1:0-13 2:0-7 3:0-12 4:0-7 5:0-4 6:0-8 7:0-3 8:0-8 9:0-8 10:0-4 11:0-9 "
        "12:0-4 13:0-5 14:0-5 15:0-5 16:0-4 17:0-1 18:0-3 19:0-7 20:0-6 21:0-2 22:0-4 "
        "23:0-4 24:0-3 25:0-3 26:0-3 27:0-1 28:0-3 29:0-3 30:0-3 31:0-3 32:0-4 33:0-2 "
        "34:0-2 35:0-4 36:0-2 37:0-3 38:0-3 39:0-2 40:0-2 41:0-3 42:0-2 43:0-2 44:0-1 "
        "45:0 46:0 47:0 48:0-1 49:0-1 50:0 51:0 56:0-2 57:0-1 58:0 60:0 61:0 65:0 66:0 "
        "67:0"
    ),
    "3.5": ("1:0-15 2:0-8 56:0-3"),
    "3.6": ("24:0-4"),
    "3.7": ("0:0-10 1:0-16 8:0-9 9:0-9 60:0-1 68:0"),
    "3.8": ("0:0-11 10:0-5 16:0-5 22:0-5 24:0-5 25:0-4 26:0-4 28:0-4 66:0-1 69:0"),
    "3.9": ("1:0-17 2:0-9 10:0-6 18:0-4"),
}

_FORWARDABLE: Final = frozenset(
    {19, 20, 30, 31, 33, 37, 38, 39, 40, 43, 44, 45, 46, 49, 51, 55, 57, 64, 67}
)
_FORWARDABLE_FROM_3_9: Final = frozenset({80, 81})


def controller_ranges(release: str) -> Ranges:
    """The API versions that a controller listener of a release lists.

    Args:
        release: one of ``RELEASES``.

    Raises:
        ValueError: another release.
    """
    return _ranges("controller", release)


def broker_ranges(release: str, *, mode: Literal["zk", "kraft"] = "kraft") -> Ranges:
    """The API versions that a broker listener of a release lists, in ZooKeeper or KRaft mode.

    Raises:
        ValueError: another release.
    """
    return _ranges(mode, release)


def forwardable(release: str) -> frozenset[int]:
    """The API keys that a broker of a release wraps in an Envelope (KIP-590).

    Raises:
        ValueError: another release.
    """
    if release not in RELEASES:
        raise ValueError(f"release {release!r} is none of {', '.join(RELEASES)}")
    return _FORWARDABLE | _FORWARDABLE_FROM_3_9 if release == "3.9" else _FORWARDABLE


@functools.cache
def _ranges(listener: Literal["controller", "zk", "kraft"], release: str) -> Ranges:
    if release not in RELEASES:
        raise ValueError(f"release {release!r} is none of {', '.join(RELEASES)}")
    rows = {"controller": _CONTROLLER, "zk": _ZK_BROKER, "kraft": _KRAFT_BROKER}[listener]
    ranges: dict[int, tuple[int, int]] = {}
    for known in RELEASES[: RELEASES.index(release) + 1]:
        for entry in rows[known].split():
            key, _, versions = entry.partition(":")
            low, _, high = versions.partition("-")
            ranges[int(key)] = (int(low), int(high or low))
    return MappingProxyType(dict(sorted(ranges.items())))
