"""The time without a controller by the number of partitions."""

from __future__ import annotations

from typing import Any

import pytest

from bench.analysis.sweep.copies import copies


def _row(partitions: int, took_s: float, **change: Any) -> dict[str, Any]:
    return {
        "kind": "copy",
        "target": "kraft-bridge",
        "void": "",
        "topics_present": partitions // 10,
        "partitions_per_topic": 10,
        "claim_s": 1.5,
        "dual_write_s": 1.5 + took_s,
    } | change


def test_a_fixed_time_and_one_for_each_partition_are_found() -> None:
    rows = [_row(size, 0.2 + size * 50e-6) for size in (1_000, 20_000, 100_000)]
    # The median of three repeats counts.
    rows += [_row(1_000, 9.0), _row(1_000, 0.1)]
    [fit] = copies(rows)
    assert (fit.fixed_s, fit.each_us) == (pytest.approx(0.2), pytest.approx(50.0))
    assert (fit.r_squared, fit.off) == (pytest.approx(1.0), pytest.approx(0.0))
    assert [size for size, _ in fit.sizes] == [1_000, 20_000, 100_000]


def test_copies_of_smaller_topics_are_not_put_together_with_those() -> None:
    """As many partitions in a hundred times the topics take longer."""
    rows = [_row(size, 0.2 + size * 50e-6) for size in (1_000, 20_000, 100_000)]
    single = {"topics_present": 1_000, "partitions_per_topic": 1}
    [fit] = copies([*rows, _row(1_000, 0.9, **single), _row(1_000, 0.9, **single)])
    assert fit.fixed_s == pytest.approx(0.2)
    assert fit.per_topic == 10


def test_a_time_that_grows_faster_than_the_metadata_is_seen() -> None:
    [fit] = copies([_row(size, size * size * 1e-8) for size in (1_000, 10_000, 100_000)])
    assert fit.off > 0.5


@pytest.mark.parametrize(
    "change", [{"void": "trees differ"}, {"kind": "create"}, {"claim_s": None}, {"kind": None}]
)
def test_other_rows_and_two_sizes_alone_do_not_make_a_fit(change: dict[str, Any]) -> None:
    sizes = (1_000, 20_000, 100_000)
    assert copies([_row(size, 1.0, **change) for size in sizes]) == []
    assert copies([_row(size, 1.0) for size in sizes[:2]]) == []
    assert copies([]) == []
