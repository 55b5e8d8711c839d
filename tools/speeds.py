"""Tables of docs/benchmarks.md about speed beside Kafka's controller, from kept rows."""

import statistics
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TypeAlias

from bench.analysis.limits import LATE_MS, Run, limited
from bench.analysis.sweep.one_run import figures_of
from emulator.servers.machine import QUIET_CORES
from tools import figure
from tools.kept import KAFKA, OURS, Row, Tables, rows, source, spread

Cell: TypeAlias = Callable[[Row], str]
Pair: TypeAlias = tuple[Row, Row]
"""Rows of one case and one round: ours and Kafka's, or of another target."""


def pairs(found: Iterable[Row]) -> dict[str, list[Pair]]:
    """Ours and Kafka's of each case, a pair for each round; cases as they come."""
    of: dict[str, dict[int, dict[str, Row]]] = {}
    for row in found:
        of.setdefault(row["case"], {}).setdefault(row["repeat"], {})[row["target"]] = row
    return {
        case: [(both[OURS], both[KAFKA]) for _, both in sorted(rounds.items())]
        for case, rounds in of.items()
    }


def beside(some: Sequence[Pair], column: str, form: str = ",.0f", scale: float = 1.0) -> str:
    """The medians of both; ``-`` where a round lacks the figure.

    What did not get there has none: the median of the others would be that of the fast ones.
    """
    shown = []
    for values in zip(*((one[column] for one in pair) for pair in some), strict=True):
        known = [value * scale for value in values if value is not None]
        whole = len(known) == len(values)
        shown.append(format(statistics.median(known), form) if whole else "-")
    return " / ".join(shown)


def ratio(some: Sequence[Pair], column: str) -> str:
    """The median of the rounds' ratios, ours to the other's, and the lowest and the highest."""
    found = [a[column] / b[column] for a, b in some if a[column] is not None and b[column]]
    if len(found) < len(some):
        return "-"
    return spread(found, ".2f" if statistics.median(found) >= 0.1 else ".3f")


def full(some: Iterable[Row]) -> str:
    """What limited rows, as ``analyze`` says it; or that nothing did, or it is not known."""
    found = []
    for row in some:
        done_per_s, due_per_s = row["achieved_per_s"], row["rate_per_s"]
        done = min(1.0, done_per_s / due_per_s) if done_per_s and due_per_s else None
        one = limited(figures_of(row, {}), Run(done, row["blocked_share"]))
        if one.by is None and row["frozen_s"]:
            found.append("ZooKeeper, stopped")
        else:
            found.append(one.by.name if one.by else "nothing" if one.nothing else "not known")
    return " or ".join(dict.fromkeys(found))


def limited_by(some: Sequence[Pair]) -> str:
    """What limited the rows of both; once if it is the same."""
    return " / ".join(dict.fromkeys(map(full, zip(*some, strict=True))))


def busy(some: Sequence[Pair]) -> str:
    """The share of both cores that was in use."""
    return beside(some, "machine_busy", ".0%")


def verdict() -> Iterator[str]:
    """The first line of the page."""
    some = next(iter(pairs(figure.kept()).values()))
    ours, kafka = beside(some, "zk_changes_per_s").split(" / ")
    yield (
        f"**Of {figure.RATE:,} ISR changes due each second our controller brings {ours} a second "
        f"into ZooKeeper, Apache Kafka's {kafka}.**\n"
    )


def isr() -> Iterator[str]:
    """Changes of ISRs: how many reach ZooKeeper, and when they are committed."""
    file, found = rows("isr-churn-*.jsonl")
    yield (
        f"{source(file, found)}. `kraft-bridge bench run isr-churn --quick --repeat 3 "
        "--targets kraft-bridge,kafka`. Ours / Kafka's:\n\n"
        "| changes/s due | into ZooKeeper, /s | ratio | committed, /s | commit p50; p99, ms | "
        "records behind, at most | ZooKeeper transactions | controller CPU, s | ratio | "
        "cores in use | what limited |\n|---:|---|---|---|---|---|---|---|---|---|---|\n"
    )
    for some in sorted(pairs(found).values(), key=lambda one: one[0][0]["rate_per_s"]):
        waits = [beside(some, f"commit_{name}_ms", ",.1f") for name in ("p50", "p99")]
        cells = (
            f"{some[0][0]['rate_per_s']:,.0f}",
            beside(some, "zk_changes_per_s"),
            ratio(some, "zk_changes_per_s"),
            beside(some, "achieved_per_s"),
            "; ".join(waits),
            beside(some, "lag_max_records"),
            beside(some, "zk_transactions"),
            beside(some, "controller_cpu_s", ".1f"),
            ratio(some, "controller_cpu_s"),
            busy(some),
            limited_by(some),
        )
        yield f"| {' | '.join(cells)} |\n"


def storms() -> Iterator[str]:
    """Topics that are all due at once: how fast their partitions reach ZooKeeper."""
    file, found = rows("create-storm-*.jsonl")
    bounds = {some[0][0]["bound_records"] for some in pairs(found).values()}
    assert bounds == {None}, "the default"
    yield (
        f"All requests are due within a fifth of a second. {source(file, found)}. "
        "`kraft-bridge bench run create-storm --quick --repeat 3 --targets kraft-bridge,kafka`. "
        "Ours / Kafka's:\n\n"
        "| partitions a topic | into ZooKeeper, partitions/s | ratio | commit p50, ms | "
        "slowest commit, ms | some change waited for ZooKeeper, ms | ZooKeeper transactions | "
        "controller CPU, s | cores in use | what limited |\n"
        "|---:|---|---|---|---|---:|---|---|---|---|\n"
    )
    for some in sorted(pairs(found).values(), key=lambda one: one[0][0]["partitions_per_topic"]):
        waited = statistics.median(ours["blocked_union_ms"] for ours, _ in some)
        cells = (
            f"{some[0][0]['partitions_per_topic']:,}",
            beside(some, "zk_changes_per_s"),
            ratio(some, "zk_changes_per_s"),
            beside(some, "commit_p50_ms"),
            beside(some, "commit_max_ms"),
            f"{waited:,.0f}",
            beside(some, "zk_transactions"),
            beside(some, "controller_cpu_s", ".2f"),
            busy(some),
            limited_by(some),
        )
        yield f"| {' | '.join(cells)} |\n"


def taken_by(file: Path, found: Sequence[Row]) -> str:
    """The code and the Python of rows of ``bench.micro``: of the first line, or the file's name.

    >>> taken_by(Path("rates-a39614e7.jsonl"), [{"machine": "2 cores"}])
    'a39614e7'
    >>> taken_by(Path("a.jsonl"), [{"code": "a39614e7fcd9", "versions": "Python 3.11.2 (main)"}])
    'a39614e7, Python 3.11.2'
    """
    code = found[0].get("code") or file.stem.partition("-")[2]
    versions = found[0].get("versions") or ""
    return ", ".join(filter(None, (code[:8], versions.split(" (")[0])))


def requests() -> Iterator[str]:
    """What a controller answers without ZooKeeper, for each request and number of connections."""
    file, found = rows("rates-*.jsonl")
    taken = [row for row in found if "request" in row]
    of: dict[tuple[str, int], dict[int, dict[str, Row]]] = {}
    for row in taken:
        rounds = of.setdefault((row["request"], row["connections"]), {})
        rounds.setdefault(row["round"], {})[row["controller"]] = row
    used = {
        name: max(one["rate"] * one["cpu_us"] for one in taken if one["controller"] == name) / 1e6
        for name in ("ours", KAFKA)
    }
    yield (
        f"Plain KRaft, [rows](rows/{file.name}), code {taken_by(file, found)}, medians of "
        f"{1 + max(row['round'] for row in taken)} rounds, other programs used up to "
        f"{max(row['others_cores'] for row in taken):.1f} cores. `python -m bench.micro rates`. "
        "Ours / Kafka's:\n\n"
        "| request | connections | requests/s | ratio | CPU, µs | ratio | p50, ms | ratio |\n"
        "|---|---:|---|---|---|---|---|---|\n"
    )
    for (name, connections), rounds in of.items():
        some = [(both["ours"], both[KAFKA]) for _, both in sorted(rounds.items())]
        figures = " | ".join(
            f"{beside(some, column, form)} | {ratio(some, column)}"
            for column, form in (("rate", ",.0f"), ("cpu_us", ".1f"), ("p50_ms", ".3f"))
        )
        yield f"| {_REQUESTS.get(name, name)} | {connections} | {figures} |\n"
    yield (
        f"\nOf the two cores, which the client shares, ours used {used['ours']:.2f} at most, "
        f"Kafka's up to {used[KAFKA]:.2f} (requests/s times CPU).\n"
    )


_REQUESTS: Final = {
    "api-versions": "ApiVersions",
    "alter-partition": "AlterPartition",
    "create-topic": "CreateTopics",
}


def quorum() -> Iterator[str]:
    """Three controllers: how long a failover takes, and a commit."""
    file, found = rows("failover-*.jsonl")
    yield (
        "Three controllers of kraft-bridge, then three of Kafka's with the same timeouts, one "
        f"round, so not in turns; [rows](rows/{file.name}), code {taken_by(file, found)}. "
        "`python -m bench.micro failover --parts kraft --kills 3`\n\n"
        "| | ours | Kafka's | ratio |\n|---|---:|---:|---:|\n"
    )
    kills = {
        stack: [
            row["first_change_s"]
            for row in found
            if row.get("stack") == stack and row["what"] == "kill"
        ]
        for stack in ("ours", KAFKA)
    }
    middle = [statistics.median(each) for each in kills.values()]
    shown = [spread(each, ".2f") for each in kills.values()]
    yield (
        "| leader killed, to the first change that a broker forwards with success, s: median of "
        f"{len(kills['ours'])} | {' | '.join(shown)} | {middle[0] / middle[1]:.2f} |\n"
    )
    for linger_ms in sorted({row["linger_ms"] for row in found if "linger_ms" in row})[::-1]:
        ours, kafka = (
            next(
                row
                for row in found
                if row.get("stack") == stack
                and row["what"] == "commit"
                and row["linger_ms"] == linger_ms
            )
            for stack in ("ours", KAFKA)
        )
        figures = [f"{one['p50_ms']:.2f}; {one['cpu_ms_each']:.1f}" for one in (ours, kafka)]
        both = "; ".join(
            f"{ours[column] / kafka[column]:.2f}" for column in ("p50_ms", "cpu_ms_each")
        )
        yield (
            f"| commits one after the other at the leader, p50 of {ours['calls']}, ms; CPU of the "
            f"three for one, ms; Kafka's lingers for {linger_ms} ms | {' | '.join(figures)} "
            f"| {both} |\n"
        )


def _figures(name: str, form: str, *columns: str, scale: float = 1.0) -> tuple[str, Cell]:
    return name, lambda row: "; ".join(format(row[each] * scale, form) for each in columns)


_SIZES: Final = (
    _figures("first copy, claim to dual write, s", ".1f", "copy_s"),
    _figures("CPU of the leader from its start until then, s", ".1f", "copy_cpu_s"),
    _figures("commit of a change, p50; the longest, ms", ".1f", "commit_p50_ms", "commit_max_ms"),
    _figures(
        "CPU of the leader for a change and what goes on beside it, ms",
        ".1f",
        "change_cpu_us",
        scale=1e-3,
    ),
    _figures(
        "broker killed to others lead in ZooKeeper (up to 9 s: its session), s", ".1f", "death_s"
    ),
    _figures(
        "leader killed to the next change in ZooKeeper (2 s: fetch timeout), s", ".1f", "failover_s"
    ),
    _figures("restart: listening; dual write, s", ".1f", "listening_s", "dual_write_s"),
    _figures(
        "longest step by CPU: until the copy; until others lead; after a restart, ms",
        ".0f",
        "copy_step_ms",
        "death_step_ms",
        "longest_step_ms",
    ),
    _figures("heartbeats, the longest, ms", ".1f", "heartbeat_max_ms"),
    _figures("cores in use while changes came", ".0%", "machine_busy"),
    _figures(
        "memory after the copy; after a restart, MiB", ".0f", "copy_rss_mib", "controller_rss_mib"
    ),
    _figures("the same for a partition, after a restart, B", ",.0f", "partition_bytes"),
    _figures("snapshot, MiB", ".1f", "snapshot_mib"),
)
"""The lines of the table of sizes."""


def sizes() -> Iterator[str]:
    """What a number of partitions, topics or brokers costs."""
    file, found = rows("scale-????????.jsonl")
    heads = (
        f"{row['topics_present'] * row['partitions_per_topic']:,} partitions"
        f"{' of as many topics' if row['partitions_per_topic'] == 1 else ''}, "
        f"{row['brokers']:,} brokers"
        for row in found
    )
    yield (
        f"{source(file, found)}. `kraft-bridge bench run scale --repeat 1`. Three "
        "controllers of ours alone, 25 ISR changes/s:\n\n"
        f"| | {' | '.join(heads)} |\n|---|{'---:|' * len(found)}\n"
    )
    for name, figure_of in _SIZES:
        yield f"| {name} | {' | '.join(map(figure_of, found))} |\n"
    of = {row["case"]: row for row in found}
    cpu, wait = (of["p1m"][name] / of["p10k"][name] for name in ("change_cpu_us", "commit_p50_ms"))
    yield (
        f"\nA change at 1,000,000 partitions takes {cpu:.2f} times the CPU of one at 10,000, and "
        f"{wait:.2f} times the time to commit (goal: 1.2). First copy of 1,000,000 partitions "
        f"within 120 s (stretch 60): {'reached' if of['p1m']['copy_s'] <= 120 else '**missed**'}. "
        f"Kafka's would take about {kafkas_copy_s() / 60:.0f} minutes, as it takes for 20,000 in "
        "[one round](#one-round-each).\n"
    )


def kafkas_copy_s() -> float:
    """What a first copy of 1,000,000 partitions takes if it grows with their number, in s."""
    _, found = rows("once-*.jsonl")
    [row] = [one for one in found if one["run_id"] == "initial-copy.p20k.kafka.r1"]
    partitions = int(row["topics_present"]) * int(row["partitions_per_topic"])
    return float(row["dual_write_s"]) * 1_000_000 / partitions


@dataclass(frozen=True, slots=True)
class Line:
    """A line of the table of one round: what is shown of two targets of one case."""

    what: str
    case: str
    column: str
    form: str = ",.0f"
    scale: float = 1.0
    targets: tuple[str, ...] = (OURS, KAFKA)


_PARTITIONS: Final = "into ZooKeeper, partitions/s"
_LINES: Final = (
    Line(
        f"`knee`: topics of 10 partitions, 400/s due: {_PARTITIONS}",
        "knee.rate400-latency0",
        "zk_changes_per_s",
    ),
    Line("the same: commit p50, ms", "knee.rate400-latency0", "commit_p50_ms", ",.1f"),
    Line(f"the same, 800/s due: {_PARTITIONS}", "knee.rate800-latency0", "zk_changes_per_s"),
    Line("the same: commit p50, ms", "knee.rate800-latency0", "commit_p50_ms", ",.1f"),
    Line(
        "`knee-bounds`: 400/s, bound of 100 records: some change waited, s of 20",
        "knee-bounds.rate400-latency0-bound100",
        "blocked_union_ms",
        ".2f",
        1e-3,
        (OURS,),
    ),
    Line(
        "the same: commit p50, ms",
        "knee-bounds.rate400-latency0-bound100",
        "commit_p50_ms",
        ",.1f",
        targets=(OURS,),
    ),
    Line(
        "`freeze`: ZooKeeper stopped for 5 s: caught up after, s",
        "freeze.s5-unbounded",
        "catch_up_s",
        ".2f",
    ),
    Line(
        "`leader-killed`, of three ZooKeeper servers: caught up after, s",
        "leader-killed.three",
        "catch_up_s",
        ".2f",
    ),
    Line(
        f"`latency`: a round trip of 10 ms more, 400 partitions/s due: {_PARTITIONS}",
        "latency.latency10",
        "zk_changes_per_s",
    ),
    Line(
        "`order`: 5 ms more: commit p50 of write-behind; of ZooKeeper first, then the log, ms",
        "order.latency5",
        "commit_p50_ms",
        ".1f",
        targets=(OURS, "write-ahead"),
    ),
    Line(
        "`counterfactual`: 100/s: commit p50 with ZooKeeper; without, ms",
        "counterfactual.rate100",
        "commit_p50_ms",
        ".1f",
        targets=(OURS, "no-zookeeper"),
    ),
    Line("`config-churn`: 400/s: commit p50, ms", "config-churn.rate400", "commit_p50_ms", ",.1f"),
    Line("the same: p99, ms", "config-churn.rate400", "commit_p99_ms"),
    Line(
        "`growth`: 200 changes with 300 topics: controller CPU, s",
        "growth.topics300",
        "controller_cpu_s",
        ".1f",
    ),
    Line("the same with 20,000 topics", "growth.topics20000", "controller_cpu_s", ".1f"),
    Line(
        "`initial-copy`: 20,000 partitions: start to dual write, s",
        "initial-copy.p20k",
        "dual_write_s",
        ".2f",
    ),
    Line(
        "`restart`: 1,000 topics of one partition: start to dual write, s",
        "restart.p1k-single",
        "dual_write_s",
        ".2f",
    ),
    Line(
        "`raw-limit`: what ZooKeeper takes from its own Java client, operations/s",
        "raw-limit.m400w2",
        "zk_changes_per_s",
        targets=("raw-multi",),
    ),
)


def once() -> Iterator[str]:
    """What was measured in one round: no statement about a spread."""
    file, found = rows("once-*.jsonl")
    of: dict[str, dict[str, Row]] = {}
    for row in found:
        of.setdefault(f"{row['scenario']}.{row['case']}", {})[row["target"]] = row
    yield (
        f"{source(file, found)}: so no statement about a spread. `make bench QUICK=1`. "
        "Ours / Kafka's, or as it is said:\n\n"
        "| | found | what limited | to doubt |\n|---|---:|---|---|\n"
    )
    for line in _LINES:
        taken = [of[line.case][target] for target in line.targets]
        shown = " / ".join(
            "-" if one[line.column] is None else format(one[line.column] * line.scale, line.form)
            for one in taken
        )
        limits = " / ".join(dict.fromkeys(full([one]) for one in taken))
        doubted = "; ".join(text for one in taken for text in doubts(one))
        yield f"| {line.what} | {shown} | {limits} | {doubted} |\n"


def doubts(row: Row) -> Iterator[str]:
    """What makes a row less believable: other programs, or a client that was late itself."""
    if row["others_cores"] >= QUIET_CORES:
        yield f"{row['target']}: others used {row['others_cores']:.1f} cores"
    late_ms = row["late_p99_ms"]
    if late_ms is not None and late_ms > LATE_MS:
        yield f"{row['target']}: the client was late itself, by {late_ms:.0f} ms at p99"


TABLES: Final[Tables] = {
    "verdict": verdict,
    "changes of ISRs": isr,
    "storms": storms,
    "sizes": sizes,
    "request path": requests,
    "three controllers": quorum,
    "one round": once,
}
