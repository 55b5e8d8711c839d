"""A planted fault counts as seen only if the named test itself fails."""

import pytest

from tools import mutants
from tools.mutant_record import Kept, code_digest
from tools.mutants import Copies, Mutant, Ran, without_java


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
def planted(tmp_path, monkeypatch):
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
    monkeypatch.setattr(mutants, "PIECES", tmp_path / "pieces")
    monkeypatch.setattr(mutants, "code_digest", lambda *_: "0123456789abcdef0")
    monkeypatch.setattr(Copies, "__init__", lambda *_: None)
    monkeypatch.setattr(Copies, "sound", sound)
    monkeypatch.setattr(Copies, "verdict", verdict)

    def go(*arguments):
        ran_ids.clear()
        return mutants.main(list(arguments)), sorted(ran_ids)

    return go


ALL = ["fault 0", "fault 1", "fault 2", "tests/t.py::test_0", "tests/t.py::test_1"]


def test_a_run_goes_on_where_the_last_one_of_the_same_code_ended(planted, monkeypatch):
    assert planted("fault 1") == (0, ["fault 1", "tests/t.py::test_1"])
    assert planted() == (0, ["fault 0", "fault 2", "tests/t.py::test_0"])
    assert planted() == (0, [])
    assert planted("--again") == (0, ALL)
    monkeypatch.setattr(mutants, "code_digest", lambda *_: "another code")
    assert planted() == (0, ALL)


def test_a_run_whose_time_is_over_is_not_complete(planted):
    assert planted("--seconds", "0") == (3, [])
    assert planted()[0] == 0


def test_what_was_not_seen_is_planted_again(planted, monkeypatch):
    with monkeypatch.context() as green:
        green.setattr(Copies, "verdict", lambda _copies, fault: (fault, "GREEN"))
        assert planted()[0] == 1
    assert planted() == (0, ["fault 0", "fault 1", "fault 2"])


def test_nothing_is_planted_for_a_test_that_fails_without_a_fault(planted, monkeypatch):
    with monkeypatch.context() as broken:
        broken.setattr(Copies, "sound", lambda _copies, test: (test, ran(1, a="failed")))
        assert planted() == (1, [])
    assert planted() == (0, ALL)


def test_another_fault_of_the_same_name_is_planted(planted, monkeypatch):
    assert planted()[0] == 0
    changed = [Mutant("fault 0", "f.py", "a", "another", "tests/t.py::test_0")]
    monkeypatch.setattr(mutants, "mutants", lambda: changed)
    assert planted() == (0, ["fault 0"])


def test_a_kept_kind_is_compared_too(planted, monkeypatch):
    assert planted()[0] == 0
    other = [Mutant("fault 7", "f.py", "a", "b", "tests/t.py::test_0", kind="simulation")]
    monkeypatch.setattr(mutants, "mutants", lambda: other)
    assert planted() == (1, [])


def test_any_change_of_the_code_but_in_a_page_makes_another_digest(tmp_path):
    source, page = tmp_path / "a" / "b.py", tmp_path / "a" / "b.md"
    source.parent.mkdir()
    source.write_text("x = 1\n")
    page.write_text("x\n")
    (tmp_path / "requirements.lock").write_text("y\n")
    before = code_digest(tmp_path, ["a"])
    page.write_text("y\n")
    assert code_digest(tmp_path, ["a"]) == before
    source.write_text("x = 2\n")
    after = code_digest(tmp_path, ["a"])
    source.rename(source.with_name("c.py"))
    assert len({before, after, code_digest(tmp_path, ["a"])}) == 3


def test_a_record_that_cannot_be_read_is_empty(tmp_path):
    path = tmp_path / "record.json"
    for text in ("", "[]", '{"code": "x"}', '{"code": "x", "red": null, "sound": []}'):
        path.write_text(text)
        kept = Kept(path, "x", None, None)
        assert not kept.is_red("a", "b")
        assert kept.kinds("t") is None


@pytest.mark.slow
def test_what_needs_java_is_told_by_its_marks():
    fast = "tests/unit/tools/test_mutants.py::test_only_a_failed_test_is_red"
    java = "tests/integration/test_copied_folders.py::test_of_two_clones_started_at_once_one_writes"
    assert without_java([fast, java]) == {fast}
