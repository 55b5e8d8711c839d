"""UpdateFeatures (57): raise or lower finalised features, metadata.version above all. KIP-584, 778.

Kafka: FeatureControlManager.updateFeatures, QuorumFeatures (3.9; differences of older releases by
``release``).

Every refusal of a feature is INVALID_UPDATE_VERSION with Kafka's text, in this order: an unknown
upgrade type; a level below 0; a level that this controller, a registered broker or, from
metadata.version 3.7-IV0 on, another controller does not support; a direction that the upgrade type
does not allow; then for metadata.version a migration under way (3.5+), a level below 3.3-IV0, a
downgrade that would lose metadata. The valid features of a request are written even if others are
refused. Needs ALTER on CLUSTER. Before the copy a refusal is answered as usual (Kafka lets clients
retry until they give up); a valid change is answered NOT_CONTROLLER then.
"""

from __future__ import annotations

from typing import Final

from emulator.controller.context import Context
from emulator.controller.registry import KRAFT_VERSION, handles, supported_features
from emulator.controller.result import ApiError, Record, Result, one_error
from emulator.controller.rules.activation import own_registration
from emulator.metadata.acls import Operation
from emulator.metadata.brokers import Brokers
from emulator.metadata.image import Image
from emulator.metadata.metadata_version import (
    FEATURE_NAME,
    MINIMUM_BOOTSTRAP,
    Feature,
    MetadataVersion,
)
from emulator.metadata.migration_state import MigrationState
from emulator.seam import ENTRIES_PER_SLICE, Kept, Same, Slices
from wire import messages as m
from wire import records as r
from wire.errors import ErrorCode
from wire.messages.update_features import SAFE_DOWNGRADE, UNSAFE_DOWNGRADE, UPGRADE

Response = m.UpdateFeaturesResponse
Range = tuple[int, int]

_DISABLED: Final[Range] = (0, 0)
"""The range that a node supports of a feature it does not list."""
_UNBOUNDED: Final = 2**15 - 1
_BEFORE_3_7: Final = frozenset({"3.4", "3.5", "3.6"})

refused = one_error(Response)


@handles(m.UpdateFeaturesRequest, refused=refused, pre_migration=True, needs=Operation.ALTER)
def update_features(
    image: Image, request: m.UpdateFeaturesRequest, ctx: Context
) -> Slices[Result[Response]]:
    """Check each feature separately and finalise the valid ones, all in one batch."""
    # Of a feature named twice the last entry counts.
    updates = {update.feature: update for update in request.feature_updates}
    results: list[Response.UpdatableFeatureResult] = []
    records: list[Record] = []
    for number, (name, update) in enumerate(sorted(updates.items()), 1):
        if number % ENTRIES_PER_SLICE == 0:
            yield
        # Since KIP-778 v0's allowDowngrade has no meaning: v0 requests can only upgrade.
        kind = update.upgrade_type if ctx.api_version else UPGRADE
        error = check(image, name, update.max_version_level, kind, ctx)
        if error is None and name != KRAFT_VERSION:
            records += _records(image, name, update.max_version_level, ctx)
        code, text = (ErrorCode.NONE, None) if error is None else (error.code, error.message)
        results.append(
            Response.UpdatableFeatureResult(feature=name, error_code=code, error_message=text)
        )
    if request.validate_only:
        records = []
    if records and image.migration_state is MigrationState.PRE_MIGRATION:
        text = "The controller is in pre-migration mode."
        return Result(refused(request, ErrorCode.NOT_CONTROLLER, text))
    return Result(Response(results=results), tuple(records))


def check(image: Image, name: str, level: int, upgrade_type: int, ctx: Context) -> ApiError | None:
    """Why a feature cannot have this level, in Kafka's order of precedence; None if it can."""
    why = _why_no_update(image, name, level, upgrade_type, ctx)
    if why is not None:
        return _invalid(f"Invalid update version {level} for feature {name}. {why}")
    if name == FEATURE_NAME:
        why = _why_no_version(image, level, upgrade_type, ctx.config.release)
        if why is not None:
            return _invalid(f"Invalid metadata.version {level}. {why}")
    return None


def _invalid(text: str) -> ApiError:
    return ApiError(ErrorCode.INVALID_UPDATE_VERSION, text)


def _why_no_update(
    image: Image, name: str, level: int, upgrade_type: int, ctx: Context
) -> str | None:
    if upgrade_type not in {UPGRADE, SAFE_DOWNGRADE, UNSAFE_DOWNGRADE}:
        return "The controller does not support the given upgrade type."
    if level < 0:
        return "A feature version cannot be less than 0."
    why = _why_unsupported(image, name, level, ctx)
    if why is not None:
        return why
    current = image.features.get(name, 0)
    if name == FEATURE_NAME:
        current = image.metadata_version.level
    if level < current and upgrade_type == UPGRADE:
        return (
            "Can't downgrade the version of this feature without setting the upgrade type to "
            "either safe or unsafe downgrade."
        )
    if level > current and upgrade_type != UPGRADE:
        return "Can't downgrade to a newer version."
    if name == KRAFT_VERSION and level != current:
        return "The set of voters is static, which has no other version."
    return None


def _why_unsupported(image: Image, name: str, level: int, ctx: Context) -> str | None:
    config = ctx.config
    ranges = supported_features(config.release)
    why = _outside(f"Local controller {config.node_id}", level, ranges.get(name, _DISABLED))
    if why is not None:
        return why
    # A feature that nobody lists has level 0 everywhere, and the controller supports no other one.
    asked = name in ranges or config.release in _BEFORE_3_7 or name in _listed_by(image.brokers)
    for broker in image.brokers.values() if asked else ():
        if config.release in _BEFORE_3_7:
            why = _outside_before_3_7(f"Broker {broker.id}", level, broker.features.get(name))
        else:
            why = _outside(f"Broker {broker.id}", level, broker.features.get(name, _DISABLED))
        if why is not None:
            return why
    if not image.metadata_version.supports(Feature.CONTROLLER_REGISTRATION):
        return None  # below this level controllers do not register their supported features
    others = {one.id: one for one in image.controllers.values() if one.id != config.node_id}
    for other in others.values():
        why = _outside(f"Controller {other.id}", level, other.features.get(name, _DISABLED))
        if why is not None:
            return why
    missing = min(config.voters - others.keys() - {config.node_id}, default=None)
    if missing is None:
        return None
    return f"controller {missing} has not registered, and may not support this feature"


_LISTED: Final = Kept[frozenset[str]]()


def _listed_by(brokers: Brokers) -> frozenset[str]:
    """The features that brokers list: a request may name thousands of others."""
    known = _LISTED.find(Same(brokers))
    if known is None:
        listed = frozenset(name for one in brokers.values() for name in one.features)
        known = _LISTED.keep(Same(brokers), listed)
    return known


def _outside(who: str, level: int, supported: Range) -> str | None:
    low, high = supported
    if low <= level <= high:
        return None
    if high == 0:
        return f"{who} does not support this feature."
    return f"{who} only supports versions {_range_text(low, high)}"


def _outside_before_3_7(who: str, level: int, supported: Range | None) -> str | None:
    if supported is None:
        return f"{who} does not support this feature."
    low, high = supported
    if low <= level <= high:
        return None
    return f"{who} does not support the given version. It supports {low} to {high}."


def _range_text(low: int, high: int) -> str:
    """As VersionRange.toString."""
    if low == high:
        return str(low)
    return f"{low}+" if high == _UNBOUNDED else f"{low}-{high}"


def _why_no_version(image: Image, level: int, upgrade_type: int, release: str) -> str | None:
    migrating = image.migration_state in {MigrationState.PRE_MIGRATION, MigrationState.MIGRATION}
    if migrating and release != "3.4":
        return "Unable to modify metadata.version while a ZK migration is in progress."
    if level < MINIMUM_BOOTSTRAP.level:
        return f"Unable to set a metadata.version less than {MINIMUM_BOOTSTRAP.name}"
    if image.metadata_version.may_become(MetadataVersion.from_level(level)):
        return None
    if upgrade_type == UNSAFE_DOWNGRADE:
        return "Unsafe metadata downgrade is not supported in this version."
    why = (
        "Refusing to perform the requested downgrade because it might delete metadata information."
    )
    if release in _BEFORE_3_7:
        why += " Retry using UNSAFE_DOWNGRADE if you want to force the downgrade to proceed."
    return why


def _records(image: Image, name: str, level: int, ctx: Context) -> list[Record]:
    """The level; and this controller's registration, with the first level that has that record.

    Kafka's controller registers itself by a request when it sees the level committed.
    """
    records: list[Record] = [r.FeatureLevelRecord(name=name, feature_level=level)]
    registers = Feature.CONTROLLER_REGISTRATION
    if (
        name == FEATURE_NAME
        and not image.metadata_version.supports(registers)
        and MetadataVersion.from_level(level).supports(registers)
    ):
        records.append(own_registration(ctx.config))
    return records
