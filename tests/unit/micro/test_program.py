"""``python -m bench.micro``: what stands before its rows."""

from __future__ import annotations

import importlib
import json
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from bench.micro import __main__ as program
from bench.runs.code import code_digest
from tools.kept import unfit


def test_the_first_line_says_which_code_and_which_build_took_the_rows(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    part = SimpleNamespace(
        __doc__="One row.",
        options=lambda _parser: None,
        rows=lambda _asked, _folder: iter([{"rate": 1}]),
        summary=lambda _rows: ("", True),
    )
    monkeypatch.setattr(importlib, "import_module", lambda _name: part)
    for name in ("interrupt_on_terminate", "kill_all"):
        monkeypatch.setattr(program, name, lambda: None)
    monkeypatch.setattr(sys, "argv", ["bench.micro", "rates", "--out", str(tmp_path)])
    assert program.main() == 0
    first, row, *_ = map(json.loads, capsys.readouterr().out.splitlines()[:2])
    assert (first["code"], first["versions"]) == (code_digest(), f"Python {sys.version}")
    assert row == {"rate": 1}
    # Of two builds they are in no table.
    assert unfit([first, row, first | {"versions": "Python 3.9.0 (another)"}])
