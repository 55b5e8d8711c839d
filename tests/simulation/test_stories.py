"""Single faults, each with what it must come to."""

import pytest

from emulator.simulation.scenarios.scenario import Scenario
from tests.kit.shares import rest_slow


@pytest.mark.requirement("E07")
def test_each_life_of_the_controller_raises_both_epochs_by_a_claim_of_its_own(simulate):
    crashes = ("controller-crash",) * 9
    report = simulate(5, Scenario(faults=crashes, changes=60, faults_within_ms=8_000))
    assert not report.failure, str(report)
    zk_epochs = [zk_epoch for zk_epoch, _ in report.claims]
    kraft_epochs = [kraft_epoch for _, kraft_epoch in report.claims]
    assert len(report.claims) >= 5
    assert zk_epochs == list(range(8, 8 + len(zk_epochs)))
    assert kraft_epochs == sorted(set(kraft_epochs))


@pytest.mark.requirement("Z04", "W05")
@pytest.mark.parametrize("seed", rest_slow(range(3), 1))
def test_a_paused_controller_that_runs_on_writes_nothing_more(simulate, seed):
    report = simulate(seed, Scenario(faults=("controller-pause",), changes=60, topics=2))
    assert not report.failure, str(report)
    assert report.taken_over, str(report)
    assert len(report.claims) == 2


@pytest.mark.requirement("W05")
@pytest.mark.parametrize("seed", rest_slow(range(4), 1))
def test_bytes_the_network_kept_are_refused_after_the_next_claim(simulate, seed):
    faults = ("delayed-bytes", "delayed-bytes", "delayed-bytes")
    report = simulate(seed, Scenario(faults=faults, changes=80, multi_ops=3, topics=2))
    assert not report.failure, str(report)


@pytest.mark.requirement("W02", "U03", "M06", "M12")
@pytest.mark.slow
def test_behind_a_frozen_zookeeper_callers_wait_at_the_bound_and_nothing_is_lost(simulate):
    frozen = Scenario(
        faults=("zookeeper-freeze",) * 3, changes=150, change_every_ms=80, bound=15, topics=2
    )
    reports = [simulate(seed, frozen) for seed in (0, 3)]
    for report in reports:
        assert not report.failure, str(report)
        assert report.pending_max > 0
    assert sum(report.blocked_steps > 0 for report in reports) >= 2
    assert all(report.lag_max >= 15 for report in reports if report.blocked_steps)
    assert any(report.timed_out for report in reports)
    free = simulate(0, Scenario(**{**_fields(frozen), "bound": 0}))
    assert not free.failure
    assert not free.blocked_steps
    assert free.lag_max > max(report.lag_max for report in reports)


def _fields(scenario):
    return {name: getattr(scenario, name) for name in scenario.__dataclass_fields__}


@pytest.mark.requirement("U11")
@pytest.mark.parametrize("seed", rest_slow(range(2), 1))
def test_a_session_that_expires_costs_nothing(simulate, seed):
    report = simulate(seed, Scenario(faults=("session-expiry",) * 4, changes=40))
    assert not report.failure, str(report)


MOVING = Scenario(changes=60, moves_every_ms=25)
BEHIND = {"faults": ("zookeeper-freeze",) * 3, "bound": 15, "change_every_ms": 80, "changes": 120}


@pytest.mark.requirement("K16", "K17")
@pytest.mark.slow
@pytest.mark.parametrize("level", ["3.9-IV0", "3.4-IV0"])
def test_elections_and_reassignments_on_top_of_each_other_keep_every_promise(simulate, level):
    """Each is answered, by what is committed; the tree and the brokers end as the log says."""
    crashes = ("controller-crash", "lost-reply", "broker-death")
    elected = moved = 0
    for seed in (0, 3, 4):
        faults = crashes if seed else ()
        fields = {**_fields(MOVING), "metadata_version": level, "faults": faults}
        report = simulate(seed, Scenario(**fields))
        assert not report.failure, str(report)
        elected += report.moves[0]
        moved += report.moves[1]
    assert elected > 5
    assert moved > 100


@pytest.mark.requirement("K08")
@pytest.mark.slow
def test_elections_behind_a_frozen_zookeeper_are_answered_that_they_timed_out(simulate):
    fields = {**_fields(MOVING), **BEHIND}
    report = simulate(1, Scenario(**fields))
    assert not report.failure, str(report)
    assert report.moves[2] > 0


ACLS, CLIENTS = "acl_changes", "client_changes"


@pytest.mark.parametrize("level", rest_slow(["3.9-IV0", "3.4-IV0"], 1))
@pytest.mark.parametrize(
    ("what", "changes", "least"),
    [
        pytest.param(ACLS, 36, (100, 50), marks=pytest.mark.requirement("G04", "W11")),
        pytest.param(CLIENTS, 30, (40, 10), marks=pytest.mark.requirement("W11")),
    ],
)
def test_other_entities_end_the_same_in_both_stores(simulate, level, what, changes, least):
    """ACLs, and quotas and credentials: set and removed at random, while things break.

    No authorizer of ZooKeeper ever ran; some quotas and credentials were there before.
    """
    made, removed = 0, 0
    for seed in range(4):
        faults = ("controller-crash", "lost-reply", "controller-crash-in-step", "cut")[:seed]
        fields = {
            f"{what}_every_ms": 20,
            "metadata_version": level,
            "multi_ops": (3, 400)[seed % 2],
        }
        report = simulate(seed, Scenario(changes=changes, faults=faults, **fields))
        assert not report.failure, str(report)
        found = getattr(report, what)
        made, removed = made + found[0], removed + found[1]
    assert made > least[0]
    assert removed > least[1]
