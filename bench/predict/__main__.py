"""``python -m bench.predict``: predict, then measure 27 cells; goes on where it ended."""

from __future__ import annotations

import argparse
import json
import logging
import sys
from pathlib import Path

from bench.predict import cells, trace
from bench.predict.cells import HOME, StalePredictionsError, UnpublishableError, Waited
from bench.predict.model import Speed
from bench.runs import run as runner
from bench.runs.reading import read
from bench.runs.row import BenchRow
from bench.runs.scenario import Planned, planned
from bench.runs.store import Store
from emulator.servers.jars import JarsMissingError
from emulator.servers.java import JavaNotFoundError
from emulator.servers.process import interrupt_on_terminate, kill_all


class _NoInputError(RuntimeError):
    """Nothing can be predicted."""


def _print(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def _plan(name: str) -> list[Planned]:
    scenario = read(HOME / f"{name}.toml")
    return planned(scenario, scenario.targets, 1)


def _taken(one: Planned, store: Store, patience_s: float) -> BenchRow | None:
    """The row, if it can be taken and compared."""
    command = "python -m bench.predict"
    rows = runner.run([one], store, patience_s=patience_s, command=command, print_line=_print)
    if rows and rows[0].void:
        _print(f"{one.run_id}: void: {rows[0].void}")
    return rows[0] if rows and not rows[0].void else None


def play(out: Path, only: int | None, patience_s: float) -> int:
    """Take what is missing; returns the exit code."""
    (one,), plan = _plan("input"), _plan("cells")
    # Rows of older code are kept: what they cost to take is an hour, and each says its code.
    store = Store(out / "bench", any_code=True)

    def speed() -> Speed:
        if _taken(one, store, patience_s) is None:
            raise _NoInputError("the row that the predictions come from was not taken")
        return trace.read(store.trace, one.run_id).speed

    digest, before = cells.written(out, [each.case for each in plan], speed)
    _print(f"predictions {digest}")
    found: list[tuple[Waited, Waited]] = []
    for cell in plan[:only]:
        name = cell.case.name
        if (there := cells.taken(out, digest, cell)) is not None:
            found.append(there)
            _print(f"{cells.line(name, *there)} (is there)")
            continue
        row = _taken(cell, store, patience_s)
        if row is not None:
            after = cells.measured(row, store.trace)
            cells.keep(out, digest, row, before[name], after)
            found.append((before[name], after))
            _print(cells.line(name, before[name], after))
    text, good = cells.verdict(found, len(plan))
    (out / "verdict.json").write_text(json.dumps({"predictions": digest, "verdict": text}))
    _print(text)
    return int(not good)


def _publish(out: Path) -> int:
    try:
        _print(f"{cells.publish(out)}: now `make docs` writes the table and the picture")
    except (ValueError, OSError) as error:
        _print(f"{out}: {error}")
        return 1
    return 0


def main() -> int:
    """Parse the command line, and play."""
    parser = argparse.ArgumentParser(prog="python -m bench.predict", description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("out/predict"))
    parser.add_argument("--cells", type=int, help="only so many of the first")
    parser.add_argument("--patience", type=float, default=60, help="seconds to wait for quiet")
    parser.add_argument("--kept", action="store_true", help="go on from the rows in docs/rows")
    parser.add_argument("--publish", action="store_true", help="keep what is there in docs/rows")
    asked = parser.parse_args()
    if asked.publish:
        return _publish(asked.out)
    interrupt_on_terminate()
    logging.getLogger("kazoo").setLevel(logging.CRITICAL)  # each row ends its connections
    try:
        with runner.alone(asked.out):
            if asked.kept:
                cells.restore(asked.out)
            return play(asked.out, asked.cells, asked.patience)
    except (
        StalePredictionsError,
        UnpublishableError,
        trace.UnusableTraceError,
        runner.NotAloneError,
    ) as error:
        _print(f"{error}")
        return 2
    except (JarsMissingError, JavaNotFoundError, _NoInputError) as error:
        _print(f"{error}")
        return 1
    except KeyboardInterrupt:
        _print("interrupted; the same command goes on")
        return 1
    finally:
        kill_all()


if __name__ == "__main__":
    sys.exit(main())
