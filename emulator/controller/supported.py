"""Features a controller of each release supports (KIP-584, KIP-778, KIP-853).

Source: QuorumFeatures.defaultFeatureMap, Kafka 3.4-3.9; maxima read from the released jars.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from emulator.metadata.metadata_version import FEATURE_NAME
from wire import messages as m

KRAFT_VERSION: Final = "kraft.version"
METADATA_VERSION_MAX: Final[Mapping[str, int]] = MappingProxyType(
    {"3.4": 8, "3.5": 11, "3.6": 14, "3.7": 19, "3.8": 20, "3.9": 21}
)
"""Newest production metadata.version per release."""


def supported_features(release: str) -> Mapping[str, tuple[int, int]]:
    """Feature name -> (lowest, highest level), by name.

    Raises:
        ValueError: not a release of the bridge, "3.4" ... "3.9".

    >>> dict(supported_features("3.4"))
    {'metadata.version': (1, 8)}
    """
    if release not in METADATA_VERSION_MAX:
        raise ValueError(f"{release!r} is no release from 3.4 to 3.9")
    features = {FEATURE_NAME: (1, METADATA_VERSION_MAX[release])}
    if release == "3.9":
        features[KRAFT_VERSION] = (0, 1)
    return MappingProxyType(dict(sorted(features.items())))


PROCESS: Final = "kraftbridge.process."
"""Begin of the name of a feature that names the process. Told only to software of this name:"""
SOFTWARE: Final = "kraft-bridge"


def process_name(incarnation_id: bytes) -> str:
    """How a process names itself to other voters: 16 hexadecimal digits.

    >>> process_name(bytes(15) + b"x")
    '0000000000000000'
    """
    return incarnation_id.hex()[:16]


def process_of(answer: m.ApiVersionsResponse) -> str:
    """The process that has answered; empty if it does not name itself."""
    names = (one.name for one in answer.supported_features)
    return next((name.removeprefix(PROCESS) for name in names if name.startswith(PROCESS)), "")


def tells_readiness(release: str) -> bool:
    """Whether ApiVersions of a controller of a release says that it has a migration configured."""
    return release != "3.4"
