"""Clusters of three controllers in a migration, whose leader ends in every state of its driver."""

from dataclasses import replace

import pytest
from typer.testing import CliRunner

from emulator.cli import app
from emulator.migration.states import State
from emulator.simulation.checkers.finalised import FinalIsFinal
from emulator.simulation.scenarios.failover import ENDS, PAIRS, failover
from emulator.simulation.scenarios.scenario import planned
from tests.kit.shares import rest_slow

SHORT_MS = 8_000
"""Clients ask for so long here: the same faults meet each other more often."""
SHORT = range(0, 100, 2)
"""Of 99 consecutive seeds the first leaders end in every state by every fault."""
LONG = range(1000, 1010)


def short(seed):
    """What a seed draws, in an eighth of the time."""
    drawn = failover(seed)
    return replace(
        drawn,
        changes=SHORT_MS // drawn.change_every_ms,
        faults_within_ms=SHORT_MS * 3 // 4,
    )


@pytest.mark.requirement("P04", "E07", "E09", "U01")
@pytest.mark.parametrize("first", rest_slow(SHORT, 1))
def test_a_migration_of_three_keeps_every_promise(simulate, first):
    for seed in range(first, first + 2):
        report = simulate(seed, short(seed), kind="failover")
        assert not report.failure, str(report)


@pytest.mark.parametrize(
    "fault", ["broker-death", "broker-shutdown", "broker-leaves", "broker-cut"]
)
def test_a_fault_of_brokers_before_there_are_any_does_nothing(simulate, fault):
    scenario = replace(short(77_400_015), faults=(f"{fault}@UNINITIALIZED",), changes=4, rolls=0)
    report = simulate(77_400_015, scenario, kind="failover")
    assert not report.failure, str(report)


@pytest.mark.slow
def test_a_refusal_is_rest_though_somebody_goes_on_finalising(simulate):
    """Of a cluster that looks as after a rollback: the end never comes."""
    report = simulate(77_400_257, kind="failover")
    assert not report.failure, str(report)
    assert "rolled back" in report.refusal


@pytest.mark.slow
@pytest.mark.parametrize("seed", LONG)
def test_also_for_a_minute_and_longer(simulate, seed):
    report = simulate(seed, kind="failover")
    assert not report.failure, str(report)
    assert report.virtual_ms >= 60_000
    assert report.scenario.controllers == 3
    assert 3 <= report.scenario.brokers <= 6


def test_consecutive_seeds_end_a_term_in_every_state_by_every_fault():
    first = [planned(failover(seed).faults[0], 0) for seed in range(len(PAIRS))]
    assert {(one.state, one.name) for one in first} == {
        (state.value, name) for state in State for name in ENDS
    }


@pytest.mark.slow
def test_leaders_end_in_the_states_that_a_fault_is_aimed_at(simulate):
    """Two leaders, one after the other, in the same state."""
    seen = set()
    for state in (State.WAIT_FOR_BROKERS, State.SYNC_KRAFT_TO_ZK, State.DUAL_WRITE):
        twice = replace(
            short(1),
            faults=(f"voter-kill@{state.value}/a", f"voter-kill@{state.value}/b"),
            topics=3,
            rolls=0,
        )
        report = simulate(1, twice, kind="failover")
        assert not report.failure, str(report)
        struck = [one for one in report.strikes if one.fault == "voter-kill"]
        seen |= {one.state for one in struck if "elected" in one.effects}
        assert {one.state for one in struck} == {state.value}
        assert len(struck) == 2
    assert seen


@pytest.mark.slow
def test_zookeeper_away_from_the_leader_alone_is_survived(simulate):
    for seed in range(2):
        parted = replace(
            short(seed),
            faults=("zookeeper-parted@DUAL_WRITE+50/a", "zookeeper-parted@DUAL_WRITE+50/b"),
        )
        report = simulate(seed, parted, kind="failover")
        assert not report.failure, str(report)
        assert any("zookeeper are parted" in line for line in report.lines)


@pytest.mark.slow
def test_a_leaders_folder_goes_back_while_its_last_records_are_on_their_way(simulate):
    """They reach one follower each, after the disk that had all of them is gone: none of them is
    committed by that, and the next leader may lack them."""
    report = simulate(950_050, short(950_050), kind="failover")
    assert not report.failure, str(report)
    assert any("takes the place of its disk" in line for line in report.lines)


@pytest.mark.slow
def test_a_seed_tells_the_same_story_twice(simulate):
    assert simulate(7, short(7)).digest == simulate(7, short(7)).digest


@pytest.mark.slow
def test_the_verb_draws_migrations_of_three_controllers():
    verb = ["simulate", "--controllers", "3", "--migration", "--seed", "0"]
    done = CliRunner().invoke(app, verb)
    assert done.exit_code == 0, done.output
    assert "1 seed of kind failover from 0" in done.output


@pytest.mark.parametrize(
    ("options", "why"),
    [
        (["--kind", "quorum"], "--migration: clusters of kind quorum do not migrate"),
        (["--controllers", "3", "--kind", "long"], "clusters of kind long have one controller"),
    ],
)
def test_the_verb_refuses_a_migration_of_what_does_not_migrate(options, why):
    done = CliRunner().invoke(app, ["simulate", "--migration", "--seed", "0", *options])
    assert done.exit_code == 2
    assert why in done.output


@pytest.mark.slow
@pytest.mark.parametrize("fault", ["", "voter-kill", "voters-parted", "all-power"])
def test_a_migration_is_finalised_whatever_happens_meanwhile(simulator, fault):
    scenario = replace(
        short(2),
        faults=("finalise@DUAL_WRITE+500/f", *([f"{fault}/a", f"{fault}/b"] if fault else [])),
        change_every_ms=500,
        changes=40,
        faults_within_ms=15_000,
        rolls=0,
    )
    run = simulator(2, scenario)
    run.run()
    assert run.checker(FinalIsFinal).final
    assert run.world.traffic.load.acknowledged > 10


def test_the_seeds_of_make_test_finalise():
    """Each among the faults that its seed has without it."""
    drawn = [
        seed for seed in range(160) if planned(failover(seed).faults[-1], 0).name == "finalise"
    ]
    assert 30 <= len(drawn) <= 50


@pytest.mark.slow
def test_who_finalises_comes_to_the_end_whatever_else_there_is(simulator):
    """Seeds in which brokers leave for good, controllers are stopped, or disks are lost."""
    seen = set()
    for seed in (42, 52):
        run = simulator(seed, short(seed))
        run.run()
        world = run.world
        assert world.finalising
        assert run.checker(FinalIsFinal).final
        there = world.brokers.keys() - world.departed
        assert all(world.brokers[one].in_kraft_mode for one in there)
        seen |= {planned(one, 0).name for one in world.scenario.faults}
    assert {"voter-pause", "voter-disk-lost", "broker-leaves"} <= seen
