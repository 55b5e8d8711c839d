"""Replay: apply one record to an image. The only way metadata changes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Final, TypeAlias

from msgspec.structs import replace

from emulator.metadata import (
    brokers,
    client_quotas,
    configs,
    controllers,
    delegation_tokens,
    features,
    finalisation_mark,
    migration_state,
    producer_ids,
    scram,
)
from emulator.metadata.errors import ReplayError
from emulator.metadata.image import Image
from emulator.metadata.migration_state import MigrationState
from emulator.metadata.runs import RUNS, RecordRun
from emulator.metadata.topic_changes import OF_TOPICS, TopicChanges
from emulator.metadata.topics import Topic
from wire import records as r

Apply: TypeAlias = Callable[[Image, Any], Image]


def replay(image: Image, record: object, offset: int, epoch: int) -> Image:
    """Return the image after one record.

    Begin and End of a transaction only move the offset; History decides what is visible between
    them.

    Args:
        image: all records before this one, replayed.
        record: an object of ``wire.records``.
        offset: where the record stands in the log; above the image's, or the same inside a
            snapshot.
        epoch: the leader epoch of its batch.

    Raises:
        ReplayError: the record does not fit the image, is of a class that no Kafka writes (such as
            AccessControlRecord), or aborts a transaction, which needs a History.

    Source: the replay methods of QuorumController's managers, Kafka 3.9.
    """
    name = type(record).__name__
    apply = _APPLY.get(type(record))
    if apply is None:
        raise ReplayError(f"offset {offset}: {name}: records of this class are not supported")
    try:
        return replace(apply(image, record), offset=offset, epoch=epoch)
    except ReplayError as error:
        raise _placed(error, record, offset) from None


def _placed(error: ReplayError, record: object, offset: int) -> ReplayError:
    return ReplayError(f"offset {offset}: {type(record).__name__}: {error}")


class Replayer:
    """Replays records one after the other; an image is made only where one is asked for.

    Of a run of records about topics and partitions, none but the last needs one; nor of records of
    another kind that :data:`RUNS` has.
    """

    def __init__(self, image: Image) -> None:
        self._image = image
        self._pending: TopicChanges | RecordRun | None = None
        self._last = (image.offset, image.epoch)

    @property
    def image(self) -> Image:
        """All records replayed so far."""
        self.make()
        return self._image

    def make(self) -> None:
        """Make the image of all records replayed so far; a run of records may go on after it."""
        if self._pending is not None:
            self._image = self._pending.applied(*self._last)
            self._pending = None

    def of_topic(self, record: object, offset: int, epoch: int) -> Topic | None:
        """Replay a record that creates or changes a topic or partition, and return its topic.

        None: it is another record, and nothing was done. The partitions in the topic need not be
        the newest.

        Raises:
            ReplayError: as :func:`replay`.
        """
        if type(record) not in OF_TOPICS:
            return None
        changes = self._pending
        if not isinstance(changes, TopicChanges):
            changes = TopicChanges(self.image)
        try:
            topic = changes.replay(record)
        except ReplayError as error:
            raise _placed(error, record, offset) from None
        self._pending, self._last = changes, (offset, epoch)
        return topic

    def in_run(self, record: object, offset: int, epoch: int) -> Image | None:
        """Replay a record of a kind that :data:`RUNS` has; returns the image before its run.

        None: it is another record, and nothing was done.

        Raises:
            ReplayError: as :func:`replay`.
        """
        kind = RUNS.get(type(record))
        if kind is None:
            return None
        run = self._pending
        if run is None or isinstance(run, TopicChanges) or type(run) is not kind:
            run = kind(self.image)
        try:
            run.replay(record)
        except ReplayError as error:
            raise _placed(error, record, offset) from None
        self._pending, self._last = run, (offset, epoch)
        return run.before

    def other(self, record: object, offset: int, epoch: int) -> None:
        """Replay any other record.

        Raises:
            ReplayError: as :func:`replay`.
        """
        self._image = replay(self.image, record, offset, epoch)


def _of_topics(image: Image, record: object) -> Image:
    changes = TopicChanges(image)
    changes.replay(record)
    return changes.applied(image.offset, image.epoch)


def _in_run(image: Image, record: object) -> Image:
    run = RUNS[type(record)](image)
    run.replay(record)
    return run.applied(image.offset, image.epoch)


def _register_broker(image: Image, record: r.RegisterBrokerRecord) -> Image:
    return replace(image, brokers=brokers.register(image.brokers, record))


def _unregister_broker(image: Image, record: r.UnregisterBrokerRecord) -> Image:
    return replace(image, brokers=brokers.unregister(image.brokers, record))


def _fence_broker(image: Image, record: r.FenceBrokerRecord) -> Image:
    return replace(image, brokers=brokers.fence(image.brokers, record))


def _unfence_broker(image: Image, record: r.UnfenceBrokerRecord) -> Image:
    return replace(image, brokers=brokers.unfence(image.brokers, record))


def _registration_change(image: Image, record: r.BrokerRegistrationChangeRecord) -> Image:
    return replace(image, brokers=brokers.change_registration(image.brokers, record))


def _register_controller(image: Image, record: r.RegisterControllerRecord) -> Image:
    return replace(image, controllers=controllers.register(image.controllers, record))


def _config(image: Image, record: r.ConfigRecord) -> Image:
    return replace(image, configs=configs.alter(image.configs, record))


def _client_quota(image: Image, record: r.ClientQuotaRecord) -> Image:
    return replace(image, client_quotas=client_quotas.alter(image.client_quotas, record))


def _scram(image: Image, record: r.UserScramCredentialRecord) -> Image:
    return replace(image, scram_credentials=scram.upsert(image.scram_credentials, record))


def _remove_scram(image: Image, record: r.RemoveUserScramCredentialRecord) -> Image:
    return replace(image, scram_credentials=scram.remove(image.scram_credentials, record))


def _token(image: Image, record: r.DelegationTokenRecord) -> Image:
    return replace(image, delegation_tokens=delegation_tokens.put(image.delegation_tokens, record))


def _remove_token(image: Image, record: r.RemoveDelegationTokenRecord) -> Image:
    return replace(
        image, delegation_tokens=delegation_tokens.remove(image.delegation_tokens, record)
    )


def _producer_ids(image: Image, record: r.ProducerIdsRecord) -> Image:
    return replace(image, producer_ids=producer_ids.allocate(image.producer_ids, record))


def _feature_level(image: Image, record: r.FeatureLevelRecord) -> Image:
    return replace(image, features=features.finalise(image.features, record))


def _migration_state(image: Image, record: r.ZkMigrationStateRecord) -> Image:
    # A mark belongs to the state in which it was left.
    state = migration_state.enter(image.migration_state, record)
    return replace(image, migration_state=state, mark=None)


def _no_op(image: Image, record: r.NoOpRecord) -> Image:
    if image.migration_state is not MigrationState.MIGRATION:
        return image
    mark = finalisation_mark.of_record(record)
    return image if mark is None else replace(image, mark=mark)


def _nothing(image: Image, _record: object) -> Image:
    return image


def _abort(_image: Image, _record: r.AbortTransactionRecord) -> Image:
    raise ReplayError("only a History knows what the transaction began with")


_APPLY: Final[Mapping[type, Apply]] = MappingProxyType(
    {
        **dict.fromkeys(OF_TOPICS, _of_topics),
        **dict.fromkeys(RUNS, _in_run),
        r.RegisterBrokerRecord: _register_broker,
        r.UnregisterBrokerRecord: _unregister_broker,
        r.FenceBrokerRecord: _fence_broker,
        r.UnfenceBrokerRecord: _unfence_broker,
        r.BrokerRegistrationChangeRecord: _registration_change,
        r.RegisterControllerRecord: _register_controller,
        r.ConfigRecord: _config,
        r.ClientQuotaRecord: _client_quota,
        r.UserScramCredentialRecord: _scram,
        r.RemoveUserScramCredentialRecord: _remove_scram,
        r.DelegationTokenRecord: _token,
        r.RemoveDelegationTokenRecord: _remove_token,
        r.ProducerIdsRecord: _producer_ids,
        r.FeatureLevelRecord: _feature_level,
        r.ZkMigrationStateRecord: _migration_state,
        r.NoOpRecord: _no_op,
        r.BeginTransactionRecord: _nothing,
        r.EndTransactionRecord: _nothing,
        r.AbortTransactionRecord: _abort,
    }
)
