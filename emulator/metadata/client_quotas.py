"""Client quotas: limits by user, client id, user and client id, or ip, each with a default.

Source: ClientQuotaRecord; ClientQuotaControlManager.replay, Kafka 3.9; KIP-546.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple, TypeAlias

from emulator.metadata.pmap import PMap
from wire import records as r

USER: Final = "user"
CLIENT_ID: Final = "client-id"
IP: Final = "ip"


class EntityPart(NamedTuple):
    """One part of an entity: a type and a name; the default of its type has no name."""

    type: str
    is_default: bool
    name: str

    @classmethod
    def of(cls, entity_type: str, name: str | None) -> EntityPart:
        """Make a part from the fields of a record: the name is null for the default."""
        return cls(entity_type, name is None, name or "")

    @property
    def name_or_none(self) -> str | None:
        """The name as records and requests give it: null for the default."""
        return None if self.is_default else self.name


Entity: TypeAlias = tuple[EntityPart, ...]
"""Parts by ascending type, so that client-id comes before user."""
Quotas: TypeAlias = PMap[str, float]
"""Limit by key, such as ``producer_byte_rate``."""
ClientQuotas: TypeAlias = PMap[Entity, Quotas]

NONE: Final[Quotas] = PMap()


def entity(parts: Iterable[tuple[str, str | None]]) -> Entity:
    """An entity from (type, name or None for the default) pairs, in any order.

    >>> entity([("user", None), ("client-id", "c")])[1].name_or_none is None
    True
    """
    return tuple(sorted(EntityPart.of(*part) for part in parts))


def of_record(record: r.ClientQuotaRecord) -> Entity:
    """The entity a record is about."""
    return entity((one.entity_type, one.entity_name) for one in record.entity)


def record_of(entity: Entity, key: str, value: float | None) -> r.ClientQuotaRecord:
    """The record that sets one limit, or removes it when the value is None."""
    return r.ClientQuotaRecord(
        entity=[
            r.ClientQuotaRecord.EntityData(entity_type=one.type, entity_name=one.name_or_none)
            for one in entity
        ],
        key=key,
        value=0.0 if value is None else value,
        remove=value is None,
    )


def alter(quotas: ClientQuotas, record: r.ClientQuotaRecord) -> ClientQuotas:
    """Set or remove one limit; an entity without any is not kept."""
    key = of_record(record)
    limits = quotas.get(key) or NONE
    if not record.remove:
        return quotas.set(key, limits.set(record.key, record.value))
    if record.key not in limits:
        return quotas
    limits = limits.delete(record.key)
    return quotas.set(key, limits) if limits else quotas.delete(key)
