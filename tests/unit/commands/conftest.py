"""A controller's properties file."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.unit.commands.running import PROPERTIES


@pytest.fixture
def properties(tmp_path: Path) -> Path:
    path = tmp_path / "server.properties"
    path.write_text(f"{PROPERTIES}log.dirs={tmp_path / 'data'}\n")
    return path
