"""Sends frames to all servers, several at once, and judges what comes of each."""

from __future__ import annotations

import math
import random
import re
import time
import traceback
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from threading import Lock, Thread
from typing import Final

from emulator.servers.process import ProcessError
from tools.fuzz import judge
from tools.fuzz.frames import Cell, Frame, drawn
from tools.fuzz.servers import Stage
from tools.fuzz.state import State, rate
from tools.fuzz.traffic import Traffic
from wire.schema import lookup

SWEEP_FRAMES: Final = 5_000
PRINT_EVERY_S: Final = 30.0
LANES: Final = 6
"""Frames that are under way at once. Two cores are busy then, though some answers come late."""
ALONE_MS: Final = judge.STEP_MS / 2
"""A server that took more CPU meanwhile gets the frame again, alone."""
TRIES: Final = 3
"""How often a frame that takes long is sent, the first time with others."""
DONE: Final = "done"
LATE: Final = "late"
BROKEN: Final = "broken"
INTERRUPTED: Final = "interrupted"
"""Why no more frames are sent."""
WRONG_MAX: Final = 20
"""Kinds of faults after which no more is looked for."""


class Fuzz:
    """Sends frames until there are enough.

    Args:
        stage: its servers run.
        state: where it goes on.
        print_line: takes lines for a person.
        warm_frames: as of `judge.of_memory`.
        lanes: how many frames are under way at once; each lane has connections of its own.
    """

    def __init__(
        self,
        stage: Stage,
        state: State,
        print_line: Callable[[str], None],
        warm_frames: int,
        lanes: int = 1,
    ) -> None:
        self.stage, self.state = stage, state
        self._print_line, self._warm_frames, self._lanes = print_line, warm_frames, lanes
        self._offered: dict[str, list[Cell]] = defaultdict(list)
        """API and version -> with each server that offers it."""
        for one in stage.servers.values():
            for cell in one.cells():
                self._offered[f"{cell.key} {cell.version}"].append(cell)
        for name in self._offered:
            state.done.setdefault(name, 0)
        self._names = self._in_turn()
        self._frames = self._looked = 0
        self._traffic = Traffic()
        self._turn = Lock()
        self._ended = ""
        """Why no more is sent; empty: it is."""
        self._since_s = self._printed_s = time.monotonic()

    def run(self, frames: int, end_s: float = math.inf) -> bool:
        """Send frames in turn to each API and version; returns whether all were sent.

        Args:
            frames: of all runs of this state together.
            end_s: of the monotonic clock, when none is sent any more.
        """
        self._since_s = self._printed_s = time.monotonic()
        others = [
            Thread(target=self._lane, args=(lane, frames, end_s), daemon=True)
            for lane in range(1, self._lanes)
        ]
        try:
            self._look()
            for one in others:
                one.start()
            self._lane(0, frames, end_s)
            for one in others:
                one.join()
            if self._ended in {DONE, LATE}:
                self._look()
        except (OSError, ProcessError) as error:
            self._breaks(None, error)
        finally:
            self._ended = self._ended or INTERRUPTED
            self._keep()
        if self._ended not in {DONE, LATE, BROKEN}:
            raise RuntimeError(self._ended)
        return self._ended == DONE

    def _lane(self, lane: int, frames: int, end_s: float) -> None:
        """Send one frame after the other, beside other lanes."""
        frame: Frame | None = None
        try:
            while (frame := self._next(lane, frames, end_s)) is not None:
                self.one(frame, lane)
        except (OSError, ProcessError) as error:
            self._breaks(frame, error, self._traffic.leave(lane))
        except Exception:  # noqa: BLE001 - in a thread; the first error is kept and reported
            self._ended = self._ended or traceback.format_exc()
        finally:
            self._traffic.leave(lane)

    def _breaks(self, frame: Frame | None, error: Exception, others: Sequence[Frame] = ()) -> None:
        """Put down that no more can be sent; other lanes only see what follows from it."""
        if not self._ended:
            text = self._gone() or str(error)
            self._wrong(frame, f"a server does not serve: {text}", others)
        self._ended = self._ended or BROKEN

    def _gone(self) -> str:
        """The servers that have ended, with their last lines; empty: all run."""
        servers = self.stage.servers.values()
        ended = [one for one in servers if not one.process.alive]
        return "\n".join(f"{one.name} ended:\n{one.process.tail()}" for one in ended)

    def _in_turn(self) -> Iterator[str]:
        """APIs and versions: all of them in a drawn order, then all in another one."""
        done = self.state.done
        while True:
            number = min(done[name] for name in self._offered)
            names = sorted(self._offered)
            random.Random(f"{self.state.seed} {number}").shuffle(names)
            yield from (name for name in names if done[name] == number)

    def _next(self, lane: int, frames: int, end_s: float) -> Frame | None:
        """The next frame, which is under way now; None: no more is sent."""
        with self._turn:
            now_s = time.monotonic()
            if self.state.frames >= frames or len(self.state.wrong) >= WRONG_MAX:
                self._ended = self._ended or DONE
            elif now_s > end_s:
                self._ended = self._ended or LATE
            if self._ended:
                return None
            if self._frames - self._looked >= SWEEP_FRAMES:
                with self._traffic.alone():
                    self._look()
            if now_s > self._printed_s + PRINT_EVERY_S:
                self._printed_s = now_s
                self._count_seconds()
                self._print_line(f"{self.state.frames} frames, {rate(self.state):.0f} a second")
            name = next(self._names)
            number, seed = self.state.done[name], self.state.seed
            # It counts also if it ends a server: the next run goes on after it.
            self.state.done[name] += 1
            self._frames += 1
            # Of two numbers one is valid and one spoilt: a server gets both.
            chance = random.Random(f"{seed} {name} {number // 2}")
            frame = drawn(seed, chance.choice(self._offered[name]), number, self.stage.known)
            self._traffic.enter(lane, frame)
            return frame

    def one(self, frame: Frame, lane: int = 0) -> None:
        """Send a frame, and judge what comes of it.

        What the server did meanwhile for others counts too. If that is much, the frame is sent
        again while nothing else is under way.

        Raises:
            OSError, ProcessError: a server does not serve any more.
        """
        server = self.stage.servers[frame.cell.server]
        took_ms = [self._sent(frame, lane)]
        others = self._traffic.leave(lane)
        self._logs(frame, lane, others)
        enough_ms = min(judge.STEP_MS, max(ALONE_MS, server.longest_ms))
        while took_ms[-1] > enough_ms and len(took_ms) < TRIES:
            with self._traffic.alone():
                took_ms.append(self._sent(frame, lane, alone=True))
                self._logs(frame, lane)
        server.longest_ms = max(server.longest_ms, min(took_ms))
        self._wrong(frame, judge.of_steps(took_ms))

    def _sent(self, frame: Frame, lane: int, *, alone: bool = False) -> float:
        """Send a frame, judge the answers; returns the CPU of its server meanwhile, in ms."""
        server = self.stage.servers[frame.cell.server]
        door = server.door(frame.door, frame.user, lane)
        expected = 0 if frame.cut else len(judge.requests_of(frame))
        began_ns = server.cpu_ns()
        answers, closed = door.send(frame, expected, server.rests if alone else None)
        took_ms = (server.cpu_ns() - began_ns) / 1e6
        if gone := self._gone():
            raise ProcessError(gone)
        self._wrong(frame, judge.of_answers(frame, answers, closed=closed))
        return took_ms

    def _logs(self, frame: Frame, lane: int, others: Sequence[Frame] = ()) -> None:
        """Judge new lines of logs; of a frame and others it is found out which one wrote them."""
        for server in self.stage.servers.values():
            if not (line := judge.of_log(server.new_lines())):
                continue
            text = f"log of {server.name}: {line}"
            if not others:
                self._wrong(frame, text)
                continue
            with self._traffic.alone():
                for one in (frame, *others):
                    self._sent(one, lane)
                    if again := judge.of_log(server.new_lines()):
                        self._wrong(one, f"log of {server.name}: {again}")
                        break
                else:
                    self._wrong(frame, text, others)

    def _look(self) -> None:
        """Clean up, and judge what shows only over many frames."""
        self._looked = self._frames
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
        self._keep()

    def _keep(self) -> None:
        self._count_seconds()
        self.state.keep()

    def _count_seconds(self) -> None:
        now_s = time.monotonic()
        self.state.seconds += now_s - self._since_s
        self._since_s = now_s

    def _wrong(self, frame: Frame | None, text: str, others: Sequence[Frame] = ()) -> None:
        """Put down what is wrong, the first of each kind with its frame.

        Args:
            frame: that did it; None: any.
            text: what is wrong; empty: nothing.
            others: that were under way with it: one of them may have done it.
        """
        api = "" if frame is None else f"{frame.cell} {frame.spoilt and 'spoilt '}"
        kind = api + re.sub(r"[0-9]+", "#", text)[:60]
        if not text or kind in self.state.wrong or self._ended == INTERRUPTED:
            return
        frames = [] if frame is None else [frame, *others]
        what = "\n  or this one:\n".join(described(one) + self._kept(one) for one in frames)
        self.state.wrong[kind] = f"{text}\n{what}" if what else text
        self._print_line(f"WRONG: {self.state.wrong[kind]}")

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
