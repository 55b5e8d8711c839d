"""Clusters with three controllers: what a quorum promises, under the faults it must survive."""

from dataclasses import replace

import pytest
from typer.testing import CliRunner

from emulator.cli import app
from emulator.simulation.checkers.voters import OneActive
from emulator.simulation.faults.voters import VOTERS
from emulator.simulation.scenarios.quorum import quorum
from emulator.simulation.scenarios.scenario import Scenario
from tests.kit.shares import rest_slow

SHORT_MS = 8_000
"""Clients ask for so long here: the same faults meet each other more often."""
STILL = Scenario(controllers=3, migration=False, topics=0, changes=20, change_every_ms=100)


def short(seed):
    """What a seed draws, in an eighth of the time."""
    drawn = quorum(seed)
    return replace(
        drawn,
        changes=SHORT_MS // max(drawn.change_every_ms, 250),
        change_every_ms=max(drawn.change_every_ms, 250),
        brokers=3,
        faults_within_ms=SHORT_MS * 3 // 4,
    )


@pytest.mark.requirement("P04")
@pytest.mark.parametrize("first", rest_slow(range(0, 50, 5), 1))
def test_a_quorum_of_three_keeps_what_it_has_acknowledged(simulate, first):
    for seed in range(first, first + 5):
        report = simulate(seed, short(seed), kind="quorum")
        assert not report.failure, str(report)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(1000, 1003))
def test_also_for_a_minute_and_longer(simulate, seed):
    report = simulate(seed, kind="quorum")
    assert not report.failure, str(report)
    assert report.virtual_ms >= 60_000
    assert report.scenario.controllers == 3


@pytest.mark.parametrize("fault", rest_slow(VOTERS, 2))
def test_every_fault_of_voters_strikes_and_is_survived(simulate, fault):
    many = replace(STILL, faults=(f"{fault}/a", f"{fault}/b"), faults_within_ms=3_000)
    struck = 0
    for seed in range(2):
        report = simulate(seed, many)
        assert not report.failure, str(report)
        assert report.acknowledged >= 3
        struck += sum(line.endswith(f" {fault}") for line in report.lines)
    assert struck >= 2


def test_without_a_fault_one_controller_is_active_from_the_beginning_to_the_end(simulator):
    run = simulator(3, STILL)
    run.run()
    assert list(run.checker(OneActive).epochs) == [1]
    assert not run.world.aftermath.happenings


def test_a_seed_tells_the_same_story_twice(simulate):
    busy = replace(STILL, faults=("voters-parted", "voter-crash-in-step", "voter-disk-lost"))
    assert simulate(11, busy).digest == simulate(11, busy).digest


def test_the_verb_draws_clusters_of_three_controllers():
    verb = ["simulate", "--controllers", "3", "--seed", "0"]
    done = CliRunner().invoke(app, verb)
    assert done.exit_code == 0, done.output
    assert "1 seed of kind quorum from 0" in done.output


@pytest.mark.parametrize(
    ("options", "why"),
    [
        (["--controllers", "2"], "--controllers is 1 or 3, not 2"),
        (["--controllers", "3", "--kind", "swarm"], "clusters of kind swarm have one controller"),
        (["--controllers", "0"], "--controllers is 1 or 3, not 0"),
    ],
)
def test_the_verb_refuses_what_it_cannot_simulate(options, why):
    done = CliRunner().invoke(app, ["simulate", "--seed", "0", *options])
    assert done.exit_code == 2
    assert why in done.output


def test_a_fault_aimed_at_a_state_of_the_migration_is_refused_without_one(simulate):
    with pytest.raises(ValueError, match="DUAL_WRITE is no state: one of ELECTED"):
        simulate(1, replace(STILL, faults=("voter-crash@DUAL_WRITE",)))


@pytest.mark.requirement("P04")
@pytest.mark.parametrize(
    "fault",
    rest_slow(
        (
            "voter-kill@DUAL_WRITE+200",
            "voter-crash@ZK_MIGRATION+5",
            "voter-shutdown@DUAL_WRITE+300",
            "voters-parted@DUAL_WRITE+100",
            "voter-pause@DUAL_WRITE+100",
        ),
        2,
    ),
)
def test_a_migration_goes_on_under_the_next_leader(simulate, fault):
    migrates = Scenario(controllers=3, changes=20, change_every_ms=150, faults=(fault,))
    reports = [simulate(seed, migrates) for seed in range(2, 5)]
    assert not [str(one) for one in reports if one.failure]
    # Parted from brokers too, a leader keeps what they forward until it is joined again.
    assert all(one.acknowledged >= 3 for one in reports)
    for one in reports:
        acknowledged = [at for at, line in enumerate(one.lines) if " acknowledged " in line]
        served = [at for at, line in enumerate(one.lines) if "callers are served" in line]
        assert served[:2][-1] < acknowledged[-1], "the next leader acknowledges changes"
    claims = max(len(one.claims) for one in reports)
    assert claims > 1 or fault.startswith("voter-pause"), "another leader has claimed the cluster"
