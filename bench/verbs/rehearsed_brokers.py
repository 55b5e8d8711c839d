"""The brokers of a rehearsal: members of a fleet, each with its own properties, in one thread."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import threading
from collections.abc import Callable, Coroutine, Sequence
from concurrent.futures import Future
from typing import Any, Final, TypeVar

import uvloop
from typing_extensions import override

from bench.rehearsal.brokers import BrokerRefusedError
from bench.rehearsal.plan import Around, BrokerMode, BrokerPlan, properties
from emulator.config.load import ConfigError
from emulator.io.clock import Clock
from emulator.io.fleet.life import FleetObserver
from emulator.io.fleet.member import FleetMember, Shared, shared
from emulator.io.fleet.settings import FleetSettings
from emulator.servers.ports import HOST

T = TypeVar("T")
_END_S: Final = 10.0


class _Unobserved(FleetObserver):
    """What brokers did is measured elsewhere."""

    @override
    def answered(self, broker_id: int, seen: object) -> None:
        pass

    @override
    def churned(self, broker_id: int, change: object) -> None:
        pass

    @override
    def registered(self, broker_id: int, broker_epoch: int) -> None:
        pass

    @override
    def stranded(self, broker_id: int, why: str) -> None:
        pass


class _Member(FleetMember):
    """One broker.

    Args:
        plan: what it is.
        cluster_id: of the cluster.
        clock: time.
    """

    def __init__(self, plan: BrokerPlan, cluster_id: str, clock: Clock) -> None:
        settings = FleetSettings(HOST, None, None, cluster_id, plan.release)
        images, control = shared()
        listeners = len(plan.listeners)
        super().__init__(
            plan.id, settings, images, clock, _Unobserved(), control=control, listeners=listeners
        )
        self._plan = plan
        # The same in a run that goes on with an interrupted one: its folder is not another one.
        self._directory = hashlib.sha256(f"{cluster_id} {plan.id}".encode()).digest()[:16]
        self._values: dict[str, str] = {}

    def turn(self, mode: BrokerMode, around: Around, common: Shared) -> None:
        """Have the next life in a mode."""
        self.kraft = mode is BrokerMode.KRAFT
        self._settings = FleetSettings(
            HOST,
            None if mode is BrokerMode.ZOOKEEPER else around.voters,
            None if self.kraft else around.zookeeper,
            self._cluster_id,
            self._plan.release,
        )
        self._values = properties(self._plan, self.ports, mode, around)
        self._images, self._control = common
        self._config.clear()

    @override
    def _properties(self) -> dict[str, str]:
        return self._values


class RehearsedBrokers:
    """See ``bench.rehearsal.brokers.Brokers``.

    Args:
        plans: of all.
        cluster_id: of the cluster.
    """

    def __init__(self, plans: Sequence[BrokerPlan], cluster_id: str) -> None:
        clock = Clock()
        self._clock = clock
        self._between = {
            one.id: one.listeners.index(one.between)
            for one in plans
            if one.between in one.listeners
        }
        self._members = {one.id: _Member(one, cluster_id, clock) for one in plans}
        self._shared: dict[int, Shared] = {}
        self._loop = uvloop.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="brokers", daemon=True)
        self._thread.start()

    @property
    def ids(self) -> list[int]:
        """See Brokers."""
        return sorted(self._members)

    @property
    def bootstrap(self) -> str:
        """See Brokers."""
        return ",".join(
            f"{HOST}:{one.ports[self._between.get(number, 0)]}"
            for number, one in sorted(self._members.items())
        )

    def begin(self, broker_id: int, mode: BrokerMode, around: Around) -> None:
        """See Brokers."""
        common = self._shared.setdefault(around.attempt, shared())
        member = self._members[broker_id]

        def begin() -> None:
            member.turn(mode, around, common)
            member.begin(self._clock.now_ns())

        try:
            self._on_loop(begin)
        except ConfigError as error:
            why = "; ".join(error.problems)
            raise BrokerRefusedError(f"broker {broker_id} in {mode.value}: {why}") from error

    def end(self, broker_id: int, patience_s: float) -> None:
        """See Brokers."""
        member = self._members[broker_id]
        if member.lives:
            self._call(member.life.end(patience_s)).result()

    def kill(self, broker_id: int) -> None:
        """See Brokers."""
        member = self._members[broker_id]
        if member.lives:
            self._call(member.die()).result()

    def absent(self, broker_id: int) -> str:
        """See Brokers."""
        return self._on_loop(lambda: self._members[broker_id].absent)

    def ended(self, broker_id: int) -> str:
        """See Brokers."""
        member = self._members[broker_id]
        if member.alive or not member.lives:
            return ""
        return member.life.problem or "it ended"

    def churn(self, per_second: float) -> None:
        """See Brokers."""

        def churn() -> None:
            for one in self._members.values():
                if not per_second and one.alive:
                    one.life.end_churn()
                one.churn(per_second / len(self._members))

        self._on_loop(churn)

    def short(self) -> int:
        """See Brokers."""

        def short() -> int:
            here = self._members.keys()
            return sum(
                len(here & {*hosted.partition.replicas} - {*hosted.partition.isr})
                for one in self._members.values()
                if one.running and (replicas := one.life.replicas) is not None
                for hosted in replicas.led
                if len(hosted.partition.isr) < len(hosted.partition.replicas)
            )

        return self._on_loop(short)

    def close(self) -> None:
        """See Brokers."""
        if not self._thread.is_alive():
            return
        with contextlib.suppress(TimeoutError):
            self._call(self._close()).result(_END_S)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(_END_S)
        if not self._thread.is_alive():
            self._loop.close()

    async def _close(self) -> None:
        living = [one for one in self._members.values() if one.alive]
        await asyncio.gather(*(one.die() for one in living), return_exceptions=True)
        for one in self._members.values():
            one.close()

    def _call(self, work: Coroutine[Any, Any, T]) -> Future[T]:
        return asyncio.run_coroutine_threadsafe(work, self._loop)

    def _on_loop(self, work: Callable[[], T]) -> T:
        async def done() -> T:
            return work()

        return self._call(done()).result()
