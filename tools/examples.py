"""Three reports of real runs in docs/examples: ``make docs`` renders them anew.

What a page is made of is kept beside it: the tables that Spark made of a trace, or of rows of the
bench. To take another run instead:

    python -m tools.examples keep demo out/demo-DATE    # of a run of `kraft-bridge demo`
    python -m tools.examples fail out/examples          # runs one that fails, and keeps it
    python -m tools.examples keep sweep out/examples/report sweep   # scenarios of bench runs

The rows of the sweep are those of docs/examples/sweep.toml:

    kraft-bridge bench run docs/examples/sweep.toml --out out/examples
    kraft-bridge analyze out/examples/sweep --out out/examples/report

It also shows the cells of docs/rows/predict-*.jsonl.
"""

from __future__ import annotations

import gzip
import json
import re
import sys
import threading
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any, Final, TypeAlias
from unittest import mock

_Tables: TypeAlias = dict[str, dict[str, list[Any]]]
"""Each table by its columns."""
HOME: Final = Path(__file__).resolve().parents[1] / "docs/examples"
NAMES: Final = ("demo", "failed", "sweep")
BYTES_MAX: Final = 600_000
"""Of a page."""
_RATE: Final = 10.0
_SECONDS: Final = 45.0
_BOUND: Final = 100
"""Records of the run that fails: at 10 changes a second 3 s or so without ZooKeeper."""
_STILL_S: Final = 8.0
_STILL_AT_S: Final = 33.0
_CHANGED: Final = "/config/topics/metrics"
_PATH: Final = re.compile(r"(?:/[\w.@+-]+){2,}/(?=out/|demo-|trace)")


def kept(name: str) -> Path:
    """The file that a page is made of."""
    return HOME / f"{name}.json.gz"


def page(name: str) -> Iterator[str]:
    """docs/examples/NAME.html."""
    document = json.loads(gzip.decompress(kept(name).read_bytes()))
    tables = {table: _rows(columns) for table, columns in document["tables"].items()}
    yield _sweep(document, tables) if name == "sweep" else _run(document, tables)


def _run(document: dict[str, Any], tables: dict[str, list[dict[str, Any]]]) -> str:
    import msgspec  # noqa: PLC0415 - other pages of the docs are made without Spark

    from bench.report.beside import Beside  # noqa: PLC0415 - as above
    from bench.report.page import page as run_page  # noqa: PLC0415 - as above
    from bench.report.verdict import of_run, runs_of, verdict  # noqa: PLC0415 - as above

    beside = msgspec.convert(document["beside"], Beside)
    found = [verdict(of_run(tables, run_id), run_id, beside) for run_id in runs_of(tables)]
    return run_page(tables, document["made"], found, beside)


def _sweep(document: dict[str, Any], tables: dict[str, list[dict[str, Any]]]) -> str:
    from bench.analysis.sweep.conclusions import conclude  # noqa: PLC0415 - as above
    from bench.analysis.sweep.stalls import predictions_of  # noqa: PLC0415 - as above
    from bench.report.sweep import sweep_page  # noqa: PLC0415 - as above

    before = document["predictions"]
    found = conclude(tables, predictions=before and predictions_of(before, "docs/rows"))
    return sweep_page(found, tables["described"], document["made"])


def _rows(columns: dict[str, list[Any]]) -> list[dict[str, Any]]:
    """Records of a table that is kept by its columns."""
    return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]


def keep(name: str, place: Path, scenarios: Collection[str] = ()) -> None:
    """Keep what a page is made of.

    Args:
        name: of the page.
        place: the folder of a demonstration; of a sweep that which ``analyze`` wrote its report to.
        scenarios: of a sweep; all if none is named.
    """
    document: dict[str, Any] = {
        "made": f"kept in docs/examples/{name}.json.gz, by `python -m tools.examples`"
    }
    if name == "sweep":
        document["tables"] = _of_scenarios(_tables(place / "tables"), scenarios)
        _with_cells(document)
    else:
        import msgspec  # noqa: PLC0415 - as above

        from bench.report.beside import read_beside  # noqa: PLC0415 - as above

        document["tables"] = _tables(place / "report/tables")
        document["beside"] = msgspec.to_builtins(read_beside(str(place / "trace")))
    text = _PATH.sub("", json.dumps(document, separators=(",", ":")))
    kept(name).write_bytes(gzip.compress(text.encode(), 9, mtime=0))
    print(f"{kept(name)}: now `make docs` renders it")


def _of_scenarios(tables: _Tables, scenarios: Collection[str]) -> _Tables:
    """The rows of some scenarios."""
    described = tables["described"]
    wanted = {
        run_id
        for run_id, name in zip(described["run_id"], described["scenario"], strict=True)
        if not scenarios or name in scenarios
    }
    return {
        name: {
            column: [
                value
                for run_id, value in zip(columns["run_id"], values, strict=True)
                if run_id in wanted
            ]
            for column, values in columns.items()
        }
        for name, columns in tables.items()
        if name != "readings"
    }


def _with_cells(document: dict[str, Any]) -> None:
    """Put the published cells of `make predict` beside the rows, with what was predicted."""
    from bench.analysis.sweep.rows import COLUMNS  # noqa: PLC0415 - as above
    from bench.predict.cells import kept as published  # noqa: PLC0415 - as above

    _, cells = published()
    document["predictions"] = dict(cells.predictions)
    tables = document["tables"]
    for name in COLUMNS:  # some are younger than the rows
        tables["described"].setdefault(name, [None] * len(tables["described"]["run_id"]))
    for name, column in tables["described"].items():
        column += [one["row"].get(name) for one in cells.rows]
    # Of their traces only this is kept.
    runs = [
        {
            "run_id": one["run_id"],
            "seconds": one["row"]["count"] / one["row"]["rate_per_s"],
            "intended": one["row"]["intended"],
            "answered": one["row"]["answered"],
            "traced": True,
            "blocked_ms": one["row"]["blocked_union_ms"],
            "blocked_operations": one["measured"]["operations"],
        }
        for one in cells.rows
    ]
    for name, column in tables["runs"].items():
        column += [one.get(name) for one in runs]


def _tables(parquet: Path) -> _Tables:
    """Each table that a page is made of, by its columns; what names this machine is left out."""
    import pyarrow.parquet as pq  # noqa: PLC0415 - as above

    from bench.analysis.job import LONG  # noqa: PLC0415 - as above

    found = {}
    for place in sorted(parquet.iterdir()):
        if place.name in LONG or not place.is_dir():
            continue
        columns = pq.read_table(place, partitioning=None).to_pydict()
        if "host" in columns:
            names = {host: f"host-{at}" for at, host in enumerate(sorted(set(columns["host"])), 1)}
            columns["host"] = [names[host] for host in columns["host"]]
        found[place.name] = columns
    return found


def fail(out: Path) -> None:
    """Run a demonstration that fails, and keep it.

    Meanwhile ZooKeeper stands still with a small bound, so that changes wait for it, and somebody
    changes a topic's config in it by hand, so that the stores differ.
    """
    from bench.demo import run as demo  # noqa: PLC0415 - as above
    from bench.demo.stage import Options, Stage, new_folder  # noqa: PLC0415 - as above

    folder = new_folder(out)
    over = threading.Event()
    seed, strain = vars(demo)["seed"], vars(demo)["strain"]

    def bounded(stage: Stage, narrator: Any) -> None:
        for node in stage.controllers.nodes.values():
            node.extra["kraftbridge.zk.write.behind.max.records"] = _BOUND
        seed(stage, narrator)

    def spoiled(stage: Stage, narrator: Any) -> Any:
        spoiler = threading.Thread(target=_spoil, args=(stage, narrator, over), daemon=True)
        spoiler.start()
        try:
            return strain(stage, narrator)
        finally:
            over.set()
            spoiler.join()

    with mock.patch.object(demo, "seed", bounded), mock.patch.object(demo, "strain", spoiled):
        code = demo.run(Options(folder, _SECONDS, _RATE))
    if code != 1:
        sys.exit(f"the run in {folder} ended with {code}, and was to fail")
    keep("failed", folder)


def _spoil(stage: Any, narrator: Any, over: threading.Event) -> None:
    if over.wait(_STILL_AT_S):
        return
    narrator.event(f"ZooKeeper is stopped for {_STILL_S:g} s (SIGSTOP)")
    with stage.zk.paused():
        over.wait(_STILL_S)
    narrator.event("ZooKeeper goes on")
    client = stage.look()
    client.retry(client.set, _CHANGED, b'{"version":1,"config":{"retention.ms":"1"}}')
    narrator.event(f"somebody writes {_CHANGED} by hand")


def main() -> int:
    """As the module says; returns the exit code."""
    match sys.argv[1:]:
        case ["keep", name, place, *scenarios] if name in NAMES:
            keep(name, Path(place), scenarios)
        case ["fail", out]:
            fail(Path(out))
        case _:
            print(__doc__, file=sys.stderr)
            return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
