"""The one figure of README.md, from its kept rows: ``python -m tools.figure`` prints it.

With what limited the rows, as ``analyze`` says it of them.
"""

import statistics
from typing import Final

from bench.analysis.limits import Key, limited
from bench.analysis.sweep.one_run import figures_of
from tools.kept import KAFKA, OURS, Row, rows

RATE: Final = 4_000


def _of(some: list[Row], target: str, column: str) -> list[float]:
    return sorted(float(row[column]) for row in some if row["target"] == target)


def sentence(found: list[Row]) -> str:
    """What the rows of one rate say, ours and Kafka's.

    Args:
        found: three of each.

    Raises:
        ValueError: a row is not quiet, or is not limited by the machine: then this says too much.
    """
    shares = []
    for row in found:
        first = limited(figures_of(row, {}))
        if first.by is None or first.by.key is not Key.MACHINE or first.zookeeper is not False:
            raise ValueError(f"{row['run_id']}: {first.text}")
        if row["others_cores"] >= 0.5:
            raise ValueError(f"{row['run_id']}: other programs used {row['others_cores']} cores")
        shares.append(100 * (first.by.share or 0.0))
    ours, kafka = (_of(found, target, "zk_changes_per_s") for target in (OURS, KAFKA))
    half = [statistics.median(_of(found, target, "commit_p50_ms")) for target in (OURS, KAFKA)]
    done = [statistics.median(_of(found, target, "achieved_per_s")) for target in (OURS, KAFKA)]
    if done[0] < RATE:
        raise ValueError(f"ours committed {done[0]:,.0f} of {RATE:,}/s")
    middle = [statistics.median(each) for each in (ours, kafka)]
    ends = [f"{each[0]:,.0f} to {each[-1]:,.0f}" for each in (ours, kafka)]
    return (
        f"**Of {RATE:,} changes of ISRs a second {middle[0]:,.0f} reach ZooKeeper; from Kafka's "
        f"controller {middle[1]:,.0f}.** Ours commits all of them, half within {half[0]:.0f} ms; "
        f"Kafka's commits {done[1]:,.0f} a second, half within {half[1] / 1e3:.1f} s. Medians of "
        f"three quiet runs ({ends[0]}; {ends[1]}) on 2 cores, shared by client, brokers, ZooKeeper "
        f"and controller, and in use to {min(shares):.0f} - {max(shares):.0f} %: they limit both "
        "here, not ZooKeeper."
    )


def kept() -> list[Row]:
    """The rows of the figure."""
    _, found = rows("isr-churn-*.jsonl")
    return [row for row in found if row["rate_per_s"] == RATE]


if __name__ == "__main__":
    print(sentence(kept()))
