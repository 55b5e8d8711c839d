"""Client quotas found by what a filter names, as there may be 100,000 entities.

Kept until a quota changes, and made in slices.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, TypeAlias

from emulator.metadata.client_quotas import ClientQuotas, Entity, EntityPart
from emulator.seam import RECORDS_PER_SLICE, Kept, Pace, Same, Slices

Key: TypeAlias = EntityPart | str
"""A part of an entity, or the type of one."""


class QuotaIndex:
    """The entities of one image, by their parts and by the types of these."""

    def __init__(self, by_key: dict[Key, list[Entity]]) -> None:
        self._by_key = by_key

    @classmethod
    def of(cls, quotas: ClientQuotas) -> Slices[QuotaIndex]:
        """The one of the last request, as long as no quota has changed."""
        return (yield from _KEPT.made(Same(quotas), lambda: cls._made(quotas)))

    @classmethod
    def _made(cls, quotas: ClientQuotas) -> Slices[QuotaIndex]:
        by_key: dict[Key, list[Entity]] = {}
        pace = Pace(RECORDS_PER_SLICE)
        for entity in quotas:
            if pace.over():
                yield
            for part in entity:
                by_key.setdefault(part, []).append(entity)
                by_key.setdefault(part.type, []).append(entity)
        return cls(by_key)

    def with_all(self, keys: Iterable[Key]) -> Sequence[Entity]:
        """At least the entities that have all of these, ascending: those of the rarest."""
        return min((self._by_key.get(key, ()) for key in keys), key=len)


_KEPT: Final = Kept[QuotaIndex]()
