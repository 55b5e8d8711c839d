"""What is committed and not yet on its way to ZooKeeper, and the units that are made of it.

Four points of the log: ``target``, the newest stable image; ``planned``, where the last unit ends;
``confirmed``, what ZooKeeper is known to hold; and what brokers have been told, which trails
``confirmed``. Between two points counts what records touched, never a difference of images.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from emulator.metadata.delta import Delta, Touched
from emulator.metadata.image import EMPTY, Image
from emulator.migration import plan
from emulator.migration.dual_write.unit import Unit
from emulator.migration.plan import Piece, PlannedPaths
from emulator.migration.position import Position
from emulator.migration.zk_tree.entities import ENTITIES
from emulator.migration.zk_tree.entity import Entities
from emulator.migration.zk_tree.reader import Tree


@dataclass(frozen=True, slots=True)
class Written:
    """A unit is confirmed in ZooKeeper: brokers may now be told."""

    after: Image
    touched: Touched
    first_offset: int
    last_offset: int


class Backlog:
    """Deltas in, units out.

    Args:
        keep: leaves out of a piece of work what must not be written.
        entities: the classes beside topics.
    """

    def __init__(self, keep: Callable[[Piece], Piece], entities: Entities = ENTITIES) -> None:
        self._keep = keep
        self._entities = entities
        self._known = PlannedPaths()
        self.target = EMPTY
        self.planned = EMPTY
        self.confirmed = Position(-1, -1)
        self._base = self.confirmed
        self._pending = Touched()
        self._untold = Touched()

    def begin(self, image: Image, position: Position) -> None:
        """A claim succeeded: ZooKeeper holds what ``position`` says, whatever that is."""
        self.target = image
        self.planned = EMPTY
        self.confirmed = self._base = position
        self._pending, self._untold = Touched(), Touched()

    def add(self, delta: Delta) -> None:
        """A delta became stable."""
        self._pending.merge(delta.touched)
        self.target = delta.after

    @property
    def waiting(self) -> bool:
        """Something is committed that no unit covers."""
        return self.target.offset > self.planned.offset

    @property
    def changed(self) -> bool:
        """Whether any of it changes anything."""
        return bool(self._pending)

    def delta_unit(self, kraft_epoch: int, begun_ns: int) -> Unit:
        """Make a unit of everything that waits."""
        source = plan.changes(
            self.planned,
            self.target,
            self._pending,
            controller_epoch=kraft_epoch,
            known=self._known,
            entities=self._entities,
        )
        return self._unit(self._base, source, begun_ns)

    def full_unit(self, tree: Tree, kraft_epoch: int, begun_ns: int) -> Unit:
        """Make a unit that turns ``tree``, whatever it holds, into the newest stable image."""
        source = plan.compare(
            tree,
            self.target,
            controller_epoch=kraft_epoch,
            known=self._known,
            entities=self._entities,
        )
        unit = self._unit(self.confirmed, source, begun_ns)
        unit.full = True
        return unit

    def take_back(self, units: Iterable[Unit]) -> None:
        """Units that cannot be finished as planned wait again; a full one must follow."""
        for unit in units:
            self._pending.merge(unit.touched)

    def confirm(self, unit: Unit, *, tell: bool) -> Written | None:
        """ZooKeeper holds the unit; returns what brokers may be told, if ``tell``."""
        self.confirmed = Position(unit.after.offset, unit.after.epoch)
        self._untold.merge(unit.touched)
        if not tell:
            return None
        touched, self._untold = self._untold, Touched()
        return Written(unit.after, touched, unit.first_offset, unit.last_offset)

    def _unit(self, base: Position, source: Iterable[Piece], begun_ns: int) -> Unit:
        kept = map(self._keep, source)
        unit = Unit(base, self.target, self._pending, kept, begun_ns=begun_ns)
        self._pending = Touched()
        self.planned = self.target
        self._base = Position(self.target.offset, self.target.epoch)
        return unit
