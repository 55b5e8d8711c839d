"""The verdicts of ``tools.mutants`` that are kept, so that a run can be done in pieces.

One file for each code, ``.cache/records/mutants/DIGEST.json``: a verdict counts only for the same
fault planted in the same files, with the same interpreter and locked packages. Only good verdicts
are kept; what failed is run again.
"""

from __future__ import annotations

import hashlib
import json
import os
import sys
from collections.abc import Iterable
from pathlib import Path
from threading import Lock
from typing import Any

LEFT_OUT = ("tools/mutants.toml",)
"""Each verdict names its own fault: another one in the list changes nothing for it."""


def code_digest(root: Path, names: Iterable[str]) -> str:
    """Digest of what a verdict depends on, besides the fault; ``*.md`` left out, as in records.

    Args:
        root: of the checkout.
        names: files and folders that are copied for a run, from the root.
    """
    digest = hashlib.sha256(sys.version.encode())
    for name in (*names, "requirements.lock"):
        top = root / name
        files = sorted(top.rglob("*")) if top.is_dir() else [top]
        for path in files:
            inside = path.relative_to(root)
            if not path.is_file() or "__pycache__" in inside.parts:
                continue
            if path.suffix == ".md" or str(inside) in LEFT_OUT:
                continue
            content = hashlib.sha256(path.read_bytes()).hexdigest()
            digest.update(f"{inside}\0{content}\n".encode())
    return digest.hexdigest()


class Kept:
    """What is known of one code; used by several threads.

    Args:
        path: the file; one of another code, or that cannot be read, counts as empty.
        code: see :func:`code_digest`.
        commit: of the checkout, for readers of the file.
        different: files that differ from it; None: unknown.
    """

    def __init__(
        self, path: Path, code: str, commit: str | None, different: list[str] | None
    ) -> None:
        self._path = path
        self._lock = Lock()
        self._document: dict[str, Any] = {
            "code": code,
            "commit": commit,
            "different": different,
            "sound": {},
            "red": {},
        }
        try:
            before = json.loads(path.read_text())
        except (OSError, ValueError):
            return
        if isinstance(before, dict) and before.get("code") == code:
            for part in ("sound", "red"):
                if isinstance(before.get(part), dict):
                    self._document[part] = before[part]

    def kinds(self, test: str) -> set[str] | None:
        """The kinds of a test that passed without a fault; None: it is not known to pass."""
        found = self._document["sound"].get(test)
        return None if found is None else set(found)

    def is_red(self, name: str, fault: str) -> bool:
        """Whether the fault of that name and content made its test fail."""
        return bool(self._document["red"].get(name) == fault)

    def sound(self, test: str, kinds: Iterable[str]) -> None:
        """A test passed without a fault."""
        self._keep("sound", test, sorted(kinds))

    def red(self, name: str, fault: str) -> None:
        """A fault made its test fail."""
        self._keep("red", name, fault)

    def _keep(self, part: str, name: str, value: object) -> None:
        with self._lock:
            self._document[part][name] = value
            self._path.parent.mkdir(parents=True, exist_ok=True)
            draft = self._path.with_suffix(f".{os.getpid()}")  # two runs may go on at once
            draft.write_text(json.dumps(self._document, indent=1) + "\n")
            draft.replace(self._path)
