"""Run classes on both sides, each from where an earlier run was cut, and print the table."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from bench.lines import print_line, print_progress
from bench.runs.code import digest_of
from bench.runs.run import alone
from bench.suites.classes import TestClass
from bench.suites.kept import Kept
from bench.suites.known import known
from bench.suites.launch import KAFKAS, OURS, SIDES, Launched
from bench.suites.reports import FAILED
from bench.suites.table import Compared, compare, details, table

_LOOK_S: Final = 1.0
_CODE: Final = {
    OURS: ("emulator", "wire", "bench/suites/standin", "bench/suites/condition"),
    KAFKAS: ("bench/suites/condition",),
}
"""Folders whose sources decide what a side shows."""


@dataclass(frozen=True, slots=True)
class Options:
    """What the command line may change."""

    out: Path
    """Folder of all classes; each side of each has one in it."""
    classes: Sequence[TestClass]
    again: bool = False
    """Begin anew, whatever was run."""
    failed_only: bool = False
    """With Kafka's controller only the tests that failed with ours."""


def run(options: Options) -> int:
    """Run what is left, and print what all of it shows.

    Returns:
        Exit code: 0 if nothing failed on ours alone but for known reasons, else 1.

    Raises:
        JarsMissingError: the jars were not fetched.
        NotAloneError: another run is going on in the same folder.
    """
    begun = time.monotonic()
    rows: list[Compared] = []
    with alone(options.out):
        for number, one in enumerate(options.classes, 1):
            print_progress(f"{one.simple} ({number} of {len(options.classes)})")
            rows.append(_class(options, one))
    for line in (*table(rows), "", *details(rows)):
        print_line(line)
    good = all(row.good for row in rows)
    took = time.monotonic() - begun
    print_line(f"kafka-tests {'OK' if good else 'FAILED'}: {len(rows)} classes, {took:.0f} s")
    return 0 if good else 1


def _class(options: Options, one: TestClass) -> Compared:
    kept: dict[str, Kept] = {}
    for side in SIDES:
        skip: set[str] = set()
        if side == KAFKAS and options.failed_only:
            skip = {key for key, each in kept[OURS].ended.items() if each.outcome != FAILED}
            if len(skip) == len(kept[OURS].ended):
                kept[side] = Kept("", whole=True)
                continue
        kept[side] = _side(options, one, side, skip)
    whole = all(each.whole for each in kept.values())
    return compare(one.simple, kept[OURS].ended, kept[KAFKAS].ended, known(), whole=whole)


def _side(options: Options, one: TestClass, side: str, skip: set[str]) -> Kept:
    """Run the tests of a class that have not ended yet; a second time what was cut by its limit."""
    folder = options.out / one.simple / side
    path = folder.with_suffix(".json")
    code = digest_of(*_CODE[side])
    found = None if options.again else Kept.load(path, code)
    kept = Kept(code) if found is None else found
    if found is not None:
        kept.add(Launched(one, side, folder).report().ended)  # of a run that was killed
    while not kept.whole and kept.seconds < 2 * one.limit_s:
        before = len(kept.ended)
        _once(one, side, folder, kept, skip)
        kept.save(path)
        counts = [each.outcome for each in kept.ended.values()]
        failed = counts.count(FAILED)
        print_progress(f"    {side}: {len(counts)} tests, {failed} failed, {kept.seconds:.0f} s")
        if len(kept.ended) == before and not kept.whole and not kept.cut:
            break  # JUnit itself did not start
    return kept


def _once(one: TestClass, side: str, folder: Path, kept: Kept, skip: set[str]) -> None:
    """Run JUnit once, to its end or the limit; what it has reported is kept also if we are cut."""
    launched = Launched(one, side, folder)
    kept.save(folder.with_suffix(".json"))
    begun = time.monotonic()
    launched.start({*kept.ended, *skip})
    by_limit = False
    try:
        while launched.alive:
            by_limit = time.monotonic() - begun > one.limit_s
            if by_limit:
                break
            time.sleep(_LOOK_S)
    finally:
        launched.end()
        report = launched.report()
        kept.add(report.ended)
        kept.whole = report.whole
        kept.seconds += time.monotonic() - begun
        if by_limit:
            kept.begun(report.under_way, one.limit_s)
        kept.save(folder.with_suffix(".json"))
    if not report.whole and not report.ended and not by_limit:
        print_progress(launched.tail())
