"""The names under which `make` keeps records are ones that ``tools.recorded`` takes."""

import re
from pathlib import Path

from tools import recorded

MAKEFILE = Path(recorded.ROOT, "Makefile").read_text(encoding="utf-8")


def test_every_record_of_make_has_a_name_of_letters(monkeypatch):
    names = re.findall(r"-m tools\.recorded (\S+)", MAKEFILE)
    assert {"test", "sim", "failover", "matrix"} <= set(names)
    kept = []
    monkeypatch.setattr(recorded, "run", lambda name, command: kept.append((name, command)) or 0)
    for name in names:
        monkeypatch.setattr("sys.argv", ["recorded", name, "true"])
        assert recorded.main() == 0
    assert [name for name, _ in kept] == names
