"""ApiVersions (18): the APIs of this listener. KIP-35, KIP-511 (v3), KIP-584 (features).

Kafka: ControllerApis.handleApiVersionsRequest, ApiVersionsResponse (3.9).

INVALID_REQUEST for a malformed software name or version. A request in an unsupported version is
answered by ``unsupported``, always in the format of version 0. Served before and without
activation.
"""

from __future__ import annotations

from copy import copy
from functools import lru_cache
from typing import Final

from emulator.controller.context import Context
from emulator.controller.registry import (
    PROCESS,
    SOFTWARE,
    advertised,
    handles,
    process_name,
    supported_features,
    tells_readiness,
)
from emulator.controller.result import Result, one_error
from emulator.metadata.image import Image
from emulator.net.greeting import listed, software_is_named
from wire import messages as m
from wire.errors import ErrorCode

_KEY: Final = 18
_FEATURES_FINALIZED_SINCE = ("3.6", "3.7", "3.8", "3.9")
_MIN_ZERO_FEATURES_SINCE_VERSION = 4


def unsupported(release: str) -> m.ApiVersionsResponse:
    """Response to an ApiVersions request in an unsupported version.

    To be encoded at **version 0** whatever the version of the request; it lists only ApiVersions
    itself, so that the client knows which version to use next.

    Source: ApiVersionsRequest.getErrorResponse, Kafka 3.9.
    """
    return m.ApiVersionsResponse(
        error_code=ErrorCode.UNSUPPORTED_VERSION,
        api_keys=listed({_KEY: advertised(release)[_KEY]}),
    )


refused = one_error(m.ApiVersionsResponse)


@handles(m.ApiVersionsRequest, refused=refused, pre_migration=True, read=True)
def api_versions(
    image: Image, request: m.ApiVersionsRequest, ctx: Context
) -> Result[m.ApiVersionsResponse]:
    """List APIs, supported features, and the finalised features of the committed image."""
    release = ctx.config.release
    low, high = advertised(release)[_KEY]
    if not low <= ctx.api_version <= high:
        return Result(unsupported(release))
    if not software_is_named(request, ctx.api_version):
        return Result(refused(request, ErrorCode.INVALID_REQUEST, None))
    zeros = ctx.api_version >= _MIN_ZERO_FEATURES_SINCE_VERSION
    levels = _Levels(image)
    config = ctx.config
    offer = _offer(release, ctx.features_epoch, levels, config.migration_enabled, zeros)
    asks_who = request.client_software_name == SOFTWARE
    return Result(_signed(offer, config.incarnation_id) if asks_who else offer)


def _signed(offer: m.ApiVersionsResponse, incarnation_id: bytes) -> m.ApiVersionsResponse:
    """The same for another voter of ours, with the name of this process as one more feature."""
    kind = m.ApiVersionsResponse.SupportedFeatureKey
    own = kind(name=PROCESS + process_name(incarnation_id), min_version=1, max_version=1)
    signed = copy(offer)
    signed.supported_features = [*offer.supported_features, own]
    return signed


class _Levels:
    """The finalised features of an image; instances are equal only for the same map of features.

    The image itself is not held: it would outlive its time in the cache.
    """

    __slots__ = ("features",)

    def __init__(self, image: Image) -> None:
        self.features = image.features

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Levels) and self.features is other.features

    def __hash__(self) -> int:
        return id(self.features)


@lru_cache(maxsize=16)
def _offer(
    release: str,
    features_epoch: int,
    levels: _Levels,
    migration_enabled: bool,
    zeros: bool,
) -> m.ApiVersionsResponse:
    """One response for all callers until a feature changes; callers must not modify it."""
    response = m.ApiVersionsResponse(
        api_keys=listed(advertised(release)),
        supported_features=[
            m.ApiVersionsResponse.SupportedFeatureKey(name=name, min_version=low, max_version=high)
            for name, (low, high) in supported_features(release).items()
            # Decoders before v4 fail on a feature that may be absent (KAFKA-17011).
            if low > 0 or zeros
        ],
        zk_migration_ready=migration_enabled and tells_readiness(release),
    )
    if release in _FEATURES_FINALIZED_SINCE:
        response.finalized_features_epoch = features_epoch
        response.finalized_features = [
            m.ApiVersionsResponse.FinalizedFeatureKey(
                name=name, max_version_level=level, min_version_level=level
            )
            for name, level in Image(features=levels.features).finalised_features.items()
            if level
        ]
    return response
