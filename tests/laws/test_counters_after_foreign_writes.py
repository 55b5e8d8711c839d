"""After a foreign write to our two znodes our counters never go back, and none is written twice.

Whatever another client does to ``/migration`` and ``/kraft_bridge``: writes what is there, puts an
older content back, deletes them. Two writes back are right. Of a hole, when both were moved as a
multi of ours does while more of them were on their way: it is not drawn here
(``tests/unit/migration/dual_write/test_position_is_content.py``). And to what ZooKeeper has
confirmed, when somebody else has put another content over that of a multi whose answer was lost:
nothing in ZooKeeper tells any more whether it was applied.
"""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from emulator.migration.dual_write import write_behind
from emulator.migration.dual_write.modes import Mode
from emulator.migration.position import Position
from emulator.znodes import migration, own
from tests.kit.laws import examples
from tests.laws.test_write_behind import STEPS, Story
from tests.unit.migration.world import differences, migration_offset

FOREIGN = ("same", "older", "deleted", "older_in_doubt", "deleted_in_doubt")
PATHS = (own.PATH, migration.PATH)
Written = tuple[int, int, int]
"""ZooKeeper epoch, sequence, offset."""


class Tampered(Story):
    """A story in which somebody else writes our znodes, and everything that we write there."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self.written: list[Written] = []
        self.went_back = 0
        """Times that somebody else has set the offset back."""
        self._floor = 0
        """The least offset that we may write next."""
        self._contents: list[tuple[bytes | None, ...]] = []
        real = self.world.model.tree.multi

        def looking(*args: object) -> object:
            done = real(*args)  # type: ignore[arg-type]
            if isinstance(done, list) and {one.path for one in args[0]} & set(PATHS):  # type: ignore[attr-defined]
                self._look()
            return done

        self.world.model.tree.multi = looking  # type: ignore[assignment,method-assign]

    def _look(self) -> None:
        contents = tuple(self.world.data(path) for path in PATHS)
        self._contents.append(contents)
        ours, mark = own.parse(contents[0]), migration.parse(contents[1])
        assert ours.offset == mark.kraft_metadata_offset, "both counters move as one"
        now = ours.zk_epoch, ours.sequence, ours.offset
        if self.written:
            last = self.written[-1]
            assert now[:2] > last[:2], f"{now} after {last}: written twice"
            assert now[2] >= self._floor, f"{now} after {last}: the offset goes back"
        self.written.append(now)
        self._floor = now[2]

    @property
    def _now(self) -> tuple[bytes | None, ...]:
        known = self.world.paths
        return tuple(self.world.data(one) if one in known else None for one in PATHS)

    @property
    def _quiet(self) -> bool:
        return not self.world.driver.write_behind.pipeline.in_flight

    def _put(self, contents: tuple[bytes | None, ...]) -> None:
        for path, data in zip(PATHS, contents, strict=True):
            if data is None and path in self.world.paths:
                self.world.remove(path)
            elif data is not None:
                self.world.put(path, data)
        there = contents[1] is not None and bool(self.written)
        self.went_back += there and migration_offset(self.world) < self.written[-1][2]

    def foreign(self) -> None:
        if migration.PATH in self.world.paths:
            super().foreign()

    def tamper(self) -> None:
        if migration.PATH in self.world.paths:
            super().tamper()

    def same(self) -> None:
        if self._quiet:
            self._put(self._now)

    def older(self) -> None:
        if self._quiet and self._contents:
            self._put(self.rng.choice(self._contents))

    def deleted(self) -> None:
        if self._quiet:
            self._put((None, None))

    def older_in_doubt(self) -> None:
        """Multis were applied, nobody has heard of it, and the connection breaks."""
        if self._applied and self._contents:
            self._cover(self.rng.choice(self._contents))

    def deleted_in_doubt(self) -> None:
        if self._applied:
            self._cover((None, None))

    def _cover(self, contents: tuple[bytes | None, ...]) -> None:
        if contents != self._now:
            confirmed = self.world.driver.write_behind.lag.confirmed
            self._floor = min(self._floor, confirmed)
        self._put(contents)
        self.cut()

    @property
    def _applied(self) -> bool:
        return self.world.held is None and not self.world.model.pending_count


@pytest.mark.requirement("W04", "W07")
@examples(60)
@given(
    st.integers(0, 2**32),
    st.lists(st.sampled_from((*STEPS, *FOREIGN * 2)), min_size=5, max_size=40),
)
def test_what_we_write_after_a_foreign_write_never_goes_back(seed: int, steps: list[str]) -> None:
    story = Tampered(seed)
    for name in steps:
        story.step(name)
    story.end()
    world = story.world
    assert world.driver.write_behind.mode is Mode.RUNNING
    assert differences(world) == {}
    assert migration_offset(world) == world.journal.stable.offset


def test_a_position_that_is_older_than_what_was_written_is_noticed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """And somebody does set the offset back in such stories."""

    def run() -> int:
        back = 0
        for seed in range(8):
            story = Tampered(seed)
            for name in ("topic", "topic", "deaf", "noop", "older_in_doubt", *["topic"] * 4):
                story.step(name)
            story.end()
            back += story.went_back
        return back

    assert run() > 0
    real = write_behind.conclude

    def older(*args: Any) -> write_behind.Conclusion:
        found = real(*args)
        lost = isinstance(found, write_behind.Foreign)
        return msgspec.structs.replace(found, position=Position(0, 1)) if lost else found

    monkeypatch.setattr(write_behind, "conclude", older)
    with pytest.raises(AssertionError, match="goes back"):
        run()
