"""A fleet from its first registration to its end."""

from __future__ import annotations

import asyncio
import math
import random
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

from typing_extensions import override

from emulator.broker.churn import ChurnedIsr
from emulator.broker.kraft.shared_log import LogImages
from emulator.broker.zookeeper.shared_control import SharedControl
from emulator.io.clock import Clock
from emulator.io.fleet.life import FleetObserver
from emulator.io.fleet.member import FleetMember
from emulator.io.fleet.results import FleetResults
from emulator.io.fleet.settings import Due, FleetSettings, Wave, WaveKind, schedule
from emulator.io.fleet.tap import Exchange
from emulator.io.together import Alone, Together
from emulator.trace.rows import StallRow

PARTITIONS_PER_REQUEST: Final = 1_000
TOPIC_PREFIX: Final = "fleet-"
LOOK_S: Final = 0.05
STALL_NS: Final = 20_000_000
"""The event loop was late by so much: what was measured then is the fleet's own slowness."""
CHURN_END_S: Final = 10.0
"""How long changes that were asked for may take after the last one."""


CreateTopics: TypeAlias = Callable[[int, Sequence[str], int, int], None]
"""Port of a broker, names, partitions of each, replicas of each; raises FleetError.

:class:`NoControllerYetError` if it may be called again."""


class FleetError(Exception):
    """The fleet cannot go on; the text says why."""


class NoControllerYetError(FleetError):
    """A request may be tried again: there is no controller, or it did not answer in time."""


@dataclass(frozen=True, slots=True)
class FleetPlan:
    """What a fleet does. Times in seconds, rates each second.

    ``start_rate`` None: all brokers begin at once. ``isr_churn``: changes of ISRs by the whole
    fleet. ``patience_s``: how long it waits for the first registration of all, for topics, and
    for a controlled shutdown. ``prints_epochs``: a line for each registration.
    """

    brokers: int
    first_id: int = 0
    start_rate: float | None = None
    topics: int = 0
    partitions: int = 1
    replication: int = 3
    isr_churn: float = 0.0
    seconds: float = 10.0
    waves: tuple[Wave, ...] = ()
    seed: int = 0
    patience_s: float = 120.0
    prints_epochs: bool = False


class BrokerFleet(FleetObserver):
    """See the module's docstring.

    Args:
        plan: what it does.
        settings: of its brokers.
        clock: time.
        report: takes lines about its progress.
        create: creates topics by a broker; called in a thread.
        results: takes what is measured.
        together: the other processes of the fleet, if this one runs a share of its brokers only.
    """

    def __init__(
        self,
        plan: FleetPlan,
        settings: FleetSettings,
        *,
        clock: Clock,
        report: Callable[[str], None],
        results: FleetResults,
        create: CreateTopics,
        together: Together | None = None,
    ) -> None:
        self._plan = plan
        self._together = together or Alone(report)
        self._create = create
        self._clock = clock
        self._report = report
        self._results = results
        self._rng = random.Random(plan.seed)  # noqa: S311 - no secrets
        self._tasks: set[asyncio.Task[None]] = set()
        self._failure: BaseException | None = None
        self.stopped = False
        """Whether the fleet was asked to stop."""
        self._ending = asyncio.Event()
        self._hurried = asyncio.Event()
        images, control = LogImages(), SharedControl()
        self._by_number = {
            number: FleetMember(
                plan.first_id + number, settings, images, clock, self, control=control
            )
            for number in self._together.share.numbers(plan.brokers)
        }
        self.members = list(self._by_number.values())

    def stop(self) -> None:
        """End now: the brokers leave in order, and called again, they end at once."""
        if self.stopped:
            self._hurried.set()
        self.stopped = True
        self._ending.set()

    async def run(self) -> None:
        """Do all of the plan, then stop every broker.

        Raises:
            FleetError: not every broker came up, no topic could be created, or the controllers are
                of another cluster.
            ConfigError: the settings of the brokers are wrong.
        """
        asyncio.get_running_loop().set_exception_handler(self._unhandled)
        works = (self._watch(), self._phases(), self._until_ending())
        tasks = [asyncio.ensure_future(one) for one in works]
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks)
            await self._end()
        for task in tasks:
            if not task.cancelled():
                task.result()
        if self._failure is not None:
            raise self._failure

    # ---------------------------------------------------------------- phases
    async def _phases(self) -> None:
        await self._storm()
        if self._plan.topics:
            await self._topics()
        await self._waves()
        # A broker that stops changes the ISRs of others, whose time is not over elsewhere.
        await self._together.meet("the end")

    async def _storm(self) -> None:
        begin_ns, rate = await self._together.meet("the begin"), self._plan.start_rate
        for number, member in self._by_number.items():
            due_ns = begin_ns + (0 if rate is None else int(number / rate * 1e9))
            await self._until(due_ns)
            member.begin(due_ns)
            asyncio.get_running_loop().set_exception_handler(self._unhandled)
        await self._all(lambda member: member.running, "run", self._plan.patience_s)
        self._results.storm_ns = self._clock.now_ns() - begin_ns
        self._report(f"all {len(self.members)} brokers run")

    async def _topics(self) -> None:
        """The first process creates them, when the brokers of all run."""
        begin_ns = await self._together.meet("all brokers run")
        if self._together.share.index == 0:
            await self._create_topics(begin_ns)
        await self._together.meet("the topics are created")
        last = f"{TOPIC_PREFIX}{self._plan.topics - 1:05d}"
        await self._all(
            lambda member: not member.running or _knows(member, last),
            f"know {last}",
            self._plan.patience_s,
        )
        self._results.topics_ns = self._clock.now_ns() - begin_ns

    async def _create_topics(self, begin_ns: int) -> None:
        plan = self._plan
        each = max(1, PARTITIONS_PER_REQUEST // plan.partitions)
        names = [f"{TOPIC_PREFIX}{number:05d}" for number in range(plan.topics)]
        port, replicas = self.members[0].port, min(plan.replication, plan.brokers)
        for first in range(0, len(names), each):
            some = names[first : first + each]
            await self._created(port, some, replicas, begin_ns + int(plan.patience_s * 1e9))
        self._report(f"created {plan.topics} topics with {plan.partitions} partitions each")

    async def _created(self, port: int, names: Sequence[str], replicas: int, end_ns: int) -> None:
        while True:
            try:
                partitions = self._plan.partitions
                await asyncio.to_thread(self._create, port, names, partitions, replicas)
            except NoControllerYetError as error:
                if self._clock.now_ns() > end_ns:
                    raise FleetError(f"{error}{_warned(self.members[0])}") from error
                await asyncio.sleep(1)
            else:
                return

    async def _waves(self) -> None:
        plan, begin_ns = self._plan, await self._together.meet("the waves")
        self._results.load_ns = (begin_ns, None)
        await self._until(begin_ns)
        if plan.isr_churn:
            for member in self.members:
                member.churn(plan.isr_churn / plan.brokers)
        # Each process draws the same deaths, and does those of its own brokers.
        whole = schedule(plan.waves, plan.brokers, self._rng)
        due = [one for one in whole if one.index in self._by_number]
        try:
            for one in due:
                await self._until(begin_ns + one.at_ms * 1_000_000)
                self._start(self._turn(one, begin_ns + one.at_ms * 1_000_000))
            await self._until(begin_ns + int(plan.seconds * 1e9))
        finally:
            ended_ns = self._clock.now_ns()
            self._results.load_ns = (begin_ns, ended_ns)
            self._results.churn_ns = ended_ns - begin_ns
        for member in self.members:
            member.churn(0)
        while self._tasks:
            await asyncio.wait(self._tasks)
        await self._returned()
        if plan.isr_churn:
            await self._calm()

    async def _turn(self, due: Due, due_ns: int) -> None:
        member = self._by_number[due.index]
        match due.kind:
            case WaveKind.DIE:
                await member.die()
            case WaveKind.REVIVE:
                member.begin(due_ns)
            case WaveKind.RESTART | WaveKind.ROLL:
                await member.life.end(self._plan.patience_s)
                self._results.note_end(member.broker_id, member.life, due_ns)
                member.kraft |= due.kind is WaveKind.ROLL
                if member.wanted:
                    member.begin(self._clock.now_ns())

    async def _returned(self) -> None:
        """Wait until all run that should, or end by themselves; those that do not are counted."""
        end_ns = self._clock.now_ns() + int(self._plan.patience_s * 1e9)
        while self._clock.now_ns() < end_ns:
            if not any(member.absent and member.alive for member in self.members):
                break
            await asyncio.sleep(LOOK_S)
        self._results.absent.update(filter(None, (member.absent for member in self.members)))

    async def _calm(self) -> None:
        end_ns = self._clock.now_ns() + int(CHURN_END_S * 1e9)
        while self._clock.now_ns() < end_ns:
            if not any(member.life.outstanding for member in self.members):
                break
            await asyncio.sleep(LOOK_S)
        self._results.unfinished = sum(member.life.outstanding for member in self.members)
        for member in self.members:
            member.life.end_churn()

    async def _end(self) -> None:
        self._results.note_members(self.members)
        begin_ns = self._clock.now_ns()
        alive = [member for member in self.members if member.alive]
        self._report(f"stopping {len(alive)} brokers")
        # A restart that is under way would begin another life.
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        patience_s = self._plan.patience_s
        hurry = asyncio.ensure_future(self._hurry(alive))
        await asyncio.gather(*(member.life.end(patience_s) for member in alive))
        hurry.cancel()
        for member in alive:
            self._results.note_end(member.broker_id, member.life, begin_ns)
        for member in self.members:
            member.close()

    async def _hurry(self, members: Sequence[FleetMember]) -> None:
        await self._hurried.wait()
        self._report("ending at once; the controller is not waited for")
        await asyncio.gather(*(member.life.die() for member in members))

    async def _until_ending(self) -> None:
        await self._ending.wait()

    def _fail(self, error: BaseException | None) -> None:
        """End the plan with this error, if it is the first."""
        self._failure = self._failure or error
        self._ending.set()

    # ---------------------------------------------------------------- what is measured
    @override
    def answered(self, broker_id: int, seen: Exchange) -> None:
        self._results.note_exchange(broker_id, seen)

    @override
    def churned(self, broker_id: int, change: ChurnedIsr) -> None:
        self._results.note_isr(broker_id, change, self._clock)

    @override
    def registered(self, broker_id: int, broker_epoch: int) -> None:
        if self._plan.prints_epochs:
            self._report(f"broker {broker_id}: registered, epoch {broker_epoch}")

    @override
    def stranded(self, broker_id: int, why: str) -> None:
        self._fail(FleetError(f"broker {broker_id}: {why}"))

    async def _watch(self) -> None:
        """Report how many run when that has changed, and notice when the loop is late."""
        flushed_ns = reported_ns = self._clock.now_ns()
        reported = -1
        while True:
            before_ns = self._clock.now_ns()
            await asyncio.sleep(0.01)
            now_ns = self._clock.now_ns()
            late_ns = now_ns - before_ns - 10_000_000
            if late_ns > STALL_NS:
                self._results.note_stall(StallRow(now_ns - late_ns, now_ns))
            if now_ns - reported_ns > 2e9:
                reported_ns = now_ns
                running = sum(member.running for member in self.members)
                if running != reported:
                    reported = running
                    self._report(f"{running} of {len(self.members)} brokers run")
            if now_ns - flushed_ns > 0.5e9:
                flushed_ns = now_ns
                self._results.flush()

    # ---------------------------------------------------------------- helpers
    def _start(self, work: Awaitable[None]) -> None:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._done)

    def _done(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and task.exception() is not None:
            self._fail(task.exception())

    def _unhandled(self, loop: asyncio.AbstractEventLoop, context: dict[str, object]) -> None:
        error = context.get("exception")
        if isinstance(error, Exception) and not isinstance(error, OSError):
            self._fail(error)
        else:
            loop.default_exception_handler(context)

    async def _until(self, due_ns: int) -> None:
        left_s = (due_ns - self._clock.now_ns()) / 1e9
        if left_s > 0:
            await asyncio.sleep(left_s)

    async def _all(
        self, holds: Callable[[FleetMember], bool], what: str, patience_s: float
    ) -> None:
        end_ns = self._clock.now_ns() + int(patience_s * 1e9)
        while missing := [member for member in self.members if not holds(member)]:
            dead = [member for member in missing if not member.alive]
            if dead:
                why = dead[0].life.problem if dead[0].lives else "it was not begun"
                raise FleetError(
                    f"{len(dead)} of {len(self.members)} brokers ended, the first is "
                    f"{dead[0].broker_id}: {why}"
                )
            if self._clock.now_ns() > end_ns:
                first = missing[0]
                raise FleetError(
                    f"{len(missing)} of {len(self.members)} brokers do not {what} after "
                    f"{math.ceil(patience_s)} s, the first is {first.broker_id}{_warned(first)}"
                )
            await asyncio.sleep(LOOK_S)


def _warned(member: FleetMember) -> str:
    """The warning that a broker logged most often, to be appended."""
    warnings = member.totals()[1]
    return f": {max(warnings, key=warnings.__getitem__)}" if warnings else ""


def _knows(member: FleetMember, topic: str) -> bool:
    return member.life.node.side.cluster.topic(topic) is not None
