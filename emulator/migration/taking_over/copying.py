"""The copy: the tree is read once more, checked and appended, page by page."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Final, Protocol

from emulator.metadata.image import Image
from emulator.migration.reading import Reading
from emulator.migration.rounds import Zk
from emulator.migration.taking_over import importer, preconditions
from emulator.migration.taking_over.checking import CHECKS_PER_STEP
from emulator.migration.taking_over.continuity import LogView
from emulator.migration.taking_over.preconditions import Reason
from emulator.migration.taking_over.tasks import Done, Lost, Missing, Rounds
from emulator.seam import Effect
from emulator.znodes.entity import Entities
from emulator.zookeeper.ops import ZkOutcome

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

    def append(self, records: Sequence[object], now_ms: int, *, atomic: bool = True) -> int:
        """Append; returns the last offset."""


class Claimant(Protocol):
    """Checks whether the claim is still ours."""

    verified: bool

    def verify(self, now_ms: int) -> list[Effect]:
        """Start the check; ``verified`` becomes true if the claim is ours."""


class CopyTask(Rounds):
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
        self._reading = unfinished or Reading(zk)
        self._checks: Iterator[Reason | None] | None = None
        self._pages: Iterator[list[object]] | None = None
        self._last_offset = -1
        self._asked = False
        self._complete = False
        self.records = 0
        self.topics: int | None = None
        """How many are to be copied; None before the tree is read and checked."""

    @property
    def busy(self) -> bool:
        """Whether pages are being appended and not too many wait for their commit."""
        if self._checks is not None:
            return True
        return self._pages is not None and not self._asked and not self._too_far_ahead

    @property
    def _too_far_ahead(self) -> bool:
        return self._controller.tip.offset - self._log.high_watermark >= APPEND_AHEAD_RECORDS

    def begin(self, now_ms: int) -> list[Effect]:
        """Begin to read the tree, or go on: what was read since the claim holds while it is ours.

        That is checked before the copy is complete.
        """
        return self._read(self._reading, now_ms)

    def outcome(self, outcome: ZkOutcome, now_ms: int) -> list[Effect]:
        """Take an outcome of the reading."""
        if not self._reading.owns(outcome.tag):
            return []
        effects = self._reading.outcome(outcome, now_ms)
        if self._reading.lost:
            self.result, self.unfinished = Lost(), self._reading
        elif self._reading.failure is not None:
            self.result = Missing((self._reading.failure,))
        elif self._reading.tree is not None:
            self._checks = preconditions.check_copy(
                self._reading.tree, self._controller.tip, self._entities
            )
        return effects

    def tick(self, now_ms: int) -> list[Effect]:
        """Check the next piece, append the next page, or notice that the last record is stable."""
        if self._checks is not None:
            self._check(now_ms)
            return []
        if self._pages is None:
            return []
        if self._complete:
            if self._controller.stable.offset >= self._last_offset:
                self.result = Done()
            return []
        if self._too_far_ahead:
            return []
        version = self._controller.stable.metadata_version
        page = next(self._pages, None)
        if page is None and not self._asked:
            self._asked = True
            return self._claimant.verify(now_ms)
        if page is None and not self._claimant.verified:
            return []
        if page is None:
            self._last_offset = self._controller.append(importer.complete(version), now_ms)
            self._complete = True
            return []
        self._controller.append(page, now_ms, atomic=False)
        self.records += len(page)
        return []

    def abort(self, now_ms: int) -> None:
        """The claim is lost: abort the transaction with the copy, from metadata.version 13 on."""
        version = self._controller.stable.metadata_version
        if self._pages is not None and not self._complete and importer.begin(version):
            self._controller.append(importer.abort("the claim of /controller was lost"), now_ms)
        self._pages = None

    def _check(self, now_ms: int) -> None:
        """Check again that everything can be copied, before the first record is appended."""
        assert self._checks is not None
        assert self._reading.tree is not None
        pieces = list(islice(self._checks, CHECKS_PER_STEP))
        found = tuple(reason for reason in pieces if reason is not None)
        if found:
            self._checks = None
            self.result = Missing(found)
        elif len(pieces) < CHECKS_PER_STEP:
            self._checks = None
            image = self._controller.stable
            if opening := importer.begin(image.metadata_version):
                self._controller.append(opening, now_ms)
            self.topics = len(importer.migrated_topics(self._reading.tree))
            self._pages = importer.pages(
                self._reading.tree,
                image,
                self._min_batch_size,
                self._entities,
                lambda: self._controller.tip.brokers,
            )
