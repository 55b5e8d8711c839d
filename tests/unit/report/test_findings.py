"""The summary of an analysis: what it says of blocking, and its text on narrow and no consoles."""

from __future__ import annotations

from bench.report.findings import Finding, findings, lines

_NAMES = (
    "latency rate_summary blocking lag_summary gauge_agreement coalescing stalls request_parts "
    "stage_latency"
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


def test_a_controller_that_wrote_and_never_waited_is_said_to() -> None:
    (found,) = findings(_tables(stage_latency=[{"process": "controller-3000"}]))
    assert found == Finding("ZooKeeper blocking KRaft", "never: no operation waited for ZooKeeper")


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
