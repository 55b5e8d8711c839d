"""``python -m bench.conformance``: judge real servers, and print server x group.

What was judged is kept in ``--out``, server by server, and not judged again until the code of the
judge or of the messages changes (for ours: also of the emulator), or ``--again``. Exit code 1 if a
case failed that ``differences.toml`` does not explain, or if a row of it is not needed; 2 if a
server could not be started.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final

from bench.conformance import differences
from bench.conformance.case import Case
from bench.conformance.choosing import GROUPS, chosen
from bench.conformance.judge import Wish, judged, known
from bench.conformance.output import OUTCOMES, document
from bench.conformance.servers import SERVERS, Part, Server
from bench.lines import print_line, print_progress
from bench.runs.code import digest_of
from emulator.servers.jars import JarsMissingError
from emulator.servers.java import JavaNotFoundError
from emulator.servers.process import ProcessError, interrupt_on_terminate

STARTS_MAX: Final = 20
"""A server that ends under a case is started again for the rest, so often."""
SEED: Final = 1
PREFIX: Final = "conformance-known"
"""Always the same, as all servers are new: which broker coordinates a group depends on its name."""
Row = dict[str, Any]


def main() -> int:
    """Judge what is not judged yet, and print the table; returns the exit code."""
    parser = argparse.ArgumentParser(prog="bench.conformance", description=__doc__)
    names = [one.name for one in SERVERS]
    parser.add_argument("--server", action="append", choices=names, help="only these")
    parser.add_argument("--out", type=Path, default=Path("out/conformance"))
    parser.add_argument("--again", action="store_true", help="also what is judged already")
    options = parser.parse_args()
    interrupt_on_terminate()
    wanted = [one for one in SERVERS if not options.server or one.name in options.server]
    options.out.mkdir(parents=True, exist_ok=True)
    rows: dict[str, Row] = {}
    problems: list[str] = []
    for server in wanted:
        try:
            rows[server.name] = taken(server, options.out, again=options.again)
        except (JarsMissingError, JavaNotFoundError, ProcessError) as error:
            problems.append(f"{server.name}: {error}")
            print_progress(problems[-1])
    for line in table(rows):
        print_line(line)
    told = differences.read()
    wrong = [
        line
        for name, row in rows.items()
        for line in differences.unexplained(name, row["cases"], told)
    ]
    wrong += [f"{name}: left on it: {one}" for name, row in rows.items() for one in row["left"]]
    for line in (*problems, *wrong):
        print_line(line)
    return 2 if problems else int(bool(wrong))


def taken(server: Server, out: Path, *, again: bool) -> Row:
    """The row of a server: that which is kept, if it is of this code, else a new one."""
    path, code = out / f"{server.name}.json", _code(server)
    if path.exists() and not again:
        kept: Row = json.loads(path.read_text())
        if kept["code"] == code:
            print_progress(f"{server.name}: kept, of {path}")
            return kept
    cases: list[Row] = []
    left: list[str] = []
    seconds, release = 0.0, None
    for part in server.parts:
        for found in judged_whole(server.name, part):
            cases += found["cases"]
            left += found["left"]
            seconds, release = seconds + found["seconds"], found["release"]
    row: Row = {"server": server.name, "code": code, "release": release}
    row |= {"seconds": round(seconds, 1), "cases": cases, "left": left}
    scratch = path.with_suffix(".part")
    scratch.write_text(json.dumps(row, indent=1) + "\n")
    scratch.replace(path)
    return row


def _code(server: Server) -> str:
    folders = ["bench/conformance", "wire"]
    return digest_of(*folders, *(["emulator"] if server.name == "ours" else []))


def judged_whole(name: str, part: Part) -> Iterator[Row]:
    """Judge one cluster; one that ends under a case is started again for the cases after it."""
    left = chosen(part.groups)
    for number in range(STARTS_MAX):
        with tempfile.TemporaryDirectory() as scratch, ExitStack() as stack:
            print_progress(f"{name}: {len(left)} cases, start {number + 1}")
            places = part.start(Path(scratch), stack)
            report = judged(places, known(places), _wish(left), lambda _: None)
            found = document(report)
        if not report.ended:
            yield found
            return
        ended = next(index for index, one in enumerate(report.findings) if one.why == report.ended)
        last = report.findings[ended]
        found["cases"] = found["cases"][: ended + 1]
        found["cases"][-1] |= {
            "outcome": "failed",
            "why": "the server",
            "expected": "it goes on",
            "got": report.ended,
        }
        found["left"] = []  # it went with the server
        yield found
        print_progress(f"{name}: ended at {last.id}")
        left = left[left.index(last.case) + 1 :]
    raise ProcessError(f"{name} ended {STARTS_MAX} times")


def _wish(cases: Sequence[Case]) -> Wish:
    return Wish(
        cases=cases,
        release=None,
        seed=SEED,
        prefix=PREFIX,
        disruptive=True,
        slow=False,
        fail_on=frozenset(),
        again="kraft-bridge conformance",
    )


def table(rows: Mapping[str, Row]) -> Iterator[str]:
    """Markdown: group x server, each cell ``cases: passed, not offered, failed``."""
    yield "| group | " + " | ".join(rows) + " |"
    yield "|---|" + "---|" * len(rows)
    counts = {
        name: Counter((one["id"].partition(".")[0], one["outcome"]) for one in row["cases"])
        for name, row in rows.items()
    }
    for group in GROUPS:
        cells = [_cell([counts[name][group, each] for each in OUTCOMES]) for name in rows]
        yield f"| {group} | " + " | ".join(cells) + " |"
    whole = [
        _cell([sum(n for (_, each), n in counts[name].items() if each == one) for one in OUTCOMES])
        for name in rows
    ]
    yield "| all | " + " | ".join(whole) + " |"
    yield ""
    yield "cases: passed, not offered, failed (the rest was not judged)"


def _cell(numbers: Sequence[int]) -> str:
    passed, failed, not_offered, _ = numbers
    return f"{sum(numbers)}: {passed}, {not_offered}, {failed}"


if __name__ == "__main__":
    sys.exit(main())
