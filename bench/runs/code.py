"""Which source code and which build of Python measured a row.

Rows of different ones are not results of one run: builds of one version differ by up to a third.
"""

from __future__ import annotations

import functools
import hashlib
import sys
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
    """Of the controller's source files, those of what measures it, and the build of Python.

    Returns 12 hexadecimal digits.

    Args:
        more: other folders of this repository that count.
    """
    return digest_of(*_MEASURED, *more)


def digest_of(*folders: str) -> str:
    """Of every source file in these folders and the build of Python; 12 hexadecimal digits."""
    digest = hashlib.sha256(sys.version.encode())
    for folder in folders:
        for path in sorted((_ROOT / folder).rglob("*")):
            if path.suffix in _SUFFIXES:
                digest.update(str(path.relative_to(_ROOT)).encode())
                digest.update(path.read_bytes())
    return digest.hexdigest()[:12]
