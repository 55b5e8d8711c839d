"""A planted fault counts as seen only if the named test itself fails."""

import pytest

from tools import mutants
from tools.mutants import Copies, Mutant, Ran


def ran(code, **outcomes):
    tests = {name: {"kind": "unit", "outcome": outcome} for name, outcome in outcomes.items()}
    return Ran(code, "", tests)


@pytest.mark.parametrize(
    ("result", "red"),
    [
        (ran(1, a="failed"), True),
        (ran(1, a="passed", b="failed", c="not run"), True),
        (ran(1, a="error"), False),
        (ran(1, a="failed", b="error"), False),
        (ran(0, a="passed"), False),
        (ran(2), False),
        (ran(1), False),
    ],
)
def test_only_a_failed_test_is_red(result, red):
    assert result.red is red


@pytest.mark.parametrize(
    ("result", "passed"),
    [
        (ran(0, a="passed"), True),
        (ran(0), False),
        (ran(0, a="passed", b="skipped"), False),
        (ran(1, a="passed"), False),
    ],
)
def test_a_test_that_did_not_run_is_not_sound(result, passed):
    assert result.passed is passed


def test_a_copy_is_given_back_as_it_was(tmp_path, monkeypatch):
    root, copies = tmp_path / "root", tmp_path / "copies"
    product = root / "emulator" / "one.py"
    product.parent.mkdir(parents=True)
    product.write_text("x = 1\n")
    copies.mkdir()
    monkeypatch.setattr(mutants, "ROOT", root)
    kept = Copies(copies)
    fault = Mutant("two", "emulator/one.py", "x = 1", "x = 2", "tests/test_one.py::test_x")
    with kept.one(fault) as folder, kept.one() as other:
        assert folder != other
        assert (folder / fault.file).read_text() == "x = 2\n"
        assert (other / fault.file).read_text() == product.read_text() == "x = 1\n"
    copied = folder / fault.file
    assert copied.read_text() == "x = 1\n"
    assert copied.stat().st_mtime_ns == (other / fault.file).stat().st_mtime_ns


@pytest.fixture
def planted(monkeypatch):
    """Runs the tool on three faults, whose tests are not really run; returns what was."""
    faults = [Mutant(f"fault {n}", "f.py", "a", "b", f"tests/t.py::test_{n % 2}") for n in range(3)]
    ran_ids: list[str] = []

    def sound(_copies, test):
        ran_ids.append(test)
        return test, ran(0, a="passed")

    def verdict(_copies, mutant):
        ran_ids.append(mutant.name)
        return mutant, "red"

    monkeypatch.setattr(mutants, "mutants", lambda: faults)
    monkeypatch.setattr(Copies, "__init__", lambda *_: None)
    monkeypatch.setattr(Copies, "sound", sound)
    monkeypatch.setattr(Copies, "verdict", verdict)

    def go(*arguments):
        ran_ids.clear()
        return mutants.main(list(arguments)), sorted(ran_ids)

    return go


TESTS = ["tests/t.py::test_0", "tests/t.py::test_1"]


def test_those_named_are_planted_or_all(planted):
    assert planted("fault 1") == (0, ["fault 1", "tests/t.py::test_1"])
    assert planted() == (0, ["fault 0", "fault 1", "fault 2", *TESTS])
    assert planted("fault 7") == (2, [])


def test_a_fault_that_was_not_seen_fails_the_run(planted, monkeypatch):
    monkeypatch.setattr(Copies, "verdict", lambda _copies, fault: (fault, "GREEN"))
    assert planted()[0] == 1


def test_nothing_is_planted_for_a_test_that_fails_without_a_fault(planted, monkeypatch):
    failing = ran(1, a="failed")
    monkeypatch.setattr(Copies, "sound", lambda _copies, test: (test, failing))
    assert planted() == (1, [])


def test_nothing_is_planted_for_a_test_of_another_kind(planted, monkeypatch):
    other = Mutant("fault 7", "f.py", "a", "b", "tests/t.py::test_0", kind="simulation")
    monkeypatch.setattr(mutants, "mutants", lambda: [other])
    assert planted() == (1, ["tests/t.py::test_0"])
