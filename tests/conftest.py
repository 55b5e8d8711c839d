"""What every test shares: the kit, hypothesis profiles, ports of their own for the workers."""

import functools
import gc
import signal
from pathlib import Path

import pytest
import typer.main
import typer.testing

from emulator.servers import ports
from tests.kit.deselected import left_out
from tests.kit.laws import load_profile

pytest_plugins = [
    "tests.kit.bundles",
    "tests.kit.fixtures",
    "tests.kit.record",
    "tests.kit.scheduling",
    "tests.kit.transcript",
    "tests.kit.whole",
]

# Most of what tests make is trees and records without circles: with the default of 700 the search
# for circles takes a twelfth of the time.
gc.set_threshold(50_000)

# A process builds its verbs from their signatures once; tests call them by the hundred in one.
typer.main.get_command = functools.cache(typer.main.get_command)
typer.testing._get_command = typer.main.get_command

load_profile()

# A shell's background jobs ignore Ctrl-C, and so would every process that a test starts.
signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Do not import a file of which the run takes nothing; else let others decide."""
    return left_out(collection_path, config.option.markexpr, config.args) or None


def pytest_collection_finish() -> None:
    """Leave what collection made, 100,000s of objects, out of every later search for circles."""
    gc.collect()
    gc.freeze()


def pytest_configure(config: pytest.Config) -> None:
    worker = getattr(config, "workerinput", None)
    if worker is not None:
        ports.take_share(int(worker["workerid"].removeprefix("gw")), worker["workercount"])
