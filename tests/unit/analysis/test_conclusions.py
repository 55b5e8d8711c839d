"""What is concluded from measures of runs."""

from __future__ import annotations

from typing import Any

import pytest

from bench.analysis.sweep.conclusions import Conclusions, blocked_by_utilisation, conclude
from bench.analysis.sweep.knee import Knee
from bench.analysis.sweep.one_run import growth
from bench.load.figures import REPEATS
from bench.report.blocks import HeatMap, Note
from bench.report.sweep import sweep_findings, sweep_limits, sweep_summary
from bench.report.sweep_blocking import blocking


def _tables(*runs: dict[str, Any]) -> dict[str, list[dict[str, Any]]]:
    """Runs of ten seconds, by what differs from a quiet one."""
    tables: dict[str, list[dict[str, Any]]] = {"described": [], "runs": [], "slices": []}
    for number, change in enumerate(runs):
        run: dict[str, Any] = {
            "run_id": f"r{number}",
            "scenario": "s",
            "target": "kraft-bridge",
            "repeat": 0,
            "void": None,
            "pair": None,
            "rate_per_s": 100.0,
            "latency_ms": 1.0,
            "bound_records": None,
            "partitions_per_topic": 1,
            "others_cores": 0.0,
            "seconds": 10.0,
            "p50_ms": 1.0,
            "p99_ms": 2.0,
            "late_p99_ms": 0.1,
            "lag_p99_low_ms": 4.0,
            "lag_p99_high_ms": 5.0,
            "lag_gap_p99_ms": 12.0,
            "lag_p99_records": 1,
            "traced": True,
            "busy_ms": 2000.0,
            "blocked_ms": None,
            "blocked_operations": None,
            "multis": 100,
            "lag_each_slice": 0.0,
        } | change
        total = int(run["rate_per_s"] * run["seconds"])
        for name in ("intended", "answered", "records", "committed"):
            run.setdefault(name, total)
        tables["described"].append(run)
        tables["runs"].append(run)
        tables["slices"] += [
            {
                "run_id": run["run_id"],
                "slice": at,
                "lag_records": at * run["lag_each_slice"],
                "committed": run["committed"] / 10,
                "records": run["records"] / 10 + at % 3,
                "multis": 10 + at % 2,
                "busy_ms": 200.0,
            }
            for at in range(10)
        ]
    return {**tables, "stalls": []}


def concluded(*runs: dict[str, Any], **options: Any) -> Conclusions:
    return conclude(_tables(*runs), **options)


def repeated(*runs: dict[str, Any]) -> list[dict[str, Any]]:
    """Each run as often as an interval takes."""
    return [run | {"repeat": repeat} for run in runs for repeat in range(REPEATS)]


_TOP = "up to 300 changes/s, the highest measured (300.0/s carried out at least)"
_BELOW = "up to 200 changes/s (200.0/s carried out at least)"
_BETWEEN = "200 changes/s at least (200.0/s carried out at least; its lag"


@pytest.mark.parametrize(
    ("at_300", "kept"),
    [
        ({}, _TOP),
        ({"blocked_operations": 1, "blocked_ms": 0.5}, _BELOW),
        ({"lag_p99_low_ms": 200.1, "lag_p99_high_ms": 230.0}, _BELOW),
        ({"lag_p99_low_ms": 180.0, "lag_p99_high_ms": 200.0}, _TOP),
        (
            {"lag_p99_low_ms": 199.0, "lag_p99_high_ms": 201.0},
            f"{_BETWEEN} can be judged from 120 ms on)",
        ),
        ({"lag_p99_low_ms": 201.0, "lag_p99_high_ms": None}, _BELOW),
        ({"lag_gap_p99_ms": 20.1}, f"{_BETWEEN} can be judged from 201 ms on)"),
        (
            {"lag_p99_low_ms": 900.0, "lag_gap_p99_ms": 20.1},
            f"{_BETWEEN} can be judged from 201 ms on)",
        ),
        ({"answered": 2969}, _BELOW),
    ],
)
def test_the_headline_needs_all_of_it(at_300: dict[str, Any], kept: str) -> None:
    rates = [{"rate_per_s": rate} for rate in (100.0, 200.0)]
    found = concluded(*repeated(*rates, {"rate_per_s": 300.0, **at_300}))
    assert found.headline.endswith(f"kraft-bridge at {kept} at 1 ms of latency.")


def test_one_and_the_same_system_is_said_to_be_the_same_whoever_it_is() -> None:
    runs = [{"rate_per_s": rate, "traced": None, "target": "kafka"} for rate in (100.0, 200.0)]
    ours = [run | {"target": "kraft-bridge", "traced": True} for run in runs]
    said = concluded(*repeated(*runs, *ours)).headline
    assert said.count("up to 200 changes/s, the highest measured (200.0/s carried out") == 2


def test_a_row_without_readings_says_nothing_of_its_lag() -> None:
    unread = {"lag_p99_low_ms": None, "lag_p99_high_ms": None, "lag_gap_p99_ms": None}
    found = concluded(*repeated({}, {"rate_per_s": 200.0} | unread))
    assert "(100.0/s carried out at least; how closely the lag was read is not" in found.headline


def test_one_blocked_repeat_is_something_blocked() -> None:
    runs = repeated({"rate_per_s": 1.0}, {"rate_per_s": 2.0})
    runs[-1] |= {"blocked_operations": 3, "blocked_ms": 1.0}
    [sweep] = concluded(*runs).sweeps
    assert sweep.unblocked == Knee(1.0, 1.0, 2.0, REPEATS)
    assert sweep.knee == Knee(2.0, 2.0, None, REPEATS)


def repeats_of_a_sweep() -> list[dict[str, Any]]:
    """At 300/s one repeat of ours has a lag beyond the limit, and it grows; Kafka's all have."""
    late = {"lag_p99_low_ms": 290.0, "lag_p99_high_ms": 310.0}
    rates = (100.0, 200.0, 300.0)
    ours = repeated(*({"rate_per_s": rate} for rate in rates))
    ours[-1] |= late | {"lag_each_slice": 500.0}
    return ours + repeated(*({"target": "kafka", "rate_per_s": rate} | late for rate in rates))


def test_the_headline_has_the_interval_of_its_repeats() -> None:
    found = concluded(*repeats_of_a_sweep())
    assert found.headline.endswith(
        "at 200 changes/s at least (200.0/s carried out at least; its lag can be judged from "
        "120 ms on) at 1 ms of latency, Kafka: no rate measured, from 100 changes/s on."
    )


def test_of_three_repeats_no_rate_is_said() -> None:
    runs = [run for run in repeats_of_a_sweep() if run["repeat"] < 3]
    said = concluded(*runs).headline
    assert said.count("a rate that 3 repeats cannot tell, it takes 5") == 2


def test_kafka_stands_beside_the_same_latency() -> None:
    found = concluded(
        *repeated(
            *(
                {
                    "target": target,
                    "rate_per_s": rate,
                    "latency_ms": latency,
                    "lag_p99_low_ms": lag,
                    "lag_p99_high_ms": lag,
                }
                for target, rate, latency, lag in (
                    ("kraft-bridge", 10.0, 0.0, 1.0),
                    ("kraft-bridge", 20.0, 0.0, 1.0),
                    ("kraft-bridge", 10.0, 5.0, 1.0),
                    ("kraft-bridge", 20.0, 5.0, 300.0),
                    ("kafka", 10.0, 5.0, 300.0),
                    ("kafka", 20.0, 5.0, 300.0),
                )
            )
        )
    )
    assert found.headline.endswith(
        " up to 20 changes/s, the highest measured (20.0/s carried out at least) at 0 ms of "
        "latency; up to 10 changes/s (10.0/s carried out at least) at 5 ms of latency, Kafka: no "
        "rate measured, from 10 changes/s on."
    )


@pytest.mark.parametrize(
    ("good_up_to", "says"),
    [
        (
            {100: 1.0, 1_000: 2.0, 5_000: 2.0},
            (
                "up to 2 changes/s (2.0/s carried out at least) at 1 ms of latency with a bound of "
                "1,000 records (the best of 3 bounds)."
            ),
        ),
        (
            {100: 1.0, 0: 3.0},
            (
                "up to 1 change/s (1.0/s carried out at least) at 1 ms of latency with a bound of "
                "100 records, up to 3 changes/s, the highest measured (3.0/s carried out at least) "
                "without a bound."
            ),
        ),
        (
            {0: 2.0},
            "up to 2 changes/s (2.0/s carried out at least) at 1 ms of latency without a bound.",
        ),
        ({None: 2.0}, "up to 2 changes/s (2.0/s carried out at least) at 1 ms of latency."),
    ],
)
def test_the_headline_names_its_bound(good_up_to: dict[int | None, float], says: str) -> None:
    found = concluded(
        *repeated(
            *(
                {
                    "bound_records": bound,
                    "rate_per_s": rate,
                    "lag_p99_low_ms": 300.0 * (rate > up_to),
                    "lag_p99_high_ms": 300.0 * (rate > up_to),
                }
                for bound, up_to in good_up_to.items()
                for rate in (1.0, 2.0, 3.0)
            )
        )
    )
    assert found.headline.endswith(f"kraft-bridge at {says}")


def test_runs_that_differ_in_more_than_their_rate_are_other_sweeps() -> None:
    rates = (1.0, 2.0)
    found = concluded(
        *({"rate_per_s": rate} for rate in rates),
        *({"rate_per_s": rate, "frozen_s": 5.0} for rate in rates),
        *({"rate_per_s": rate, "log_sync_ms": 100.0} for rate in rates),
        *({"rate_per_s": rate, "connections": 8, "servers": 3} for rate in rates),
        *({"rate_per_s": rate, "arrivals": "at random"} for rate in rates),
        *({"rate_per_s": rate, "servers": 3, "kill_leader": True} for rate in rates),
    )
    assert [sweep.group.label for sweep in found.sweeps] == [
        "kraft-bridge, 1 ms, 1 a topic",
        "kraft-bridge, 1 ms, 1 a topic, 100 ms a sync of the log",
        "kraft-bridge, 1 ms, 1 a topic, 3 ZooKeeper servers, leader killed",
        "kraft-bridge, 1 ms, 1 a topic, 5 s stall",
        "kraft-bridge, 1 ms, 1 a topic, 8 connections, 3 ZooKeeper servers",
        "kraft-bridge, 1 ms, 1 a topic, at random",
    ]


def test_without_a_sweep_no_number_is_made_up() -> None:
    nothing = "No sweep of rates of kraft-bridge is among these runs."
    assert concluded().headline == nothing
    assert concluded({}).headline == nothing
    assert (
        concluded({"target": "kafka"}, {"target": "kafka", "rate_per_s": 9.0}).headline == nothing
    )


@pytest.mark.parametrize(("step", "expected"), [(0.0, 0.0), (-5.0, 0.0), (1.0, 0.01), (25.0, 0.25)])
def test_growth_is_the_share_of_what_was_committed(step: float, expected: float) -> None:
    slices = [{"slice": at, "lag_records": at * step, "committed": 100} for at in range(10)]
    assert growth(slices, 10.0) == pytest.approx(expected)
    # Two seconds a slice: the same lag in twice the time.
    assert growth(slices, 120.0) == pytest.approx(expected * 120 / 10 / 2)
    assert growth(slices[:3], 10.0) is None


def test_requests_without_an_answer_are_not_achieved() -> None:
    # Of 1,000 that were due only 950 left a row, all of them fine.
    [run] = concluded({"intended": 950, "answered": 950}).runs
    assert (run.intended, run.achieved) == (1000, 0.95)


def test_void_runs_and_those_without_load_do_not_count() -> None:
    found = concluded({"void": "trees differ"}, {"intended": 0, "answered": 0}, {})
    assert [run.counts for run in found.runs] == [False, False, True]
    assert [anomaly.run_id for anomaly in found.anomalies] == ["r0", "r1"]


@pytest.mark.parametrize(
    ("change", "what"),
    [
        ({"others_cores": 0.7}, "other processes used 0.70 cores"),
        ({"late_p99_ms": 12.0}, "the client itself was late: p99 12.0 ms"),
        ({"intended": 1060}, "106.0/s in its trace where 100.0/s was due"),
        ({"lag_p99_high_ms": None}, "the p99 of its lag is not known"),
    ],
)
def test_what_makes_a_run_less_believable_is_told(change: dict[str, Any], what: str) -> None:
    assert [anomaly.what for anomaly in concluded(change).anomalies] == [what]
    assert not concluded({}).anomalies


def test_pairs_tell_what_writing_to_zookeeper_adds() -> None:
    found = concluded(
        {"pair": "a", "p99_ms": 7.0},
        {"pair": "a", "p99_ms": 2.0, "target": "no-zookeeper"},
        {"pair": "b", "p99_ms": 10.0},
        {"pair": "b", "p99_ms": 3.0, "target": "no-zookeeper"},
        {"pair": "c", "p99_ms": 99.0},
    )
    [pair] = found.counterfactuals
    assert (pair.pairs, pair.median_ms, pair.low_ms, pair.high_ms) == (2, 6.0, None, None)


def test_utilisation_is_the_time_all_that_was_committed_would_need() -> None:
    # 8 s for half of the records: twice that for all of them, in 10 s.
    found = concluded(
        {"busy_ms": 8000.0, "records": 500, "blocked_ms": 400.0, "blocked_operations": 9}
    )
    [run] = found.runs
    assert (run.utilisation, run.blocked_share) == (1.6, 0.04)
    [points] = blocked_by_utilisation(found.runs).values()
    assert points == [(1.6, 0.04)]


ROW = {
    "begin_ns": 0,
    "drained_ns": 10 * 10**9,
    "machine": "2 cores (a processor), 8 GiB",
    "controller_cpu_s": 4.0,
    "zookeeper_cpu_s": 2.0,
    "fleet_cpu_s": 1.0,
    "load_cpu_s": 3.0,
    "others_cores": 0.1,
}
"""Of 2 cores 1.1 are used: 55 %."""


def test_how_full_each_resource_was_comes_from_the_row() -> None:
    [run] = concluded(ROW | {"waited_share": 0.25, "loop_share": 0.3, "sync_ms": 4000.0}).runs
    used = {one.name: one.used for one in run.figures}
    assert used == {
        "the machine's cores": "55% (1.1 of 2 cores)",
        "the client": "0.1 ms at p99",
        "the client's connections": "25%",
        "the forwarding channel": "not used, the load asks the controller itself",
        "the event loop": "30%",
        "the log's sync": "40%",
        "ZooKeeper": "20%",
        "the process (controller)": "0.40 cores",
        "the process (ZooKeeper)": "0.20 cores",
        "the process (brokers)": "0.10 cores",
        "the process (client)": "0.30 cores",
        "other programs": "0.10 cores",
    }
    assert run.limit.by is None
    assert run.limit.zookeeper is True
    assert run.limit.unknown == ()


def test_the_machine_counts_as_full_as_it_was_while_the_load_ran() -> None:
    """Not with the time in which ZooKeeper took the rest: the cores are idle then."""
    [run] = concluded(ROW | {"machine_busy": 0.85, "drained_ns": 100 * 10**9}).runs
    assert run.limit.text.startswith("The machine's cores: 85% busy, so how much ZooKeeper can")
    assert not run.of_zookeeper


def test_a_row_without_processor_time_does_not_say_how_full_the_machine_was() -> None:
    for lacks in ("drained_ns", "machine", "controller_cpu_s", "others_cores"):
        [run] = concluded(ROW | {lacks: None}).runs
        assert "the machine's cores" in run.limit.unknown, lacks
        assert run.limit.zookeeper is None


def test_without_a_trace_nothing_is_known_of_what_the_controller_used() -> None:
    [run] = concluded(ROW | {"target": "kafka", "loop_share": None, "traced": None}).runs
    assert run.limit.unknown == (
        "the log's sync",
        "the event loop",
        "the client's connections",
        "ZooKeeper",
    )


@pytest.mark.parametrize(
    ("full", "says"),
    [
        ({"zookeeper_cpu_s": 5.0}, "The machine's cores: 70% (1.4 of 2 cores) busy"),
        ({"others_cores": 0.5}, "The machine's cores: 75% (1.5 of 2 cores) busy"),
        ({"late_p99_ms": 10.0}, "The client: late itself, by 10 ms at p99"),
        ({"late_p99_ms": None, "late_max_ms": 11.0}, "The client: late itself, by 11 ms at most"),
    ],
)
@pytest.mark.parametrize("blocked", [None, 3])
def test_a_full_machine_or_a_late_client_carries_no_verdict_on_zookeeper(
    full: dict[str, Any], says: str, blocked: int | None
) -> None:
    """Whatever the runs say of it: that it keeps up as well as that changes waited for it."""
    calm = [ROW | {"rate_per_s": rate} for rate in (100.0, 200.0)]
    waited = {"blocked_ms": None if blocked is None else 500.0, "blocked_operations": blocked}
    high = ROW | {"rate_per_s": 300.0} | full | waited
    found = concluded(*repeated(*calm, high), lag_limit_ms=200.0)
    assert found.sweeps[0].unblocked == Knee(200.0, 300.0, None, REPEATS)
    assert f"not judged at 300 changes/s: {says}, so how much ZooKeeper can" in found.headline
    [limit] = sweep_limits(found)
    assert limit.says.startswith(f"first at 300 changes/s: {says}, so how")
    assert limit.says.endswith(f"(so in {REPEATS} of {3 * REPEATS} runs)")
    assert (
        "kraft-bridge at 200 changes/s at least (200.0/s carried out at least; " in found.headline
    )


def test_no_figure_of_zookeeper_is_made_of_runs_without_a_verdict() -> None:
    """What a record costs it, its utilisation, what writing to it adds, the map, the share."""
    pair = [{"pair": "a", "target": target} for target in ("kraft-bridge", "no-zookeeper")]
    calm = concluded(*(ROW | one for one in pair))
    full = concluded(*(ROW | {"machine_busy": 0.9} | one for one in pair))
    assert calm.sweeps[0].cost
    assert calm.counterfactuals
    assert blocked_by_utilisation(calm.runs)
    assert not any(sweep.cost for sweep in full.sweeps)
    assert not full.counterfactuals
    assert not blocked_by_utilisation(full.runs)
    told = {one.about: one.says for one in sweep_findings(full)}["ZooKeeper blocking KRaft"]
    assert told.endswith("an operation waited; 1 of them do not show how much ZooKeeper can take")
    rates = [{"rate_per_s": rate, "machine_busy": 0.9} for rate in (100.0, 200.0)]
    drawn = [*blocking(concluded(*(ROW | one for one in rates)))]
    assert any(isinstance(each, Note) and "A dash" in each.text for each in drawn)
    [heat] = [each for each in drawn if isinstance(each, HeatMap)]
    assert [cells for _, cells in heat.rows] == [[None, None]]


@pytest.mark.parametrize(
    ("at_300", "whose"),
    [
        (
            {"machine_busy": 0.8},
            (
                "not the knee of ZooKeeper, which this sweep does not reach. The machine's cores: "
                "80% busy, so how much ZooKeeper can take was not measured"
            ),
        ),
        (
            {"busy_ms": 9_500.0, "lag_each_slice": 60.0},
            (
                "ZooKeeper's own knee. ZooKeeper: 95% busy, and its lag grew by 20% of what was "
                "committed"
            ),
        ),
        (
            {"answered": 1_500},
            (
                "whether it is ZooKeeper's own knee is not known. Not known: 50% of what was due "
                "was done in time, by nothing that is known; the fullest was the machine's cores "
                "with 55% (1.1 of 2 cores)"
            ),
        ),
    ],
)
def test_a_knee_is_said_to_be_of_what_was_full(at_300: dict[str, Any], whose: str) -> None:
    slow = {"p99_ms": 90.0, "loop_share": 0.1, "sync_ms": 1.0, "waited_share": 0.0}
    calm = [ROW | {"rate_per_s": rate} for rate in (100.0, 200.0)]
    found = concluded(*repeated(*calm, ROW | {"rate_per_s": 300.0} | slow | at_300))
    told = {one.about: one.says for one in sweep_findings(found)}
    assert told["knee of kraft-bridge, 1 ms, 1 a topic"] == (
        f"up to 200 changes/s; not at 300: {whose}"
    )


def test_where_nothing_was_full_the_unknown_is_said() -> None:
    more = {"waited_share": 0.0, "loop_share": 0.1}
    calm = [ROW | {"rate_per_s": rate} | more for rate in (100.0, 200.0)]
    [limit] = sweep_limits(concluded(*repeated(*calm)))
    assert limit.says == "nothing of what is known; not known: how full: the log's sync"


def test_a_sweep_that_fell_behind_is_not_said_to_be_limited_by_nothing() -> None:
    behind = ROW | {"rate_per_s": 200.0, "answered": 1_000}
    [limit] = sweep_limits(concluded(ROW | {"rate_per_s": 100.0}, behind))
    assert limit.warning
    assert limit.says.startswith("first at 200 changes/s: Not known: 50% of what was due was done")


def test_what_limited_the_runs_is_said_before_the_headline() -> None:
    found = concluded({"rate_per_s": 100.0}, {"rate_per_s": 200.0})
    first, second, *_ = sweep_summary(found)
    assert first.about == "what limited kraft-bridge, 1 ms, 1 a topic"
    assert (second.about, second.says) == ("headline", found.headline)
