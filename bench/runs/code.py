"""Which source code measured a row: rows of different code are not results of one run."""

from __future__ import annotations

import functools
import hashlib
from pathlib import Path
from typing import Final

_ROOT: Final = Path(__file__).parents[2]
_MEASURED: Final = ("emulator", "wire", "bench/fleet", "bench/rig", "bench/runs")


@functools.cache
def code_digest() -> str:
    """Of every Python file of the controller and of what measures it; 12 hexadecimal digits."""
    digest = hashlib.sha256()
    for folder in _MEASURED:
        for path in sorted((_ROOT / folder).rglob("*.py")):
            digest.update(str(path.relative_to(_ROOT)).encode())
            digest.update(path.read_bytes())
    return digest.hexdigest()[:12]
