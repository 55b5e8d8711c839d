"""A file is left out of a run only if the run would take none of its tests."""

from pathlib import Path

import pytest

from tests.kit.deselected import excluded, left_out, module_marks

ROOT = Path(__file__).resolve().parents[3]


@pytest.mark.parametrize(
    "expression",
    ["", "slow", "not slow or spark", "not (slow)", "slow and not spark", "not slow and"],
)
def test_only_a_list_of_exclusions_leaves_files_out(expression):
    assert excluded(expression) == frozenset()


def test_the_expression_of_make_quick_is_one():
    marks = next(
        line.partition(":= ")[2]
        for line in (ROOT / "Makefile").read_text().splitlines()
        if line.startswith("NO_JAVA")
    )
    assert excluded(marks) == {"jars", "jvm", "spark", "slow"}


@pytest.mark.parametrize(
    ("text", "marks"),
    [
        ("", set()),
        ("def test_a():\n    pytestmark = pytest.mark.slow\n", set()),
        ("import pytest\n\npytestmark = pytest.mark.slow\n\nX = pytest.mark.jvm\n", {"slow"}),
        (
            'pytestmark = [\n    pytest.mark.jvm,\n    pytest.mark.xdist_group("spark"),\n]\n',
            {"jvm", "xdist_group"},
        ),
        ("MORE = pytest.mark.slow\n@pytest.mark.slow\ndef test_b(): pass\n", set()),
    ],
)
def test_marks_of_a_file_are_those_of_all_its_tests(text, marks):
    assert module_marks(text) == marks


@pytest.mark.parametrize(
    ("expression", "named", "is_left_out"),
    [
        ("not slow", [], True),
        ("not jvm and not slow", ["{folder}"], True),
        ("not jvm", [], False),
        ("slow", [], False),
        ("", [], False),
        ("not slow", ["{file}"], False),
        ("not slow", ["other.py", "{file}::test_a"], False),
    ],
)
def test_a_file_that_is_named_or_wanted_stays(tmp_path, expression, named, is_left_out):
    file = tmp_path / "test_a.py"
    file.write_text("import pytest\n\npytestmark = pytest.mark.slow\n")
    arguments = [one.format(folder=tmp_path, file=file) for one in named]
    assert left_out(file, expression, arguments) is is_left_out
    assert left_out(tmp_path, expression, arguments) is False
