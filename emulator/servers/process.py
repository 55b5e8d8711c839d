"""One child process: started in a process group of its own, watched, and never left behind.

Every child still alive when this process ends is killed, also after an exception or Ctrl-C (which,
as the child has its own group, reaches only us, so that we decide the order of the end).
"""

import atexit
import contextlib
import functools
import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from types import FrameType
from typing import Final, Self

from emulator.servers.waiting import PATIENCE_S

ORDERLY: Final = frozenset({0, 128 + signal.SIGTERM, -signal.SIGTERM})
"""Exit codes after SIGTERM: ours, and Java's."""
_POLL_S = 0.02
_AGAIN_S = 5.0
_TAIL_LINES = 12
_PORT_TAKEN = ("Address already in use", "BindException")

# The watchdog gets the process group of each child, and a line when the child was reaped. When its
# standard input ends, this process has ended, even by SIGKILL; then it kills the groups left.
_WATCHDOG = """
while read -r sign group; do
  if [ "$sign" = + ]; then groups="$groups $group"; continue; fi
  left=
  for each in $groups; do [ "$each" = "$group" ] || left="$left $each"; done
  groups=$left
done
for each in $groups; do kill -s KILL -- "-$each" 2>/dev/null; done
"""

_alive: set["ServerProcess"] = set()
_lock = threading.Lock()


class _Interrupts:
    """What a signal does that asks for the end: a KeyboardInterrupt in the main thread.

    Those that follow within 5 s, or while this process ends, change nothing: whoever types Ctrl-C
    twice must not cut off what ends the children.
    """

    def __init__(self) -> None:
        self.ending = False
        self.numbers: set[signal.Signals] = set()
        self._held = self._waits = False
        self._raised = -_AGAIN_S

    def take(self, _number: int = 0, _frame: FrameType | None = None) -> None:
        """Be the handler of a signal."""
        now = time.monotonic()
        if self._held:
            self._waits = True
        elif not self.ending and now - self._raised >= _AGAIN_S:
            self._raised = now
            raise KeyboardInterrupt

    @contextlib.contextmanager
    def held(self) -> Iterator[None]:
        """Delay signals in a ``with`` block, so that a child which starts in it is registered."""
        if threading.current_thread() is not threading.main_thread():
            yield  # signals are handled in the main thread alone
            return
        self._held = True
        try:
            yield
        finally:
            self._held = False
            if self._waits:
                self._waits = False
                self.take()


_interrupts = _Interrupts()


@functools.cache
def _watchdog(_parent: int) -> int:
    """The end of the watchdog's pipe that is written to; one for each process, also for a fork.

    A file object would be reported as left open when the interpreter ends: it stays open by design.
    """
    reading, writing = os.pipe()
    try:
        child = subprocess.Popen(
            ["/bin/sh", "-c", _WATCHDOG],
            stdin=reading,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
    finally:
        os.close(reading)
    child.returncode = 0  # it outlives us by design: no warning that it still runs
    return writing


def _notify_watchdog(sign: str, group: int) -> None:
    with contextlib.suppress(BrokenPipeError):
        os.write(_watchdog(os.getpid()), f"{sign} {group}\n".encode())


class ProcessError(RuntimeError):
    """A child process did not reach the expected state; the message ends with its last lines."""


class PortTakenError(ProcessError):
    """A child ended because a port that was free before is taken: choose others and start again."""


class ServerProcess:
    """A program with its output file; it may be started again after it ended.

    Args:
        name: for messages and file names.
        folder: where its output goes, to ``<name>.out``; made if absent.
        log: file with the lines to wait for, if that is not its output. A log is kept over
            starts; an output that is not the log is that of the last start.
    """

    def __init__(self, name: str, folder: Path, log: Path | None = None) -> None:
        self.name = name
        self.folder = folder
        self.out = folder / f"{name}.out"
        self.log = log or self.out
        self._child: subprocess.Popen[bytes] | None = None
        self._since = 0

    def launch(
        self,
        command: Sequence[str | os.PathLike[str]],
        environment: Mapping[str, str | None] | None = None,
    ) -> Self:
        """Start it; does not wait for anything.

        Args:
            command: program and arguments.
            environment: variables to add to ours; None: it is not to have that one.

        Raises:
            ProcessError: it is running already.
            OSError: the program cannot be started.
        """
        if self.alive:
            raise ProcessError(f"{self.name} is running already (pid {self.pid})")
        variables = {**os.environ, **(environment or {})}
        self.folder.mkdir(parents=True, exist_ok=True)
        self._since = self.log.stat().st_size if self.log.exists() else 0
        if self.log != self.out:
            self.out.unlink(missing_ok=True)
        with _interrupts.held(), self.out.open("ab") as out, _lock:
            self._child = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=subprocess.STDOUT,
                env={name: value for name, value in variables.items() if value is not None},
                start_new_session=True,
            )
            _alive.add(self)
            _notify_watchdog("+", self._child.pid)
        return self

    @property
    def pid(self) -> int | None:
        """Process id of the last start, or None before it."""
        return self._child.pid if self._child else None

    @property
    def alive(self) -> bool:
        """Whether it was started and has not ended."""
        return self._child is not None and self._child.poll() is None

    @property
    def exit_code(self) -> int | None:
        """Its exit code, negative for a signal; None while it runs."""
        return self._child.poll() if self._child else None

    def lines(self) -> list[str]:
        """Whole log lines of this start so far."""
        if not self.log.exists():
            return []
        with self.log.open("rb") as file:
            file.seek(self._since)
            text = file.read().decode(errors="replace")
        return text[: text.rfind("\n") + 1].splitlines()

    def tail(self) -> str:
        """The last lines of its output and log, for a message."""
        kept: list[str] = []
        for path in dict.fromkeys((self.log, self.out)):
            if path.exists():
                kept += path.read_text(errors="replace").splitlines()[-_TAIL_LINES:]
        return "\n".join(kept)

    def wait_until(
        self, what: str, ready: Callable[[], bool], timeout_s: float = PATIENCE_S
    ) -> None:
        """Wait until ``ready`` answers true.

        Args:
            what: ends the sentence "... while waiting for".
            ready: called every 20 ms.
            timeout_s: seconds.

        Raises:
            PortTakenError: it ended as its port is taken.
            ProcessError: it ended, or the time is over.
        """
        end = time.monotonic() + timeout_s
        while not ready():
            if not self.alive:
                printed = "\n".join(self.lines())
                if self.log != self.out:
                    printed += self.out.read_text(errors="replace")
                if any(sign in printed for sign in _PORT_TAKEN):
                    raise PortTakenError(
                        f"another program took a port of {self.name}: run it again"
                    )
                raise ProcessError(
                    f"{self.name} ended with {self.exit_code} while waiting for {what}:\n"
                    f"{self.tail()}"
                )
            if time.monotonic() > end:
                raise ProcessError(f"{self.name}: no {what} within {timeout_s:g} s:\n{self.tail()}")
            time.sleep(_POLL_S)

    def wait_line(self, text: str, timeout_s: float = PATIENCE_S) -> str:
        """Wait for a log line of this start that contains ``text``; returns that line.

        Raises:
            ProcessError: as `wait_until`.
        """
        found: list[str] = []

        def seen() -> bool:
            found.extend(line for line in self.lines() if text in line)
            return bool(found)

        self.wait_until(f"log line {text!r}", seen, timeout_s)
        return found[0]

    def wait(self) -> int | None:
        """Wait until it ends by itself. Returns the exit code."""
        return self._child.wait() if self._child else None

    def signal(self, number: signal.Signals) -> None:
        """Send a signal to its process group; nothing happens if it has ended."""
        if self._child is not None and self._child.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._child.pid, number)

    def pause(self) -> None:
        """SIGSTOP: it keeps its sockets and does nothing, as in a long garbage collection.

        Returns when every thread has stopped: one that runs on might answer what is sent next.
        """
        self.signal(signal.SIGSTOP)
        if self.alive:
            self.wait_until("every thread to stop", self._stopped, PATIENCE_S)

    def _stopped(self) -> bool:
        states = set()
        for stat in Path(f"/proc/{self.pid}/task").glob("*/stat"):
            with contextlib.suppress(FileNotFoundError, ProcessLookupError):
                states.add(stat.read_text().rpartition(")")[2].split()[0])
        return states <= set("TtZX")

    def resume(self) -> None:
        """SIGCONT."""
        self.signal(signal.SIGCONT)

    @contextlib.contextmanager
    def paused(self) -> Iterator[Self]:
        """SIGSTOP for the length of a ``with`` block."""
        try:
            self.pause()
            yield self
        finally:
            self.resume()

    def stop(self, timeout_s: float = 30) -> int | None:
        """SIGTERM and wait; SIGKILL when the time is over. Returns the exit code."""
        self.resume()
        self.signal(signal.SIGTERM)
        return self._reap(timeout_s)

    def kill(self) -> int | None:
        """SIGKILL and wait. Returns the exit code."""
        self.signal(signal.SIGKILL)
        return self._reap(PATIENCE_S)

    def _reap(self, timeout_s: float) -> int | None:
        if self._child is None:
            return None
        try:
            self._child.wait(timeout_s)
        except subprocess.TimeoutExpired:
            self.signal(signal.SIGKILL)
            self._child.wait(PATIENCE_S)
        with _lock:
            if self in _alive:
                _alive.discard(self)
                _notify_watchdog("-", self._child.pid)
        return self._child.returncode


def running() -> list[ServerProcess]:
    """The children that are alive now."""
    with _lock:
        return [process for process in _alive if process.alive]


def kill_all() -> None:
    """Kill every child that is left, in any order: for the very end."""
    with _lock:
        left = list(_alive)
    for process in left:
        process.kill()


atexit.register(kill_all)


def interrupt_on_terminate(*more: signal.Signals) -> None:
    """Make SIGTERM and SIGHUP end this process as Ctrl-C does, so that children are cleaned up.

    Without it Python dies at once and leaves its children. A signal that is ignored, as by
    ``nohup``, stays so. Call it in the main thread.

    Args:
        more: SIGINT, where Ctrl-C must not be cut off either; asyncio then leaves it alone.
    """
    for number in (signal.SIGTERM, signal.SIGHUP, *more):
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, _interrupts.take)
            _interrupts.numbers.add(number)


def end_undisturbed() -> None:
    """Ignore, from now on, the signals that `interrupt_on_terminate` was given: this is the end."""
    _interrupts.ending = True
    for number in _interrupts.numbers:
        # Our handler would not last: Python takes those back before it ends.
        signal.signal(number, signal.SIG_IGN)
