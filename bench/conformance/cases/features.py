"""UpdateFeatures (KIP-584, KIP-778): what is refused, and validate_only."""

from __future__ import annotations

from typing import Any, Final

from bench.conformance.asking import by_name
from bench.conformance.case import Ask, NotOffered, Program, Stage, case, code, holds, same
from bench.conformance.facts import greeting
from wire import messages as m

UPGRADE, SAFE, UNSAFE = 1, 2, 3
LEVEL: Final = "metadata.version"
_ASKS: Final = (m.UpdateFeaturesRequest,)
_MANAGER: Final = "KIP-778; FeatureControlManager.updateFeatures"


def update(*updates: tuple[str, int, int], validate_only: bool = True) -> Any:
    """An UpdateFeatures request."""
    kind = m.UpdateFeaturesRequest
    return kind(
        feature_updates=[
            kind.FeatureUpdateKey(feature=name, max_version_level=level, upgrade_type=how)
            for name, level, how in updates
        ],
        timeout_ms=20_000,
        validate_only=validate_only,
    )


def outcome(message: Any, name: str) -> int:
    """The error of a feature: its own, or that of the whole."""
    by_name("results", message.results, "feature")
    for one in message.results:
        if one.feature == name and one.error_code:
            return int(one.error_code)
    return int(message.error_code)


def finalized(stage: Stage) -> Program:
    """The level of metadata.version, asked now; and the newest that is supported."""
    newest = stage.versions(m.ApiVersionsRequest)[-1]
    answer = (yield Ask(greeting(), newest)).message
    found = {one.name: one.max_version_level for one in answer.finalized_features}
    ranges = {one.name: one.max_version for one in answer.supported_features}
    if LEVEL not in found or LEVEL not in ranges:
        raise NotOffered("no metadata.version is shown")
    return found[LEVEL], ranges[LEVEL]


@case(
    "UpdateFeatures: levels and features that are not known get INVALID_UPDATE_VERSION",
    sources=_MANAGER,
    asks=_ASKS,
    disruptive=True,
)
def unsupported(stage: Stage) -> Program:
    before, newest = yield from finalized(stage)
    for name, level, how in (
        ("no.such.feature", 1, UPGRADE),
        (LEVEL, newest + 100, UPGRADE),
        (LEVEL, 0, UNSAFE),
        (LEVEL, before, 7),
    ):
        answer = (yield Ask(update((name, level, how)), lowest=1)).message
        code(f"UpdateFeatures {name}={level}, type {how}", outcome(answer, name), 95)
    same("the level", (yield from finalized(stage))[0], before)


@case(
    "UpdateFeatures: a lower level by an upgrade gets INVALID_UPDATE_VERSION",
    sources=_MANAGER,
    rows="J17",
    asks=_ASKS,
    disruptive=True,
)
def lower(stage: Stage) -> Program:
    before, _ = yield from finalized(stage)
    if before < 8:
        raise NotOffered("the level has none below it")
    answer = (yield Ask(update((LEVEL, before - 1, UPGRADE)), lowest=1)).message
    code("a lower level by an upgrade", outcome(answer, LEVEL), 95)
    same("the level", (yield from finalized(stage))[0], before)


@case(
    "UpdateFeatures: the level that is finalised is no error, and validate_only changes nothing",
    sources=_MANAGER,
    asks=_ASKS,
    disruptive=True,
)
def unchanged(stage: Stage) -> Program:
    before, newest = yield from finalized(stage)
    answer = (yield Ask(update((LEVEL, before, UPGRADE)), lowest=1)).message
    code("the present level", outcome(answer, LEVEL), 0)
    if newest > before:
        answer = (yield Ask(update((LEVEL, newest, UPGRADE)), lowest=1)).message
        code("the newest level, validate_only", outcome(answer, LEVEL), 0, 95)
    same("the level", (yield from finalized(stage))[0], before)
    holds("the level", before >= 1, "1 or more", before)
