"""The bounds on how far the log may be ahead of ZooKeeper: in records, in bytes, in time.

At a first bound most calls that append records wait. At a second bound deletions and operations
that brokers need wait too. ``controller/queue/urgency.py`` says which operation waits at which
bound. Waiting begins at a bound and ends below :data:`RESUME_PERCENT` of it, so that callers do
not wait and continue for each multi that ZooKeeper confirms.

What counts: the records appended and not confirmed in ``/migration``, committed or not, and their
encoded bytes; and the time since the oldest of them was committed. NoOps and control records do not
count, so an idle log never reaches a bound. Bytes count from the start of the term. Age has no
second bound: operations that brokers need do not wait because of a pause of ZooKeeper.

When the bounds apply: from the end of the copy, and from the start of a term whose log says
MIGRATION. Until the claim has read ``/migration``, only records of this term count.

After a restart, part of the unconfirmed records may be in a snapshot, which does not say how many
of its offsets were NoOps. All of these offsets count for the first bound. For the second bound they
count as at most the first bound: otherwise a restart alone could reach the second bound.

Source: KIP-866 "Unavailable ZooKeeper" and "Dual Metadata Writes"; no Kafka release has it.
"""

from __future__ import annotations

from collections import deque
from typing import Final, Protocol

import msgspec

from emulator.metadata.idle import ChangeCount
from emulator.metadata.image import Image
from emulator.metadata.migration_state import MigrationState
from emulator.migration.dual_write.lag import Lag
from emulator.seam import NO_OTHERS, Effect, Log, OtherLimits

RESUME_PERCENT: Final = 75
"""Waiting ends when the count is below this share of the bound."""
RETRY_MS_MIN: Final = 100
RETRY_MS_MAX: Final = 5_000
"""Range of the advice to a caller that waited in vain; the maximum while nothing is confirmed."""
STANDSTILL_MS: Final = 10_000
"""If ZooKeeper confirms nothing for so long, the time until the second bound is reported."""


class Holder(Protocol):
    """The part of the controller that limits appending."""

    @property
    def tip(self) -> Image:
        """The image through the last appended record."""

    @property
    def appended_bytes(self) -> int:
        """Bytes of all records appended by this process, without NoOps; never falls."""

    def changes_after(self, offset: int) -> ChangeCount:
        """Number of records appended above an offset, without those known to change nothing."""

    def hold(
        self,
        *,
        now_ms: int,
        room: int | None = None,
        hard_room: int | None = None,
        others: OtherLimits = NO_OTHERS,
    ) -> None:
        """Bound what is appended for callers until the next call of this method."""


class Bounds(msgspec.Struct, frozen=True):
    """The configured bounds; 0: none. A second bound is not below the first of its kind."""

    records: int = 10_000
    hard_records: int = 20_000
    bytes: int = 0
    hard_bytes: int = 0
    age_ms: int = 0

    @property
    def any(self) -> bool:
        """Whether anything is bounded. The second bounds do not apply without the first."""
        return bool(self.records or self.bytes or self.age_ms)


class _Limit(msgspec.Struct):
    """One bound, with its hysteresis: ``reached`` from the bound on, until well below it."""

    bound: int
    count: int = 0
    reached: bool = False

    def room(self, count: int) -> int | None:
        """What may still be added; 0 while the bound is reached, None without a bound."""
        self.count = count
        if not self.bound:
            return None
        self.reached = count * 100 >= self.bound * (RESUME_PERCENT if self.reached else 100)
        return 0 if self.reached else self.bound - count


class BoundStatus(msgspec.Struct, frozen=True):
    """What counts for the bounds now, for operators."""

    counted_records: int
    """Records appended and not confirmed, without NoOps: compared with the bounds."""
    counted_bytes: int
    blocked: bool
    """Whether callers wait because a first bound is reached."""
    hard_blocked: bool
    """Whether a second bound is reached: ISR changes and deletions wait too."""
    reached: tuple[str, ...]
    """Of records, bytes, age: those whose first bound is reached."""
    hard_in_ms: int | None = None
    """While ZooKeeper confirms nothing: when the second bound of records is reached, at the rate
    since its last confirmation; 0 if it is reached. None: nothing shows that it will be.
    """


class Bound:
    """Sets how much the controller may append, after every step.

    Args:
        controller: gets the limits.
        bounds: what is bounded.
    """

    def __init__(self, controller: Holder, bounds: Bounds) -> None:
        self._controller = controller
        self.bounds = bounds
        self._limits_set = False
        self._active = False
        self._after = -1
        self._hard_in_ms: int | None = None
        self._blocked: tuple[bool, bool] = (False, False)
        """Whether a first bound is reached, and a second."""
        self._reset()

    def bind(self, active: bool, after: int = -1) -> None:  # the state itself
        """Apply the bounds, or no longer.

        Args:
            active: whether they apply.
            after: records up to this offset do not count, whatever ``/migration`` says.
        """
        self._active, self._after = active, after

    @property
    def status(self) -> BoundStatus:
        """What counts now."""
        first = (self._records, self._bytes, self._age)
        named = zip(("records", "bytes", "age"), first, strict=True)
        return BoundStatus(
            counted_records=self._records.count,
            counted_bytes=self._bytes.count,
            blocked=self._blocked[0],
            hard_blocked=self._blocked[1],
            reached=tuple(name for name, limit in named if limit.reached),
            hard_in_ms=self._hard_in_ms,
        )

    @property
    def waits(self) -> bool:
        """Whether callers wait, because a first bound is reached."""
        return self._blocked[0]

    def deadline_ms(self, oldest_ms: int | None) -> int | None:
        """When :meth:`apply` must be called because time passes.

        Args:
            oldest_ms: when the oldest change not confirmed was committed; None: there is none.
        """
        if not self._active or not self.bounds.age_ms or self._age.reached or oldest_ms is None:
            return None
        return oldest_ms + self.bounds.age_ms

    def behind(self, offset: int, image: Image) -> int:
        """Records after an offset, up to an image, that ZooKeeper must get; none before the copy.

        Those in a snapshot all count: which of them change nothing is not known.
        """
        if image.migration_state != MigrationState.MIGRATION:
            return 0
        after, later = map(self._controller.changes_after, (offset, image.offset))
        return sum(after) - sum(later)

    def apply(self, confirmed: int, lag: Lag, now_ms: int) -> list[Effect]:
        """Set how much the controller may append.

        Args:
            confirmed: the offset in ZooKeeper.
            lag: how old the oldest change not in ZooKeeper is.
            now_ms: the clock.
        """
        if not self._active or not self.bounds.any:
            if self._limits_set:
                self._limits_set = False
                self._reset()
                self._controller.hold(now_ms=now_ms)
            return []
        self._limits_set = True
        before = self._blocked
        confirmed = max(confirmed, self._after)
        known, unknown = self._controller.changes_after(confirmed)
        size = self._bytes_after(confirmed)
        room = self._records.room(known + unknown)
        hard = known + min(unknown, self.bounds.records)
        hard_room = self._hard_records.room(hard)
        byte_room, hard_byte_room = self._bytes.room(size), self._hard_bytes.room(size)
        if self.bounds.age_ms:
            self._age.room(lag.age_ms(now_ms))
        self._hard_in_ms = self._foresee(confirmed, hard, now_ms)
        first = self._records.reached or self._bytes.reached or self._age.reached
        after = first, self._hard_records.reached or self._hard_bytes.reached
        self._blocked = after
        if after[0] and not before[0]:
            self._blocked_since = now_ms, confirmed
        retry_ms = self._retry_ms(confirmed, now_ms) if after[0] else 0
        others = OtherLimits(byte_room, hard_byte_room, self._age.reached, retry_ms)
        self._controller.hold(now_ms=now_ms, room=room, hard_room=hard_room, others=others)
        return [] if before == after else self._log_change()

    def _reset(self) -> None:
        bounds = self.bounds
        self._records, self._hard_records = _Limit(bounds.records), _Limit(bounds.hard_records)
        self._bytes, self._hard_bytes = _Limit(bounds.bytes), _Limit(bounds.hard_bytes)
        self._age = _Limit(bounds.age_ms)
        self._blocked = (False, False)
        self._samples: deque[tuple[int, int]] = deque()
        self._confirmed_bytes: int | None = None
        self._blocked_since = 0, -1
        self._confirmed_last: tuple[int, int, int] | None = None
        self._hard_in_ms = None

    def _foresee(self, confirmed: int, count: int, now_ms: int) -> int | None:
        """When the second bound of records is reached if ZooKeeper goes on confirming nothing."""
        last = self._confirmed_last
        if last is None or last[1] != confirmed:
            last = self._confirmed_last = now_ms, confirmed, count
        since_ms, _, then = last
        if not self.bounds.hard_records or now_ms - since_ms < STANDSTILL_MS or count <= then:
            return None
        left = max(0, self.bounds.hard_records - count)
        return left * (now_ms - since_ms) // (count - then)

    def _bytes_after(self, confirmed: int) -> int:
        """Bytes appended and not confirmed; each step leaves the end of the log as a sample."""
        if not self.bounds.bytes:
            return 0
        total, end = self._controller.appended_bytes, self._controller.tip.offset
        if self._confirmed_bytes is None:
            self._confirmed_bytes = total
        samples = self._samples
        if not samples or samples[-1][0] < end:
            samples.append((end, total))
        while samples and samples[0][0] <= confirmed:
            self._confirmed_bytes = samples.popleft()[1]
        return total - self._confirmed_bytes

    def _retry_ms(self, confirmed: int, now_ms: int) -> int:
        """After which time a caller may expect room, at the rate of confirmations since then."""
        since_ms, offset = self._blocked_since
        done, waited_ms = confirmed - offset, now_ms - since_ms
        if done <= 0 or waited_ms <= 0:
            return RETRY_MS_MAX
        limits = [one for one in (self._records, self._bytes, self._age) if one.reached]
        # Of what was counted at the beginning, the share that must still go decides.
        share = max(
            max(0.0, one.count - one.bound * RESUME_PERCENT / 100) / max(one.count, 1)
            for one in limits
        )
        left = share * max(self._records.count, 1)
        return min(max(round(left * waited_ms / done), RETRY_MS_MIN), RETRY_MS_MAX)

    def _log_change(self) -> list[Effect]:
        after = self.status
        fields: dict[str, object] = {
            "lag_records": after.counted_records,
            "bound_records": self.bounds.records,
        }
        if self.bounds.bytes:
            fields |= {"lag_bytes": after.counted_bytes, "bound_bytes": self.bounds.bytes}
        if after.reached:
            fields["reached"] = ", ".join(after.reached)
        if after.hard_blocked:
            fields["bound_records"] = self.bounds.hard_records
            text = "zookeeper lag is at the second bound: ISR changes and deletions wait too"
            return [Log("error", text, fields)]
        if after.blocked:
            return [Log("warning", "zookeeper lag is at the first bound: requests wait", fields)]
        return [Log("info", "zookeeper lag is below the bound: requests no longer wait", fields)]
