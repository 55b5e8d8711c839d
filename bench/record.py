"""Writes the record of a run to the file that ``tools.recorded`` names."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

VARIABLE: Final = "KRAFT_BRIDGE_RECORD"
"""Names the file to write; unset: no record is wanted."""


@dataclass(frozen=True, slots=True)
class Proof:
    """One thing that was tried, and the rows of tests/requirements.toml it proves.

    ``kind`` is one of ``tools.requirements.KINDS``; ``outcome`` is ``passed`` or ``failed``.
    """

    test: str
    ids: tuple[str, ...]
    kind: str
    outcome: str


def leave(proofs: Iterable[Proof], *, complete: bool) -> None:
    """Write the record if one is asked for.

    Args:
        proofs: what was tried.
        complete: whether all there is to run was run.

    Raises:
        OSError: the file cannot be written.
    """
    path = os.environ.get(VARIABLE)
    if not path:
        return
    document = {"complete": complete, "tests": [asdict(one) for one in proofs]}
    Path(path).write_text(json.dumps(document, indent=1) + "\n")
