"""docs/bench.md lists the scenarios of this package as they describe themselves."""

from __future__ import annotations

from pathlib import Path

from bench.runs.reading import read

ROOT = Path(__file__).parents[3]


def test_the_page_lists_every_scenario_with_what_it_is_about() -> None:
    found = [read(path) for path in sorted((ROOT / "bench/scenarios").glob("*.toml"))]
    rows = [f"| `{one.name}` | {one.about} |" for one in found]
    page = (ROOT / "docs/bench.md").read_text(encoding="utf-8")
    assert rows
    assert "\n".join(rows) in page
