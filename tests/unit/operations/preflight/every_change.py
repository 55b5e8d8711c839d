"""Every bad change."""

from __future__ import annotations

from tests.unit.operations.preflight.access_changes import ACCESS_CHANGES
from tests.unit.operations.preflight.changes import CHANGES, Change
from tests.unit.operations.preflight.file_changes import FILE_CHANGES

EVERY_CHANGE: tuple[Change, ...] = (*CHANGES, *ACCESS_CHANGES, *FILE_CHANGES)
