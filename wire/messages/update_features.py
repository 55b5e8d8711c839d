"""UpdateFeatures (57): finalise feature levels such as metadata.version.

KIP-584, KIP-778 (v1). Source: UpdateFeaturesRequest, UpdateFeaturesResponse, Kafka 3.4-3.9.
"""

from __future__ import annotations

from typing import Final

from wire.codec import normalised
from wire.schema import Bool, Int8, Int16, Int32, String, field, group, message, replace

UPGRADE: Final = 1
SAFE_DOWNGRADE: Final = 2
UNSAFE_DOWNGRADE: Final = 3
_UPGRADE_TYPE_FROM: Final = 1


@message(key=57, versions="0-1", flexible="0+")
class UpdateFeaturesRequest:
    @group
    class FeatureUpdateKey:
        feature: String = ""
        max_version_level: Int16 = 0
        allow_downgrade: Bool = field(False, versions="0")
        upgrade_type: Int8 = field(1, versions="1+")

    timeout_ms: Int32 = 60_000
    feature_updates: list[FeatureUpdateKey] = []
    validate_only: Bool = field(False, versions="1+")


@message(key=57, versions="0-1", flexible="0+")
class UpdateFeaturesResponse:
    @group
    class UpdatableFeatureResult:
        feature: String = ""
        error_code: Int16 = 0
        error_message: String | None = ""

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: String | None = ""
    results: list[UpdatableFeatureResult] = []


def _to_upgrade_type(request: UpdateFeaturesRequest, version: int) -> UpdateFeaturesRequest:
    """Handlers see ``upgrade_type`` alone; version 0 says only whether a downgrade is allowed."""
    if version < _UPGRADE_TYPE_FROM:
        for update in request.feature_updates:
            update.upgrade_type = SAFE_DOWNGRADE if update.allow_downgrade else UPGRADE
            update.allow_downgrade = False
    return request


def _to_allow_downgrade(request: UpdateFeaturesRequest, version: int) -> UpdateFeaturesRequest:
    if version >= _UPGRADE_TYPE_FROM:
        return request
    updates = [
        replace(
            update,
            allow_downgrade=update.allow_downgrade or update.upgrade_type != UPGRADE,
            upgrade_type=UPGRADE,
        )
        for update in request.feature_updates
    ]
    return replace(request, feature_updates=updates)


normalised(UpdateFeaturesRequest, after_decode=_to_upgrade_type, before_encode=_to_allow_downgrade)
