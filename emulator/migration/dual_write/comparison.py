"""A comparison of the whole tree with the metadata that somebody asks for.

``kraft-bridge zk reconcile`` asks for one. The tree is read while nothing is in flight and nothing
new is sent, and compared with what ZooKeeper must hold by then: what was committed since is no
difference. Unless it is a dry run, the differences are written as one unit; changes that were
committed meanwhile follow it.

Kafka 3.9 compares at an election only (KRaftMigrationZkWriter.handleSnapshot).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from enum import Enum
from typing import Final

from emulator.metadata.image import Image
from emulator.migration.dual_write.backlog import Backlog
from emulator.migration.dual_write.modes import Mode
from emulator.migration.dual_write.pipeline import Pipeline
from emulator.migration.dual_write.unit import COMPARED_PIECES_PER_STEP, Unit
from emulator.migration.plan import PAUSE, Piece, compare
from emulator.migration.tree_diff import Difference, last_path, of_piece
from emulator.znodes.entity import Entities
from emulator.znodes.reader import Tree

LISTED_MAX: Final = 10_000
"""Differences that are kept; all are counted, and written."""


class Compared(Enum):
    """How far a comparison is; ``/reconcile`` shows the values."""

    ASKED = "asked"
    """What is in flight is waited for, or the tree is being read."""
    LOOKING = "looking"
    """The tree is being compared, or the differences are being written."""
    DONE = "done"
    FAILED = "failed"
    """See ``why``; some differences may have been written."""


class Comparison:
    """One comparison: what is asked, how far it is, and what it has found.

    Args:
        dry_run: write nothing.
    """

    def __init__(self, *, dry_run: bool = False) -> None:
        self.dry_run = dry_run
        self.progress = Compared.ASKED
        self.why = ""
        self.offset = -1
        """The last offset of the metadata that was compared."""
        self.counts: Counter[str] = Counter()
        """How many differences there are, by kind (``tree_diff``)."""
        self._found: dict[str, Difference] = {}
        self._unit: Unit | None = None
        self._source: Iterator[Piece] | None = None

    @property
    def differences(self) -> list[Difference]:
        """The first :data:`LISTED_MAX`, in the order found."""
        return list(self._found.values())

    @property
    def ended(self) -> bool:
        """Whether nothing more will change."""
        return self.progress in {Compared.DONE, Compared.FAILED}

    @property
    def holds(self) -> bool:
        """Whether no new unit may be made now: the tree must not change while it is read."""
        return not self.ended and self._source is None

    @property
    def equal(self) -> bool:
        """Whether it has ended without finding a difference."""
        return self.progress is Compared.DONE and not self.counts

    def fail(self, why: str) -> None:
        """The comparison cannot end: another node leads, or the claim is lost."""
        if not self.ended:
            self.progress, self.why = Compared.FAILED, why
        self._source = self._unit = None

    def look(self, tree: Tree, image: Image, entities: Entities) -> None:
        """Begin a dry run: :meth:`step` goes on."""
        assert self.dry_run
        self.progress, self.offset = Compared.LOOKING, image.offset
        source = compare(tree, image, controller_epoch=0, entities=entities)
        self._source = self.noting(tree, source)

    @property
    def busy(self) -> bool:
        """Whether :meth:`step` has something to do."""
        return self._source is not None

    def step(self) -> None:
        """Compare what a step may; see ``unit.COMPARED_PIECES_PER_STEP``."""
        for _ in range(COMPARED_PIECES_PER_STEP):
            assert self._source is not None
            piece = next(self._source, None)
            if piece is None:
                self._source, self.progress = None, Compared.DONE
                return
            if piece is PAUSE:
                return

    def write(self, unit: Unit) -> None:
        """The differences are written: ``unit`` has been made of them, and not been planned yet."""
        assert not self.dry_run
        assert not unit.planned
        self.progress, self.offset = Compared.LOOKING, unit.last_offset
        self._unit = unit

    def noting(self, tree: Tree, source: Iterable[Piece]) -> Iterator[Piece]:
        """The same pieces; what they change is noted as it is drawn."""
        last = ""
        for piece in source:
            for one in of_piece(tree, piece, last):
                self._note(one)
            last = last_path(piece, last)
            yield piece

    def confirmed(self, unit: Unit) -> None:
        """ZooKeeper holds a unit."""
        if unit is self._unit and not self.ended:
            self._unit, self.progress = None, Compared.DONE

    def _note(self, one: Difference) -> None:
        """Note a difference once, even if the tree has to be read again.

        A topic that is created again is first deleted: the second difference replaces the first.
        """
        before = self._found.get(one.path)
        if before is not None:
            if one.kind == "recreated" and before.kind != one.kind:
                self.counts[before.kind] -= 1
                self.counts[one.kind] += 1
                self._found[one.path] = one
            return
        self.counts[one.kind] += 1
        if len(self._found) < LISTED_MAX:
            self._found[one.path] = one


class Comparing:
    """The comparison that a write-behind was asked for, if there is one."""

    def __init__(self) -> None:
        self.now: Comparison | None = None
        """The last one; it may have ended."""

    def ask(self, comparison: Comparison) -> None:
        """Begin one as soon as nothing is in flight; see :func:`why_not`."""
        assert self.now is None or self.now.ended, "one at a time"
        self.now = comparison

    @property
    def holds(self) -> bool:
        """See ``Comparison.holds``."""
        return self.now is not None and self.now.holds

    @property
    def waits(self) -> bool:
        """Whether the tree is to be read."""
        return self.now is not None and self.now.progress is Compared.ASKED

    def due(self, mode: Mode, pipeline: Pipeline) -> bool:
        """Whether :meth:`step` has something to do."""
        asked = self.now
        if asked is None or mode is not Mode.RUNNING:
            return False
        return asked.busy or (self.waits and _quiet(pipeline))

    def step(self, pipeline: Pipeline) -> bool:
        """Go on with a dry run; True if the tree is to be read now."""
        if self.now is not None and self.now.busy:
            self.now.step()
        return self.waits and _quiet(pipeline)

    def unit(self, tree: Tree, backlog: Backlog, kraft_epoch: int, begun_ns: int) -> Unit | None:
        """The unit that removes what differs; None in a dry run."""
        asked = self.now
        # One whose differences were being written is read for again: its unit was taken back.
        if asked is None or asked.ended or asked.busy or not backlog.settled:
            return backlog.full_unit(tree, kraft_epoch, begun_ns)
        if asked.dry_run:
            asked.look(tree, backlog.planned, backlog.entities)
            return None
        unit = backlog.full_unit(tree, kraft_epoch, begun_ns, asked.noting)
        asked.write(unit)
        return unit

    def confirmed(self, unit: Unit) -> None:
        """ZooKeeper holds a unit."""
        if self.now is not None:
            self.now.confirmed(unit)

    def fail(self, why: str) -> None:
        """See ``Comparison.fail``."""
        if self.now is not None:
            self.now.fail(why)


def _quiet(pipeline: Pipeline) -> bool:
    return not pipeline.units and not pipeline.in_flight


def why_not(mode: Mode, *, reconciled: bool) -> str:
    """Why a write-behind cannot be asked to compare now; empty if it can.

    >>> why_not(Mode.STOPPED, reconciled=False)
    'this controller has not claimed the cluster'
    """
    match mode:
        case Mode.STOPPED:
            return "this controller has not claimed the cluster"
        case Mode.DEPOSED:
            return "this controller has lost its claim"
        case Mode.POISONED:
            return "ZooKeeper refuses a znode, which the status names: nothing can be written"
        case _ if not reconciled:
            return "the comparison that each claim begins with has not ended"
        case _:
            return ""
