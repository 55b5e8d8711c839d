"""What faults lose, have refused or repeated, in each state of the migration driver."""

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest

from emulator.migration.states import State
from emulator.simulation import aftermath
from emulator.simulation.aimed import PAIRS, aimed
from emulator.simulation.empty_cells import OPEN, REASONS, REASONS_OF_THREE
from emulator.simulation.faults import RECIPES
from emulator.simulation.faults.finalising import FINALISING
from emulator.simulation.faults.leaders import LEADERS
from emulator.simulation.faults.taken import TAKEN
from emulator.simulation.faults.voters import VOTERS
from emulator.simulation.run import Run
from emulator.simulation.scenario import Scenario, planned
from emulator.simulation.swarm import swarm
from tools import effects

PARTS = (effects.ONE,)


def cells(part):
    """Fault -> the cells of its line, by state."""
    text = effects.PAGE.read_text().partition(part.begin)[2].partition(part.end)[0]
    lines = re.findall(r"^\| `([a-z-]+)` \| (.*) \|$", text, re.MULTILINE)
    return {fault: [cell.strip() for cell in line.split("|")] for fault, line in lines}


CELLS = {part.begin: cells(part) for part in PARTS}


@pytest.mark.parametrize(
    ("part", "fault"),
    [(part, fault) for part in PARTS for fault in part.faults],
    ids=lambda one: one if isinstance(one, str) else "three" * (one is effects.THREE),
)
def test_every_cell_is_counted_or_has_a_reason_or_is_known_to_be_open(part, fault):
    states = [state.value for state in State]
    for state, cell in zip(states, CELLS[part.begin][fault], strict=True):
        counted = re.fullmatch(r"[1-9]\d* of [1-9]\d*", cell) is not None
        explained = re.fullmatch(r"\(\d+\)", cell) is not None and part.reason(state, fault) != ""
        is_open = re.fullmatch(r"0 of \d+", cell) is not None
        assert [counted, explained, is_open].count(True) == 1, (state, cell)
        assert is_open == (fault in OPEN.get(state, ())), (state, cell)


def test_no_reason_is_given_for_what_does_not_exist():
    states = {state.value for state in State}
    for (state, fault), why in (REASONS | REASONS_OF_THREE).items():
        assert state in states | {""}
        assert fault in {*RECIPES, *VOTERS, *LEADERS, ""}
        assert why.endswith(".")


def test_of_every_fault_it_is_known_what_it_can_do():
    assert aftermath.REACH.keys() == {*RECIPES, *VOTERS, *LEADERS, *FINALISING, *TAKEN}


@pytest.mark.parametrize("seed", range(3))
def test_without_a_fault_nothing_is_lost_refused_or_repeated(seed):
    run = Run(seed + 19, replace(swarm(seed + 19), faults=(), rolls=0))
    run.run()
    assert not run.world.aftermath.happenings


@pytest.mark.parametrize(
    ("fault", "state", "effect"),
    [
        ("lost-replies", State.BECOME_CONTROLLER, "lost"),
        ("cut", State.ZK_MIGRATION, "lost"),
        ("session-expiry", State.ZK_MIGRATION, "lost"),
        ("epoch-bumped", State.SYNC_KRAFT_TO_ZK, "refused"),
        ("disk-error", State.ZK_MIGRATION, "refused"),
    ],
)
def test_an_effect_is_counted_for_the_fault_and_the_state(simulate, fault, state, effect):
    seen = set()
    for seed in range(4):
        scenario = Scenario(faults=(f"{fault}@{state.value}",), topics=9, changes=6, batch_size=3)
        report = simulate(seed, scenario)
        assert not report.failure, str(report)
        assert {(one.state, one.fault) for one in report.strikes} == {(state.value, fault)}
        seen |= {what for one in report.strikes for what in one.effects}
    assert effect in seen


def test_a_fault_that_does_nothing_is_counted_as_a_strike_only(simulate, monkeypatch):
    monkeypatch.setitem(RECIPES, "cut", lambda _strike: None)
    report = simulate(0, Scenario(faults=("cut@DUAL_WRITE",), changes=6))
    assert aftermath.sum_up([report.strikes]) == {"DUAL_WRITE": {"cut": {"seeds": 0, "struck": 1}}}


def test_the_aimed_seeds_aim_at_every_pair_in_turn():
    for index, (state, fault) in enumerate(PAIRS):
        plan = planned(aimed(index).faults[0], 0)
        assert (plan.name, plan.state, plan.key) == (fault, state, "0")


def test_a_record_becomes_a_table(tmp_path, monkeypatch):
    page, record = tmp_path / "page.md", tmp_path / "record.json"
    three = f"{effects.THREE.begin}of three\n{effects.THREE.end}"
    page.write_text(f"before\n{effects.ONE.begin}a former table\n{effects.ONE.end}{three}after\n")
    counts = {"DUAL_WRITE": {"cut": {"seeds": 3, "struck": 5}}}
    content = {"seeds": 9, "kind": "aimed", "first_seed": 1, "commit": "c" * 40, "effects": counts}
    record.write_text(json.dumps(content))
    monkeypatch.setattr(effects, "PAGE", page)
    monkeypatch.setattr("sys.argv", ["effects", str(Path(record))])
    assert effects.main() == 0
    text = page.read_text()
    assert re.search(r"^\| `cut` \|.* \| 3 of 5 \|$", text, re.MULTILINE)
    monkeypatch.setattr("sys.argv", ["effects", str(Path(record)), str(Path(record))])
    assert effects.main() == 0
    assert re.search(r"^\| `cut` \|.* \| 6 of 10 \|$", page.read_text(), re.MULTILINE)
    assert "9 seeds of kind `aimed` from 1, made on commit cccccccccccc.\n" in text
    assert "a former table" not in text
    assert "of three\n" in text, "no record of that kind was given"
    assert text.startswith("before\n")
    assert text.endswith("after\n")


def test_a_record_of_three_controllers_has_a_table_of_its_own(tmp_path, monkeypatch):
    page, record = tmp_path / "page.md", tmp_path / "record.json"
    three = f"{effects.THREE.begin}of three\n{effects.THREE.end}"
    page.write_text(f"{effects.ONE.begin}of one\n{effects.ONE.end}{three}after\n")
    counts = {"ZK_MIGRATION": {"voter-kill": {"seeds": 2, "struck": 4}}}
    content = {"seeds": 5, "kind": "failover", "first_seed": 0, "commit": "d" * 40}
    record.write_text(json.dumps(content | {"effects": counts}))
    monkeypatch.setattr(effects, "PAGE", page)
    monkeypatch.setattr("sys.argv", ["effects", str(record)])
    assert effects.main() == 0
    text = page.read_text()
    assert "of one\n" in text
    assert "of three\n" not in text
    assert re.search(r"^\| `voter-kill` \|.* \| 2 of 4 \| .*$", text, re.MULTILINE)
    assert text.endswith("after\n")
