"""Plots are made without the user's home: nothing is written there, and there may be none."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest


@pytest.mark.parametrize("there", [True, False])
def test_nothing_of_the_plots_is_kept_in_the_user_s_home(tmp_path: Path, *, there: bool) -> None:
    home = tmp_path / "home"
    home.write_text("") if not there else home.mkdir()
    kept = {name: value for name, value in os.environ.items() if name != "MPLCONFIGDIR"}
    done = subprocess.run(
        [sys.executable, "-c", "import bench.report.charts"],
        env={**kept, "HOME": str(home)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stderr == ""
    assert not there or not list(home.iterdir())
