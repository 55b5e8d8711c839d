"""Replaces the path of a JAAS file by its text, because ``emulator.config`` reads no files."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from emulator.config.zookeeper import JAAS


def inlined(raw: Mapping[str, str]) -> dict[str, str]:
    """The same properties with the file's text in place of its path.

    Raises:
        OSError: the file cannot be read.
        ValueError: it is not text.
    """
    said = raw.get(JAAS, "").strip()
    if not said or "{" in said:
        return dict(raw)
    path = Path(said.removeprefix("file:"))
    return {**raw, JAAS: path.read_text(encoding="utf-8")}
