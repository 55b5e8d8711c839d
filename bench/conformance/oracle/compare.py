"""What differs between two plain values, as paths such as ``topics[0].error_code``."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from bench.conformance.oracle.known import RECORDS, Excuses
from bench.conformance.oracle.operation import Operation

KEYS: Final = (
    "name",
    "topic",
    "topic_name",
    "user",
    "feature",
    "resource_type",
    "resource_name",
    "pattern_type",
    "principal",
    "host",
    "operation",
    "permission_type",
    "entity",
    "entity_type",
    "entity_name",
    "id",
    "topic_id",
    "partition_id",
    "partition_index",
    "broker_id",
)
"""Fields that say which entry of a list it is."""
ORDER: Final = "order"
PLACED_FIELDS: Final = ("replicas", "isr", "leader", "directories")
PLACEMENT: Final = "log.PartitionRecord.placement"
ORDERED: Final = {kind: row.records[1] for kind, row in RECORDS.items() if row.records}


@dataclass(frozen=True, slots=True)
class Difference:
    """Both values at a path. ``operation`` is what was asked, None for a record of the log."""

    operation: Operation | None
    path: str
    reference: Any
    ours: Any

    @property
    def kind(self) -> str:
        """Its path without numbers: differences of one kind have one cause, most likely."""
        return re.sub(r"\[\d+\]", "[]", self.path)

    def __str__(self) -> str:
        return f"{self.path}: {self.reference!r} there, {self.ours!r} here"


def answers(operation: Operation, reference: Any, ours: Any, excuses: Excuses) -> list[Difference]:
    """What differs between the two answers to one operation."""
    return [*_Compared(operation, excuses).values(operation.api, reference, ours)]


@dataclass(frozen=True, slots=True)
class _Compared:
    operation: Operation | None
    excuses: Excuses

    def values(self, path: str, one: Any, other: Any) -> Iterator[Difference]:
        if one == other:
            return
        if isinstance(one, Mapping) and isinstance(other, Mapping):
            for name in {**one, **other}:
                yield from self.values(f"{path}.{name}", one.get(name), other.get(name))
        elif isinstance(one, list) and isinstance(other, list):
            yield from self.lists(path, one, other)
        else:
            yield Difference(self.operation, path, one, other)

    def lists(self, path: str, one: list[Any], other: list[Any]) -> Iterator[Difference]:
        left, right = sorted(one, key=_key), sorted(other, key=_key)
        keys = [*map(_key, left)]
        if keys != [*map(_key, right)]:
            yield Difference(self.operation, path, one, other)
            return
        mine, yours = [*map(_key, one)], [*map(_key, other)]
        if mine != yours:
            row = self.excuses.unordered(path, self.operation)
            if row is None:
                yield Difference(self.operation, f"{path}.{ORDER}", mine, yours)
            else:
                self.excuses.count(row, f"{self.operation or ''} {path}")
            one, other = left, right
        for at, (a, b) in enumerate(zip(one, other, strict=True)):
            yield from self.values(f"{path}[{at}]", a, b)


def _key(value: Any) -> str:
    if not isinstance(value, Mapping):
        return repr(value)
    return repr([_sorted(value[name]) for name in KEYS if name in value])


def _sorted(value: Any) -> Any:
    return sorted(map(repr, value)) if isinstance(value, list) else value


# ------------------------------------------------------------------ records
Record = Mapping[str, Any]
"""A record as plain values, with its type under ``record`` and its version under ``version``."""


def logs(
    reference: Sequence[Record], ours: Sequence[Record], excuses: Excuses, *, placed: bool
) -> list[Difference]:
    """What differs first between what both wrote.

    ``placed``: the servers chose the replicas, each its own.
    """
    if placed:
        wrong = [
            *(Difference(None, PLACEMENT, why, None) for why in misplaced(reference)),
            *(Difference(None, PLACEMENT, None, why) for why in misplaced(ours)),
        ]
        if wrong:
            return wrong
        reference, ours = [*map(_unplaced, reference)], [*map(_unplaced, ours)]
    compared = _Compared(None, excuses)
    one, other = (_ordered(reference), _ordered(ours))
    for kind, fields in ORDERED.items():
        if _of(kind, reference) != _of(kind, ours) and _of(kind, one) == _of(kind, other):
            excuses.count(RECORDS[kind], f"{kind} by {', '.join(fields)}")
    for a, b in zip(one, other, strict=False):
        if a["record"] != b["record"]:
            return [Difference(None, f"log.{a['record']}", a, b)]
        found = [*compared.values(f"log.{a['record']}", a, b)]
        if found:
            return found
    if len(one) == len(other):
        return []
    left, right = one[len(other) :], other[len(one) :]
    return [Difference(None, f"log.{(left or right)[0]['record']}", left, right)]


def _of(kind: str, records: Sequence[Record]) -> list[Record]:
    return [one for one in records if one["record"] == kind]


def _ordered(records: Sequence[Record]) -> list[Record]:
    """Records, where those of one type of ``ORDERED`` that follow each other are sorted."""
    found: list[Record] = []
    for kind, together in itertools.groupby(records, lambda one: str(one["record"])):
        names = ORDERED.get(kind, ())
        found += sorted(together, key=lambda one: [repr(_sorted(one[name])) for name in names])
    return found


def _unplaced(record: Record) -> Record:
    if record["record"] != "PartitionRecord":
        return record
    return {
        name: len(value) if isinstance(value, list) else 0 if name in PLACED_FIELDS else value
        for name, value in record.items()
    }


def misplaced(
    records: Sequence[Record], racks: Mapping[int, str | None] | None = None
) -> list[str]:
    """Partitions that no run of Kafka's StripedReplicaPlacer can have made of active brokers."""
    racks = RACKS if racks is None else racks
    found = []
    for one in records:
        if one["record"] != "PartitionRecord":
            continue
        replicas = one["replicas"]
        spread = {racks.get(broker) for broker in replicas}
        right = (
            len(set(replicas)) == len(replicas)
            and set(replicas) <= set(racks)
            and one["isr"] == replicas
            and one["leader"] == replicas[0]
            and len(spread) == min(len(replicas), len(set(racks.values())))
        )
        if not right:
            found.append(f"partition {one['partition_id']} of {one['topic_id']}: {replicas}")
    return found


RACKS: Final[Mapping[int, str | None]] = {0: "a", 1: "b", 2: "a", 3: "b"}
"""Of the brokers that are active in a history where the servers place."""
