"""Every bad change."""

from __future__ import annotations

from tests.unit.preflight.access_changes import ACCESS_CHANGES
from tests.unit.preflight.changes import CHANGES, Change
from tests.unit.preflight.file_changes import FILE_CHANGES

EVERY_CHANGE: tuple[Change, ...] = (*CHANGES, *ACCESS_CHANGES, *FILE_CHANGES)
