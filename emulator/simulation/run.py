"""Run a seed: ``simulate`` for programs, ``main`` for people."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from dataclasses import dataclass

from emulator.simulation import scenario as scenarios
from emulator.simulation.checkers import EpochsGrow, LagBounded, LagIsTrue
from emulator.simulation.scenario import Scenario
from emulator.simulation.violation import Violated
from emulator.simulation.world import World

KINDS = {"quick": scenarios.quick, "long": scenarios.long}
LAST_LINES = 40


@dataclass(frozen=True, slots=True)
class Report:
    """What came of one run."""

    seed: int
    kind: str
    scenario: Scenario
    failure: str
    """Empty when every invariant held."""
    digest: str
    """Equal for two runs only if they told the same story."""
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
    lag_max: int
    pending_max: int
    """Largest values of the gauges."""
    topics: tuple[tuple[str, int], ...]
    """Name and number of partitions of every topic in the newest image."""
    taken_over: bool
    """Every paused controller that woke up found its claim gone and stopped writing."""

    @property
    def command(self) -> str:
        """Repeats the run and shows its story."""
        kind = "" if self.kind == "quick" else f" --kind {self.kind}"
        return f"python -m emulator.simulation --seed {self.seed}{kind}"

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
        kind: how it is drawn: quick or long.
    """
    chosen = KINDS[kind](seed) if scenario is None else scenario
    world = World(seed, chosen)
    failure = ""
    try:
        world.run()
    except Violated as violated:
        failure = str(violated)
    except Exception as error:  # noqa: BLE001  # the product's own assertions are invariants too
        failure = f"keeps-running: {type(error).__name__}: {error}"
    if failure:
        world.scheduler.tell("run", failure)
    found = {type(checker): checker for checker in world.checkers}
    epochs, bound, lag = found[EpochsGrow], found[LagBounded], found[LagIsTrue]
    assert isinstance(epochs, EpochsGrow)
    assert isinstance(bound, LagBounded)
    assert isinstance(lag, LagIsTrue)
    return Report(
        seed=seed,
        kind=kind,
        scenario=chosen,
        failure=failure,
        digest=world.scheduler.digest,
        lines=tuple(world.scheduler.lines),
        virtual_ms=world.scheduler.now_us // 1_000,
        claims=tuple(epochs.claims),
        acknowledged=world.load.acknowledged,
        committed=world.ledger.end_offset,
        blocked_steps=bound.blocked_steps,
        timed_out=world.load.timed_out,
        moves=(world.moves.elected, world.moves.moved, world.moves.timed_out),
        client_changes=(world.client_changes.set, world.client_changes.removed),
        acl_changes=(world.acl_changes.set, world.acl_changes.removed),
        lag_max=lag.records_max,
        pending_max=lag.pending_max,
        topics=tuple(
            sorted((t.name, len(t.partitions)) for t in world.ledger.image.topics.values())
        ),
        taken_over=bool(world.zombies) and all(z.deposed for z in world.zombies),
    )


def main(arguments: Sequence[str] | None = None) -> int:
    """Run seeds; 0 when every one held."""
    parser = argparse.ArgumentParser(prog="python -m emulator.simulation", description=__doc__)
    parser.add_argument("--seed", type=int, default=0, help="the first seed")
    parser.add_argument("--count", type=int, default=1, help="how many seeds from there")
    parser.add_argument("--kind", choices=sorted(KINDS), default="quick")
    parser.add_argument("--story", action="store_true", help="show every line of a run that held")
    chosen = parser.parse_args(arguments)
    failed = 0
    for seed in range(chosen.seed, chosen.seed + chosen.count):
        report = simulate(seed, kind=chosen.kind)
        failed += bool(report.failure)
        if chosen.story or (report.failure and chosen.count == 1):
            sys.stdout.write("\n".join(report.lines) + "\n")
        sys.stdout.write(f"{report}\n")
    return 1 if failed else 0
