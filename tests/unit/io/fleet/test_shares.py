"""A fleet in two processes does what one does alone; here both are on one event loop."""

from __future__ import annotations

import asyncio
import time
from array import array
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from bench.verbs.fleet_share import FleetTask, prepare, take_part
from emulator.io import serving
from emulator.io.fleet.fleet import FleetError, FleetPlan
from emulator.io.fleet.results import FleetTotals, WaitTimes
from emulator.io.fleet.settings import FleetSettings, parse_wave
from emulator.io.together import Alone, Share, Together
from emulator.testing import Cluster

FAST = {"broker.heartbeat.interval.ms": "100"}
PLAN = FleetPlan(
    brokers=5,
    topics=2,
    partitions=4,
    seconds=1.5,
    isr_churn=40.0,
    waves=tuple(map(parse_wave, ("restart@0.3:3/20", "die@0.8:2"))),
    seed=4,
    patience_s=30.0,
)


class Beside:
    """One of several, which meet here."""

    def __init__(self, share: Share, met: dict[str, asyncio.Event], there: Counter[str]) -> None:
        self.share = share
        self._met = met
        self._there = there

    def report(self, line: str) -> None:
        """Nobody listens."""

    async def meet(self, point: str) -> int:
        event = self._met.setdefault(point, asyncio.Event())
        self._there[point] += 1
        if self._there[point] == self.share.of:
            event.set()
        await event.wait()
        return time.monotonic_ns()

    def watch(self, stop: Callable[[], object]) -> None:
        """Nobody stops it."""


def outcome(plan: FleetPlan, of: int) -> dict[str, Any]:
    # Those that died are waited for until they are fenced.
    with Cluster(fsync=False, properties={"broker.session.timeout.ms": "3000"}) as cluster:
        settings = FleetSettings(
            "127.0.0.1", cluster.controllers, None, cluster.cluster_id, "3.9", FAST
        )
        task = FleetTask(plan, settings, None, "r")

        async def run() -> FleetTotals:
            met: dict[str, asyncio.Event] = {}
            there: Counter[str] = Counter()
            sides: list[Together] = [Beside(Share(index, of), met, there) for index in range(of)]
            first, *others = await asyncio.gather(*(take_part(task, side) for side in sides))
            for other in others:
                first.totals.add(other.totals)
            assert not first.interrupted
            assert set(there.values()) == {of}
            return first.totals

        return asyncio.run(run()).figures()


@pytest.mark.slow
def test_the_sum_of_two_shares_is_what_one_process_does() -> None:
    alone, shared = (outcome(PLAN, of) for of in (1, 2))
    assert (alone["processes"], shared["processes"]) == (1, 2)
    for found in (alone, shared):
        assert found["brokers"] == 5
        # All five, and the three that were restarted; two died, chosen by the seed.
        assert found["waits"]["registration"]["count"] == 8
        assert found["waits"]["shutdown"]["count"] == 6
        assert found["ended_badly"] == {}
        # The topics are created once, whoever asks.
        assert found["requests"]["Envelope"] == 1
        assert found["isr"]["unfinished"] == 0
        # At least the 60 that are due; more where this machine is late to stop them.
        assert 45 <= found["isr"]["asked"] + found["isr"]["skipped"] <= 120


def test_a_fleet_that_is_stopped_says_so_and_what_it_did() -> None:
    class Stopping(Alone):
        def watch(self, stop: Callable[[], object]) -> None:
            asyncio.get_running_loop().call_later(0.5, stop)

    with Cluster(fsync=False) as cluster:
        settings = FleetSettings(
            "127.0.0.1", cluster.controllers, None, cluster.cluster_id, "3.9", FAST
        )
        task = FleetTask(replace(PLAN, seconds=60.0, topics=0, waves=()), settings, None, "r")
        found = asyncio.run(take_part(task, Stopping(lambda _line: None)))
    assert found.interrupted
    assert found.totals.figures()["waits"]["shutdown"]["count"] == 5


def test_descriptors_are_counted_for_the_brokers_of_this_process(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(serving, "for_connections", lambda: 24)
    settings = FleetSettings("127.0.0.1", "h:1", None, "x", "3.9", {})
    task = FleetTask(replace(PLAN, brokers=6), settings, None, "r")
    asyncio.run(prepare(task, Share(1, 2)))
    with pytest.raises(FleetError, match="descriptors for 3"):
        asyncio.run(prepare(task, Share()))


def test_totals_are_sums_and_times_those_of_the_slowest() -> None:
    def totals(storm_ns: int, waits: list[int], cores: float) -> FleetTotals:
        times = {"registration": WaitTimes(array("q", waits))}
        return FleetTotals(brokers=2, storm_ns=storm_ns, waits=times, cpu_cores=cores)

    one = totals(5_000_000, [1_000_000, 2_000_000], 0.5)
    one.add(totals(7_000_000, [3_000_000], 0.25))
    figures = one.figures()
    assert (figures["brokers"], figures["storm_s"], figures["cpu_cores"]) == (4, 0.007, 0.75)
    assert figures["waits"]["registration"] == {"count": 3, "max_ms": 3.0}
    one.add(totals(0, [], 0.0))
    assert one.figures()["storm_s"] == 0.0, "not all ran"
