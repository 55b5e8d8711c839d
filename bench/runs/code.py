"""Which source code measured a row: rows of different code are not results of one run."""

from __future__ import annotations

import functools
import hashlib
from pathlib import Path
from typing import Final

_ROOT: Final = Path(__file__).parents[2]
_MEASURED: Final = ("emulator", "wire", "bench/counterfactual", "bench/runs")
_SUFFIXES: Final = frozenset({".py", ".java"})


@functools.cache
def code_digest(*more: str) -> str:
    """That of this program: :func:`code_now` when it was asked for first."""
    return code_now(*more)


def code_now(*more: str) -> str:
    """Of every source file of the controller and of what measures it; 12 hexadecimal digits.

    Args:
        more: other folders of this repository that count.
    """
    return digest_of(*_MEASURED, *more)


def digest_of(*folders: str) -> str:
    """Of every source file in these folders of the repository; 12 hexadecimal digits."""
    digest = hashlib.sha256()
    for folder in folders:
        for path in sorted((_ROOT / folder).rglob("*")):
            if path.suffix in _SUFFIXES:
                digest.update(str(path.relative_to(_ROOT)).encode())
                digest.update(path.read_bytes())
    return digest.hexdigest()[:12]
