"""The copy: the tree is read once more, checked and appended, page by page."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Protocol

from emulator.metadata.image import Image
from emulator.migration.reading import Reading
from emulator.migration.rounds import Zk
from emulator.migration.taking_over import importer, preconditions
from emulator.migration.taking_over.checking import checked
from emulator.migration.taking_over.continuity import LogView
from emulator.migration.taking_over.tasks import Done, Missing, Talk, Task
from emulator.seam import Effect
from emulator.znodes.entity import Entities

APPEND_AHEAD_RECORDS: Final = 20_000
"""The copy waits while this many records are not committed."""


class Appender(Protocol):
    """The part of the controller that the copy uses."""

    @property
    def tip(self) -> Image:
        """The image through the last appended record."""

    @property
    def stable(self) -> Image:
        """The image through the last record that may be shown."""

    @property
    def under_way(self) -> bool:
        """Whether something is done in slices, which :meth:`append` would do at once."""

    def append(self, records: Sequence[object], now_ms: int, *, atomic: bool = True) -> int:
        """Append; returns the last offset."""


class Claimant(Protocol):
    """Checks whether the claim is still ours."""

    verified: bool

    def verify(self, now_ms: int) -> list[Effect]:
        """Start the check; ``verified`` becomes true if the claim is ours."""


class CopyTask(Task):
    """Read the whole tree and append it; the log says MIGRATION only if the claim is still ours."""

    def __init__(  # noqa: PLR0917  # what a copy needs to know
        self,
        zk: Zk,
        controller: Appender,
        log: LogView,
        claimant: Claimant,
        min_batch_size: int,
        entities: Entities,
        unfinished: Reading | None = None,
    ) -> None:
        super().__init__(zk, unfinished)
        self._controller = controller
        self._log = log
        self._claimant = claimant
        self._min_batch_size = min_batch_size
        self._entities = entities
        self._appending = False
        """Whether the first record is appended, and the last one is not."""
        self.records = 0
        self.topics: int | None = None
        """How many are to be copied; None before the tree is read and checked."""

    def talk(self) -> Talk:
        """Read, check, append page by page, see that the claim is ours, complete, and commit it.

        What an unfinished reading has read since the claim holds while the claim is ours.
        """
        controller, reading = self._controller, self.unfinished or Reading(self.zk)
        yield reading
        if reading.tree is None:
            assert reading.failure is not None
            return Missing((reading.failure,))
        checks = preconditions.check_copy(reading.tree, controller.tip, self._entities)
        if reasons := (yield from checked(checks, all_of_them=False)):
            return Missing(tuple(reasons))
        image, self._appending = controller.stable, True
        if opening := importer.begin(image.metadata_version):
            controller.append(opening, self.now_ms)
        self.topics = len(importer.migrated_topics(reading.tree))
        pages = importer.pages(
            reading.tree,
            image,
            self._min_batch_size,
            self._entities,
            lambda: controller.tip.brokers,
        )
        yield self._near
        while (page := next(pages, None)) is not None:
            controller.append(page, self.now_ms, atomic=False)
            self.records += len(page)
            yield self._near
        for _ in reading.tree.emptied():
            yield self._near
        self.effects = self._claimant.verify(self.now_ms)
        yield lambda: self._claimant.verified
        version = controller.stable.metadata_version
        last_offset = controller.append(importer.complete(version), self.now_ms)
        self._appending = False
        yield lambda: controller.stable.offset >= last_offset
        return Done()

    def _near(self) -> bool:
        """Whether not too many records wait for their commit, and nothing is done in slices.

        To append would do the rest of it at once: to fence a broker of 100,000 topics takes long.
        """
        if self._controller.under_way:
            return False
        return self._controller.tip.offset - self._log.high_watermark < APPEND_AHEAD_RECORDS

    def abort(self, now_ms: int) -> None:
        """The claim is lost: abort the transaction with the copy, from metadata.version 13 on."""
        version = self._controller.stable.metadata_version
        if self._appending and importer.begin(version):
            self._controller.append(importer.abort("the claim of /controller was lost"), now_ms)
        self._appending = False
