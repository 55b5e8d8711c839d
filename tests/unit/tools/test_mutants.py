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
