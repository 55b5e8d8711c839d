"""Rows that are kept as they are taken: a run that was interrupted goes on with the next one."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any


class KeptRows:
    """A file of rows, one JSON object a line.

    Args:
        path: the file; made with the first row.
        code: which source code takes rows now; rows of another are not used.
    """

    def __init__(self, path: Path, code: str) -> None:
        self._path = path
        self._code = code
        self._rows: list[dict[str, Any]] = []
        if path.exists():
            found = map(_row_of, path.read_text().splitlines())
            self._rows = [row for row in found if row is not None and row.get("code") == code]

    def find(self, **key: object) -> dict[str, Any] | None:
        """The row with these values, if it was taken."""
        for row in self._rows:
            if all(row.get(name) == value for name, value in key.items()):
                return row
        return None

    def add(self, row: dict[str, Any]) -> None:
        """Keep one more."""
        row["code"] = self._code
        self._rows.append(row)
        self._path.parent.mkdir(parents=True, exist_ok=True)
        whole = not self._path.exists() or self._path.read_bytes()[-1:] in {b"", b"\n"}
        with self._path.open("a") as file:
            file.write(("" if whole else "\n") + json.dumps(row) + "\n")


def _row_of(line: str) -> dict[str, Any] | None:
    """The row of a line; None if it is torn, because the run was killed."""
    try:
        row = json.loads(line)
    except ValueError:
        return None
    return row if isinstance(row, dict) else None
