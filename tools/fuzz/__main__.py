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
import json
import math
import random
import re
import shutil
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

from bench import record
from bench.rig.process import ProcessError, interrupt_on_terminate
from tools.fuzz import judge
from tools.fuzz.frames import Cell, Frame, drawn
from tools.fuzz.servers import Stage
from tools.mutants import ROOT
from tools.mutation.cover import product_digest
from wire.schema import lookup

CACHE: Final = ROOT / ".cache" / "fuzz"
WHOLE: Final = 1_000_000
"""Frames of a run that proves something."""
LEAST: Final = 2_000
"""Of each API and version then."""
SWEEP_FRAMES: Final = 5_000
SAY_S: Final = 30.0
TRIES: Final = 3
"""How often a frame that takes long is sent."""
WRONG_MAX: Final = 20
"""Kinds of faults after which no more is looked for."""


class State:
    """The seed, how many frames each API and version has got, and what was wrong.

    Args:
        path: of a file, written now and then, where a run goes on.
        seed: of a run that begins anew.
    """

    def __init__(self, path: Path, seed: int) -> None:
        self._path = path
        self.seed = seed
        self.done: dict[str, int] = {}
        self.wrong: dict[str, str] = {}
        """By kind, which one text stands for."""
        self.seconds = 0.0
        self.judged_frames = 0
        """Those after which the memory of warm processes was judged."""
        try:
            kept = json.loads(path.read_text())
        except (OSError, ValueError):
            return
        for name in _KEPT:
            setattr(self, name, kept[name])

    @property
    def frames(self) -> int:
        """Of all APIs and versions."""
        return sum(self.done.values())

    def keep(self) -> None:
        """Write the file."""
        self._path.parent.mkdir(parents=True, exist_ok=True)
        draft = self._path.with_suffix(".draft")
        draft.write_text(json.dumps({name: getattr(self, name) for name in _KEPT}, indent=1))
        draft.replace(self._path)


_KEPT: Final = ("seed", "done", "wrong", "seconds", "judged_frames")


class Fuzz:
    """Sends frames until there are enough.

    Args:
        stage: its servers run.
        state: where it goes on.
        say: takes lines for a person.
        warm_frames: as of `judge.of_memory`.
    """

    def __init__(
        self, stage: Stage, state: State, say: Callable[[str], None], warm_frames: int
    ) -> None:
        self.stage, self.state = stage, state
        self._say, self._warm_frames = say, warm_frames
        self._offered: dict[str, list[Cell]] = defaultdict(list)
        """API and version -> with each server that offers it."""
        for one in stage.servers.values():
            for cell in one.cells():
                self._offered[f"{cell.key} {cell.version}"].append(cell)
        for name in self._offered:
            state.done.setdefault(name, 0)
        self._frames = 0

    def run(self, frames: int, end_s: float = math.inf) -> bool:
        """Send frames in turn to each API and version; returns whether all were sent.

        Args:
            frames: of all runs of this state together.
            end_s: of the monotonic clock, when none is sent any more.
        """
        said_s = time.monotonic()
        frame: Frame | None = None
        try:
            self._look()
            while self.state.frames < frames and len(self.state.wrong) < WRONG_MAX:
                done, seed = self.state.done, self.state.seed
                number = min(done[name] for name in self._offered)
                names = sorted(self._offered)
                random.Random(f"{seed} {number}").shuffle(names)
                left = [name for name in names if done[name] == number]
                for name in left[: frames - self.state.frames]:
                    began_s = time.monotonic()
                    if began_s > end_s:
                        return False
                    # It counts also if it ends a server: the next run goes on after it.
                    done[name] += 1
                    self._frames += 1
                    # Of two numbers one is valid and one spoilt: a server gets both.
                    chance = random.Random(f"{seed} {name} {number // 2}")
                    cell = chance.choice(self._offered[name])
                    frame = drawn(seed, cell, number, self.stage.known)
                    self.one(frame)
                    if self._frames % SWEEP_FRAMES == 0:
                        self._look()
                    self.state.seconds += time.monotonic() - began_s
                    if began_s > said_s + SAY_S:
                        said_s = began_s
                        self._say(f"{self.state.frames} frames, {rate(self.state):.0f} a second")
            self._look()
        except (OSError, ProcessError) as error:
            self._wrong(frame, f"a server does not serve: {error}")
            return False
        finally:
            self.state.keep()
        return True

    def one(self, frame: Frame) -> None:
        """Send a frame, and judge what comes of it.

        Raises:
            OSError, ProcessError: a server does not serve any more.
        """
        server = self.stage.servers[frame.cell.server]
        door = server.door(frame.door, frame.user)
        expected = 0 if frame.cut else len(judge.requests_of(frame))
        took_ms: list[float] = []
        while not took_ms or (took_ms[-1] > judge.STEP_MS and len(took_ms) < TRIES):
            began_ns = server.cpu_ns()
            answers, closed = door.send(frame, expected)
            took_ms.append((server.cpu_ns() - began_ns) / 1e6)
            self._wrong(frame, judge.of_answers(frame, answers, closed=closed))
        server.longest_ms = max(server.longest_ms, min(took_ms))
        self._wrong(frame, judge.of_steps(took_ms))
        for one in self.stage.servers.values():
            if line := judge.of_log(one.new_lines()):
                self._wrong(frame, f"log of {one.name}: {line}")
            if not one.process.alive:
                raise ProcessError(f"{one.name} ended:\n{one.process.tail()}")

    def _look(self) -> None:
        """Clean up, and judge what shows only over many frames."""
        self.stage.sweep()
        for one in self.stage.servers.values():
            one.look(self._frames)
            for found in (
                judge.of_metrics(one.page("/metrics")),
                judge.of_memory(one.readings, self._warm_frames),
            ):
                self._wrong(None, f"{one.name}: {found}" if found else "")
        if self._frames > self._warm_frames:
            self.state.judged_frames = self.state.frames
        self.state.keep()

    def _wrong(self, frame: Frame | None, text: str) -> None:
        """Put down what is wrong, the first of each kind with its frame."""
        api = "" if frame is None else f"{frame.cell} {frame.spoilt and 'spoilt '}"
        kind = api + re.sub(r"[0-9]+", "#", text)[:60]
        if not text or kind in self.state.wrong:
            return
        what = text if frame is None else f"{text}\n{described(frame)}{self._kept(frame)}"
        self.state.wrong[kind] = what
        self._say(f"WRONG: {what}")

    def _kept(self, frame: Frame) -> str:
        """The command that sends a frame again."""
        seed, door = self.state.seed, f"{frame.door} {frame.user}"
        return (
            f"\n  again: python -m tools.fuzz --seed {seed} --again '{frame.cell} {frame.number}'"
            f"\n  the very bytes ({door}): --hex {frame.data.hex()}"
        )


def described(frame: Frame) -> str:
    """What a frame is, for a person."""
    kind = lookup("request", frame.cell.key)
    name = kind.__name__ if kind is not None else "?"
    how = frame.spoilt or "valid"
    return f"  {name} v{frame.cell.version} to {frame.cell.server}, {frame.door}, {how}"


def rate(state: State) -> float:
    """Frames a second."""
    return state.frames / max(state.seconds, 1e-9)


def verdict(stage: Stage, state: State, frames: int) -> str:
    """One line."""
    sizes = [
        f"{one.name} {max(size for _, size in one.readings) / judge.MIB:.0f} MiB"
        f" and {one.longest_ms:.1f} ms of CPU at most"
        for one in stage.servers.values()
        if one.readings
    ]
    memory = "memory judged" if state.judged_frames else "too few frames to judge the memory"
    said = f"{len(state.wrong)} kinds of things are wrong" if state.wrong else "nothing is wrong"
    return (
        f"{state.frames} of {frames} frames, {judge.least(state.done)} or more of each of "
        f"{len(state.done)} APIs and versions, seed {state.seed}, {rate(state):.0f} frames/s; "
        f"{'; '.join(sizes)}; {memory}: {said}"
    )


def main(arguments: Sequence[str] | None = None) -> int:
    """Send frames, print, leave a record; returns the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tools.fuzz", description=__doc__)
    parser.add_argument("--frames", type=int, default=WHOLE, help="of all pieces of a run")
    parser.add_argument("--seconds", type=float, default=math.inf, help="send none after so many")
    parser.add_argument("--seed", type=int, default=None, help="of a new run; else by the clock")
    parser.add_argument("--warm", type=int, default=judge.WARM_FRAMES, help="see judge.of_memory")
    parser.add_argument("--again", help="one frame: server, API key, version, number")
    parser.add_argument("--hex", help="with --again: these bytes, not those of the seed")
    asked = parser.parse_args(arguments)
    seed = int(time.time()) if asked.seed is None else asked.seed
    of_seed = "" if asked.seed is None else f"-{seed}"
    state = State(CACHE / f"{product_digest(ROOT)[:16]}{of_seed}.json", seed)
    interrupt_on_terminate()
    end_s = time.monotonic() + asked.seconds
    folder = Path(tempfile.mkdtemp(prefix="fuzz-"))
    try:
        with Stage(folder) as stage:
            fuzz = Fuzz(stage, state, _say, asked.warm)
            if asked.again:
                return _again(fuzz, asked.again, asked.hex)
            whole = fuzz.run(asked.frames, end_s)
            _say(verdict(stage, state, asked.frames))
    except KeyboardInterrupt:
        _say(f"interrupted after {state.frames} frames; the same command goes on there")
        return 130
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    leave_record(state)
    return 1 if state.wrong else 0 if whole else 3


def _again(fuzz: Fuzz, text: str, data: str | None) -> int:
    """Send one frame and say what comes."""
    server, key, version, number = text.split()
    fuzz.state.wrong.clear()
    fuzz.stage.sweep()
    cell = Cell(server, int(key), int(version))
    frame = drawn(fuzz.state.seed, cell, int(number), fuzz.stage.known)
    fuzz.one(frame if data is None else replace(frame, data=bytes.fromhex(data)))
    _say("nothing is wrong" if not fuzz.state.wrong else "it is wrong again")
    return 1 if fuzz.state.wrong else 0


def leave_record(state: State) -> None:
    """Leave a record; it counts with enough frames, and if the memory was judged."""
    outcome = "failed" if state.wrong else "passed"
    proof = record.Proof(f"{state.frames} frames of seed {state.seed}", (), "unit", outcome)
    enough = state.frames >= WHOLE and judge.least(state.done) >= LEAST
    record.leave([proof], complete=enough and bool(state.judged_frames))


def _say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
