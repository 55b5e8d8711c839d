"""``python -m bench.predict``: predict, then measure 27 cells and 12 copies; resumable."""

from __future__ import annotations

import argparse
import json
import logging
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

from bench.predict import cells, copies, trace
from bench.predict.cells import HOME, StalePredictionsError, UnpublishableError, Waited
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
    cases = [each.case for each in plan]
    # Rows of older code are kept: what they cost to take is an hour, and each says its code.
    store = Store(out / "bench", any_code=True)

    def make() -> dict[str, Any]:
        if _taken(one, store, patience_s) is None:
            raise _NoInputError("the row that the predictions come from was not taken")
        return cells.document(cases, trace.read(store.trace, one.run_id).speed)

    digest, texts = cells.written(out, cases, make)
    before = {name: Waited(**values) for name, values in texts.items()}
    _print(f"predictions {digest}")
    found: list[tuple[Waited, Waited]] = []
    for cell in plan[:only]:
        name = cell.case.name
        if (there := cells.taken(out, digest, cell)) is not None:
            found.append((Waited(**there[0]), Waited(**there[1])))
            _print(f"{cells.line(name, *found[-1])} (is there)")
            continue
        row = _taken(cell, store, patience_s)
        if row is not None:
            after = cells.measured(row, store.trace)
            held = cells.holds(before[name], after)
            cells.keep(out, digest, row, texts[name], asdict(after), holds=held)
            found.append((before[name], after))
            _print(cells.line(name, before[name], after))
    text, good = cells.verdict(found, len(plan))
    (out / "verdict.json").write_text(json.dumps({"predictions": digest, "verdict": text}))
    _print(text)
    return int(not good)


def play_copies(out: Path, patience_s: float) -> int:
    """Take the copies that are missing; returns the exit code."""
    inputs, plan = _plan("copies-input"), _plan("copies")
    cases = [each.case for each in plan]
    store = Store(out / "bench", any_code=True)

    def make() -> dict[str, Any]:
        seen = []
        for one in inputs:
            row = _taken(one, store, patience_s)
            copied = None if row is None else trace.copied(store.trace, one.run_id)
            if row is None or copied is None:
                raise _NoInputError("a copy that the predictions come from was not taken")
            seen.append(copies.source(one.case, row, copied))
        speed = copies.speed_of(seen)
        found = {each.name: {"seconds": copies.predicted_s(each, speed)} for each in cases}
        return {"from": [asdict(each) for each in seen], "speed": asdict(speed), "cells": found}

    digest, before = cells.written(out, cases, make)
    _print(f"predictions of copies {digest}")
    found = []
    for cell in plan:
        name = cell.case.name
        if (there := cells.taken(out, digest, cell)) is not None:
            found.append(there)
            _print(f"{copies.line(name, *there)} (is there)")
        elif (row := _taken(cell, store, patience_s)) is not None:
            after = {"seconds": copies.took_s(row)}
            held = copies.holds(before[name], after)
            cells.keep(out, digest, row, before[name], after, holds=held)
            found.append((before[name], after))
            _print(copies.line(name, before[name], after))
    text, good = copies.verdict(found, len(plan))
    _print(text)
    return int(not good)


def _publish(out: Path) -> int:
    try:
        for folder, name in ((out, "predict"), (out / copies.NAME, copies.NAME)):
            if (folder / "predictions.json").exists():
                _print(f"{cells.publish(folder, name=name)}: now `make docs` shows it")
    except (ValueError, OSError) as error:
        _print(f"{out}: {error}")
        return 1
    return 0


def main() -> int:
    """Parse the command line, and play."""
    parser = argparse.ArgumentParser(prog="python -m bench.predict", description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("out/predict"))
    parser.add_argument("--cells", type=int, help="only so many of the first")
    parser.add_argument("--copies", action="store_true", help="only the copies, no cells")
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
            place = asked.out / copies.NAME
            if asked.kept:
                cells.restore(asked.out)
                if any(cells.KEPT.glob(f"{copies.NAME}-*.jsonl")):
                    cells.restore(place, name=copies.NAME)
            code = 0 if asked.copies else play(asked.out, asked.cells, asked.patience)
            return code | (0 if asked.cells else play_copies(place, asked.patience))
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
