"""``python -m bench.at_size``: analyse a trace of 50 million rows on one core, and on two.

Before each master two smaller traces are analysed: how long the large one will take follows from
them. Rows are kept; the same command goes on where it was interrupted. Traces and results are
removed at the end.
"""

from __future__ import annotations

import argparse
import re
import shutil
import sys
from pathlib import Path
from typing import Any, Final

from bench.__main__ import end_on_terminate
from bench.at_size import leg, table
from bench.beside.machine import wait_quiet
from bench.brokers.kept import KeptRows
from bench.runs.code import digest_of

TRIALS: Final = (250, 25)
"""Shares of the rows that are analysed first, as divisors."""
_LEAST: Final = 10_000
_CODE: Final = ("bench/analysis", "bench/report", "bench/at_size", "emulator/trace")


def _say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def sizes(rows: int) -> list[int]:
    """The trials, and what is asked for; smaller ones than 10,000 rows say nothing.

    >>> sizes(50_000_000), sizes(300_000)
    ([200000, 2000000, 50000000], [12000, 300000])
    """
    return [*(rows // share for share in TRIALS if rows // share >= _LEAST), rows]


def _taken(options: argparse.Namespace, kept: KeptRows, master: str) -> list[dict[str, Any]]:
    """The rows of one master, those that are there included."""
    taken: list[dict[str, Any]] = []
    for wanted in sizes(options.rows):
        row = kept.find(wanted=wanted, master=master, void="")
        if row is not None:
            taken.append(row)
            continue
        folder = options.out / f"rows-{wanted}"
        truth = leg.trace(folder, wanted)
        expected_s = table.seconds_at(truth.rows, taken)
        # Of one size the start counts with each row, so the other takes less.
        how = "about" if len(taken) > 1 else "at most"
        about = "" if expected_s is None else f", {how} {expected_s / 60:.1f} minutes"
        _say(f"{truth.rows:,} rows on {master}{about}")
        wait_quiet(options.patience)
        row = {"wanted": wanted, **leg.analysed(folder, truth, master)}
        kept.add(row)
        taken.append(row)
        shutil.rmtree(folder / "out", ignore_errors=True)
    return taken


def _master(text: str) -> list[str]:
    found = re.findall(r"[^,\s]+", text)
    wrong = [one for one in found if not re.fullmatch(r"local\[([1-9]\d*|\*)\]", one)]
    if wrong or not found:
        raise argparse.ArgumentTypeError(f"{text!r}: local[2],local[1]")
    return list(dict.fromkeys(found))


def _rows(text: str) -> int:
    found = int(text.replace(",", "").replace("_", ""))
    if not 1_000 <= found <= 1_000_000_000:
        raise argparse.ArgumentTypeError(f"{text}: 1,000 to 1,000,000,000")
    return found


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench.at_size", description=__doc__)
    parser.add_argument("--rows", type=_rows, default=50_000_000, help="of all tables together")
    parser.add_argument("--masters", type=_master, default=["local[2]", "local[1]"])
    parser.add_argument("--out", type=Path, default=Path("out/bench/at-size"))
    parser.add_argument("--patience", type=float, default=60, help="seconds for a quiet machine")
    parser.add_argument("--keep", action="store_true", help="leave traces")
    return parser.parse_args()


def main() -> int:
    """Take the rows that are missing; returns 1 if one is void."""
    options = _options()
    end_on_terminate()
    kept = KeptRows(options.out / "rows.jsonl", digest_of(*_CODE))
    rows: list[dict[str, Any]] = []
    try:
        for master in options.masters:
            rows += _taken(options, kept, master)
    except leg.NoRoomError as error:
        _say(str(error))
        return 1
    except KeyboardInterrupt:
        _say("interrupted; the same command goes on")
        return 1
    if not options.keep:
        for wanted in sizes(options.rows):
            shutil.rmtree(options.out / f"rows-{wanted}", ignore_errors=True)
    _say("\n" + table.text(rows))
    return int(any(row["void"] for row in rows))


if __name__ == "__main__":
    sys.exit(main())
