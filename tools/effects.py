"""Write the table of states and faults: ``python -m tools.effects [RECORD]``.

``RECORD`` is a record of ``kraft-bridge simulate`` with the commit it was made on, as
``tools.recorded`` keeps it (``.cache/records/sim.json`` when not given). The table goes between two
markers of ``docs/simulation.md``.
"""

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from emulator.migration.states import State
from emulator.simulation.empty_cells import REASONS, reason
from emulator.simulation.faults import RECIPES
from tools.docs import ROOT, row, table

PAGE: Final = ROOT / "docs" / "simulation.md"
BEGIN: Final = "<!-- effects: written by `python -m tools.effects` -->\n"
END: Final = "<!-- effects end -->\n"


def rows(record: dict[str, Any]) -> Iterator[str]:
    """The lines between the markers.

    Args:
        record: ``commit``, ``seeds``, ``first_seed``, ``kind`` and ``effects``, as the verb counts.
    """
    commit = str(record.get("commit"))[:12]
    yield f"\n{record['seeds']} seeds of kind `{record['kind']}` from {record['first_seed']}, "
    yield f"made on commit {commit}{' and changes' * bool(record.get('different'))}.\n\n"
    yield table("fault", *(state.value.replace("_", " ").lower() for state in State))
    effects = record["effects"]
    notes = list(REASONS)
    for fault in RECIPES:
        cells = []
        for state in State:
            counts = effects.get(state.value, {}).get(fault, {})
            if counts.get("seeds"):
                cells.append(f"{counts['seeds']} of {counts['struck']}")
            elif reason(state.value, fault):
                keys = ((state.value, fault), (state.value, ""), ("", fault))
                number = next(notes.index(key) for key in keys if key in REASONS) + 1
                cells.append(f"({number})")
            else:
                cells.append(f"0 of {counts.get('struck', 0)}")
        yield row(f"`{fault}`", *cells)
    yield "\n"
    for number, (key, why) in enumerate(REASONS.items(), 1):
        yield f"({number}) {' at '.join(f'`{one}`' for one in reversed(key) if one)}: {why}\n\n"


def main() -> int:
    """Write the table; returns the exit code."""
    path = Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / ".cache/records/sim.json"
    record = json.loads(path.read_text())
    before, _, rest = PAGE.read_text().partition(BEGIN)
    _, _, after = rest.partition(END)
    PAGE.write_text(before + BEGIN + "".join(rows(record)) + END + after)
    return 0


if __name__ == "__main__":
    sys.exit(main())
