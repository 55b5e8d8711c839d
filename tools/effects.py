"""Write the tables of states and faults: ``python -m tools.effects [RECORD ...]``.

``RECORD`` is a record of ``kraft-bridge simulate`` with the commit it was made on, as
``tools.recorded`` keeps it (``.cache/records/sim.json`` when not given). Those of one table are
added up. Each table goes between its markers of ``docs/simulation.md``: one of clusters with one
controller, one of three controllers in a migration (kind failover). A table of which no record is
given stays as it is.
"""

import json
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from emulator.migration.states import State
from emulator.simulation import failover
from emulator.simulation.aftermath import Effects
from emulator.simulation.empty_cells import (
    REASONS,
    REASONS_OF_THREE,
    reason,
    reason_of_three,
)
from emulator.simulation.faults import RECIPES
from tools.docs import ROOT, row, table

PAGE: Final = ROOT / "docs" / "simulation.md"


@dataclass(frozen=True, slots=True)
class Part:
    """One table of the page: its markers, its faults, and why a cell of it may be empty."""

    begin: str
    end: str
    faults: tuple[str, ...]
    reason: Callable[[str, str], str]
    notes: tuple[str, ...]


ONE: Final = Part(
    "<!-- effects: written by `python -m tools.effects` -->\n",
    "<!-- effects end -->\n",
    tuple(RECIPES),
    reason,
    tuple(dict.fromkeys(REASONS.values())),
)
THREE: Final = Part(
    "<!-- effects of three: written by `python -m tools.effects` -->\n",
    "<!-- effects of three end -->\n",
    failover.ENDS,
    reason_of_three,
    tuple(dict.fromkeys(REASONS_OF_THREE.values())),
)


def rows(part: Part, records: Sequence[dict[str, Any]]) -> Iterator[str]:
    """The lines between the markers.

    Args:
        part: which table.
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
    for fault in part.faults:
        cells = []
        for state in State:
            counts = effects.get(state.value, {}).get(fault, {})
            if counts.get("seeds"):
                cells.append(f"{counts['seeds']} of {counts['struck']}")
            elif why := part.reason(state.value, fault):
                cells.append(f"({part.notes.index(why) + 1})")
            else:
                cells.append(f"0 of {counts.get('struck', 0)}")
        yield row(f"`{fault}`", *cells)
    yield "\n"
    for number, note in enumerate(part.notes, 1):
        yield f"({number}) {note[0].upper()}{note[1:]}\n\n"


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
    """Write the tables; returns the exit code."""
    paths = sys.argv[1:] or [str(ROOT / ".cache/records/sim.json")]
    records = [json.loads(Path(path).read_text()) for path in paths]
    for part in (ONE, THREE):
        own = [one for one in records if (one["kind"] == "failover") == (part is THREE)]
        if own:
            before, _, rest = PAGE.read_text().partition(part.begin)
            _, _, after = rest.partition(part.end)
            PAGE.write_text(before + part.begin + "".join(rows(part, own)) + part.end + after)
    return 0


if __name__ == "__main__":
    sys.exit(main())
