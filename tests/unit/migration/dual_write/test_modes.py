"""The tables of the write-behind's modes, and that nothing passes them by."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from typing_extensions import override

from emulator.metadata.configs import BROKER
from emulator.metadata.history import History
from emulator.migration.dual_write import modes, pipeline, write_behind
from emulator.migration.dual_write.comparison import Comparison
from emulator.migration.dual_write.modes import (
    NEXT,
    ORDERLY,
    RESUMED,
    Mode,
    ModeEvent,
    after,
    mermaid,
)
from emulator.migration.dual_write.write_behind import WriteBehind
from emulator.migration.position import Counters, Position
from emulator.znodes import controller, migration
from emulator.zookeeper.errors import ZkCode
from emulator.zookeeper.ops import (
    GetData,
    Multi,
    MultiRead,
    NodeData,
    ReadFailed,
    ReadValue,
    SetData,
    ZkFailed,
    ZkLost,
    ZkOp,
    ZkRead,
    ZkResult,
)
from tests.kit.tables import Watched, check_pairs
from tests.unit.migration.dual_write.test_settling import TERM, Four, Line, stat
from tests.unit.migration.test_write_behind import config
from tests.unit.migration.world import World


class SizedLine(Line):
    """Sizes are those of the paths."""

    @override
    def op_bytes(self, op: ZkOp) -> bytes:
        return op.path.encode()

    @override
    def op_size(self, op: ZkOp) -> int:
        return len(op.path)


class Alone:
    """A write-behind that has claimed; the test answers each request, the oldest first."""

    def __init__(self, mode: Mode = Mode.STARTING, *, skip_poison: bool = False) -> None:
        self.line, self.four, self.history = SizedLine(), Four(), History()
        self.behind = WriteBehind(
            self.line, lambda: 0, lambda _offset: "", ops_max=1, skip_poison=skip_poison
        )
        if mode is Mode.STOPPED:
            return
        self.behind.begin(TERM, Counters(4, 9), Position(-1, -1), self.history.stable, 0)
        if mode is not Mode.STARTING:
            self.answer()
        if mode in {Mode.RECONCILING, Mode.RUNNING}:
            self.behind.reconcile(0)
        if mode is Mode.RUNNING:
            self.rest()
        if mode in {Mode.DOUBT, Mode.SETTLING, Mode.POISONED, Mode.DEPOSED}:
            self.line.connected = mode is not Mode.DOUBT
            self.behind.verify(0)
        if mode is Mode.POISONED:
            self.four.failing[migration.PATH] = ZkCode.NO_AUTH
            self.rest()
        if mode is Mode.DEPOSED:
            self.four.put(controller.EPOCH_PATH)
            self.rest()
        assert self.behind.mode is mode

    def change(self) -> Alone:
        """Two multis are in flight."""
        records = [config(BROKER, str(broker), "k", "v") for broker in range(4)]
        self.history.append(records, 0, 5)
        self.behind.metadata(self.history.advance(len(records)), 0)
        self.answer()
        assert self.behind.pipeline.in_flight == 2
        return self

    def answer(self, code: int = 0, index: int = 1) -> Alone:
        """The oldest request is answered, or refused, as one of its operations is."""
        tag, request = self.line.asked.pop(0)
        if code:
            self.behind.outcome(ZkFailed(tag, code, index), 0)
            return self
        value: Any = None
        if isinstance(request, Multi):
            self.four.apply(request)
            value = [
                stat((op.version or 0) + 1) if isinstance(op, SetData) else None
                for op in request.ops
            ]
        elif isinstance(request, MultiRead):
            value = [self._read(one) for one in request.reads]
        self.behind.outcome(ZkResult(tag, value), 0)
        return self

    def _read(self, one: ZkRead) -> ReadValue:
        if one.path in self.four.failing:
            return ReadFailed(self.four.failing[one.path])
        if not isinstance(one, GetData) or one.path not in self.four.nodes:
            return ReadFailed(ZkCode.NO_NODE)
        data, version = self.four.nodes[one.path]
        return NodeData(data, stat(version))

    def lose(self, *, applied: bool = False, connected: bool = False) -> Alone:
        """The answers are lost; the oldest multi may have been applied."""
        self.line.connected = connected
        lost, self.line.asked = self.line.asked, []
        for tag, request in lost:
            if applied and isinstance(request, Multi):
                self.four.apply(request)
                applied = False
            self.behind.outcome(ZkLost(tag), 0)
        return self

    def connect(self) -> Alone:
        """A new session."""
        self.line.connected = True
        self.behind.zk_connected(0)
        return self

    def foreign(self) -> Alone:
        """Another client writes."""
        self.four.put(migration.PATH)
        return self

    def rest(self) -> Alone:
        """Everything is answered."""
        while self.line.asked:
            self.answer()
        return self

    @property
    def mode(self) -> Mode:
        return self.behind.mode


def test_every_row_of_the_tables_is_reached(monkeypatch: pytest.MonkeyPatch) -> None:
    table, resumed = Watched(monkeypatch, modes), Watched(monkeypatch, modes, "RESUMED")
    for mode in Mode:
        one = Alone(mode)
        one.behind.stop()
        assert one.mode is Mode.STOPPED
    for mode in (Mode.STARTING, Mode.RECONCILING, Mode.SETTLING):
        assert Alone(mode).lose().mode is Mode.DOUBT
        assert Alone(mode).lose(connected=True).mode is Mode.SETTLING
        assert Alone(mode).lose().connect().rest().mode in {Mode.RUNNING, Mode.CLAIMED}
    settles: dict[Mode, Callable[[WriteBehind], object]] = {
        Mode.CLAIMED: lambda behind: behind.verify(0),
        Mode.RUNNING: lambda behind: behind.check(0),
        Mode.POISONED: lambda behind: behind.tick(10**9),
        Mode.DOUBT: lambda behind: behind.zk_connected(0),
    }
    for mode, settle in settles.items():
        for connected, then in ((False, Mode.DOUBT), (True, Mode.SETTLING)):
            one = Alone(mode)
            one.line.connected = connected
            settle(one.behind)
            assert one.mode is then
    for mode in (Mode.STARTING, Mode.CLAIMED, Mode.RECONCILING):
        waits = Alone(mode)
        waits.behind.verify(0)
        waits.lose().connect().foreign().answer().answer()
        assert waits.mode is (mode if mode is Mode.RECONCILING else Mode.STARTING)
        assert waits.rest().mode in {Mode.RUNNING, Mode.CLAIMED}
    assert Alone().lose().connect().answer().answer().mode is Mode.STARTING
    assert Alone().lose(applied=True).connect().answer().answer().mode is Mode.CLAIMED
    assert Alone().answer(ZkCode.BAD_VERSION).rest().mode is Mode.CLAIMED
    # The tree cannot be read.
    unread = Alone(Mode.CLAIMED)
    unread.four.failing["/brokers"] = ZkCode.NO_AUTH
    unread.behind.reconcile(0)
    assert unread.rest().mode is Mode.POISONED
    # What is in flight is lost or refused.
    assert Alone(Mode.RUNNING).change().lose(connected=True).rest().mode is Mode.RUNNING
    assert Alone(Mode.RUNNING).change().lose().connect().foreign().rest().mode is Mode.RUNNING
    both = Alone(Mode.RUNNING).change().answer(ZkCode.BAD_VERSION)
    assert both.mode is Mode.SETTLING
    assert both.lose(connected=True).mode is Mode.SETTLING
    for skips, then in ((False, Mode.POISONED), (True, Mode.RECONCILING)):
        refused = Alone(Mode.RUNNING, skip_poison=skips).change()
        refused.answer(ZkCode.NO_AUTH).answer(ZkCode.NO_AUTH)
        refused.answer().answer()
        assert refused.mode is then
        # Too large for a frame, with nothing in flight.
        large = Alone(Mode.RUNNING, skip_poison=skips)
        large.history.append([config(BROKER, "1", "k", "v")], 0, 5)
        with monkeypatch.context() as patch:
            patch.setattr(pipeline, "FRAME_BYTES_MAX", 0)
            large.behind.metadata(large.history.advance(1), 0)
        assert large.mode is then
    compared = Alone(Mode.RUNNING)
    compared.behind.comparing.ask(Comparison(dry_run=False))
    compared.behind.tick(0)
    assert compared.mode is Mode.RECONCILING
    assert not table.unreached
    assert not resumed.unreached


def test_every_pair_that_is_in_no_table_is_refused() -> None:
    for interrupted in ORDERLY:
        rows = {
            (Mode.SETTLING, event): then
            for (mode, event), then in RESUMED.items()
            if mode is interrupted
        }
        assert not rows.keys() & NEXT.keys(), "one row for a pair"
        events = {event for _, event in NEXT} | {event for _, event in rows}
        check_pairs(NEXT | rows, Mode, events, partial(after, interrupted=interrupted))
        assert after(Mode.SETTLING, ModeEvent.CHAIN_READ_BACK, interrupted) is interrupted
    assert {event for _, event in [*NEXT, *RESUMED]} == set(ModeEvent)
    assert {(mode, ModeEvent.DISCONNECTED) for mode in ORDERLY} <= NEXT.keys()


def test_a_change_that_the_table_does_not_list_stops_the_node() -> None:
    world = World().dual_write()
    with pytest.raises(AssertionError, match="tree read: not while running"):
        world.driver.write_behind._enter(ModeEvent.TREE_READ)


def test_the_mode_is_entered_in_one_place() -> None:
    text = Path(write_behind.__file__).read_text()
    found = re.findall(r"self\.mode(?:, \S+)? = (.*)", text)
    assert found == ['Mode.STOPPED, ""', "self.mode, after(self.mode, event, self._interrupted)"]


def test_the_diagram_has_every_row_but_those_to_stopped() -> None:
    text = mermaid()
    events = [line.partition(": ")[2].split(", ") for line in text.splitlines()]
    rows = [(mode, then) for (mode, _), then in NEXT.items()]
    rows += [(Mode.SETTLING, then) for then in RESUMED.values()]
    wanted = [(mode, then) for mode, then in rows if then not in {Mode.STOPPED, mode}]
    assert sum(len(each) for each in events if each != [""]) == len(wanted)
    for mode, then in wanted:
        assert f"    {mode.value} --> {then.value}: " in text
