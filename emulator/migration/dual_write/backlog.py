"""Committed changes that are not yet sent to ZooKeeper, and the units made of them.

There are four positions of the log: ``target``, the newest stable image; ``planned``, the end of
the last unit; ``confirmed``, what ZooKeeper is known to hold; and what was propagated to brokers,
which is never beyond ``confirmed``. The changes between two positions are what the records touched,
never the difference of two images.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import chain
from typing import TypeAlias

import msgspec

from emulator.metadata.delta import Delta, Touched
from emulator.metadata.image import EMPTY, Image
from emulator.migration import plan
from emulator.migration.dual_write.unit import Unit
from emulator.migration.plan import PAUSE, Piece, PlannedPaths
from emulator.migration.position import Position
from emulator.znodes.entities import ENTITIES_WITHOUT_SECRETS
from emulator.znodes.entity import Entities
from emulator.znodes.reader import Tree

Noting: TypeAlias = Callable[[Tree, Iterable[Piece]], Iterator[Piece]]
"""Notes what the pieces of a comparison change in a tree, and passes them on."""


class Written(msgspec.Struct, frozen=True):
    """A unit is confirmed in ZooKeeper: its changes may now be propagated to brokers."""

    after: Image
    touched: Touched
    first_offset: int
    last_offset: int


class Backlog:
    """Collects deltas and makes units of them.

    Args:
        keep: filters operations that must not be written.
        entities: the classes beside topics.
    """

    def __init__(
        self, keep: Callable[[Piece], Piece], entities: Entities = ENTITIES_WITHOUT_SECRETS
    ) -> None:
        self._keep = keep
        self.entities = entities
        self.held = False
        """Whether no unit is to be made now, as the tree is being compared."""
        self._known = PlannedPaths()
        self.target = EMPTY
        self.planned = EMPTY
        self.confirmed = Position(-1, -1)
        self._base = self.confirmed
        self._pending = Touched()
        self._unpropagated = Touched()

    def begin(self, image: Image, position: Position) -> None:
        """A claim succeeded: ZooKeeper holds what ``position`` says."""
        self.target = image
        self.planned = EMPTY
        self.confirmed = self._base = position
        self._pending, self._unpropagated = Touched(), Touched()

    def add(self, delta: Delta) -> None:
        """A delta became stable."""
        known, before = self.target.offset, delta.before.offset
        assert before == known, f"a delta after offset {before} follows offset {known}"
        self._pending.merge(delta.touched)
        self.target = delta.after

    @property
    def waiting(self) -> bool:
        """Whether something is committed that no unit covers, and may be made one of."""
        return self.target.offset > self.planned.offset and not self.held

    @property
    def settled(self) -> bool:
        """Whether the tree is as planned, or as the claim found it: its differences are foreign."""
        return self.planned is EMPTY or self.planned.offset == self.confirmed.offset

    @property
    def changed(self) -> bool:
        """Whether any uncovered delta changes the metadata."""
        return bool(self._pending)

    def fills(self, ops: int) -> bool:
        """Whether the uncovered deltas are about as many operations, or more."""
        pending = self._pending
        return 2 * len(pending.partitions) + len(pending.configs) >= ops

    def many_states(self, partitions: int) -> bool:
        """Whether the uncovered deltas are states of so many partitions, and nothing else."""
        return len(self._pending.partitions) >= partitions and self._pending.only_states

    def delta_unit(self, kraft_epoch: int, begun_ns: int) -> Unit:
        """Make a unit of all waiting deltas."""
        source = plan.changes(
            self.planned,
            self.target,
            self._pending,
            controller_epoch=kraft_epoch,
            known=self._known,
            entities=self.entities,
        )
        return self._unit(self._base, source, begun_ns)

    def full_unit(
        self, tree: Tree, kraft_epoch: int, begun_ns: int, noting: Noting | None = None
    ) -> Unit:
        """Make a unit that turns ``tree``, with any content, into the newest stable image.

        Args:
            tree: as read.
            kraft_epoch: leader epoch.
            begun_ns: when the reading began.
            noting: takes what differs. What was committed since the last unit is no difference:
                it is not in this unit then, but in the next one.
        """
        again = noting is not None and self.planned is not EMPTY
        source: Iterable[Piece] = chain(
            plan.compare(
                tree,
                self.planned if again else self.target,
                controller_epoch=kraft_epoch,
                known=self._known,
                entities=self.entities,
            ),
            (PAUSE for _ in tree.emptied()),
        )
        if noting is not None:
            source = noting(tree, source)
        if again:
            unit = Unit(
                self.confirmed, self.planned, Touched(), self._kept(source), begun_ns=begun_ns
            )
        else:
            unit = self._unit(self.confirmed, source, begun_ns)
        unit.full = True
        return unit

    def take_back(self, units: Iterable[Unit]) -> None:
        """Return units that cannot be finished to the backlog; a full unit must follow."""
        for unit in units:
            self._pending.merge(unit.touched)

    def confirm(self, unit: Unit, *, propagate: bool) -> Written | None:
        """ZooKeeper holds the unit; if ``propagate``, returns what may be propagated to brokers."""
        self.confirmed = Position(unit.after.offset, unit.after.epoch)
        if self._unpropagated:
            self._unpropagated.merge(unit.touched)
        else:
            self._unpropagated = unit.touched  # nobody needs it any more, and it may be long
        if not propagate:
            return None
        touched, self._unpropagated = self._unpropagated, Touched()
        return Written(unit.after, touched, unit.first_offset, unit.last_offset)

    def _unit(self, base: Position, source: Iterable[Piece], begun_ns: int) -> Unit:
        base_end, end = base.offset, self.target.offset
        assert end >= base_end, f"/migration would go back from offset {base_end} to {end}"
        unit = Unit(base, self.target, self._pending, self._kept(source), begun_ns=begun_ns)
        self._pending = Touched()
        self.planned = self.target
        self._base = Position(self.target.offset, self.target.epoch)
        return unit

    def _kept(self, source: Iterable[Piece]) -> Iterator[Piece]:
        return (piece if piece is PAUSE else self._keep(piece) for piece in source)
