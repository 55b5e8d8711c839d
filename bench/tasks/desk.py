"""The driver's end of the lines to its tasks."""

from __future__ import annotations

import contextlib
import json
import secrets
import socket
import threading
import time
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, Self

from bench.tasks.side import LINE_MAX

POINT_LEAD_NS: Final = 300_000_000
"""How far ahead a point lies at which all go on: longer than its message takes to each task."""


@dataclass(frozen=True, slots=True)
class TaskFailure:
    """The first failure of a task; ``kind``: the class of the error in the task, or ``lost``."""

    index: int
    host: str
    kind: str
    why: str

    def __str__(self) -> str:
        """One sentence."""
        return f"task {self.index} on {self.host}: {self.why}"


class TaskDesk:
    """Listens for the tasks of one run; see ``bench.tasks.side`` for the messages.

    Args:
        host: an address of the driver that the tasks can reach.
        tasks: how many there are.
        print_line: takes a line of a task, with its number.
    """

    def __init__(self, host: str, tasks: int, print_line: Callable[[str], None]) -> None:
        self.token = secrets.token_hex(16)
        self.failure: TaskFailure | None = None
        self._tasks = tasks
        self._print_line = print_line
        self._lock = threading.Lock()
        self._stops: list[str] = []
        self._there: defaultdict[str, set[int]] = defaultdict(set)
        self._lines: dict[int, socket.socket] = {}
        self._accepted: list[socket.socket] = []
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        self._listening = socket.create_server((host, 0), family=family)
        self.address: tuple[str, int] = self._listening.getsockname()[:2]
        self._threads: list[threading.Thread] = []

    def __enter__(self) -> Self:
        """Begin to listen."""
        self._begin(self._accept)
        return self

    def __exit__(self, *_: object) -> None:
        """End every line; tasks that still run end at once."""
        # Closing alone would not wake the thread that accepts.
        with contextlib.suppress(OSError):
            self._listening.shutdown(socket.SHUT_RDWR)
        self._listening.close()
        self._threads[0].join()
        for line in self._accepted:
            with contextlib.suppress(OSError):
                line.shutdown(socket.SHUT_RDWR)
        for thread in self._threads:
            thread.join()

    def stop(self, how: str) -> None:
        """Ask all tasks to end, ``orderly`` or ``now``; tasks that connect later are asked too."""
        with self._lock:
            self._stops.append(how)
            self._send_all(stop=how)

    def settle(self, within_s: float) -> None:
        """Wait until every task has ended its line, for so long."""
        end_s = time.monotonic() + within_s
        for thread in self._threads[1:]:
            thread.join(max(0.0, end_s - time.monotonic()))

    def _begin(self, work: Callable[..., None], *arguments: object) -> None:
        thread = threading.Thread(target=work, args=arguments, daemon=True)
        self._threads.append(thread)
        thread.start()

    def _accept(self) -> None:
        while True:
            try:
                line, peer = self._listening.accept()
            except OSError:
                return
            self._accepted.append(line)
            self._begin(self._serve, line, str(peer[0]))

    def _serve(self, line: socket.socket, host: str) -> None:
        index: int | None = None
        with line, line.makefile("rb") as messages:
            try:
                hello = json.loads(messages.readline(LINE_MAX))
                if not secrets.compare_digest(str(hello["token"]), self.token):
                    return
                index = int(hello["hello"])
                self._came(index, line)
                while message := messages.readline(LINE_MAX):
                    if self._take_message(index, host, json.loads(message)):
                        return
            except (OSError, ValueError, KeyError, TypeError, RecursionError):
                """Treated as an end of the connection."""
            if index is not None:
                self._failed(TaskFailure(index, host, "lost", "it was lost"))

    def _came(self, index: int, line: socket.socket) -> None:
        with self._lock:
            self._lines[index] = line
            for how in self._stops:
                _send(line, stop=how)

    def _take_message(self, index: int, host: str, message: dict[str, Any]) -> bool:
        """Take a message; returns whether it was the last one of this task."""
        if "say" in message:
            self._print_line(f"task {index}: {message['say']}")
        elif "at" in message:
            with self._lock:
                there = self._there[message["at"]]
                there.add(index)
                if len(there) == self._tasks:
                    self._send_all(go=message["at"], wall_ns=time.time_ns() + POINT_LEAD_NS)
        elif "failed" in message:
            self._failed(TaskFailure(index, host, str(message["kind"]), str(message["failed"])))
        return "failed" in message or "done" in message

    def _failed(self, failure: TaskFailure) -> None:
        with self._lock:
            if self.failure is None:
                self.failure = failure
                self._stops.append("now")
                self._send_all(stop="now")

    def _send_all(self, **message: Any) -> None:
        for line in self._lines.values():
            _send(line, **message)


def _send(line: socket.socket, **message: Any) -> None:
    # A line that is broken is noticed by the thread that reads it.
    with contextlib.suppress(OSError):
        line.sendall(json.dumps(message).encode() + b"\n")
