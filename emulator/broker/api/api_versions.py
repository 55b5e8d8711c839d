"""ApiVersions (18): the APIs of a broker's listener. KIP-35, KIP-511 (v3), KIP-584 (features).

A key that is forwarded is offered in the versions that the controller supports too, and not at all
if there are none. Before the controller is known the broker's own versions are offered. The tag
ZkMigrationReady is for controllers and is never shown here.

Source: KafkaApis.handleApiVersionsRequest, DefaultApiVersionManager,
ApiVersionsResponse.intersectForwardableApis, Kafka 3.9.
"""

from __future__ import annotations

from typing import Final

from emulator.broker.cluster import KnownCluster
from emulator.broker.registry import Asked, serves
from emulator.controller.registry import supported_features
from emulator.controller.result import one_error
from emulator.net.greeting import API_VERSIONS, listed, software_is_named
from wire import messages as m
from wire.errors import ErrorCode
from wire.releases import Ranges, forwardable

_ZEROS_SINCE: Final = 4
refused = one_error(m.ApiVersionsResponse)


@serves(m.ApiVersionsRequest, refused=refused)
def api_versions(
    cluster: KnownCluster, request: m.ApiVersionsRequest, asked: Asked
) -> m.ApiVersionsResponse:
    """List APIs, supported features, and the finalised features."""
    low, high = asked.advertised[API_VERSIONS]
    if not low <= asked.api_version <= high:
        return m.ApiVersionsResponse(
            error_code=ErrorCode.UNSUPPORTED_VERSION,
            api_keys=listed({API_VERSIONS: (low, high)}),
        )
    if not software_is_named(request, asked.api_version):
        return refused(request, ErrorCode.INVALID_REQUEST, None)
    release = asked.config.release
    epoch, levels = cluster.features()
    response = m.ApiVersionsResponse
    return response(
        api_keys=listed(both(asked.advertised, asked.controller_versions, forwardable(release))),
        supported_features=[
            response.SupportedFeatureKey(name=name, min_version=low, max_version=high)
            for name, (low, high) in supported_features(release).items()
            # Decoders before v4 fail on a feature that may be absent (KAFKA-17011).
            if low > 0 or asked.api_version >= _ZEROS_SINCE
        ],
        finalized_features_epoch=epoch,
        finalized_features=[
            response.FinalizedFeatureKey(
                name=name, max_version_level=level, min_version_level=level
            )
            for name, level in levels.items()
            if level
        ],
    )


def both(ours: Ranges, controllers: Ranges | None, forwarded: frozenset[int]) -> Ranges:
    """Our versions, for keys that are forwarded limited to those of the controller.

    >>> both({3: (0, 12), 19: (0, 7), 20: (0, 6)}, {19: (2, 5)}, frozenset({19, 20}))
    {3: (0, 12), 19: (2, 5)}
    """
    if controllers is None:
        return ours
    found = {}
    for key, (low, high) in ours.items():
        if key in forwarded:
            other_low, other_high = controllers.get(key, (0, -1))
            low, high = max(low, other_low), min(high, other_high)  # noqa: PLW2901 - narrowed, and not used again
        if low <= high:
            found[key] = (low, high)
    return found
