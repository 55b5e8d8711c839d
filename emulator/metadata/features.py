"""Finalised feature levels, metadata.version among them.

Source: FeatureLevelRecord; FeatureControlManager.replay, Kafka 3.9; KIP-584, KIP-778.
"""

from __future__ import annotations

from emulator.metadata.errors import ReplayError
from emulator.metadata.metadata_version import FEATURE_NAME, MetadataVersion
from emulator.metadata.pmap import PMap
from wire import records as r

Features = PMap[str, int]


def finalise(features: Features, record: r.FeatureLevelRecord) -> Features:
    """Set a feature's level; level 0 removes the feature.

    Raises:
        ReplayError: a metadata.version unknown here, 0 included (it cannot be removed), or a level
            below 0.
    """
    level = record.feature_level
    if record.name == FEATURE_NAME:
        try:
            MetadataVersion.from_level(level)
        except ValueError as error:
            raise ReplayError(str(error)) from None
    elif level < 0:
        raise ReplayError(f"{record.name} cannot have level {level}")
    if level:
        return features.set(record.name, level)
    return features.delete(record.name) if record.name in features else features
