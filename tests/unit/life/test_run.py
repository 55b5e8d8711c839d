"""Which phases a run plays: it goes on where the one before was cut, with the same code only."""

from __future__ import annotations

import pytest

from bench.life import phases, run, table
from bench.life.standing import Mode, Standing
from bench.life.table import PhaseRow


@pytest.fixture
def code(monkeypatch):
    """The digest of the program, which a test may change."""
    found = ["a"]
    monkeypatch.setattr(run, "code_digest", lambda *_more: found[0])
    return found


def begin(folder, *, again=False):
    return run._standing(folder, "3.9.2", again=again)


def cut(folder, **changes):
    """A run that ended in the middle of a phase."""
    standing = begin(folder)
    standing.done, standing.begun = ["zookeeper"], "dual-write"
    for name, value in changes.items():
        setattr(standing, name, value)
    standing.save(folder / "state.json")
    (folder / "book.jsonl").touch()


def test_a_life_begins_in_zookeeper_mode(tmp_path, code):
    found = begin(tmp_path / "3.9.2")
    assert (found.run, found.done) == (1, [])
    assert {one.mode for one in found.brokers.values()} == {Mode.ZOOKEEPER}


def test_a_run_that_was_cut_goes_on_with_its_phase(tmp_path, code):
    cut(tmp_path / "3.9.2")
    found = begin(tmp_path / "3.9.2")
    assert (found.run, found.done, found.begun) == (2, ["zookeeper"], "dual-write")
    assert (tmp_path / "3.9.2" / "book.jsonl").exists()


@pytest.mark.parametrize("why", ["code", "failed", "again"])
def test_otherwise_it_begins_anew_and_with_an_empty_book(tmp_path, code, why):
    cut(tmp_path / "3.9.2", failed=why == "failed")
    code[0] = "b" if why == "code" else "a"
    found = begin(tmp_path / "3.9.2", again=why == "again")
    assert (found.run, found.done) == (1, [])
    assert not (tmp_path / "3.9.2" / "book.jsonl").exists()


def test_until_names_the_last_phase():
    newest = phases.phases_from("3.9.2")
    names = [one.name for one in phases.phases_up_to(newest, "to-kraft")]
    assert names == ["zookeeper", "dual-write", "to-kraft"]
    assert phases.phases_up_to(newest, None) == newest
    assert phases.phases_up_to(newest, "upgrade")[-1].name == "finalise", "which it does not have"


def test_a_life_that_has_ended_is_not_taken_for_one_that_was_cut(tmp_path, code):
    options = run.Options(tmp_path, ["3.9.2"], until="dual-write")
    assert not run._ended(options, "3.9.2")
    cut(tmp_path / "3.9.2")
    assert not run._ended(options, "3.9.2")
    cut(tmp_path / "3.9.2", done=["zookeeper", "dual-write"])
    assert run._ended(options, "3.9.2")


def test_the_oldest_brokers_alone_are_upgraded_before_those_of_4():
    newest = [one.name for one in phases.phases_from("3.9.2")]
    oldest = [one.name for one in phases.phases_from("3.4.1")]
    assert set(oldest) - set(newest) == {"upgrade"}
    assert oldest.index("upgrade") < oldest.index("4.1.1") < oldest.index("4.3.0")


def test_a_row_is_read_as_it_was_kept():
    standing = Standing("3.9.2", "a", {})
    row = PhaseRow("3.9.2", "roll", restarts=[table.Restart("b", "c", 1.0, 2.0, None)])
    run._keep(standing, row)
    run._keep(standing, row)
    assert [run._row(one) for one in standing.rows] == [row]


def test_a_phase_in_which_a_check_failed_proves_nothing():
    rows = [PhaseRow("3.9.2", "roll", wrong=["lost"]), PhaseRow("3.4.1", "roll")]
    assert [one.outcome for one in table.proofs(rows)] == ["failed", "passed"]
    assert table.PROVES.keys() <= {one.name for one in phases.PHASES}


def test_what_was_typed_is_kept_over_a_cut_and_asked_of_all_lives(tmp_path, code):
    for release, names in (("3.9.2", ["STATUS", "CLEAR"]), ("3.4.1", ["STATUS", "RAISE"])):
        standing = run._standing(tmp_path / release, release, again=False)
        standing.typed = names
        standing.save(tmp_path / release / "state.json")
        assert run._standing(tmp_path / release, release, again=False).typed == names
    options = run.Options(tmp_path, ["3.9.2", "3.4.1", "3.8.1"])
    assert run._typed(options) == {"STATUS", "CLEAR", "RAISE"}
