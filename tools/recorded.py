"""Run a command that proves requirements and keep its record: ``python -m tools.recorded``.

Usage: ``python -m tools.recorded NAME COMMAND ...``. ``KRAFT_BRIDGE_RECORD`` tells the command
where to leave a JSON document: ``complete`` (whether it ran all there is) and ``tests``, each with
``test``, ``ids``, ``kind`` and ``outcome``. The commit, the files that differed from it before and
after, the exit code and whether it was interrupted are added here; the whole is kept as
``.cache/records/NAME.json``. Of a command that left nothing the record has no tests, and it failed.

The record of the run before is removed first. ``tools.requirements`` reads the records and says
what they prove.
"""

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from bench.record import VARIABLE

ROOT = Path(__file__).resolve().parents[1]
RECORDS = ROOT / ".cache" / "records"


def git(*arguments: str) -> str | None:
    """What git prints; None outside a checkout, or where there is no git."""
    try:
        done = subprocess.run(
            ["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=False
        )
    except FileNotFoundError:
        return None
    return done.stdout if done.returncode == 0 else None


def commit() -> str | None:
    """The commit of the checkout."""
    head = git("rev-parse", "HEAD")
    return None if head is None else head.strip()


def changed(since: str) -> list[str] | None:
    """Files that differ from a commit or are new, pages and the rows of requirements left out.

    None if it is unknown.

    Args:
        since: a commit.
    """
    tracked = git("diff", "--name-only", "-z", since, "--")
    new = git("ls-files", "--others", "--exclude-standard", "-z")
    if tracked is None or new is None:
        return None
    names = {name for name in (tracked + new).split("\0") if name}
    return sorted(name for name in names if not name.endswith((".md", "requirements.toml")))


class Run(NamedTuple):
    """The records of one target of ``make`` that are valid for the present code."""

    tests: list[dict[str, Any]]
    why: dict[str, str]
    """Part -> why what passed in it proves nothing; empty: the run counts."""
    failed: list[str]
    """Parts that failed, or were interrupted after a test of them had."""


def read(parts: Sequence[str]) -> Run | None:
    """The records of a target, read by their names; None if there is none."""
    run = Run([], {}, [])
    for part in parts:
        path = RECORDS / f"{part}.json"
        try:
            record = json.loads(path.read_text())
        except (OSError, ValueError):
            run.why[part] = "it cannot be read" if path.exists() else "it was not run"
            continue
        if why := _stale(record):
            run.why[part] = why
            continue
        ended, cut = record.get("exit") == 0, record.get("interrupted")
        if not ended:
            run.why[part] = "it was interrupted" if cut else "the run failed"
        elif record.get("complete") is not True:
            run.why[part] = "only a part was run"
        run.tests.extend(record["tests"])
        if not (ended or cut) or any(test["outcome"] == "failed" for test in record["tests"]):
            run.failed.append(part)
    return run if any((RECORDS / f"{part}.json").exists() for part in parts) else None


def _stale(record: dict[str, Any]) -> str:
    """Why a record is not valid for the code in the checkout; empty if it is valid."""
    head, before = record.get("commit"), record.get("different")
    if not isinstance(head, str) or not isinstance(before, list):
        return "it was not run in a git checkout"
    if record.get("moved"):
        return "the commit changed during the run"
    names = before or changed(head)
    if names is None:
        return f"commit {head[:12]} is not known here"
    if not names:
        return ""
    more = f" and {len(names) - 1} more" if len(names) > 1 else ""
    return f"{names[0]}{more} {'differed from' if before else 'changed since'} commit {head[:12]}"


def run(name: str, command: list[str]) -> int:
    """Run a command and keep its record; returns its exit code, at least 1 if it left no record."""
    path = RECORDS / f"{name}.json"
    path.unlink(missing_ok=True)
    RECORDS.mkdir(parents=True, exist_ok=True)
    draft = RECORDS / f"{name}.draft"
    draft.unlink(missing_ok=True)
    head = commit()
    before = None if head is None else changed(head)
    code, interrupted = _call(command, os.environ | {VARIABLE: str(draft)})
    try:
        document = json.loads(draft.read_text())
    except (OSError, ValueError):
        sys.stderr.write(f"{name}: no record was left\n")
        document, code = {"complete": False, "tests": []}, code or 1
    after = None if head is None else changed(head)
    moved = commit() != head
    unknown = before is None or after is None
    different = None if unknown else sorted({*(before or ()), *(after or ())})
    document |= {"commit": head, "different": different, "moved": moved}
    document |= {"exit": code, "interrupted": interrupted}
    draft.write_text(json.dumps(document, indent=1) + "\n")
    draft.replace(path)
    return code


def _call(command: list[str], environment: dict[str, str]) -> tuple[int, bool]:
    """Run it; returns its exit code and whether it was interrupted, of which it hears as well.

    The code is not 0 then, even if the interrupt came while that was read.
    """
    interrupted = False
    with subprocess.Popen(command, cwd=ROOT, env=environment) as child:

        def end(*_: object) -> None:
            nonlocal interrupted
            interrupted = True
            child.terminate()

        signal.signal(signal.SIGTERM, end)
        while True:
            try:
                code = child.wait()
                return (code or 128 + signal.SIGINT if interrupted else code), interrupted
            except KeyboardInterrupt:
                interrupted = True


def main() -> int:
    """Parse the command line; returns the command's exit code."""
    name, *command = sys.argv[1:] or [""]
    if not re.fullmatch(r"[a-z]+", name) or not command:
        sys.stderr.write("usage: python -m tools.recorded NAME COMMAND ...\n")
        return 2
    return run(name, command)


if __name__ == "__main__":
    sys.exit(main())
