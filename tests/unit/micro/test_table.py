"""Ratios, medians and what does not count."""

from __future__ import annotations

from typing import Any

from bench.micro import recording, table


def row(name: str, number: int, zk_s: float, **more: Any) -> dict[str, Any]:
    return {"controller": name, "round": number, "zk_s": zk_s, "others_cores": 0.0} | more


def beside(rows: list[dict[str, Any]]) -> str:
    return table.beside(rows, (), "controller", ("ours", "kafka"), {"zk_s": "ZooKeeper, s"})


def test_a_ratio_divides_rows_of_the_same_round_only() -> None:
    rows = [
        *(row("ours", 0, 1.0), row("kafka", 0, 3.0)),
        *(row("ours", 1, 1.0), row("kafka", 1, 5.0)),
        *(row("ours", 2, 2.0), row("kafka", 2, 8.0)),
        row("kafka", 3, 1_000.0),
    ]
    kafkas, ours = ([one for one in rows if one["controller"] == n] for n in ("kafka", "ours"))
    assert sorted(table.quotients(kafkas, ours, "zk_s")) == [3.0, 4.0, 5.0]
    assert table.ratio(kafkas, ours, "zk_s") == "4 (3 - 5)"


def test_rows_without_rounds_are_compared_by_their_medians() -> None:
    ours = [{"zk_s": one} for one in (1.0, 2.0, 9.0)]
    assert table.quotients(ours, [{"zk_s": 4.0}, {}], "zk_s") == [0.5]
    assert table.ratio(ours, [{}], "zk_s") == "-"


def test_the_interval_of_a_median_leaves_out_what_chance_seldom_does() -> None:
    many = [row("ours", number, float(number)) for number in range(1, 25)]
    ones = [row("kafka", number, 1.0) for number in range(1, 25)]
    assert table.ratio(many, ones, "zk_s") == "12.5 (1 - 24), within 7 - 18"


def test_what_is_void_counts_neither_in_ratios_nor_in_medians() -> None:
    text = beside([row("ours", 0, 1.0, void="trees differ"), row("kafka", 0, 4.0)])
    assert "| ZooKeeper, s | - | 4 | - |" in text
    assert text.endswith("void: trees differ")


def test_the_table_shows_the_load_and_every_figure() -> None:
    rows = [
        *(row("ours", 0, 1.0, others_cores=0.25), row("kafka", 0, 4.0, others_cores=1.5)),
        *(row("ours", 1, 1.0), row("kafka", 1, 4.0, void="it was late")),
    ]
    text = beside(rows)
    assert "| ZooKeeper, s | 1 | 4 | 0.25 |" in text
    assert "4 rows, 1 void, 3 quiet; others used 0.00 - 1.50 cores" in text


def test_the_cost_of_recording_is_a_ratio_of_pairs() -> None:
    figures = dict.fromkeys(recording.FIGURES, 1.0) | {"others_cores": 0.1, "void": ""}
    rows = [
        {"controller": name, "round": pair, **figures}
        for pair in range(2)
        for name in (recording.ON, recording.OFF)
    ]
    text, holds = recording.summary(rows)
    assert holds
    assert text.count("1 (1 - 1)") == len(recording.FIGURES)
    rows[0]["void"] = "3 znodes written, not 4"
    assert not recording.summary(rows)[1]


def test_a_row_has_a_column_for_each_key() -> None:
    text = table.plain([{"what": "a", "s": 0.25}, {"what": "b", "rows": 50_000_000}])
    assert text.splitlines()[2:] == ["| a | 0.25 | - |", "| b | - | 50,000,000 |"]
