"""The way of one request through a node, counted: ``python -m tools.way KIND [--files]``.

The node is in dual write, in this process, on a model of ZooKeeper. Of all its steps from the
request to the last answer of ZooKeeper and of a broker these are counted:

* calls of Python functions of ``emulator`` and ``wire``, without generated code,
* functions and files: how many different ones are called,
* moves: how often a call is in another file than the call before; of these, in another package.

``--files`` prints the calls of each file. Nothing is timed: equal code gives equal numbers.
"""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from types import CodeType, FrameType
from typing import Final

from tests.kit.dual_writing import KINDS, Stage

ROOT: Final = Path(__file__).resolve().parents[1]
COUNTED: Final = tuple(f"{ROOT / each}/" for each in ("emulator", "wire"))


def calls_of(kind: str) -> list[CodeType]:
    """What is called, in order, by a request of a kind."""
    stage = Stage(zookeeper_mode=kind == "control-request")
    calls: list[CodeType] = []

    def take(frame: FrameType, event: str, _what: object) -> None:
        if event == "call" and frame.f_code.co_filename.startswith(COUNTED):
            calls.append(frame.f_code)

    # Codecs are generated, and caches filled, by the first one.
    for name in ("first", "second"):
        calls.clear()
        stage.node.profile = take
        assert not KINDS[kind](stage, name)
        stage.node.profile = None
        stage.joined.wait(600)
    return calls


def counted(calls: list[CodeType]) -> dict[str, int]:
    """How many calls, functions, files, moves, and moves between packages these are."""
    files = [code.co_filename for code in calls]
    rooms = [Path(each).relative_to(ROOT).parts[:2] for each in files]
    return {
        "calls": len(calls),
        "functions": len(set(calls)),
        "files": len(set(files)),
        "moves": _changes(files),
        "between packages": _changes(rooms),
    }


def _changes(row: Sequence[object]) -> int:
    return sum(one != other for one, other in zip([None, *row], row, strict=False))


def main() -> None:
    """Print it."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("kind", choices=KINDS)
    parser.add_argument("--files", action="store_true", help="print the calls of each file")
    asked = parser.parse_args()
    calls = calls_of(asked.kind)
    print(f"{asked.kind}: {', '.join(f'{n} {name}' for name, n in counted(calls).items())}")
    if asked.files:
        for name, times in Counter(code.co_filename for code in calls).most_common():
            print(f"{times:5} {Path(name).relative_to(ROOT)}")


if __name__ == "__main__":
    main()
