"""Client quotas found by what a filter names, as there may be 100,000 entities.

Kept until a quota changes, and made in slices.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, TypeAlias

from emulator.metadata.client_quotas import ClientQuotas, Entity, EntityPart
from emulator.slices import RECORDS_PER_SLICE, Pace, Slices

Key: TypeAlias = EntityPart | str
"""A part of an entity, or the type of one."""


class QuotaIndex:
    """The entities of one image, by their parts and by the types of these."""

    def __init__(self, quotas: ClientQuotas, by_key: dict[Key, list[Entity]]) -> None:
        self.quotas = quotas
        self._by_key = by_key

    @classmethod
    def of(cls, quotas: ClientQuotas) -> Slices[QuotaIndex]:
        """The one of the last request, as long as no quota has changed."""
        kept = _KEPT[0] if _KEPT else None
        if kept is not None and kept.quotas is quotas:
            return kept
        by_key: dict[Key, list[Entity]] = {}
        pace = Pace(RECORDS_PER_SLICE)
        for entity in quotas:
            if pace.over():
                yield
            for part in entity:
                by_key.setdefault(part, []).append(entity)
                by_key.setdefault(part.type, []).append(entity)
        made = cls(quotas, by_key)
        _KEPT[:] = [made]
        return made

    def with_all(self, keys: Iterable[Key]) -> Sequence[Entity]:
        """At least the entities that have all of these, ascending: those of the rarest."""
        return min((self._by_key.get(key, ()) for key in keys), key=len)


_KEPT: Final[list[QuotaIndex]] = []
"""That of the last request, if there was one."""
