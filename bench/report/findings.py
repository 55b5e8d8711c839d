"""The main numbers of the tables; shared by page and summary."""

from __future__ import annotations

import textwrap
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

Record: TypeAlias = Mapping[str, Any]
Tables: TypeAlias = Mapping[str, Sequence[Record]]

UNEXPLAINED_LIMIT: Final = 0.01
"""An attribution whose parts miss the whole by more is not shown as one."""

_OF_CONTROLLERS: Final = ("stage_latency", "lag_summary", "coalescing", "blocking")
"""Tables with a row only where a controller's trace holds a change."""

_NO_CONTROLLER: Final = (
    "not known: the trace holds no change of a controller; a controller of kraft-bridge writes "
    "its part with kraftbridge.trace.dir"
)
_INDENT: Final = "    "


@dataclass(frozen=True, slots=True)
class Finding:
    """One line of the summary; ``warning`` marks what makes the run less believable."""

    about: str
    says: str
    warning: bool = False


def findings(tables: Tables) -> list[Finding]:
    """Turn result tables into the summary, in reading order."""
    return [
        *_load(tables),
        *_blocking(tables),
        *_lag(tables),
        *_cost(tables),
        *_noise(tables),
    ]


def lines(found: Iterable[Finding], width: int | None) -> Iterable[tuple[Finding, str]]:
    """The summary as text: each finding after what it is about, a blank line between none.

    Args:
        found: the findings, in reading order.
        width: of the console in characters: longer lines are wrapped and indented; None: each
            finding is one line, for files and other programs.

    >>> [text for _, text in lines([Finding("runs", "12, all count")], None)]
    ['runs: 12, all count']
    """
    for each in found:
        text = " ".join(f"{each.about}: {each.says}".split())
        if width is None:
            yield each, text
        else:
            # A path or a name longer than a line stays whole, so that it can be copied.
            yield (
                each,
                textwrap.fill(
                    text,
                    max(width, 2 * len(_INDENT)),
                    subsequent_indent=_INDENT,
                    break_long_words=False,
                    break_on_hyphens=False,
                ),
            )


def _load(tables: Tables) -> Iterable[Finding]:
    for row in sorted(tables["latency"], key=lambda row: (row["api"], row["seen"])):
        if row["seen"] == "client response":
            yield Finding(
                f"{row['api']} as clients felt it",
                f"p50 {_ms(row['p50_ms'])}, p99 {_ms(row['p99_ms'])}, max {_ms(row['max_ms'])} "
                f"({row['samples']:,} samples, {row['accuracy']})",
            )
    intended = sum(row["intended"] for row in tables["rate_summary"])
    achieved = sum(row["achieved"] for row in tables["rate_summary"])
    if intended:
        yield Finding(
            "open-loop load",
            f"{achieved:,} of {intended:,} intended requests answered without error",
            warning=achieved < 0.99 * intended,
        )


def _blocking(tables: Tables) -> Iterable[Finding]:
    if not any(tables[name] for name in _OF_CONTROLLERS):
        # A load or a fleet traces its own requests only: nothing is known of what they waited for.
        yield Finding("ZooKeeper blocking KRaft", _NO_CONTROLLER, warning=True)
    elif not tables["blocking"]:
        yield Finding("ZooKeeper blocking KRaft", "never: no operation waited for ZooKeeper")
    for row in tables["blocking"]:
        yield Finding(
            f"ZooKeeper blocking KRaft ({row['process']})",
            f"{_ms(row['union_ms'])} in which something waited; "
            f"{row['blocked_operations']:,} operations, {_ms(row['total_ms'])} summed; "
            f"{row['timed_out_operations']:,} gave up",
        )
        if row["unexplained_share"] > UNEXPLAINED_LIMIT:
            yield Finding(
                "attribution of blocking",
                f"refused: parts miss the whole by {row['unexplained_share']:.1%}",
                warning=True,
            )


def _lag(tables: Tables) -> Iterable[Finding]:
    for row in tables["lag_summary"]:
        yield Finding(
            f"write-behind lag ({row['process']})",
            f"at most {row['max_lag_records']:,} records, {_ms(row['max_lag_ms'])}; "
            f"behind {_share(row['behind_share'])} of the time; "
            f"{row['last_lag_records']:,} records at the end",
            warning=row["last_lag_records"] > 0,
        )
    readings = sum(row["readings"] for row in tables["gauge_agreement"])
    if readings:
        agreeing = sum(row["agreeing"] for row in tables["gauge_agreement"])
        yield Finding(
            "lag gauges against the trace",
            f"{agreeing:,} of {readings:,} readings agree within 1 record or 1 ms",
            warning=agreeing < 0.99 * readings,
        )


def _cost(tables: Tables) -> Iterable[Finding]:
    for row in tables["coalescing"]:
        yield Finding(
            f"multis ({row['process']})",
            f"{row['multis']:,} carried {row['records']:,} records in {row['ops']:,} operations, "
            f"{row['bytes']:,} bytes: {row['records_per_multi']:.1f} records each",
        )


def _noise(tables: Tables) -> Iterable[Finding]:
    lives = Counter((row["run_id"], row["process"]) for row in tables.get("runs", ()))
    for (run_id, process), times in sorted(lives.items()):
        if times > 1:
            yield Finding(
                f"starts of {process}",
                f"{times} in run {run_id}: its offsets and request ids begin anew, and what is "
                "computed from them mixes its lives",
                warning=True,
            )
    for row in tables["stalls"]:
        yield Finding(
            f"event loop stalls ({row['process']})",
            f"{row['stalls']:,}, longest {_ms(row['longest_ms'])}; "
            f"{row['noisy_stalls']:,} of 50 ms or more",
            warning=row["noisy_stalls"] > 0,
        )
    for row in tables["request_parts"]:
        if row["unexplained_share"] > UNEXPLAINED_LIMIT:
            yield Finding(
                f"parts of {row['api']}",
                f"miss the measured latency by {row['unexplained_share']:.1%}",
                warning=True,
            )


def _ms(value: float | None) -> str:
    if value is None:
        return "too few samples"
    if value >= 1000:
        return f"{value / 1000:,.3g} s" if value < 1e6 else f"{value / 1000:,.0f} s"
    return f"{value:.3g} ms"


def _share(value: float | None) -> str:
    return "none" if value is None else f"{value:.1%}"
