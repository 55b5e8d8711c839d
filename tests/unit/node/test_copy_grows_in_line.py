"""The work between a controller's claim and dual write, by the number of partitions: counted.

What a clock shows of it on a quiet machine is what the bench reports; here nothing is timed. A real
node reads a model of ZooKeeper, appends to its log, writes back what differs and tells a broker.
While it has ZooKeeper's controllership and is not yet in dual write, everything that it does is
counted: the lines of Python and the functions in C that it runs, what it asks ZooKeeper, what it
appends and sends.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from types import FrameType
from typing import Any

import pytest

from bench.analysis.sweep import fits
from emulator.migration.states import State
from emulator.migration.taking_over import importer
from emulator.seam import AppendFile, Effect, Event, Received, Send
from emulator.znodes.reader import Tree, TreeReader
from emulator.znodes.topics import ROOT
from emulator.zookeeper.ops import GetChildren
from tests.unit.broker.zookeeper_stage import MIGRATING, ZooKeeperStage
from tests.unit.node.migrating_quorum import READS

SIZES = (1_000, 5_000, 20_000, 50_000)
PER_TOPIC = 10
OFF_MAX = 0.01
"""How far a count may lie from the line, as a share of the count."""


@dataclass
class Work:
    """What a controller did between the claim and dual write."""

    run: int = 0
    """Lines of Python, and calls of functions in C: what one of those goes through is not seen."""
    operations: int = 0
    """Of ZooKeeper."""
    bytes_sent: int = 0
    """To ZooKeeper and the broker."""
    bytes_received: int = 0
    bytes_appended: int = 0
    records: int = 0


def copied(partitions: int) -> Work:
    """Migrate a cluster of that many partitions."""
    spread = {number: [1] for number in range(PER_TOPIC)}
    stage = ZooKeeperStage().had_a_cluster(
        **{f"t{n:04}": spread for n in range(partitions // PER_TOPIC)}
    )
    node, work = stage.controller(), Work()
    assert node.driver is not None
    step, submit, claimed = node.step, node.zk.submit, [False]

    def asked(tag: object, request: Any, now_ms: int) -> list[Effect]:
        if not isinstance(request, READS):
            claimed[0] = True
        if counting():
            work.operations += len(getattr(request, "reads", getattr(request, "ops", "1")))
        return submit(tag, request, now_ms)

    def counting() -> bool:
        return claimed[0] and node.driver.state is not State.DUAL_WRITE

    def stepped(events: list[Event], now_ms: int) -> list[Effect]:
        if not counting():
            return step(events, now_ms)
        effects = counted(work, lambda: step(events, now_ms))
        work.bytes_received += sum(len(one.data) for one in events if isinstance(one, Received))
        for effect in effects:
            work.bytes_sent += len(effect.data) if isinstance(effect, Send) else 0
            work.bytes_appended += len(effect.data) if isinstance(effect, AppendFile) else 0
        return effects

    node.step, node.zk.submit = stepped, asked
    stage.running(1, raw=MIGRATING)
    stage.joined.until(lambda: node.driver.state is State.DUAL_WRITE)
    assert len(node.controller.stable.topics) == partitions // PER_TOPIC
    work.records = node.controller.stable.offset + 1
    return work


def counted(work: Work, call: Callable[[], list[Effect]]) -> list[Effect]:
    """Call something, and count the lines and the calls of C that it runs."""

    def line(_frame: FrameType, _event: str, _arg: object) -> Any:
        work.run += 1
        return line

    def calls(_frame: FrameType, event: str, _arg: object) -> None:
        work.run += event == "c_call"

    before = sys.gettrace(), sys.getprofile()
    sys.settrace(line)
    sys.setprofile(calls)
    try:
        return call()
    finally:
        sys.setprofile(before[1])
        sys.settrace(before[0])


def bent(sizes: tuple[int, ...]) -> dict[str, float]:
    """Kind of work -> how far its count lies from the line that fits best, if that is too far."""
    done = [asdict(copied(size)) for size in sizes]
    xs = [float(size) for size in sizes]
    lines = {kind: fits.line(xs, [float(one[kind]) for one in done]) for kind in done[0]}
    assert None not in lines.values(), done
    return {kind: one.off for kind, one in lines.items() if one is not None and one.off > OFF_MAX}


@pytest.mark.slow
@pytest.mark.requirement("P12")
def test_the_work_without_a_controller_is_a_straight_line_over_the_partitions() -> None:
    assert bent(SIZES) == {}


SMALL = (100, 400, 1_000)


def looks_at_every_topic(monkeypatch: pytest.MonkeyPatch) -> None:
    """For each topic all are gone through: a loop without a call."""
    real = importer.topic_records

    def slow(tree: Tree, name: str, *more: Any) -> Iterator[object]:
        for other in tree.children(ROOT):
            if other == name:
                break
        for other in tree.nodes:
            if other == name:
                break
        return real(tree, name, *more)

    monkeypatch.setattr(importer, "topic_records", slow)


def reads_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """For each topic the configs of all topics are read from ZooKeeper."""
    real = TreeReader._next_level

    def more(path: str, names: tuple[str, ...], *, folder: bool) -> Iterator[Any]:
        for read in real(path, names, folder=folder):
            yield read
            if path == ROOT:
                yield GetChildren("/config/topics")

    monkeypatch.setattr(TreeReader, "_next_level", staticmethod(more))


@pytest.mark.parametrize(
    ("plant", "kinds"),
    [
        (looks_at_every_topic, {"run"}),
        (reads_again, {"run", "operations", "bytes_sent", "bytes_received"}),
    ],
)
def test_work_that_grows_with_the_square_is_seen(
    monkeypatch: pytest.MonkeyPatch,
    plant: Callable[[pytest.MonkeyPatch], None],
    kinds: set[str],
) -> None:
    """The proof itself: what is planted bends the line, and nothing else does."""
    plant(monkeypatch)
    assert bent(SMALL).keys() == kinds
