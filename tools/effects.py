"""Write the table of states and faults: ``python -m tools.effects [RECORD ...]``.

``RECORD`` is a record of ``kraft-bridge simulate`` with the commit it was made on, as
``tools.recorded`` keeps it (``.cache/records/sim.json`` when not given). Several are added up. The
table goes between two markers of ``docs/simulation.md``.
"""

import json
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

from emulator.migration.states import State
from emulator.simulation.aftermath import Effects
from emulator.simulation.empty_cells import REASONS, reason
from emulator.simulation.faults import RECIPES
from tools.docs import ROOT, row, table

PAGE: Final = ROOT / "docs" / "simulation.md"
BEGIN: Final = "<!-- effects: written by `python -m tools.effects` -->\n"
END: Final = "<!-- effects end -->\n"


def rows(records: Sequence[dict[str, Any]]) -> Iterator[str]:
    """The lines between the markers.

    Args:
        records: each with ``commit``, ``seeds``, ``first_seed``, ``kind`` and ``effects``, as the
            verb counts.
    """
    yield "\n"
    for record in records:
        commit = str(record.get("commit"))[:12]
        yield f"{record['seeds']} seeds of kind `{record['kind']}` from {record['first_seed']}, "
        yield f"made on commit {commit}{' and changes' * bool(record.get('different'))}.\n"
    yield "\n"
    yield table("fault", *(state.value.replace("_", " ").lower() for state in State))
    effects = _added_up([record["effects"] for record in records])
    notes = list(dict.fromkeys(REASONS.values()))
    for fault in RECIPES:
        cells = []
        for state in State:
            counts = effects.get(state.value, {}).get(fault, {})
            if counts.get("seeds"):
                cells.append(f"{counts['seeds']} of {counts['struck']}")
            elif reason(state.value, fault):
                cells.append(f"({notes.index(reason(state.value, fault)) + 1})")
            else:
                cells.append(f"0 of {counts.get('struck', 0)}")
        yield row(f"`{fault}`", *cells)
    yield "\n"
    for number, why in enumerate(notes, 1):
        yield f"({number}) {why[0].upper()}{why[1:]}\n\n"


def _added_up(all_effects: Sequence[Effects]) -> Effects:
    total: Effects = {}
    for effects in all_effects:
        for state, faults in effects.items():
            for fault, counts in faults.items():
                cell = total.setdefault(state, {}).setdefault(fault, {"seeds": 0, "struck": 0})
                for what, count in counts.items():
                    cell[what] += count
    return total


def main() -> int:
    """Write the table; returns the exit code."""
    paths = sys.argv[1:] or [str(ROOT / ".cache/records/sim.json")]
    records = [json.loads(Path(path).read_text()) for path in paths]
    before, _, rest = PAGE.read_text().partition(BEGIN)
    _, _, after = rest.partition(END)
    PAGE.write_text(before + BEGIN + "".join(rows(records)) + END + after)
    return 0


if __name__ == "__main__":
    sys.exit(main())
