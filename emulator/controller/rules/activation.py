"""What a controller appends when it becomes the leader, before it answers anybody.

Source: ActivationRecordsGenerator, Kafka 3.5-3.9.
"""

from __future__ import annotations

from dataclasses import dataclass

from emulator.controller.context import ControllerConfig
from emulator.controller.registry import supported_features
from emulator.controller.result import Record
from emulator.controller.rules import finalisation
from emulator.metadata import controllers
from emulator.metadata.brokers import Endpoint
from emulator.metadata.controllers import ControllerRegistration
from emulator.metadata.errors import ActivationRefusedError
from emulator.metadata.image import Image
from emulator.metadata.metadata_version import FEATURE_NAME, Feature, MetadataVersion
from emulator.metadata.migration_state import MigrationState, record_of
from emulator.metadata.pmap import PMap
from wire import records as r

BOOTSTRAP_LEVEL_MIN = 4
"""Lowest metadata.version that is kept in the log (KIP-778)."""


@dataclass(frozen=True, slots=True)
class Activation:
    """Batches to append, each atomic, and what to log about the migration."""

    batches: tuple[tuple[Record, ...], ...]
    note: str


def activation(
    image: Image, config: ControllerConfig, *, empty: bool, in_transaction: bool, epoch: int
) -> Activation:
    """Decide which batches a new leader appends first.

    Args:
        image: the tip of the log; if a metadata transaction is open, the image before it began.
        config: this controller.
        empty: the log holds no metadata record at all.
        in_transaction: the former leader left a metadata transaction open.
        epoch: the leader epoch that begins.

    Raises:
        ActivationRefusedError: see the texts below.
    """
    began = _bootstrap(config) if empty else _of_a_migration(image, config, epoch)
    if not in_transaction:
        return began
    abort = (r.AbortTransactionRecord(reason="Controller failover"),)
    return Activation((abort, *began.batches), began.note)


def _bootstrap(config: ControllerConfig) -> Activation:
    metadata_version = MetadataVersion.from_level(config.metadata_version)
    highest = supported_features(config.release)[FEATURE_NAME][1]
    if metadata_version.level > highest:
        raise ActivationRefusedError(
            f"metadata.version {metadata_version.level} ({metadata_version.name}) is above what "
            f"a {config.release} controller supports ({highest})."
        )
    if config.migration_enabled and not metadata_version.supports(Feature.MIGRATION):
        raise ActivationRefusedError(
            "zookeeper.metadata.migration.enable is true, but metadata.version "
            f"{metadata_version.level} ({metadata_version.name}) is below 8 (3.4-IV0), the first "
            "that can migrate: format an empty folder with -r and the brokers' "
            "inter.broker.protocol.version."
        )
    records: list[Record] = []
    if metadata_version.level >= BOOTSTRAP_LEVEL_MIN:
        level = metadata_version.level
        records.append(r.FeatureLevelRecord(name=FEATURE_NAME, feature_level=level))
    records += _given(config, metadata_version)
    state = MigrationState.PRE_MIGRATION if config.migration_enabled else MigrationState.NONE
    if metadata_version.supports(Feature.MIGRATION):
        records.append(r.ZkMigrationStateRecord(zk_migration_state=state))
    if metadata_version.supports(Feature.TRANSACTIONS):
        begin = r.BeginTransactionRecord(name="Bootstrap records")
        records = [begin, *records, r.EndTransactionRecord()]
    note = f"Wrote the bootstrap records of metadata.version {metadata_version.name}."
    return Activation((tuple(records),) if records else (), f"{note} Migration: {state.name}.")


def _given(config: ControllerConfig, metadata_version: MetadataVersion) -> tuple[Record, ...]:
    """The other records of bootstrap.checkpoint.

    Raises:
        ActivationRefusedError: the level does not support such a record, or it finalises an
            unsupported feature.
    """
    supported = supported_features(config.release)
    for record in config.bootstrap_records:
        try:
            metadata_version.record_version(type(record))
        except ValueError as error:
            raise ActivationRefusedError(f"bootstrap.checkpoint: {error}.") from None
        if isinstance(record, r.FeatureLevelRecord):
            low, high = supported.get(record.name, (0, 0))
            if not low <= record.feature_level <= high:
                raise ActivationRefusedError(
                    f"bootstrap.checkpoint: {record.name} {record.feature_level} is not supported "
                    f"by a {config.release} controller ({low} to {high})."
                )
    return config.bootstrap_records


def _of_a_migration(image: Image, config: ControllerConfig, epoch: int) -> Activation:
    state, enabled = image.migration_state, config.migration_enabled
    match state:
        case MigrationState.NONE if enabled:
            raise ActivationRefusedError(
                "zookeeper.metadata.migration.enable is true, but this log belongs to a cluster "
                "that was created in KRaft mode, which cannot migrate from ZooKeeper."
            )
        case MigrationState.PRE_MIGRATION if not enabled:
            raise ActivationRefusedError(
                f"The migration is in state {state.name}, but zookeeper.metadata.migration.enable "
                "is not true. Nothing is copied yet, so nothing can be finalised. Set it to true "
                "and start again."
            )
        case MigrationState.MIGRATION if not enabled:
            return _without_the_flag(image, config, epoch)
        case MigrationState.POST_MIGRATION if enabled:
            note = "The migration is complete: zookeeper.metadata.migration.enable is ignored."
            return Activation((), note)
        case _:
            return Activation((), f"Migration: {state.name}.")


def _without_the_flag(image: Image, config: ControllerConfig, epoch: int) -> Activation:
    """What a leader appends that is to finalise the migration, and may have to wait for that.

    Raises:
        ActivationRefusedError: the only voter cannot get what it lacks.
    """
    if config.finalises_at_once:
        final = r.ZkMigrationStateRecord(zk_migration_state=MigrationState.POST_MIGRATION)
        return Activation(((final,),), "Finalised at once: kraftbridge.finalization=kafka.")
    lacks = finalisation.lacking_alone(image)
    if lacks and len(config.voters) <= 1:
        raise ActivationRefusedError(
            "zookeeper.metadata.migration.enable is not true, and the migration cannot be "
            f"finalised, which could not be undone: {'; '.join(one.text for one in lacks)}. "
            f"{finalisation.FLAG}=true keeps the migration going."
        )
    if image.mark is None:
        return Activation((), "Migration: waits to be finalised; no mark.")
    mark = image.mark.continued(epoch)
    return Activation(((record_of(mark),),), "Migration: waits to be finalised.")


def registration(image: Image, config: ControllerConfig) -> r.RegisterControllerRecord | None:
    """Registration of the controller itself (KIP-919); None below metadata.version 3.7-IV0.

    A one-node quorum has nobody to send ControllerRegistration to, so the leader writes it.
    """
    if not image.metadata_version.supports(Feature.CONTROLLER_REGISTRATION):
        return None
    return own_registration(config)


def own_registration(config: ControllerConfig) -> r.RegisterControllerRecord:
    """The registration record of this controller."""
    return controllers.registration(
        ControllerRegistration(
            config.node_id,
            config.incarnation_id,
            config.migration_enabled,
            tuple(
                Endpoint(one.name, one.host, one.port, one.security_protocol)
                for one in config.listeners
            ),
            PMap(supported_features(config.release)),
        )
    )
