"""The state that the records of a metadata log describe, derived independently of the product.

The product replays records with ``emulator/metadata``; this module shares nothing with it but the
records' declarations, so that a mistake made there is not made here as well. It knows what the
checkers ask for, and nothing more.

Source: the replay methods of QuorumController's managers, PartitionRegistration.merge, Kafka 3.9.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, NamedTuple, TypeAlias

from wire import records as r

TOPIC: Final = 2
BROKER: Final = 4
NO_LEADER_CHANGE: Final = -2
NO_RECOVERY_CHANGE: Final = -1
METADATA_VERSION: Final = "metadata.version"
Entity: TypeAlias = tuple[tuple[str, str | None], ...]


class PartitionFacts(NamedTuple):
    """One partition."""

    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    removing_replicas: tuple[int, ...]
    adding_replicas: tuple[int, ...]
    leader: int
    leader_recovery_state: int
    leader_epoch: int
    partition_epoch: int


class TopicFacts(NamedTuple):
    """One topic."""

    name: str
    id: bytes
    partitions: Mapping[int, PartitionFacts]


class BrokerFacts(NamedTuple):
    """One registration."""

    id: int
    epoch: int
    fenced: bool
    is_migrating_zk_broker: bool


class AclFacts(NamedTuple):
    """One access control entry."""

    resource_type: int
    pattern_type: int
    resource_name: str
    principal: str
    host: str
    operation: int
    permission: int


@dataclass(frozen=True, slots=True)
class Facts:
    """Everything through ``offset``. The mappings are never changed once they are here."""

    offset: int = -1
    topics: Mapping[bytes, TopicFacts] = field(default_factory=dict)
    ids: Mapping[str, bytes] = field(default_factory=dict)
    """The ids of topics, by name."""
    configs: Mapping[tuple[int, str], Mapping[str, str]] = field(default_factory=dict)
    brokers: Mapping[int, BrokerFacts] = field(default_factory=dict)
    client_quotas: Mapping[Entity, Mapping[str, float]] = field(default_factory=dict)
    scram: Mapping[tuple[str, int], r.UserScramCredentialRecord] = field(default_factory=dict)
    acls: Mapping[bytes, AclFacts] = field(default_factory=dict)
    tokens: Mapping[str, r.DelegationTokenRecord] = field(default_factory=dict)
    levels: Mapping[str, int] = field(default_factory=dict)
    next_producer_id: int = 0
    migration_state: int = 0

    def topic(self, name: str) -> TopicFacts | None:
        """A topic by name."""
        return self.topics.get(self.ids.get(name, b""))

    def partition(self, topic_id: bytes, index: int) -> PartitionFacts | None:
        """A partition of a topic's id."""
        topic = self.topics.get(topic_id)
        return None if topic is None else topic.partitions.get(index)

    def config(self, kind: int, name: str) -> Mapping[str, str]:
        """Configs of a topic or a broker; empty if there are none."""
        return self.configs.get((kind, name), {})

    @property
    def level(self) -> int:
        """The level of metadata.version."""
        return self.levels.get(METADATA_VERSION, 1)


EMPTY: Final = Facts()
SILENT: Final = (r.NoOpRecord, r.BeginTransactionRecord, r.EndTransactionRecord)
"""Records that change nothing by themselves."""


class Draft:
    """Facts while records are applied: what a record touches is copied, once."""

    def __init__(self, facts: Facts) -> None:
        self._facts = facts
        self._own: dict[str, Any] = {}
        self._partitions: set[bytes] = set()

    def apply(self, record: object) -> None:
        """Apply one record.

        Raises:
            KeyError: it names an entity that does not exist.
        """
        if (function := _APPLY.get(type(record))) is not None:
            function(self, record)

    def facts(self, offset: int) -> Facts:
        """The result."""
        return replace(self._facts, offset=offset, **self._own)

    def of(self, name: str) -> dict[Any, Any]:
        """A mapping of the facts that may be changed."""
        if name not in self._own:
            self._own[name] = dict(getattr(self._facts, name))
        mine: dict[Any, Any] = self._own[name]
        return mine

    def put(self, name: str, value: int) -> None:
        """Set a number."""
        self._own[name] = value

    def partitions(self, topic_id: bytes) -> dict[int, PartitionFacts]:
        """The partitions of a topic, to be changed."""
        topics = self.of("topics")
        if topic_id not in self._partitions:
            self._partitions.add(topic_id)
            known = topics[topic_id]
            topics[topic_id] = known._replace(partitions=dict(known.partitions))
        found: dict[int, PartitionFacts] = topics[topic_id].partitions
        return found


def _topic(draft: Draft, one: r.TopicRecord) -> None:
    draft.of("topics")[one.topic_id] = TopicFacts(one.name, one.topic_id, {})
    draft.of("ids")[one.name] = one.topic_id


def _remove_topic(draft: Draft, one: r.RemoveTopicRecord) -> None:
    gone = draft.of("topics").pop(one.topic_id)
    draft.of("ids").pop(gone.name)
    draft.of("configs").pop((TOPIC, gone.name), None)


def _partition(draft: Draft, one: r.PartitionRecord) -> None:
    draft.partitions(one.topic_id)[one.partition_id] = PartitionFacts(
        tuple(one.replicas),
        tuple(one.isr),
        tuple(one.removing_replicas),
        tuple(one.adding_replicas),
        one.leader,
        one.leader_recovery_state,
        one.leader_epoch,
        one.partition_epoch,
    )


def _change(draft: Draft, one: r.PartitionChangeRecord) -> None:
    partitions = draft.partitions(one.topic_id)
    old = partitions[one.partition_id]
    led = one.leader != NO_LEADER_CHANGE
    recovery = one.leader_recovery_state

    def later(new: Sequence[int] | None, before: tuple[int, ...]) -> tuple[int, ...]:
        return before if new is None else tuple(new)

    partitions[one.partition_id] = PartitionFacts(
        later(one.replicas, old.replicas),
        later(one.isr, old.isr),
        later(one.removing_replicas, old.removing_replicas),
        later(one.adding_replicas, old.adding_replicas),
        one.leader if led else old.leader,
        old.leader_recovery_state if recovery == NO_RECOVERY_CHANGE else recovery,
        old.leader_epoch + led,
        old.partition_epoch + 1,
    )


def _config(draft: Draft, one: r.ConfigRecord) -> None:
    configs = draft.of("configs")
    key = (one.resource_type, one.resource_name)
    values = dict(configs.get(key, {}))
    if one.value is None:
        values.pop(one.name, None)
    else:
        values[one.name] = one.value
    configs[key] = values


def _quota(draft: Draft, one: r.ClientQuotaRecord) -> None:
    quotas = draft.of("client_quotas")
    key = entity_of((part.entity_type, part.entity_name) for part in one.entity)
    limits = dict(quotas.pop(key, {}))
    if one.remove:
        limits.pop(one.key, None)
    else:
        limits[one.key] = one.value
    if limits:
        quotas[key] = limits


def entity_of(parts: Any) -> Entity:
    """A client entity, whatever the order of its parts."""
    return tuple(sorted(parts, key=lambda part: part[0]))


def _acl(draft: Draft, one: r.AccessControlEntryRecord) -> None:
    draft.of("acls")[one.id] = AclFacts(
        one.resource_type,
        one.pattern_type,
        one.resource_name,
        one.principal,
        one.host,
        one.operation,
        one.permission_type,
    )


def _register(draft: Draft, one: r.RegisterBrokerRecord) -> None:
    draft.of("brokers")[one.broker_id] = BrokerFacts(
        one.broker_id, one.broker_epoch, one.fenced, one.is_migrating_zk_broker
    )


def _fence(draft: Draft, broker_id: int, *, fenced: bool) -> None:
    brokers = draft.of("brokers")
    brokers[broker_id] = brokers[broker_id]._replace(fenced=fenced)


def _registration_change(draft: Draft, one: r.BrokerRegistrationChangeRecord) -> None:
    if one.fenced:
        _fence(draft, one.broker_id, fenced=one.fenced > 0)


_APPLY: Final[Mapping[type, Callable[[Draft, Any], Any]]] = {
    r.TopicRecord: _topic,
    r.RemoveTopicRecord: _remove_topic,
    r.PartitionRecord: _partition,
    r.PartitionChangeRecord: _change,
    r.ConfigRecord: _config,
    r.ClientQuotaRecord: _quota,
    r.AccessControlEntryRecord: _acl,
    r.RemoveAccessControlEntryRecord: lambda d, one: d.of("acls").pop(one.id),
    r.UserScramCredentialRecord: lambda d, one: d.of("scram").update(
        {(one.name, one.mechanism): one}
    ),
    r.RemoveUserScramCredentialRecord: lambda d, one: d.of("scram").pop((one.name, one.mechanism)),
    r.DelegationTokenRecord: lambda d, one: d.of("tokens").update({one.token_id: one}),
    r.RemoveDelegationTokenRecord: lambda d, one: d.of("tokens").pop(one.token_id),
    r.RegisterBrokerRecord: _register,
    r.UnregisterBrokerRecord: lambda d, one: d.of("brokers").pop(one.broker_id),
    r.FenceBrokerRecord: lambda d, one: _fence(d, one.id, fenced=True),
    r.UnfenceBrokerRecord: lambda d, one: _fence(d, one.id, fenced=False),
    r.BrokerRegistrationChangeRecord: _registration_change,
    r.FeatureLevelRecord: lambda d, one: d.of("levels").update({one.name: one.feature_level}),
    r.ProducerIdsRecord: lambda d, one: d.put("next_producer_id", one.next_producer_id),
    r.ZkMigrationStateRecord: lambda d, one: d.put("migration_state", one.zk_migration_state),
}
