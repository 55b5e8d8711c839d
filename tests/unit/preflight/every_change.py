"""Every bad change."""

from __future__ import annotations

from tests.unit.preflight.changes import CHANGES, Change
from tests.unit.preflight.file_changes import FILE_CHANGES

EVERY_CHANGE: tuple[Change, ...] = (*CHANGES, *FILE_CHANGES)
