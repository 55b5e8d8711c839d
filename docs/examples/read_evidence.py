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
    for number, line in enumerate((folder / FILE).read_bytes().splitlines(), 1):
        shown, _, row = line.partition(b" ")
        last = digest(last.encode() + b"\n" + row)
        if shown.decode() != last:
            wrong.append(f"line {number} was changed, or one before it")
            break
        rows.append(json.loads(row))
    return rows, last, wrong


def files(folder: Path, rows: list[dict]) -> list[str]:
    """Files that are not as they were."""
    wrong = []
    for row in rows:
        if row["kind"] == "file":
            path = folder / row["name"]
            if not path.is_file() or digest(path.read_bytes()) != row["sha256"]:
                wrong.append(f"{row['name']} was changed")
    return wrong


def phases(rows: list[dict]) -> list[str]:
    """A line for each phase; its changes are counted anew."""
    lines = []
    for row in rows:
        if row["kind"] == "phase":
            waits = [
                one["waited_s"]
                for one in rows
                if one["kind"] == "change"
                and not one["error"]
                and row["begin_s"] is not None
                and row["begin_s"] <= one["answered_s"] < row["end_s"]
            ]
            longest = f", the longest waited {max(waits):.2f} s" if waits else ""
            lines.append(f"{row['phase']}: {row['state']}, {len(waits)} changes{longest}")
    return lines


def main() -> int:
    """Look at the folder that is named."""
    folder, *expected = (Path(sys.argv[1]), *sys.argv[2:])
    rows, last, wrong = read(folder)
    wrong += files(folder, rows)
    wrong += [f"the last hash is {last}" for one in expected if one != last]
    print("\n".join(phases(rows)))
    against = [row["text"] for row in rows if row["kind"] == "reason"]
    against += [row["phase"] for row in rows if row.get("state", "rehearsed") != "rehearsed"]
    print("\n".join(["NO-GO", *against]) if against or rows[-1]["kind"] != "end" else "GO")
    print("\n".join(f"WRONG: {one}" for one in wrong) or f"none was changed; last hash {last}")
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main())
