"""The verbs are found by name, and only the one that is asked for is imported."""

from __future__ import annotations

import subprocess
import sys

import pytest
import typer
from typer.testing import CliRunner

from emulator import cli
from emulator.cli import app_of
from emulator.commands import every


def test_the_controller_imports_no_other_verb() -> None:
    """Its start would wait for them: clients, the simulator, the fleet, Spark's reports."""
    program = (
        "import sys; from emulator.cli import app_of; app_of('controller');"
        "print(*(name for name in sys.modules if name.startswith('emulator.commands.')))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    shared_names = (
        "boundary",
        "common",
        "configuration",
        "every",
        "exits",
        "in_use",
        "parser",
        "plain",
    )
    shared = {f"emulator.commands.{name}" for name in shared_names}
    assert set(done.stdout.split()) - shared == {"emulator.commands.controller"}


@pytest.mark.parametrize("verb", sorted(cli.VERBS))
def test_a_verb_alone_answers_as_it_does_among_all(verb: str) -> None:
    arguments = [*verb.split(), "--help"]
    whole, alone = (
        CliRunner().invoke(app, arguments, prog_name="kraft-bridge")
        for app in (cli.app, app_of(arguments[0]))
    )
    assert isinstance(cli.app, typer.Typer)
    assert (whole.exit_code, whole.output) == (0, alone.output)
    assert f"kraft-bridge {verb}" in whole.output


def test_verbs_of_a_package_that_is_not_installed_are_left_out() -> None:
    verbs = {"status": "emulator.commands.status:status", "other": "not_installed.verbs:other"}
    for asked in ("", "other"):
        app = every.app_of(asked, verbs)
        assert [one.name for one in app.registered_commands] == ["status"]
