"""The summary of an analysis: what it says of blocking, and its text on narrow and no consoles."""

from __future__ import annotations

import json
import math

import pytest

from bench.report.blocks import Note, ReportSection, render
from bench.report.findings import BOUND, BOUND_DEFAULT, Finding, findings, lines
from emulator.config.load import Config

_NAMES = (
    "latency rate_summary blocking lag_summary gauge_agreement coalescing stalls request_parts "
    "stage_latency missing"
).split()
_LONG = Finding(
    "knee of kraft-bridge, 5 partitions a topic, ZooKeeper at 20 ms (create-storm)",
    "400 changes/s; not at 800; 95 % of 5 resampled repeats: 200 to 400 " * 3,
)


def _tables(**more: list[dict[str, object]]) -> dict[str, list[dict[str, object]]]:
    return {name: [] for name in _NAMES} | more


def test_a_trace_without_a_controller_says_nothing_of_blocking() -> None:
    (found,) = findings(_tables())
    assert found.about == "ZooKeeper blocking KRaft"
    assert found.says.startswith("not known: the trace holds no change of a controller")
    assert found.warning


def test_a_trace_that_ends_too_early_is_said_first() -> None:
    run = {"run_id": "r", "missing_s": 41.2, "missing_rows": None, "table": None, "at_ns": None}
    ranges = {"process": "d", "why": "file missing", "table": "ranges", "missing_rows": 1053}
    missing = [
        run | {"process": "a", "why": "not written", "missing_rows": 1234, "at_ns": 3 * 10**9},
        run | {"process": "f", "why": "deleted", "missing_rows": 1234, "at_ns": 3 * 10**9},
        run | {"process": "b", "why": "others went on"},
        run | {"process": "c", "why": "no end"},
        run | ranges,
        run | ranges | {"process": "e", "missing_rows": -7},
    ]
    clock = {"run_id": "r", "monotonic_ns": 10**9, "wall_ns": 1_700_000_000 * 10**9}
    started = clock | {"host": "h", "parameters": "{}"}
    runs = [started | {"process": process} for process in ("a", "f")]
    found = findings(_tables(missing=missing, runs=runs))[:6]
    assert all(one.warning for one in found)
    said = {one.about.removeprefix("gap in the trace of "): one.says for one in found}
    assert said["a"].startswith(
        "in run r 41.2 s are missing (1,234 rows), from 2023-11-14 22:13:22 UTC on: it could not"
    )
    assert said["f"].startswith(
        "in run r the oldest 1,234 rows, of 41.2 s, were deleted, from 2023-11-14 22:13:22 UTC "
        "on: all files of a process may take kraftbridge.trace.max.bytes"
    )
    assert said["b"].startswith("in run r 41.2 s are missing: others of its host went on")
    assert "rows of up to its last second may be missing, and all of the 41.2 s after" in said["c"]
    assert said["d"].startswith("in run r 1,053 rows of ranges within 41.2 s are missing: a file")
    assert said["e"].startswith("in run r 7 rows of ranges are there twice")


def test_a_controller_that_wrote_and_never_waited_is_said_to() -> None:
    (found,) = findings(_tables(stage_latency=[{"run_id": "r", "process": "controller-3000"}]))
    assert found.about == "ZooKeeper blocking KRaft"
    assert found.says == (
        "0 ms seen: no operation waited for ZooKeeper, and the trace holds no load; but "
        "whether the machine was full or the client late is not known"
    )


def of_a_load(**more: object) -> dict[str, list[dict[str, object]]]:
    run = {"run_id": "r", "process": "controller-3000"}
    lag = {"max_lag_records": 50, "max_lag_ns": 20_500_000_000, "max_lag_ms": 9.0}
    lag |= {"behind_share": 0.5, "last_lag_records": 0}
    last = 18 * 10**9
    rate = {"run_id": "r", "process": "me", "intended": 200, "achieved": 200}
    return _tables(
        stage_latency=[run],
        lag_summary=[run | lag],
        rate_summary=[rate | {"due_per_s": 25.0, "achieved_per_s": 11.2, "last_due_ns": last}],
        runs=[run | {"host": "h", "parameters": "{}"} | more],
    )


def test_never_comes_with_the_load_and_the_headroom() -> None:
    """Nothing waits without a load, or below a bound that was never near."""
    known = of_a_load() | {"utilisation": utilised()}
    said = {one.about: one.says for one in findings(known)}
    assert said["ZooKeeper blocking KRaft"] == (
        "never: no operation waited for ZooKeeper, at 11.2 changes/s (25.0 due); the lag reached "
        "0.5% of the bound of 10,000"
    )
    assert said["open-loop load"].endswith("without error, 11.2 each second of 25.0 due")
    assert said["write-behind lag (controller-3000)"] == (
        "at most 50 records (0.5% of the bound of 10,000), 2.5 s after the last change was due; "
        "at most 9 ms; behind 50.0% of the time; 0 records at the end"
    )


def test_parts_of_requests_are_doubted_by_their_number() -> None:
    """A share of milliseconds that adds up by its own making was shown as a check before."""
    row = {"api": "X", "requests": 9, "out_of_order": 0, "uncommitted": 0}
    (_,) = findings(_tables(request_parts=[row]))
    _, order, commit = findings(
        _tables(request_parts=[row | {"out_of_order": 2, "uncommitted": 3}])
    )
    assert order.says == "2 of 9 requests have instants that contradict each other"
    assert commit.says == "3 of 9 requests have no instant of commit in the trace"
    assert order.warning
    assert commit.warning


def utilised(**shares: float) -> list[dict[str, object]]:
    calm = {"machine": 0.2, "client": 1.0, "log_sync": 0.3, "event_loop": 0.1, "connections": 0.0}
    calm |= {"forwarding": 0.4, "zookeeper": 0.3, "blocked": 0.0}
    return [
        {"run_id": "r", "resource": name, "subject": "", "value": value, "limit": None}
        for name, value in (calm | shares).items()
    ]


def test_what_limited_the_run_comes_after_gaps_and_where_the_time_of_a_change_went() -> None:
    """One change at a time through one broker: the wait is at the client, and nothing at us."""
    spent = {"client": 20_900.0, "broker": 8_100.0, "commit": 55.0, "answer": 45.0}
    times = [
        {"run_id": "r", "part": part, "samples": 1_193, "mean_ms": mean}
        for part, mean in spent.items()
    ]
    tables = of_a_load() | {"utilisation": utilised(forwarding=1.0), "change_time": times}
    gap = {"run_id": "r", "process": "p", "why": "no end", "table": None}
    tables["missing"] = [gap | {"missing_rows": None, "missing_s": 1.0}]
    missing, limit, time, *rest = findings(tables)
    assert (limit.about, limit.warning) == ("what limited this run", True)
    assert limit.says == "The forwarding channel: 100% busy"
    assert time.about == "where a change's time went"
    assert time.says == (
        "29.1 s at the mean of 1,193 changes: client 20.9 s (72%), broker 8.1 s (28%), "
        "queue not known, blocked not known, commit 55 ms (0%), answer 45 ms (0%)"
    )
    assert missing.about == "gap in the trace of p"
    assert any(one.says.startswith("never: no operation waited for ZooKeeper") for one in rest)


DIFFERS = "; but another load may differ, as the machine was full or the client late"


@pytest.mark.parametrize("full", [{"machine": 0.9}, {"client": 11.0}])
def test_nothing_is_concluded_of_zookeeper_from_a_full_machine(full: dict[str, float]) -> None:
    limit, *rest = findings(of_a_load() | {"utilisation": utilised(**full)})
    assert limit.says.endswith("so how much ZooKeeper can take was not measured")
    [said] = [one.says for one in rest if one.about == "ZooKeeper blocking KRaft"]
    assert said.startswith("0 ms seen: no operation waited for ZooKeeper, at 11.2 chang")
    assert said.endswith(DIFFERS)
    waited = {"run_id": "r", "process": "c", "union_ms": 500.0, "blocked_operations": 3}
    waited |= {"total_ms": 500.0, "timed_out_operations": 0, "unexplained_share": 0.0}
    tables = of_a_load() | {"utilisation": utilised(**full), "blocking": [waited]}
    [said] = [one.says for one in findings(tables) if "blocking KRaft (c)" in one.about]
    assert said.endswith(f"0 gave up{DIFFERS}")


def test_a_calm_run_is_said_to_be_one() -> None:
    calm = of_a_load() | {"utilisation": utilised()}
    calm["rate_summary"][0]["achieved_per_s"] = 24.9
    limit, *_ = findings(calm)
    assert not limit.warning
    assert limit.says == (
        "Nothing: as much was done each second as was due; the fullest was the forwarding "
        "channel with 40%"
    )


def test_what_was_done_in_the_end_but_not_in_time_is_less_than_was_due() -> None:
    """All 200 were carried out, at 11.2 a second where 25 were due."""
    limit, *_ = findings(of_a_load() | {"utilisation": utilised()})
    assert limit.says.startswith("Not known: 45% of what was due was done in time, by nothing")
    limit, *_ = findings(of_a_load() | {"utilisation": utilised(log_sync=0.9)})
    assert limit.says == "The log's sync: 90% busy"


def test_of_several_runs_each_has_its_own_limit() -> None:
    both = utilised(forwarding=0.9) + [row | {"run_id": "s"} for row in utilised(log_sync=0.9)]
    first, second, *_ = findings(of_a_load() | {"utilisation": both})
    assert (first.about, first.says) == (
        "what limited this run (r)",
        "The forwarding channel: 90% busy",
    )
    assert second.about == "what limited this run (s)"
    assert second.says.startswith("Not known: nothing says whether less was done than was due")


@pytest.mark.parametrize(
    ("parameters", "told"),
    [
        ({BOUND: "500"}, "10.0% of the bound of 500"),
        ({BOUND: "0"}, "no bound"),
        ({BOUND: "x"}, "0.5% of the bound of 10,000"),
        ({BOUND: math.inf}, "0.5% of the bound of 10,000"),
        ([], "0.5% of the bound of 10,000"),
    ],
)
def test_the_bound_is_that_of_the_process(parameters: object, told: str) -> None:
    found = findings(of_a_load(parameters=json.dumps(parameters)))
    assert any(f"({told})" in one.says for one in found)
    assert Config.__dataclass_fields__["write_behind_max_records"].default == BOUND_DEFAULT


def test_no_line_of_a_summary_is_wider_than_the_console() -> None:
    for width in (20, 40, 80, 200):
        for _, text in lines([_LONG, Finding("runs", "12")], width):
            shown = text.split("\n")
            assert max(map(len, shown)) <= width
            assert all(line.startswith("    ") for line in shown[1:])
    (_, text), *_ = lines([_LONG], 80)
    assert " ".join(text.split()) == f"{_LONG.about}: {_LONG.says}".strip()


def test_in_a_file_each_finding_is_one_line() -> None:
    assert [text for _, text in lines([_LONG, Finding("runs", "1\n2")], None)] == [
        f"{_LONG.about}: {_LONG.says}".strip(),
        "runs: 1 2",
    ]


def test_a_path_is_never_broken() -> None:
    path = "/a-long/" + "folder/" * 12
    ((_, text),) = lines([Finding("trace", f"it lies in {path}")], 40)
    assert path in text.split()


def test_no_text_of_a_trace_commands_a_terminal_or_turns_a_page_around() -> None:
    odd = "a\x1b[2J\x85\x9b\u2028\u202e\u2066\x7fb"
    page = render(odd, [Finding(odd, odd)], [ReportSection(odd, [Note(odd)])])
    assert all(line.isprintable() for line in page.split("\n"))
    assert "a\\x1b[2J" in page


def test_what_was_given_up_is_no_answer() -> None:
    """176 of 912 were given up after 60 s: p99 and max were said to be 60 s, exact."""
    row = {"api": "CreateTopics", "seen": "client response", "samples": 912, "accuracy": "exact"}
    row |= {"p50_ms": 26_700.0, "p99_ms": None, "max_ms": math.inf}
    (felt, *_) = findings(_tables(latency=[row | {"not_done": 176, "not_done_ms": 60_000.0}]))
    assert felt.says == (
        "p50 26.7 s, p99 too few samples, max > 60 s (912 due, 19.3% given up, exact)"
    )
    assert felt.warning
    (felt, *_) = findings(_tables(latency=[row | {"max_ms": 70.0, "not_done": 0}]))
    assert felt.says == "p50 26.7 s, p99 too few samples, max 70 ms (912 due, exact)"
    assert not felt.warning


def test_leaders_are_named_by_epoch_and_clocks_of_several_hosts_are_doubted() -> None:
    life = {"run_id": "r", "moved_s": 0.0}
    lives = [
        life | {"process": "controller-1 life 1", "host": "a"},
        life | {"process": "controller-1 life 2", "host": "a", "moved_s": -7.25},
        life | {"process": "controller-2", "host": "b"},
    ]
    led = [
        {"run_id": "r", "process": "controller-2", "leader_epoch": 4, "first_ns": 9 * 10**9},
        {"run_id": "r", "process": "controller-1 life 1", "leader_epoch": 3, "first_ns": 10**9},
    ]
    said = {one.about: one for one in findings(_tables(lives=lives, leaders=led))}
    assert said["clocks of 2 hosts"].warning
    assert "times of a, b are put together" in said["clocks of 2 hosts"].says
    assert "by controller-1 life 2 it had moved by -7.2 s" in said["clock of a"].says
    assert said["leaders"].says == (
        "in run r controller-1 life 1 in epoch 3 (from 0.0 s on), "
        "controller-2 in epoch 4 (from 8.0 s on)"
    )


def test_of_several_leaders_only_the_lag_of_all_is_shown() -> None:
    tables = of_a_load()
    (row,) = tables["lag_summary"]
    both = [row, row | {"process": "quorum", "max_lag_records": 70}]
    shown = [one for one in findings(tables | {"lag_summary": both}) if "lag (" in one.about]
    assert [one.about for one in shown] == ["write-behind lag (quorum)"]
