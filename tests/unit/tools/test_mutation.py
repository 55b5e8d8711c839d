"""Random mutants: what is changed, what is left alone, which tests run, and what counts."""

import json

import pytest
from coverage import CoverageData

from tools.mutants import ROOT
from tools.mutation.__main__ import SURVIVED, UNTOUCHED, Verdicts, score
from tools.mutation.cover import Recorded, digest_of, imports, spread
from tools.mutation.cover import Test as Recording
from tools.mutation.operators import places, plantable
from tools.mutation.sample import draw, rotten
from tools.mutation.trial import FIRST_TESTS, Copy, rounds

FILE = "emulator/raft/one.py"


def changes(source):
    """(old, new) of each change that can be planted."""
    found = places(FILE, source.encode())
    return [
        (place.change.old, place.change.new) for place in found if plantable(place, source.encode())
    ]


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("x = a < b", [("<", "<=")]),
        ("x = a is not b", [("is not", "is")]),
        ("x = a and not b", [("and", "or"), ("not b", "b")]),
        ("x = (a + 1) * b", [("+", "-"), ("1", "2"), ("*", "//")]),
        ("def f():\n    self.x = y\n", [("self.x = y", "pass")]),
        ("def f():\n    g(y)\n", [("g(y)", "pass")]),
        ("def f():\n    return g(y)\n", [("return g(y)", "return None")]),
        (
            "def f():\n    if (y):\n        raise E('no')\n",
            [("y", "(not (y))"), ("raise E('no')", "pass")],
        ),
        ("def f(*, x=1, y=True): ...\n", [("1", "2"), ("True", "False")]),
        ("for x in y:\n    break\n", [("break", "continue")]),
        ("x += y", [("x += y", "pass"), ("+=", "-=")]),
        ('x = "word"', [('"word"', "'wordX'")]),
    ],
)
def test_what_is_changed(source, expected):
    assert sorted(changes(source)) == sorted(expected)


@pytest.mark.parametrize(
    "source",
    [
        '"""Docs 1 < 2."""\n',
        "x: A | B\n",
        "def f(x: A | None) -> B | C: ...\n",
        "@d(1)\nclass A(B, frozen=True): ...\n",
        'class A:\n    def __repr__(self):\n        return "a"\n',
        'def f():\n    Log("info", "x", {"a": 1})\n',
        "assert x < 1\n",
        'x = f"{a + 1}"\n',
        'x = "for people"\n',
        "Known = A | B\n",
    ],
)
def test_what_is_left_alone(source):
    assert changes(source) == []


def test_only_one_place_is_changed_and_its_key_moves_with_the_function():
    source = b"def f(a, b):\n    return g(a < b, a < b)\n"
    first, second = [one for one in places(FILE, source) if one.change.kind == "comparison"]
    assert second.planted(source) == b"def f(a, b):\n    return g(a < b, a <= b)\n"
    moved = places(FILE, b"x = y\n\n\n" + source)
    keys = [one.change.key for one in moved if one.change.kind == "comparison"]
    assert keys == [first.change.key, second.change.key]
    assert len(set(keys)) == 2
    assert [one.lines for one in (first, second)] == [range(2, 3)] * 2


def test_a_default_matters_where_the_function_runs_and_a_constant_of_the_module_anywhere():
    default, constant = places(FILE, b"def f(a=1):\n    pass\n    pass\nX = 5\n")
    assert set(default.lines) >= {2, 3}
    assert constant.lines is None


@pytest.fixture
def checkout(tmp_path):
    """A product of two functions and its test."""
    for name in "migration raft zookeeper controller metadata net node broker".split():
        (tmp_path / "emulator" / name).mkdir(parents=True)
        (tmp_path / "emulator" / name / "__init__.py").touch()
    (tmp_path / "emulator/__init__.py").touch()
    (tmp_path / "emulator/testing").mkdir()  # the installed plugin of pytest
    for name in ("__init__", "plugin"):
        (tmp_path / f"emulator/testing/{name}.py").touch()
    (tmp_path / FILE).write_text("def f(a):\n    return a < 3\n\n\ndef g():\n    return f(3)\n")
    (tmp_path / "tools/mutation").mkdir(parents=True)
    (tmp_path / "tools/__init__.py").touch()
    for name in ("__init__", "touching"):
        sound = ROOT / f"tools/mutation/{name}.py"
        (tmp_path / f"tools/mutation/{name}.py").write_text(sound.read_text())
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests/test_one.py").write_text(
        "from emulator.raft.one import f\n\ndef test_f():\n    assert f(2)\n"
        "\ndef test_edge():\n    assert not f(3)\n"
    )
    return tmp_path


def test_a_seed_draws_the_same_mutants_and_a_shorter_sample_is_its_beginning(checkout):
    cache = checkout / "counts.json"
    whole = draw(checkout, cache, 99, 5)
    assert {place.change.old for place in whole} == {"<", "3", "return a < 3", "return f(3)"}
    assert draw(checkout, cache, 2, 5) == whole[:2]
    assert any(draw(checkout, cache, 99, seed) != whole for seed in range(9))


def test_a_mutant_is_planted_in_the_copy_and_its_killer_named(checkout, tmp_path_factory):
    copy = Copy(checkout, tmp_path_factory.mktemp("at"))
    found = draw(checkout, checkout / "counts.json", 99, 5)
    (edge,) = (place for place in found if place.change.old == "<")
    tests = [Recording(f"tests/test_one.py::{name}", 0.1) for name in ("test_f", "test_edge")]
    assert copy.killer(edge, tests) == "tests/test_one.py::test_edge"
    assert copy.killer(edge, tests[:1]) is None
    assert copy.failing(tests) is None
    assert "a < 3" in (checkout / FILE).read_text()


def test_the_narrowest_tests_come_first_and_none_twice():
    wide = Recording("tests/unit/raft/test_a.py::x", 0.1, 900)
    near = Recording("tests/unit/raft/test_a.py::y", 9.0, 100)
    far = Recording("tests/unit/net/test_b.py::z", 0.1, 100)
    assert spread([far, wide, near], "raft") == [near, far, wide]
    alike = [Recording(f"tests/unit/raft/test_c.py::w[{one}]", 0.1, 80) for one in range(3)]
    assert spread([*alike, near], "raft") == [alike[0], near, *alike[1:]]
    many = [Recording(f"t.py::{number}", 0.01) for number in range(99)]
    first, rest = rounds(many)
    assert first == many[:FIRST_TESTS]
    assert first + rest == many


def test_a_mutant_costs_a_bounded_time_but_is_never_left_without_a_test():
    slow, quick = (Recording(f"t.py::{seconds}", seconds) for seconds in (30.0, 1.0))
    assert rounds([slow, quick, slow]) == [[quick], [slow]]
    endless = Recording("t.py::endless", 9e9)
    assert rounds([endless]) == [[endless]]


def test_who_fails_without_the_mutant_too_kills_nothing(checkout, tmp_path_factory, monkeypatch):
    at = tmp_path_factory.mktemp("at")
    copy = Copy(checkout, at)
    edge, *_ = draw(checkout, checkout / "counts.json", 99, 5)

    def failing(tests, limit_s=None):
        planted = (at / "copy" / FILE).read_text() != (checkout / FILE).read_text()
        return next((test.name for test in tests if test.name == "red" or planted), None)

    monkeypatch.setattr(copy, "failing", failing)
    assert copy.killer(edge, [Recording("red", 0.1)]) is None
    assert copy.killer(edge, [Recording("red", 0.1), Recording("edge", 0.1)]) == "edge"


def test_a_hang_kills_only_if_the_run_is_quick_without_the_mutant(
    checkout, tmp_path_factory, monkeypatch
):
    copy = Copy(checkout, tmp_path_factory.mktemp("at"))
    edge, *_ = draw(checkout, checkout / "counts.json", 99, 5)
    test = Recording("tests/test_one.py::test_f", 0.1)
    monkeypatch.setattr(copy, "_planted", lambda place, tests: f"timeout: {tests[0].name}")
    limits = []
    for needed_s, verdict in ((5, f"timeout: {test.name}"), (20, None)):
        monkeypatch.setattr(
            copy,
            "failing",
            lambda tests, limit_s=99, needed_s=needed_s: (
                limits.append(limit_s) or ("timeout: x" if needed_s > limit_s else None)
            ),
        )
        assert copy.killer(edge, [test]) == verdict
    assert limits[0] == limits[1] < 11


def put_down(checkout, folder, ran):
    """Records of test_one.py: (root of the checkout then, test, line of FILE)."""
    (folder / "quick").mkdir(parents=True)
    data = CoverageData(basename=str(folder / "quick/merged"))
    for root, test, line in ran:
        name = f"tests/test_one.py::test_{test}"
        data.set_context(name)
        data.add_lines({str(root / FILE): [line]})
        with (folder / "quick/tests.jsonl").open("a") as file:
            file.write(json.dumps({"test": name, "seconds": 0.1, "outcome": "passed"}) + "\n")
    data.write()
    done = {"tests/test_one.py": digest_of(checkout / "tests/test_one.py")}
    (folder / "quick/files.json").write_text(json.dumps(done))


def test_the_first_recording_begins_with_nothing(checkout, tmp_path):
    first = Recorded(checkout, tmp_path / "recorded")
    first.record(["tests"])
    found = [test.function for test in first.touching(FILE, range(2, 3))]
    assert sorted(found) == ["tests/test_one.py::test_edge", "tests/test_one.py::test_f"]


def test_what_was_recorded_in_two_places_counts_together(checkout, tmp_path):
    elsewhere = tmp_path / "elsewhere"
    ran = [(elsewhere, "f", 2), (checkout, "edge", 2), (elsewhere, "edge", 6)]
    put_down(checkout, tmp_path / "recorded", ran)
    recorded = Recorded(checkout, tmp_path / "recorded")
    recorded.load()
    found = [
        {test.name.rpartition("_")[2] for test in recorded.touching(FILE, range(line, line + 1))}
        for line in (2, 6)
    ]
    assert found == [{"f", "edge"}, {"edge"}]
    assert {test.breadth for test in recorded.touching(FILE, None)} == {1, 2}


def test_a_constant_of_a_module_is_seen_by_who_imports_it_too(checkout, tmp_path):
    """A test that only compares such a name runs no line of the file."""
    put_down(checkout, tmp_path / "recorded", [(checkout, "f", 2)])
    recorded = Recorded(checkout, tmp_path / "recorded")
    recorded.load()
    beside = Recording("tests/test_one.py::test_compares", 0.1, 0)
    recorded.tests[beside.name] = beside
    assert beside not in recorded.touching(FILE, range(2, 3))
    assert beside in recorded.touching(FILE, None)
    assert recorded.touching("emulator/raft/other.py", None) == []
    assert imports("from emulator.raft import (\n    a,\n    one,\n)", "emulator.raft.one")
    assert not imports("from emulator.raft.one_more import f", "emulator.raft.one")


def test_what_was_recorded_moves_with_its_line(checkout, tmp_path):
    put_down(checkout, tmp_path / "recorded", [(checkout, "f", 2), (checkout, "edge", 6)])
    Recorded(checkout, tmp_path / "recorded").load()
    sound = (checkout / FILE).read_text()
    (checkout / FILE).write_text("X = 1\n" + sound.replace("f(3)", "f(4)"))
    moved = Recorded(checkout, tmp_path / "recorded")
    moved.load()

    def names(line):
        return [
            test.name.rpartition("_")[2] for test in moved.touching(FILE, range(line, line + 1))
        ]

    assert [names(line) for line in (2, 3, 6, 7)] == [[], ["f"], [], ["edge"]]
    (checkout / "tests/test_one.py").write_text("def test_f(): ...\n")
    changed = Recorded(checkout, tmp_path / "recorded")
    changed.load()
    assert changed.tests == {}


def test_a_verdict_counts_until_the_test_that_gave_it_changes(checkout):
    dead, survivor, *_ = draw(checkout, checkout / "counts.json", 99, 5)

    def kept():
        return Verdicts(checkout / "verdicts.json", checkout)

    verdicts = kept()
    verdicts.keep(dead, "tests/test_one.py::test_f")
    verdicts.keep(survivor, SURVIVED)
    assert kept().known(dead) == "tests/test_one.py::test_f"
    (checkout / "tests/test_two.py").write_text("def test_more(): ...\n")
    assert kept().known(survivor) is None
    assert kept().known(dead) is not None
    (checkout / "tests/test_one.py").write_text("def test_f(): ...\n")
    assert kept().known(dead) is None


def test_equivalent_ones_count_on_neither_side_and_goals_are_per_package(checkout):
    dead, untouched, same, *_ = draw(checkout, checkout / "counts.json", 99, 5)
    found = [(dead, "tests/t.py::x"), (untouched, UNTOUCHED), (same, SURVIVED)]
    figures, reached = score(found, {same.change.key})
    assert "1 of    2 killed, 50%" in figures
    assert not reached
    assert score(found[:1], set())[1]


def test_every_equivalent_can_still_be_made_and_says_why(tmp_path):
    assert rotten(ROOT) == []
    stale = tmp_path / "stale.toml"
    stale.write_text('[[equivalent]]\nkey = "0"\nfile = "emulator/raft/log.py"\nwhy = "x"\n')
    assert len(rotten(ROOT, stale)) == 1
