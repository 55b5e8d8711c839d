"""Reads the evidence of a rehearsal without kraft-bridge: ``read_evidence.py DIR [HASH]``.

Prints the phases and go or no-go; ends with 1 if anything was changed. Format: docs/rehearse.md.
"""

import hashlib
import json
import sys
from pathlib import Path

FILE = "evidence.jsonl"


def digest(data: bytes) -> str:
    """SHA-256 in hexadecimal digits."""
    return hashlib.sha256(data).hexdigest()


def read(folder: Path) -> tuple[list[dict], str, list[str]]:
    """All rows, the last hash, and what is wrong with the chain."""
    rows, wrong = [], []
    last = digest(b"kraft-bridge-evidence/1\n")
    *lines, end = (folder / FILE).read_bytes().split(b"\n")
    for number, line in enumerate(lines, 1):
        shown, _, row = line.partition(b" ")
        last = digest(last.encode() + b"\n" + row)
        if shown != last.encode():
            wrong.append(f"line {number} was changed, or one before it")
            break
        rows.append(json.loads(row))
    return rows, last, wrong + [f"{FILE} is cut"] * bool(end)


def changed(folder: Path, row: dict) -> bool:
    """Whether a file is not as it was."""
    path = folder / row["name"]
    return not path.is_file() or digest(path.read_bytes()) != row["sha256"]


def phases(rows: list[dict]) -> list[str]:
    """A line for each phase; its changes are counted anew."""
    lines = []
    for row in rows:
        if row["kind"] == "phase":
            done = [one for one in rows if one["kind"] == "change" and not one["error"]]
            begin, end = row["begin_s"] or 0.0, row["end_s"] or 0.0
            waits = [one["waited_s"] for one in done if begin <= one["answered_s"] < end]
            longest = f", the longest waited {max(waits):.2f} s" if waits else ""
            lines.append(f"{row['phase']}: {row['state']}, {len(waits)} changes{longest}")
    return lines


def main() -> int:
    """Look at the folder that is named."""
    folder, expected = Path(sys.argv[1]), sys.argv[2:]
    rows, last, wrong = read(folder)
    named = [row for row in rows if row["kind"] == "file"]
    wrong += [f"{row['name']} was changed" for row in named if changed(folder, row)]
    there = {one for one in folder.rglob("*") if one.is_symlink() or not one.is_dir()}
    there -= {folder / FILE, *(folder / row["name"] for row in named)}
    wrong += [f"{one.relative_to(folder)} was put there afterwards" for one in sorted(there)]
    wrong += [f"the last hash is {last}" for one in expected if one != last]
    played = [row["phase"] for row in rows if row["kind"] == "phase"]
    kinds = [row["kind"] for row in rows]
    whole = kinds[:1] == ["begin"] and kinds[-1:] == ["end"] and kinds.count("end") == 1
    if not whole or not played or played != rows[0]["phases"]:
        wrong.append("the rows are not whole")
    against = [row["text"] for row in rows if row["kind"] == "reason"]
    against += [row["phase"] for row in rows if row.get("state", "rehearsed") != "rehearsed"]
    if not wrong and rows[-1]["verdict"] != ("no-go" if against else "go"):
        wrong.append(f"the rows do not say {rows[-1]['verdict']}")
    said = [f"WRONG: {one}" for one in wrong]
    if not wrong:
        said = ["NO-GO" if against else "GO", *against, f"none was changed; last hash {last}"]
    print("\n".join(phases(rows) + said))
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main())
