"""The steps of a migration, each one command in the container ``operator``.

A step that was cut off is asked for again: it does what is left of it.
"""

from __future__ import annotations

import asyncio
import fcntl
import json
import shutil
import subprocess
import sys
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from typing import Any, Final, TypeVar

from bench.compose import board, control, plan, spark
from bench.compose.plan import BROKERS, CONTROLLERS, ServerMode, broker_name, controller_name
from bench.lines import print_line
from bench.load import cluster_api as api
from emulator.servers.waiting import wait_for

_STARTED_S: Final = 180.0
_OURS: Final = "kraft-bridge"
_FILE: Final = "docker compose -f compose/migration.yaml"
T = TypeVar("T")


class StepError(RuntimeError):
    """A step cannot be done now, or failed; the message has the reason."""


def ready() -> None:
    """Wait until every broker answers and every replica is in sync."""
    _in_sync()
    print_line(f"{len(BROKERS)} brokers answer, every replica is in sync")


def migrate() -> None:
    """Start the controllers, restart the brokers in migration mode, wait for dual write.

    Raises:
        StepError: the migration is finalised; a broker is in KRaft mode.
    """
    _not_finalised()
    if rolled := _brokers_that_are(ServerMode.KRAFT):
        raise StepError(f"brokers {rolled} are in KRaft mode already: roll the others, or go back")
    for number in CONTROLLERS:
        _restart(controller_name(number), ServerMode.MIGRATING)
    _until("answer of every controller", lambda: all(map(_status, CONTROLLERS)))
    _brokers(ServerMode.MIGRATING)
    _wait("dual-write-begun")


def roll() -> None:
    """Restart the brokers in KRaft mode, one by one.

    Raises:
        StepError: a broker is in ZooKeeper mode; dual write is not reached.
    """
    if left := _brokers_that_are(ServerMode.ZOOKEEPER):
        raise StepError(f"brokers {left} are in ZooKeeper mode: migrate first")
    _wait("dual-write-begun")
    _brokers(ServerMode.KRAFT)
    _wait("all-brokers-in-kraft")


def finalise() -> None:
    """Restart the controllers without the flag, the leading one last.

    Raises:
        StepError: a broker is not in KRaft mode.
    """
    if left := [each for each in BROKERS if each not in _brokers_that_are(ServerMode.KRAFT)]:
        raise StepError(f"brokers {left} are not in KRaft mode: roll first")
    for _ in CONTROLLERS:
        flagged = [each for each in CONTROLLERS if _is(each, ServerMode.MIGRATING)]
        if not flagged:
            break
        leads = _until("controller that leads", _leader)
        number = next((each for each in flagged if each != leads), flagged[0])
        _restart(controller_name(number), ServerMode.KRAFT)
        _caught_up(number)
    _wait("final")


def back() -> None:
    """Go back to ZooKeeper mode from every step before the end, and clear what is left.

    Raises:
        StepError: the migration is finalised, or none has begun; a command failed.
    """
    _not_finalised()
    folders = [control.folder(controller_name(each)) for each in CONTROLLERS]
    begun = any(
        control.wanted_mode(controller_name(each)) is not ServerMode.STOPPED for each in CONTROLLERS
    )
    begun |= any((each / "meta.properties").exists() for each in folders)
    if not begun and _brokers_that_are(ServerMode.ZOOKEEPER) == list(BROKERS):
        raise StepError("the cluster is in ZooKeeper mode: there is nothing to go back from")
    _brokers(ServerMode.MIGRATING, of=ServerMode.KRAFT)
    if _leader() is not None:
        _until("ZooKeeper that has every change", _drained)
    files = [control.properties_file(controller_name(each)) for each in CONTROLLERS]
    known = [str(each) for each in files if each.exists()]  # not of one that was never started
    # In other containers the command may not end them.
    for number in sorted(CONTROLLERS, key=lambda each: each == _leader()):
        _restart(controller_name(number), ServerMode.STOPPED)
    _run(_OURS, "rollback", "--yes", "--stopped", "--config", *known)
    _brokers(ServerMode.ZOOKEEPER)
    _run(_OURS, "rollback", "--yes", "--clear", "--stopped", "--config", *known)
    # The folders go last: as long as one is there, this step may be asked for again.
    shutil.rmtree(control.trace(), ignore_errors=True)
    control.write("attempt", control.attempt() + 1)
    for folder in folders:
        shutil.rmtree(folder, ignore_errors=True)


def status() -> None:
    """Say what the controller that leads says.

    Raises:
        StepError: none leads, and there should be one.
    """
    if (leader := _leader()) is not None:
        _run(_OURS, "status", "--url", plan.url(leader))
    elif all(
        control.wanted_mode(controller_name(each)) is ServerMode.STOPPED for each in CONTROLLERS
    ):
        print_line("no controller leads: the cluster is in ZooKeeper mode")
    else:
        raise StepError(f"no controller leads: '{_FILE} logs {controller_name(3000)}' says more")


def load() -> None:
    """Ask for 20 changes a second for 30 s, traced beside the controllers."""
    bootstrap = ",".join(map(plan.bootstrap, BROKERS))
    words = ["--bootstrap-server", bootstrap, "--rate", "20", "--duration", "30"]
    trace = ["--trace", str(control.trace()), "--run-id", f"attempt-{control.attempt()}"]
    _run(_OURS, "load", *words, *trace)


STEPS: Final = {
    each.__name__: each
    for each in (ready, migrate, roll, load, finalise, back, status, board.board, spark.workers)
}


_ONE_AT_A_TIME: Final = frozenset(
    {migrate.__name__, roll.__name__, finalise.__name__, back.__name__}
)
INTERRUPTED: Final = 130
"""Exit code after Ctrl-C."""


def run(name: str) -> int:
    """Do one step; returns the exit code."""
    try:
        with _alone(name) if name in _ONE_AT_A_TIME else nullcontext():
            STEPS[name]()
    except (StepError, board.BoardError, TimeoutError) as error:
        sys.stderr.write(f"{name}: {error}\n")
        return 1
    except KeyboardInterrupt:
        sys.stderr.write(f"{name}: interrupted; the same command does what is left\n")
        return INTERRUPTED
    return 0


@contextmanager
def _alone(name: str) -> Iterator[None]:
    """Steps that restart servers follow each other, also where Ctrl-C did not end one."""
    home = control.volume() / "control"
    home.mkdir(parents=True, exist_ok=True)
    with (home / "step").open("a+") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            file.seek(0)
            raise StepError(f"{file.read().strip()} is under way: wait for its end") from None
        file.truncate(0)
        file.write(f"{name}\n")
        file.flush()
        yield


def _run(*words: str) -> None:
    print_line("$ " + " ".join(words))
    code = subprocess.run(words, check=False).returncode
    if code != 0:
        raise StepError(f"{' '.join(words[:2])} ended with {code}")


def _is(number: int, wanted: ServerMode) -> bool:
    return control.started_mode(controller_name(number)) is wanted


def _restart(name: str, wanted: ServerMode) -> None:
    if control.wanted_mode(name) is not wanted:
        print_line(f"{name}: {control.wanted_mode(name)} -> {wanted}")
        control.request_mode(name, wanted)
    _until(f"start of {name}", lambda: control.started_mode(name) is wanted)


def _brokers(wanted: ServerMode, of: ServerMode | None = None) -> None:
    for number in BROKERS:
        now = control.wanted_mode(broker_name(number))
        if now is wanted or (of is not None and now is not of):
            continue
        _in_sync()  # a step that was cut off may have left one that catches up
        _restart(broker_name(number), wanted)
        _in_sync()


def _in_sync() -> None:
    silent: list[int] = []

    def whole() -> bool:
        silent.clear()
        seen = []
        for number in BROKERS:
            try:
                seen.append(asyncio.run(api.shape(plan.bootstrap(number))))
            except (OSError, EOFError):
                silent.append(number)
        return not silent and all(
            len(one.brokers) == len(BROKERS) and not one.short() for one in seen
        )

    try:
        _until("replicas in sync at every broker", whole)
    except TimeoutError as late:
        if not silent:
            raise
        logs = " ".join(map(broker_name, silent))
        raise StepError(
            f"brokers {silent} do not answer after {_STARTED_S:g} s: {_FILE} logs {logs}"
        ) from late


def _until(what: str, ask: Callable[[], T]) -> T:
    """Wait, but not for a server that has ended by itself.

    Raises:
        StepError: one has.
        TimeoutError: 180 s were too short.
    """

    def answer() -> T:
        for name in (*map(broker_name, BROKERS), *map(controller_name, CONTROLLERS)):
            if why := control.ended(name):
                raise StepError(
                    f"{name} has ended ({why}): '{_FILE} logs {name}' says more; after "
                    f"'{_FILE} up -d', which starts it again, repeat the step"
                )
        return ask()

    return wait_for(what, answer, _STARTED_S)


def _brokers_that_are(wanted: ServerMode) -> list[int]:
    return [each for each in BROKERS if control.wanted_mode(broker_name(each)) is wanted]


def _status(number: int) -> dict[str, Any] | None:
    try:
        with urllib.request.urlopen(f"{plan.url(number)}/status", timeout=2) as answer:  # noqa: S310 - http among containers
            return dict(json.load(answer))
    except (OSError, ValueError):
        return None


def _leader() -> int | None:
    found = (answer for number in CONTROLLERS if (answer := _status(number)) is not None)
    return next((answer["node_id"] for answer in found if answer["active"]), None)


def _drained() -> bool:
    leader = _leader()
    answer = None if leader is None else _status(leader)
    return answer is not None and bool(answer["migration"]["lag"]["records"] == 0)


def _caught_up(number: int) -> None:
    def caught_up() -> bool:
        leader = _leader()
        both = None if leader is None else (_status(leader), _status(number))
        if both is None or both[0] is None or both[1] is None:
            return False
        return bool(both[1]["offsets"]["log_end"] >= both[0]["offsets"]["high_watermark"])

    _until(f"controller {number} with the log of the others", caught_up)


def _wait(phase: str) -> None:
    leader = _until("controller that leads", _leader)
    assert leader is not None
    url = plan.url(leader)
    _run(_OURS, "status", "--url", url, "--wait", phase, "--timeout", "180")


def _not_finalised() -> None:
    if any(control.wanted_mode(controller_name(each)) is ServerMode.KRAFT for each in CONTROLLERS):
        raise StepError("the controllers run without the flag: there is no way back")
