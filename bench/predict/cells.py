"""Predicted beforehand, then measured on real servers: a row for each cell.

The inputs come from a run of its own. All predictions are written before the first cell is taken,
and their digest is the first thing in each row: a prediction that was changed afterwards shows.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from bench.predict import model, trace
from bench.predict.model import LEAST_S, SHARE, Speed
from bench.runs.row import BenchRow
from bench.runs.scenario import Case, Planned

HOME: Final = Path(__file__).parent
KEPT: Final = HOME.parents[1] / "docs/rows"
WANTED: Final = 0.9
BLOCKS_S: Final = 0.5
"""A cell counts as one that blocks from this on."""
BLOCKING: Final = 15 / 27
"""So large a share of the cells must block: where nothing waits, to predict that is no proof."""


class StalePredictionsError(ValueError):
    """Predictions are there, of other cells, and rows that were taken after them."""


class UnpublishableError(ValueError):
    """The rows do not prove what would be published."""


@dataclass(frozen=True, slots=True)
class Waited:
    """What was predicted of a cell, or measured: seconds, operations."""

    union_s: float
    operations: int
    longest_s: float


def predicted(case: Case, speed: Speed) -> Waited:
    """Of a cell that stops ZooKeeper under creations at a steady rate."""
    assert case.rate is not None
    assert case.bound_records is not None
    change = model.creation(case.partitions)
    found = model.stalled(change, case.rate, case.bound_records, speed, case.freeze_s)
    return Waited(found.union_s, found.operations, found.longest_s)


def document(cases: Sequence[Case], speed: Speed) -> dict[str, Any]:
    """The predictions of all cells, as they are written."""
    cells = {one.name: dataclasses.asdict(predicted(one, speed)) for one in cases}
    return {"speed": dataclasses.asdict(speed), "cells": cells}


def written(
    folder: Path, cases: Sequence[Case], make: Callable[[], dict[str, Any]]
) -> tuple[str, dict[str, dict[str, Any]]]:
    """Write the predictions unless they are there; returns their digest, and each cell's.

    Args:
        folder: of the run.
        cases: all cells.
        make: what is written; called only if it is not there.

    Raises:
        StalePredictionsError: those that are there do not fit, and were tested already.
        OSError: the folder cannot be written.
    """
    path, rows = folder / "predictions.json", folder / "rows"
    found: Mapping[str, Any] = json.loads(path.read_text()) if path.exists() else {}
    if list(found.get("cells", {})) != [one.name for one in cases]:
        if any(rows.glob("*.json")):
            raise StalePredictionsError(
                f"{path} is of other cells than these, and rows are there: give another --out"
            )
        made = make()
        folder.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(made, indent=1))
        found = json.loads(path.read_text())
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    return digest, dict(found["cells"])


def measured(row: BenchRow, folder: Path) -> Waited:
    """What a row says: its controller's own sum, and the waits in its trace."""
    waits_s = [end - begin for begin, end in trace.waits(folder, row.run_id, row.begin_ns or 0)]
    return Waited((row.blocked_union_ms or 0.0) / 1e3, len(waits_s), max(waits_s, default=0.0))


def holds(before: Waited, after: Waited) -> bool:
    """Whether the blocked time is as predicted."""
    return model.holds(before.union_s, after.union_s)


def keep(
    folder: Path,
    digest: str,
    row: BenchRow,
    before: dict[str, Any],
    after: dict[str, Any],
    *,
    holds: bool,
) -> None:
    """Write a row; the predictions' digest comes first."""
    place = folder / "rows"
    place.mkdir(parents=True, exist_ok=True)
    found = {
        "predictions": digest,
        "run_id": row.run_id,
        "case": row.case,
        "holds": holds,
        "predicted": before,
        "measured": after,
        "row": dataclasses.asdict(row),
    }
    fresh = place / f"_{row.run_id}"
    fresh.write_text(json.dumps(found, indent=1))
    fresh.replace(place / f"{row.run_id}.json")


def taken(folder: Path, digest: str, cell: Planned) -> tuple[dict[str, Any], dict[str, Any]] | None:
    """Predicted and measured of a row that is there, of the same predictions and case; or None."""
    path = folder / "rows" / f"{cell.run_id}.json"
    if not path.exists():
        return None
    found = json.loads(path.read_text())
    if found["predictions"] != digest or found["row"]["digest"] != cell.digest:
        return None
    return found["predicted"], found["measured"]


def line(name: str, before: Waited, after: Waited) -> str:
    """A cell in one line."""
    return (
        f"{name}: blocked {before.union_s:.2f} s predicted, {after.union_s:.2f} measured; "
        f"{before.operations} operations, {after.operations}; longest {before.longest_s:.2f} s, "
        f"{after.longest_s:.2f}{'' if holds(before, after) else '  MISSED'}"
    )


def verdict(cells: Sequence[tuple[Waited, Waited]], wanted: int) -> tuple[str, bool]:
    """What all cells say together, and whether that is what was wanted.

    Args:
        cells: predicted and measured.
        wanted: how many there should be.
    """
    good = sum(holds(*one) for one in cells)
    block = sum(after.union_s >= BLOCKS_S for _, after in cells)
    text = (
        f"{good} of {len(cells)} cells within {SHARE:.0%} or {LEAST_S * 1e3:.0f} ms; "
        f"{block} block for {BLOCKS_S:g} s or more"
    )
    if len(cells) < wanted:
        return f"{text}; {wanted - len(cells)} are missing", False
    if block < BLOCKING * len(cells):
        return f"{text}; {math.ceil(BLOCKING * len(cells))} are needed", False
    return text, good >= WANTED * len(cells)


@dataclass(frozen=True, slots=True)
class Kept:
    """Published rows: the predictions, the row they come from, and a row of each cell."""

    predictions: Mapping[str, Any]
    input: Mapping[str, Any]
    rows: list[dict[str, Any]]

    @property
    def digest(self) -> str:
        """Of the predictions, as they were written."""
        return hashlib.sha256(json.dumps(self.predictions, indent=1).encode()).hexdigest()

    def check(self) -> None:
        """Raise UnpublishableError unless the rows were taken after these predictions."""
        if not self.rows:
            raise UnpublishableError("there is no row of a cell")
        took_ns = (self.input["drained_ns"] or 0) - (self.input["begin_ns"] or 0)
        ended_ns = self.input["started_wall_ns"] + took_ns
        for one in self.rows:
            name, first = one["case"], next(iter(one))
            if one["row"]["void"]:
                raise UnpublishableError(f"{name}: its row is void: {one['row']['void']}")
            if (first, one[first]) != ("predictions", self.digest):
                raise UnpublishableError(f"{name}: not taken after these predictions")
            if one["predicted"] != self.predictions["cells"].get(name):
                raise UnpublishableError(f"{name}: another prediction than was written")
            if one["row"]["started_wall_ns"] < ended_ns:
                raise UnpublishableError(f"{name}: taken before the predictions' input")
            if one["run_id"] == self.input["run_id"]:
                raise UnpublishableError(f"{name}: the predictions come from this row")


def publish(folder: Path, place: Path = KEPT, name: str = "predict") -> Path:
    """Keep the rows of a run instead of those before; returns the file, which has that name.

    Raises:
        UnpublishableError: they prove nothing.
        OSError: a file is missing, or cannot be written.
    """
    texts = [path.read_text() for path in (folder / "bench/rows").glob("*input.*.json")]
    if not texts:
        raise UnpublishableError("there is no row of the predictions' input")
    source = max(map(json.loads, texts), key=lambda row: int(row["started_wall_ns"]))
    found = Kept(
        json.loads((folder / "predictions.json").read_text()),
        source,
        [json.loads(one.read_text()) for one in sorted((folder / "rows").glob("*.json"))],
    )
    found.check()
    for old in place.glob(f"{name}-*.jsonl"):
        old.unlink()
    file = place / f"{name}-{found.input['code'][:8]}.jsonl"
    lines = [found.predictions, found.input, *found.rows]
    file.write_text("".join(f"{json.dumps(one)}\n" for one in lines))
    return file


def kept(place: Path = KEPT, name: str = "predict") -> tuple[Path, Kept]:
    """The published rows, and their file.

    Raises:
        UnpublishableError: they prove nothing.
    """
    (file,) = place.glob(f"{name}-*.jsonl")
    predictions, source, *rows = map(json.loads, file.read_text().splitlines())
    found = Kept(predictions, source, rows)
    found.check()
    return file, found


def restore(folder: Path, place: Path = KEPT, name: str = "predict") -> None:
    """Put the published rows where a run goes on from them, unless predictions are there.

    Raises:
        UnpublishableError: the rows prove nothing.
        OSError: the folder cannot be written.
    """
    if (folder / "predictions.json").exists():
        return
    _, found = kept(place, name)
    rows, inputs = folder / "rows", folder / "bench/rows"
    for one in (rows, inputs):
        one.mkdir(parents=True, exist_ok=True)
    (inputs / f"{found.input['run_id']}.json").write_text(json.dumps(found.input, indent=1))
    for row in found.rows:
        (rows / f"{row['run_id']}.json").write_text(json.dumps(row, indent=1))
    (folder / "predictions.json").write_text(json.dumps(found.predictions, indent=1))
