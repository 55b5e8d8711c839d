"""A planted fault counts as seen only if the named test itself fails."""

import pytest

from tools.mutants import Ran


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
