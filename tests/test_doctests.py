"""The examples in docstrings are true."""

import doctest
import importlib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
MODULES = [
    ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
    for package in ("emulator", "wire", "bench")
    for path in sorted((ROOT / package).rglob("*.py"))
    if ">>> " in path.read_text()
]


def test_examples():
    """In one test: each worker would load Spark and all else for those that it gets."""
    for name in [*MODULES, "tests.kit.kinds"]:
        failed, tried = doctest.testmod(importlib.import_module(name), optionflags=doctest.ELLIPSIS)
        assert (tried > 0, failed) == (True, 0), name
