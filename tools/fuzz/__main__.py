"""``python -m tools.fuzz --frames N``: frames of every API and version at real processes of ours.

A controller in a migration, a broker in ZooKeeper mode and one in KRaft mode get N frames, as many
of each API and version, by chance one of those that offer it: half of them valid with drawn values,
a tenth after a login (`tools.fuzz.frames`). Judged are the answers, the logs, the metrics, the CPU
that a frame takes and the memory (`tools.fuzz.judge`). A run goes on where one of the same product
was interrupted. Exit code 1: something is wrong; the frame and a command that sends it again are
printed. 3: the time was over.
"""

from __future__ import annotations

import argparse
import math
import shutil
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

from bench import record
from bench.lines import print_line
from emulator.servers.process import interrupt_on_terminate
from tools.fuzz import judge
from tools.fuzz.frames import Cell, drawn
from tools.fuzz.run import LANES, Fuzz
from tools.fuzz.servers import Stage
from tools.fuzz.state import State, rate
from tools.mutants import ROOT
from tools.mutation.cover import product_digest

CACHE: Final = ROOT / ".cache" / "fuzz"
WHOLE: Final = 1_000_000
"""Frames of a run that proves something."""
LEAST: Final = 2_000
"""Of each API and version then."""
SWITCH_S: Final = 0.0005
"""A lane whose answer has come does not wait long for one that draws or judges."""


def verdict(stage: Stage, state: State, frames: int) -> str:
    """One line."""
    sizes = [
        f"{one.name} {max(size for _, size in one.readings) / judge.MIB:.0f} MiB"
        f" and {one.longest_ms:.1f} ms of CPU at most"
        for one in stage.servers.values()
        if one.readings
    ]
    memory = "memory judged" if state.judged_frames else "too few frames to judge the memory"
    result = f"{len(state.wrong)} kinds of things are wrong" if state.wrong else "nothing is wrong"
    return (
        f"{state.frames} of {frames} frames, {judge.least(state.done)} or more of each of "
        f"{len(state.done)} APIs and versions, seed {state.seed}, {rate(state):.0f} frames/s; "
        f"{'; '.join(sizes)}; {memory}: {result}"
    )


def main(arguments: Sequence[str] | None = None) -> int:
    """Send frames, print, leave a record; returns the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tools.fuzz", description=__doc__)
    parser.add_argument("--frames", type=int, default=WHOLE, help="of all pieces of a run")
    parser.add_argument("--seconds", type=float, default=math.inf, help="send none after so many")
    parser.add_argument("--seed", type=int, default=None, help="of a new run; else by the clock")
    parser.add_argument("--warm", type=int, default=judge.WARM_FRAMES, help="see judge.of_memory")
    parser.add_argument("--lanes", type=int, default=LANES, help="frames under way at once")
    parser.add_argument("--again", help="one frame: server, API key, version, number")
    parser.add_argument("--hex", help="with --again: these bytes, not those of the seed")
    asked = parser.parse_args(arguments)
    seed = int(time.time()) if asked.seed is None else asked.seed
    of_seed = "" if asked.seed is None else f"-{seed}"
    state = State(CACHE / f"{product_digest(ROOT)[:16]}{of_seed}.json", seed)
    interrupt_on_terminate()
    sys.setswitchinterval(SWITCH_S)
    end_s = time.monotonic() + asked.seconds
    folder = Path(tempfile.mkdtemp(prefix="fuzz-"))
    try:
        with Stage(folder) as stage:
            fuzz = Fuzz(stage, state, print_line, asked.warm, asked.lanes)
            if asked.again:
                return _again(fuzz, asked.again, asked.hex)
            whole = fuzz.run(asked.frames, end_s)
            print_line(verdict(stage, state, asked.frames))
    except KeyboardInterrupt:
        print_line(f"interrupted after {state.frames} frames; the same command goes on there")
        return 130
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    leave_record(state)
    return 1 if state.wrong else 0 if whole else 3


def _again(fuzz: Fuzz, text: str, data: str | None) -> int:
    """Send one frame and print the result."""
    server, key, version, number = text.split()
    fuzz.state.wrong.clear()
    fuzz.stage.sweep()
    cell = Cell(server, int(key), int(version))
    frame = drawn(fuzz.state.seed, cell, int(number), fuzz.stage.known)
    fuzz.one(frame if data is None else replace(frame, data=bytes.fromhex(data)))
    print_line("nothing is wrong" if not fuzz.state.wrong else "it is wrong again")
    return 1 if fuzz.state.wrong else 0


def leave_record(state: State) -> None:
    """Leave a record; it counts with enough frames, and if the memory was judged."""
    outcome = "failed" if state.wrong else "passed"
    proof = record.Proof(f"{state.frames} frames of seed {state.seed}", (), "unit", outcome)
    enough = state.frames >= WHOLE and judge.least(state.done) >= LEAST
    record.leave([proof], complete=enough and bool(state.judged_frames))


if __name__ == "__main__":
    sys.exit(main())
