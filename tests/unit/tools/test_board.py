"""The board and the alert rules in packaging/: questions, ends, and links that are there."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from itertools import combinations
from pathlib import Path

import pytest

from emulator.migration.phases import OperatorPhase
from emulator.trace.metrics import METRICS
from tools import alerts, board
from tools.board import RULES, Rule, expressions, missing, named, rules

OURS = {one.name: one for one in METRICS}
PHASE = OURS["kraft_bridge_phase"]


@pytest.fixture(scope="module")
def every() -> list[Rule]:
    return rules(RULES.read_text())


def anchors(page: Path) -> set[str]:
    """Those that a reader of Markdown makes of the headings of a page."""
    heads = re.findall(r"^#+ (.+)$", page.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", head.lower()).replace(" ", "-") for head in heads}


def test_each_rule_says_how_bad_it_is_since_when_and_where_to_read(every: list[Rule]) -> None:
    assert len({one.alert for one in every}) == len(every)
    for one in every:
        assert one.severity in {"warning", "critical"}, one
        assert re.fullmatch(r"\d+[ms]", one.for_), one
        assert one.summary.endswith("."), one
        page, _, anchor = one.runbook_url.partition("#")
        assert (board.ROOT / page).is_file(), one
        assert not anchor or anchor in anchors(board.ROOT / page), one


def test_the_words_of_phases_are_those_of_status() -> None:
    said = [
        texts
        for texts_of in expressions().values()
        for expr in texts_of
        for (metric, label), texts in named(expr).values.items()
        if (metric, label) == (PHASE.name, "phase")
    ]
    assert said
    assert set().union(*said) <= {one.value for one in OperatorPhase}


def test_every_metric_that_they_name_is_declared_with_its_labels() -> None:
    """Quick; tests/integration/test_board_and_rules.py looks into live pages."""
    ends = ("_bucket", "_count", "_sum", "_total")
    for expr in (one for found in expressions().values() for one in found):
        for metric, labels in named(expr).labels.items():
            name = next((metric.removesuffix(end) for end in ends if metric.endswith(end)), metric)
            if name not in board.OF_PROMETHEUS:
                declared = OURS.get(name) or OURS[metric]
                assert labels - board.OF_TARGETS - {"le"} <= {*declared.labels}, expr


def test_a_name_that_no_page_shows_is_said() -> None:
    page = '# TYPE a_b gauge\na_b{why="x"} 1\n'
    assert missing({"one": ['sum by (why) (a_b{why="x", job="$job"}) > 0']}, [page]) == []
    wrong = ['max by (kind) (a_b{why=~"x|y"})', "a_c > 0", 'a_b{phase="z"}']
    assert missing({"one": wrong}, [page]) == [
        "one: a_b has no label kind",
        "one: a_b has no why=y",
        "one: no a_c",
        "one: a_b has no label phase",
    ]
    with pytest.raises(ValueError, match="aB in"):
        named("aB > 0")


def test_panels_are_questions_and_none_lies_on_another() -> None:
    shown = json.loads(board.BOARD.read_text())["panels"]
    assert len({one["id"] for one in shown}) == len(shown)
    assert all(one["title"].endswith("?") and one["description"] for one in shown)
    boxes = [one["gridPos"] for one in shown]
    assert all(box["x"] + box["w"] <= 24 for box in boxes)
    for a, b in combinations(boxes, 2):
        beside = a["x"] + a["w"] <= b["x"] or b["x"] + b["w"] <= a["x"]
        assert beside or a["y"] + a["h"] <= b["y"] or b["y"] + b["h"] <= a["y"], (a, b)


def test_each_rule_has_a_unit_test_and_a_fault(every: list[Rule]) -> None:
    tests = alerts.UNIT_TESTS.read_text()
    faults = Path(alerts.__file__).read_text()
    for one in every:
        assert f'alertname="{one.alert}"' in tests, one
        assert f'"{one.alert.removeprefix("KraftBridge")}"' in faults, one


@pytest.mark.skipif(not alerts.program("promtool"), reason="Prometheus is not installed")
def test_promtool_finds_nothing_wrong_and_its_tests_see_a_change(tmp_path: Path) -> None:
    tool = alerts.program("promtool")
    assert tool is not None
    assert alerts.promtool(tool) == 0
    for name in (RULES, alerts.UNIT_TESTS):
        shutil.copy(name, tmp_path)
    text = RULES.read_text()
    for old, new in (
        ("bound_records > 0) > 0.5", "bound_records > 0) > 0.6"),
        ("for: 5m", "for: 3m"),
        ("zk_poisoned_znodes > 0", "zk_poisoned > 0"),
    ):
        assert old in text
        (tmp_path / RULES.name).write_text(text.replace(old, new))
        command = [tool, "test", "rules", str(tmp_path / alerts.UNIT_TESTS.name)]
        assert subprocess.run(command, capture_output=True, check=False).returncode, old
