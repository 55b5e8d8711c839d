"""Which files are of one life of a process."""

from __future__ import annotations

from bench.analysis.lives import named_lives

NEW = "file:/a%20b/{table}/run_id=r%201/my%20c-{pid}-{began}-000000000000.parquet"
OLD = "/t/{table}/run_id=r/c-{pid}-{began}-00003.parquet"
S = 1_000_000_000


def test_a_process_with_one_life_keeps_its_name() -> None:
    files = [NEW.format(table=table, pid=7, began=5 * S) for table in ("runs", "gauges")]
    assert named_lives([*files, "/t/runs/run_id=r/other.parquet", "/t/rows.parquet"]) == {}


def test_earlier_versions_took_the_time_once_for_each_table() -> None:
    files = [
        OLD.format(table=table, pid=pid, began=began)
        for pid, began in ((7, 5 * S), (9, 8 * S))
        for table, began in (("runs", began), ("gauges", began + 40_000_000))
    ]
    assert named_lives(files[:2]) == {}
    assert named_lives(files) == {
        f"c-7-{5 * S}": "c life 1",
        f"c-7-{5 * S + 40_000_000}": "c life 1",
        f"c-9-{8 * S}": "c life 2",
        f"c-9-{8 * S + 40_000_000}": "c life 2",
    }


def test_lives_in_containers_have_the_same_pid() -> None:
    files = [NEW.format(table="runs", pid=1, began=began * S) for began in (50, 20)]
    assert named_lives(files) == {
        f"my c-1-{20 * S}": "my c life 1",
        f"my c-1-{50 * S}": "my c life 2",
    }
