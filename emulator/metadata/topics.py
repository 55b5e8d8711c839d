"""Topics and partitions: the entities, and how each of their records changes one.

Source: TopicRecord, PartitionRecord, PartitionChangeRecord, RemoveTopicRecord;
PartitionRegistration and DirectoryId, Kafka 3.9.
"""

from __future__ import annotations

import re
from collections.abc import Container, Sequence, Sized
from typing import Final, Protocol, TypeVar

import msgspec

from emulator.metadata.errors import ReplayError
from emulator.metadata.pmap import PMap
from wire import records as r

NAME_LENGTH_MAX: Final = 249
_LEGAL = re.compile(r"[a-zA-Z0-9._-]+")

NO_LEADER: Final = -1
NO_LEADER_CHANGE: Final = -2

NO_RECOVERY_CHANGE: Final = -1
RECOVERED: Final = 0
RECOVERING: Final = 1
"""The leader was elected from outside the ISR and has not recovered yet (KIP-704)."""

MIGRATING: Final = bytes(16)
"""Directory id while the broker has not reported the directory; also the value of v0 records."""
UNASSIGNED: Final = bytes(15) + b"\x01"
LOST: Final = bytes(15) + b"\x02"

T = TypeVar("T")

_SHARED: dict[tuple[object, ...], tuple[object, ...]] = {}
_SHARED_MAX: Final = 1 << 18


def shared(values: Sequence[T]) -> tuple[T, ...]:
    """The same tuple object for equal tuples: 159 bytes a partition instead of 480."""
    if not values:
        return ()
    key = tuple(values)
    if len(_SHARED) >= _SHARED_MAX:
        _SHARED.clear()
    return _SHARED.setdefault(key, key)  # type: ignore[return-value]  # of the type of its argument


class Partition(msgspec.Struct, frozen=True, gc=False):
    """One partition. ``directories`` has one id per replica, in the order of ``replicas``."""

    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    leader: int
    leader_epoch: int
    partition_epoch: int
    adding_replicas: tuple[int, ...] = ()
    removing_replicas: tuple[int, ...] = ()
    leader_recovery_state: int = RECOVERED
    directories: tuple[bytes, ...] = ()

    def directory(self, broker_id: int) -> bytes:
        """Directory id of the replica on a broker.

        Raises:
            ValueError: the broker has no replica.
        """
        return self.directories[self.replicas.index(broker_id)]


_NEW: dict[tuple[object, ...], Partition] = {}
"""Partitions that never changed: many have the same replicas and leader, and are one object."""
_CHANGED: dict[Partition, Partition] = {}
_CHANGED_MAX: Final = 1 << 12
"""Few, as those that nobody has any more are kept: 0.5 MB."""


class Topic(msgspec.Struct, frozen=True, gc=False):
    """One topic; ``partitions`` by number, ascending."""

    name: str
    id: bytes
    partitions: PMap[int, Partition] = PMap()


def new_partition(record: r.PartitionRecord) -> Partition:
    """The partition of a PartitionRecord; the same object for equal ones that never changed.

    Raises:
        ReplayError: directories do not match the replicas, the recovery state is unknown, or the
            record carries eligible leader replicas, which no metadata.version known here writes.
    """
    if (
        record.leader_epoch
        or record.partition_epoch
        or record.adding_replicas
        or record.removing_replicas
        or record.eligible_leader_replicas is not None
        or record.last_known_elr is not None
    ):
        return _one_object(_partition_of(record))
    key = (
        tuple(record.replicas),
        tuple(record.isr),
        record.leader,
        record.leader_recovery_state,
        tuple(record.directories),
    )
    found = _NEW.get(key)
    if found is None:
        if len(_NEW) >= _SHARED_MAX:
            _NEW.clear()
        found = _NEW[key] = _partition_of(record)
    return found


def _partition_of(record: r.PartitionRecord) -> Partition:
    _without_elr(record)
    replicas = shared(record.replicas)
    return Partition(
        replicas=replicas,
        isr=shared(record.isr),
        leader=record.leader,
        leader_epoch=record.leader_epoch,
        partition_epoch=record.partition_epoch,
        adding_replicas=shared(record.adding_replicas),
        removing_replicas=shared(record.removing_replicas),
        leader_recovery_state=_recovery_state(record.leader_recovery_state),
        directories=_directories(record.directories, replicas),
    )


def changed_partition(partition: Partition, record: r.PartitionChangeRecord) -> Partition:
    """The partition after a PartitionChangeRecord.

    Every change raises the partition epoch. A record with a leader, even the same one, raises the
    leader epoch too.

    Raises:
        ReplayError: directories do not match the replicas, the recovery state is unknown, or the
            record carries eligible leader replicas, which no metadata.version known here writes.

    Source: PartitionRegistration.merge, Kafka 3.9.
    """
    _without_elr(record)
    replicas = partition.replicas if record.replicas is None else shared(record.replicas)
    known = partition.directories if record.directories is None else record.directories
    isr, adding, removing = record.isr, record.adding_replicas, record.removing_replicas
    elects = record.leader != NO_LEADER_CHANGE
    state = record.leader_recovery_state
    changed = Partition(
        replicas=replicas,
        isr=partition.isr if isr is None else shared(isr),
        leader=record.leader if elects else partition.leader,
        leader_epoch=partition.leader_epoch + elects,
        partition_epoch=partition.partition_epoch + 1,
        adding_replicas=partition.adding_replicas if adding is None else shared(adding),
        removing_replicas=partition.removing_replicas if removing is None else shared(removing),
        leader_recovery_state=(
            partition.leader_recovery_state
            if state == NO_RECOVERY_CHANGE
            else _recovery_state(state)
        ),
        directories=_directories(known, replicas),
    )
    return _one_object(changed)


def _one_object(partition: Partition) -> Partition:
    """The same object for equal ones of the last that changed: many do so in the same way.

    When a broker dies, say, and when a snapshot of what is left is read.
    """
    if len(_CHANGED) >= _CHANGED_MAX:
        _CHANGED.clear()
    return _CHANGED.setdefault(partition, partition)


class _Numbers(Sized, Container[int], Protocol):
    """A mapping with partition numbers as keys."""


def first_gap(numbers: _Numbers) -> int | None:
    """The lowest number missing in 0 to n - 1; None if none is, 0 if there are no partitions.

    Controllers count partitions to number the next one and take the replication factor of number
    0, so a topic with a gap cannot grow.

    >>> first_gap({0: "a", 2: "b"}), first_gap({}), first_gap({0: "a", 1: "b"})
    (1, 0, None)
    """
    wanted = range(max(len(numbers), 1))
    return next((number for number in wanted if number not in numbers), None)


def _recovery_state(state: int) -> int:
    if state not in (RECOVERED, RECOVERING):
        raise ReplayError(f"leader recovery state {state} is unknown")
    return state


def _without_elr(record: r.PartitionRecord | r.PartitionChangeRecord) -> None:
    if record.eligible_leader_replicas is not None or record.last_known_elr is not None:
        raise ReplayError("eligible leader replicas (KIP-966) are not supported")


def _directories(known: Sequence[bytes], replicas: tuple[int, ...]) -> tuple[bytes, ...]:
    if len(known) == len(replicas):
        return shared(known)
    # Below metadata.version 17 records have no directories, however the replicas change.
    if all(directory == MIGRATING for directory in known):
        return shared((MIGRATING,) * len(replicas))
    raise ReplayError(f"{len(known)} directories for the {len(replicas)} replicas {replicas}")


def name_error(name: str) -> str | None:
    """Why a topic cannot have this name; None if it can.

    Source: Topic.validate, Kafka 3.9.

    >>> name_error("..")
    "Topic name is invalid: '..' is not allowed"
    """
    if not name:
        why = "the empty string is not allowed"
    elif name in {".", ".."}:
        why = f"'{name}' is not allowed"
    elif len(name) > NAME_LENGTH_MAX:
        why = f"the length of '{name}' is longer than the max allowed length {NAME_LENGTH_MAX}"
    elif _LEGAL.fullmatch(name) is None:
        why = (
            f"'{name}' contains one or more characters other than ASCII alphanumerics, "
            "'.', '_' and '-'"
        )
    else:
        return None
    return f"Topic name is invalid: {why}"
