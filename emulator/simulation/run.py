"""Run seeds; ``kraft-bridge simulate`` runs many."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random
from typing import Final, TypeVar

from emulator.migration.states import State
from emulator.simulation import checkers
from emulator.simulation.aftermath import Struck
from emulator.simulation.awaited import ELECTED, ELECTED_AGAIN
from emulator.simulation.checkers.base import Checker
from emulator.simulation.checkers.chain import EpochsGrow
from emulator.simulation.checkers.lag import LagBounded, LagIsTrue
from emulator.simulation.faults import RECIPES
from emulator.simulation.faults.finalising import FINALISING
from emulator.simulation.faults.strike import Strike
from emulator.simulation.faults.taken import TAKEN
from emulator.simulation.faults.troubles import TROUBLES
from emulator.simulation.faults.voters import LEADERS, VOTERS
from emulator.simulation.models.scheduler import MS
from emulator.simulation.scenarios import scenario as scenarios
from emulator.simulation.scenarios.advised import Advised, advised
from emulator.simulation.scenarios.aimed import aimed
from emulator.simulation.scenarios.attempts import Operator, attempts
from emulator.simulation.scenarios.failover import failover
from emulator.simulation.scenarios.quorum import quorum
from emulator.simulation.scenarios.scenario import Planned, Scenario, crowded, planned
from emulator.simulation.scenarios.swarm import swarm
from emulator.simulation.violation import Violated
from emulator.simulation.world import World

KINDS: Final[dict[str, Callable[[int], Scenario]]] = {
    "quick": crowded(scenarios.quick),
    "long": crowded(scenarios.long),
    "swarm": crowded(swarm),
    "aimed": crowded(aimed),
    "quorum": crowded(quorum),
    "failover": crowded(failover),
    "attempts": crowded(attempts),
    "operator": advised,
}
STATES: Final = frozenset(state.value for state in State)
LAST_LINES: Final = 40
UNDER_FAULTS_MS_MAX: Final = 600_000
"""Time within which the migration must be done and every fault have ended."""
UNDER_FAULTS_IN_KRAFT_MS_MAX: Final = 200_000
"""The same without a migration."""
QUIET_MS_MAX: Final = 120_000
"""Time after the last fault within which everything must have come to rest."""
LOOK_US: Final = 20 * MS
"""How often a run looks whether everything is at rest."""
ATTEMPT: Final = 1_000_000_007
"""The distance between the seeds of two attempts."""
AT_REST_MS: Final = 600
"""How long everything must stay at rest: a NoOp is appended and written meanwhile."""
CheckerT = TypeVar("CheckerT", bound=Checker)


class Run:
    """One world, its faults and its checkers, from the first connection to rest.

    Args:
        seed, scenario: see :class:`World`.
        before: the run of an earlier attempt to migrate the same cluster, from which an operator
            has gone back.
    """

    def __init__(self, seed: int, scenario: Scenario, before: Run | None = None) -> None:
        self.world: World = World(seed, scenario, None if before is None else before.world)
        if before is not None:
            self.world.inherit(before.world)
        self.checkers = [kind(self.world) for kind in checkers.of(scenario)]
        self.world.onlookers += self.checkers
        self.refusal = ""
        """Why the controller rightly goes no further, if it does not."""
        self._strikes: list[Strike] = []
        self._to_strike = 0
        for position, text in enumerate(scenario.faults):
            self._plan(planned(text, position))

    def checker(self, kind: type[CheckerT]) -> CheckerT:
        """The checker of a kind."""
        found = self.found(kind)
        assert found is not None, f"this run has no {kind.__name__}"
        return found

    def found(self, kind: type[CheckerT]) -> CheckerT | None:
        """The checker of a kind; None if this run has none."""
        return next((one for one in self.checkers if isinstance(one, kind)), None)

    def run(self, under_faults_ms_max: int | None = None) -> None:
        """Run from the first connection until everything is at rest.

        Args:
            under_faults_ms_max: time within which every fault must have ended; None: as for the
                kinds that are drawn.

        Raises:
            Violated: an invariant does not hold.
        """
        world = self.world
        world.begin()
        if world.scenario.goal:
            Advised(world, world.scenario.attempts, lambda: self._busy).to_final()
        in_kraft = UNDER_FAULTS_IN_KRAFT_MS_MAX
        most_ms = UNDER_FAULTS_MS_MAX if world.scenario.migration else in_kraft
        self._until(lambda: self._faults_over, under_faults_ms_max or most_ms, "faults end")
        world.scheduler.add_line("run", "no more faults")
        world.calm()
        self._until(self._stays_at_rest, QUIET_MS_MAX, "rest")
        world.scheduler.add_line("run", self.refusal or "everything is at rest")
        for checker in self.checkers:
            checker.ended()

    def go_back(self, number: int) -> Run:
        """Run from the first connection to a point from which an operator goes back.

        Args:
            number: of this attempt, from 1 on.

        Returns:
            The next attempt, with faults of its own.

        Raises:
            Violated: an invariant does not hold.
        """
        self.world.begin()
        if self.world.scenario.goal:
            Advised(self.world, number, lambda: self._busy).back()
        else:
            Operator(self.world, number).go_back()
        self.world.scheduler.add_line("run", f"attempt {number + 1}")
        return Run(self.world.seed + ATTEMPT, self.world.scenario, self)

    # ---------------------------------------------------------------- faults
    def _plan(self, plan: Planned) -> None:
        world, scenario = self.world, self.world.scenario
        known = STATES if scenario.migration else frozenset[str]()
        known |= {ELECTED, ELECTED_AGAIN} if scenario.controllers > 1 else set()
        if plan.state and plan.state not in known:
            raise ValueError(f"{plan.state} is no state: one of {', '.join(sorted(known))}")
        recipe = (RECIPES | VOTERS | LEADERS | FINALISING | TAKEN | TROUBLES)[plan.name]
        rng = Random(f"{world.seed} {plan.name} {plan.key}")
        strike = Strike(world, plan.name, rng, at_leader=plan.state in STATES)
        self._strikes.append(strike)

        def begin() -> None:
            self._to_strike -= 1
            aimed = f"@{plan.state}" + f"+{plan.after_ms}" * bool(plan.after_ms)
            world.scheduler.add_line("fault", f"{plan.name}{aimed * bool(plan.state)}")
            world.aftermath.begins(plan.name, lambda: strike.ended_us)
            recipe(strike)
            strike.look()

        def wait() -> None:
            if strike.rng.random() < 0.3 or world.traffic.begun:
                begin()
            else:
                world.after_ms(strike.rng.randint(0, scenario.faults_within_ms), wait)

        def reached() -> None:
            self._to_strike += 1
            if plan.after_ms:
                world.after_ms(plan.after_ms, begin)
            else:
                begin()

        if plan.state:
            world.awaited.when(plan.state, reached)
        else:
            self._to_strike += 1
            world.after_ms(strike.rng.randint(0, scenario.faults_within_ms), wait)

    @property
    def _busy(self) -> bool:
        """Whether a fault is under way or to come, or ZooKeeper does not answer."""
        going_on = any(not strike.over for strike in self._strikes)
        return going_on or bool(self._to_strike) or self.world.zookeeper.frozen

    @property
    def _faults_over(self) -> bool:
        world = self.world
        return (
            not self._to_strike
            and (world.traffic.over or not world.scenario.changes)
            and world.rolls.over
            and all(strike.over for strike in self._strikes)
            and not world.zookeeper.frozen
            and world.controllers_run
            and all(b.alive or b.id in world.departed for b in world.brokers.values())
        ) or bool(self._justified_refusal())

    # ---------------------------------------------------------------- rest
    def _until(self, holds: Callable[[], bool], within_ms: int, what: str) -> None:
        """Let things happen until something holds; looked at now and then."""
        scheduler = self.world.scheduler
        end_us = scheduler.now_us + within_ms * MS
        look_us = scheduler.now_us
        while True:
            if scheduler.now_us >= look_us:
                if holds():
                    return
                look_us = scheduler.now_us + LOOK_US
            if scheduler.now_us > end_us:
                why = self._unrest() or "nothing is missing any more"
                raise Violated("comes-to-rest", f"not within {within_ms} ms ({what}): {why}")
            scheduler.step()

    def _stays_at_rest(self) -> bool:
        """At rest now, and still so after a while."""
        if self._justified_refusal():
            self.refusal = f"refused: {self._justified_refusal()}"
            return True
        if self._unrest():
            return False
        scheduler = self.world.scheduler
        end_us = scheduler.now_us + AT_REST_MS * MS
        while scheduler.now_us < end_us:
            scheduler.step()
        return not self._unrest() or self._stays_at_rest_later()

    def _stays_at_rest_later(self) -> bool:
        """The cluster came to rest and then moved again: add a line, and wait on."""
        self.world.scheduler.add_line("run", f"moves again: {self._unrest()}")
        return False

    def _unrest(self) -> str:
        if not self.world.controllers_run:
            return "no controller runs"
        return next((why for checker in self.checkers if (why := checker.unrest())), "")

    def _justified_refusal(self) -> str:
        """Why the controller goes no further, where what happened gives it the right to."""
        world = self.world
        # The operator who finalises asks again and again; a controller may refuse for good.
        busy = any(not s.over for s in self._strikes if s.name not in FINALISING)
        if busy or self._to_strike or not world.process.alive:
            return ""
        why = world.process.refuses_because
        # As a broker that was elected in ZooKeeper mode, and is gone again, would leave it.
        rolled_back = world.epochs_raised > 0 and "/controller" not in world.tree.nodes
        right = (
            world.rolled_back
            or not world.active.leads_alone
            or ((rolled_back or world.forgotten) and "rolled back" in why)
        )
        return why if right else ""


@dataclass(frozen=True, slots=True)
class Report:
    """What came of one run."""

    seed: int
    kind: str
    scenario: Scenario
    failure: str
    """Empty when every invariant held."""
    digest: str
    """Equal for two runs only if their lines are the same."""
    lines: tuple[str, ...]
    virtual_ms: int
    claims: tuple[tuple[int, int], ...]
    """ZooKeeper epoch and KRaft epoch of every claim, in order."""
    acknowledged: int
    committed: int
    blocked_steps: int
    """Steps at whose end callers had to wait for ZooKeeper."""
    timed_out: int
    """Changes answered REQUEST_TIMED_OUT."""
    moves: tuple[int, int, int]
    """Elections and reassignments answered NONE; requests for either answered REQUEST_TIMED_OUT."""
    client_changes: tuple[int, int]
    """Quotas and credentials that were set, and that were removed."""
    acl_changes: tuple[int, int]
    """Access control entries that were added, and that were removed."""
    token_changes: tuple[int, int]
    """Delegation tokens that were made, and that were ended."""
    lag_max: int
    pending_max: int
    """Largest values of the gauges."""
    topics: tuple[tuple[str, int], ...]
    """Name and number of partitions of every topic in the end."""
    taken_over: bool
    """Every paused controller that woke up found its claim gone and stopped writing."""
    refusal: str = ""
    """Why the controller rightly went no further; empty when it came to rest."""
    strikes: tuple[Struck, ...] = field(default=(), repr=False)
    """Every strike of a fault: the state of the driver, and what it did there."""
    operations: tuple[str, ...] = field(default=(), repr=False)
    """Names of all requests of clients, for ``Scenario.skip``."""

    @property
    def invariant(self) -> str:
        """Name of what did not hold."""
        return self.failure.partition(":")[0]

    @property
    def command(self) -> str:
        """Repeats the run and shows its story."""
        return f"kraft-bridge simulate --kind {self.kind} --seed {self.seed} --story"

    def __str__(self) -> str:
        if not self.failure:
            return (
                f"seed {self.seed}: {self.virtual_ms} ms, {len(self.claims)} claims, "
                f"{self.acknowledged} changes acknowledged, {self.committed} records, {self.digest}"
            )
        story = "\n".join(self.lines[-LAST_LINES:])
        return f"{story}\nseed {self.seed}: {self.failure}\n{self.scenario}\n{self.command}"


def simulate(seed: int, scenario: Scenario | None = None, *, kind: str = "quick") -> Report:
    """Run one cluster to its rest.

    Args:
        seed: decides everything that chance decides.
        scenario: the cluster and its faults; drawn from the seed when not given.
        kind: how it is drawn: a key of ``KINDS``.
    """
    chosen = KINDS[kind](seed) if scenario is None else scenario
    run = Run(seed, chosen)
    failure = ""
    try:
        for number in range(1, chosen.attempts):
            run = run.go_back(number)
        if chosen.goal != "back":
            run.run()
    except Violated as violated:
        failure = str(violated)
    except Exception as error:  # noqa: BLE001  # the product's own assertions are invariants too
        failure = f"keeps-running: {type(error).__name__}: {error}"
    world = run.world
    if failure:
        world.scheduler.add_line("run", failure)
    traffic, lag = world.traffic, run.found(LagIsTrue)
    claimed, bounded = run.found(EpochsGrow), run.found(LagBounded)
    return Report(
        seed=seed,
        kind=kind,
        scenario=chosen,
        failure=failure,
        digest=world.scheduler.digest,
        lines=tuple(world.scheduler.lines),
        virtual_ms=world.scheduler.now_us // 1_000,
        claims=() if claimed is None else tuple(claimed.claims),
        acknowledged=traffic.load.acknowledged,
        committed=world.committed.end_offset,
        blocked_steps=0 if bounded is None else bounded.blocked_steps,
        timed_out=traffic.load.timed_out,
        moves=(traffic.moves.elected, traffic.moves.moved, traffic.moves.timed_out),
        client_changes=(traffic.client_changes.set, traffic.client_changes.removed),
        acl_changes=(traffic.acl_changes.set, traffic.acl_changes.removed),
        token_changes=(traffic.token_changes.made, traffic.token_changes.ended),
        lag_max=0 if lag is None else lag.records_max,
        pending_max=0 if lag is None else lag.pending_max,
        topics=tuple(sorted((t.name, len(t.partitions)) for t in world.facts.topics.values())),
        taken_over=bool(world.zombies) and all(z.refuses_because for z in world.zombies),
        refusal=run.refusal,
        strikes=tuple(world.aftermath.strikes),
        operations=(*traffic.operations(), *world.rolls.operations()),
    )
