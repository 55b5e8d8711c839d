"""The steps of a migration, each one command in the container ``operator``.

A step that was cut off is asked for again: it does what is left of it.
"""

from __future__ import annotations

import asyncio
import json
import shutil
import subprocess
import sys
import urllib.request
from typing import Any, Final

from bench.compose import control, plan
from bench.compose.plan import BROKERS, CONTROLLERS, Wanted, broker_name, controller_name
from bench.load import cluster_api as api
from bench.rig.waiting import wait_for

_STARTED_S: Final = 180.0
_OURS: Final = "kraft-bridge"


class StepError(RuntimeError):
    """A step cannot be done now, or failed; the message says why."""


def ready() -> None:
    """Wait until every broker answers and every replica is in sync."""
    _in_sync()
    _say(f"{len(BROKERS)} brokers answer, every replica is in sync")


def migrate() -> None:
    """Start the controllers, restart the brokers in migration mode, wait for dual write.

    Raises:
        StepError: the migration is finalised.
    """
    _not_finalised()
    for number in CONTROLLERS:
        _restart(controller_name(number), Wanted.MIGRATING)
    wait_for("answer of every controller", lambda: all(map(_status, CONTROLLERS)), _STARTED_S)
    _brokers(Wanted.MIGRATING)
    _wait("hybrid")


def roll() -> None:
    """Restart the brokers in KRaft mode, one by one.

    Raises:
        StepError: the cluster is not in dual write.
    """
    if _leader() is None:
        raise StepError("no controller leads: migrate first")
    _wait("hybrid")
    _brokers(Wanted.KRAFT)
    _wait("dual-write")


def finalise() -> None:
    """Restart the controllers without the flag, the leading one last.

    Raises:
        StepError: a broker is not in KRaft mode.
    """
    left = [each for each in BROKERS if control.wanted(broker_name(each)) is not Wanted.KRAFT]
    if left:
        raise StepError(f"brokers {left} are not in KRaft mode: roll first")
    for _ in CONTROLLERS:
        flagged = [each for each in CONTROLLERS if _is(each, Wanted.MIGRATING)]
        if not flagged:
            break
        leads = wait_for("controller that leads", _leader, _STARTED_S)
        number = next((each for each in flagged if each != leads), flagged[0])
        _restart(controller_name(number), Wanted.KRAFT)
        _caught_up(number)
    _wait("finalised")


def back() -> None:
    """Go back to ZooKeeper mode from every step before the end, and clear what is left.

    Raises:
        StepError: the migration is finalised; a command failed.
    """
    _not_finalised()
    _brokers(Wanted.MIGRATING, of=Wanted.KRAFT)
    if _leader() is not None:
        wait_for("ZooKeeper that has every change", _drained, _STARTED_S)
    files = [str(control.properties_file(controller_name(each))) for each in CONTROLLERS]
    # In other containers the command may not end them.
    for number in sorted(CONTROLLERS, key=lambda each: each == _leader()):
        _restart(controller_name(number), Wanted.STOPPED)
    _run(_OURS, "rollback", "--yes", "--stopped", "--config", *files)
    _brokers(Wanted.ZOOKEEPER)
    _run(_OURS, "rollback", "--yes", "--clear", "--stopped", "--config", *files)
    for number in CONTROLLERS:
        shutil.rmtree(control.folder(controller_name(number)), ignore_errors=True)
    shutil.rmtree(control.trace(), ignore_errors=True)
    control.write("attempt", control.attempt() + 1)


def status() -> None:
    """Say what the controller that leads says."""
    leader = _leader()
    if leader is None:
        _say("no controller leads: the cluster is in ZooKeeper mode")
    else:
        _run(_OURS, "status", "--url", plan.url(leader))


def load() -> None:
    """Ask for 20 changes a second for 30 s, traced beside the controllers."""
    bootstrap = ",".join(map(plan.bootstrap, BROKERS))
    words = ["--bootstrap-server", bootstrap, "--rate", "20", "--duration", "30"]
    trace = ["--trace", str(control.trace()), "--run-id", f"attempt-{control.attempt()}"]
    _run(_OURS, "load", *words, *trace)


STEPS: Final = {
    each.__name__: each for each in (ready, migrate, roll, load, finalise, back, status)
}


def run(name: str) -> int:
    """Do one step; returns the exit code."""
    try:
        STEPS[name]()
    except (StepError, TimeoutError) as error:
        sys.stderr.write(f"{name}: {error}\n")
        return 1
    return 0


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def _run(*words: str) -> None:
    _say("$ " + " ".join(words))
    code = subprocess.run(words, check=False).returncode
    if code != 0:
        raise StepError(f"{' '.join(words[:2])} ended with {code}")


def _is(number: int, wanted: Wanted) -> bool:
    return control.running(controller_name(number)) is wanted


def _restart(name: str, wanted: Wanted) -> None:
    if control.wanted(name) is not wanted:
        _say(f"{name}: {control.wanted(name)} -> {wanted}")
        control.want(name, wanted)
    wait_for(f"start of {name}", lambda: control.running(name) is wanted, _STARTED_S)


def _brokers(wanted: Wanted, of: Wanted | None = None) -> None:
    for number in BROKERS:
        now = control.wanted(broker_name(number))
        if now is wanted or (of is not None and now is not of):
            continue
        _in_sync()  # a step that was cut off may have left one that catches up
        _restart(broker_name(number), wanted)
        _in_sync()


def _in_sync() -> None:
    def whole() -> bool:
        try:
            seen = [asyncio.run(api.shape(plan.bootstrap(each))) for each in BROKERS]
        except (OSError, EOFError):
            return False
        return all(len(one.brokers) == len(BROKERS) and not one.short() for one in seen)

    wait_for("replicas in sync at every broker", whole, _STARTED_S)


def _status(number: int) -> dict[str, Any] | None:
    try:
        with urllib.request.urlopen(f"{plan.url(number)}/status", timeout=2) as answer:  # noqa: S310 - http among containers
            return dict(json.load(answer))
    except (OSError, ValueError):
        return None


def _leader() -> int | None:
    found = (said for number in CONTROLLERS if (said := _status(number)) is not None)
    return next((said["node_id"] for said in found if said["active"]), None)


def _drained() -> bool:
    leader = _leader()
    said = None if leader is None else _status(leader)
    return said is not None and bool(said["migration"]["lag"]["records"] == 0)


def _caught_up(number: int) -> None:
    def caught_up() -> bool:
        leader = _leader()
        both = None if leader is None else (_status(leader), _status(number))
        if both is None or both[0] is None or both[1] is None:
            return False
        return bool(both[1]["offsets"]["log_end"] >= both[0]["offsets"]["high_watermark"])

    wait_for(f"controller {number} with the log of the others", caught_up, _STARTED_S)


def _wait(phase: str) -> None:
    leader = wait_for("controller that leads", _leader, _STARTED_S)
    assert leader is not None
    url = plan.url(leader)
    _run(_OURS, "status", "--url", url, "--wait", phase, "--timeout", "180")


def _not_finalised() -> None:
    if any(control.wanted(controller_name(each)) is Wanted.KRAFT for each in CONTROLLERS):
        raise StepError("the controllers run without the flag: there is no way back")
