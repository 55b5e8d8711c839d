"""The commands that an operator types, in the forms of ``docs/runbook.md``, as a life runs them.

Words in capitals stand for values; a test holds the page and this list equal.
"""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import sys
from collections.abc import Iterable, Sequence
from enum import StrEnum
from typing import Any, Final

from bench.life.stage import Stage
from bench.life.standing import Mode, Quorum
from emulator.servers.bridge import COMMAND
from emulator.servers.process import ProcessError
from emulator.servers.waiting import PATIENCE_S

_FEATURES: Final = "org.apache.kafka.tools.FeatureCommand"
_OURS, _FEATURES_SCRIPT = "kraft-bridge", "kafka-features.sh"


class Form(StrEnum):
    """A command; ``FILES`` are the properties of all controllers."""

    PREFLIGHT = (
        "kraft-bridge preflight --zookeeper HOSTS --config FILES --target TARGETS "
        "--target-release 4.3"
    )
    FORMAT = "kraft-bridge format -c FILE -t CLUSTER_ID -r VERSION --new-quorum"
    CONTROLLER = "kraft-bridge controller -c FILE"
    WAIT_COPYING = "kraft-bridge status -c FILES --wait copying --timeout 600"
    WAIT_DUAL_WRITE = "kraft-bridge status -c FILES --wait dual-write-begun --timeout 600"
    WAIT_KRAFT = "kraft-bridge status -c FILES --wait all-brokers-in-kraft --timeout 3600"
    WAIT_FINAL = "kraft-bridge status -c FILES --wait final --timeout 600"
    STATUS = "kraft-bridge status -c FILES"
    COMPARE = "kraft-bridge zk diff --zookeeper HOSTS --log-dir FOLDER"
    PLAN_ROLLBACK = "kraft-bridge rollback --config FILES"
    ROLLBACK = "kraft-bridge rollback --yes --config FILES"
    CLEAR = "kraft-bridge rollback --yes --clear --config FILES"
    MISSING = "kraft-bridge finalise -c FILE"
    FINALISE = "kraft-bridge finalise -c FILE --yes"
    RAISE = "kafka-features.sh --bootstrap-server BROKER upgrade --metadata RELEASE"
    RAISE_TO = (
        "kafka-features.sh --bootstrap-server BROKER upgrade --feature metadata.version=LEVEL"
    )


BY_THE_RIG: Final = frozenset({Form.FORMAT, Form.CONTROLLER})
"""Those that the rig types as it starts a quorum; a test holds its words against these."""


def untyped(ran: Iterable[str]) -> list[Form]:
    """Commands of the page that were not typed.

    Args:
        ran: names of those that were, such as ``STATUS``.
    """
    known = {*ran}
    return [form for form in Form if form not in BY_THE_RIG and form.name not in known]


def words(form: Form, **values: str | Sequence[str]) -> list[str]:
    """The words of a command, its capitals replaced; a sequence becomes several words.

    Raises:
        KeyError: a value is missing.

    >>> words(Form.STATUS, FILES=["a", "b"])
    ['kraft-bridge', 'status', '-c', 'a', 'b']
    """
    found: list[str] = []
    for word in form.split():
        key, equals, name = word.rpartition("=")
        if not name.isupper():
            found.append(word)
            continue
        value = values[name]
        if isinstance(value, str):
            found.append(f"{key}{equals}{value}")
        else:
            found += value
    return found


def run(stage: Stage, form: Form, *codes: int, **values: str | Sequence[str]) -> str:
    """Run a command; returns all it printed.

    Args:
        stage: whose tools run Kafka's scripts.
        form: of the command.
        codes: exit codes that are right; 0 if none is given.
        values: of the words in capitals.

    Raises:
        ProcessError: it ended with another code, or not in time.
    """
    name, *rest = words(form, **values)
    stage.typed(form.name)
    code, printed = (_ours if name == _OURS else _kafkas)(stage, rest)
    return _right(f"{name} {' '.join(rest)}", code, printed, codes)


def _right(line: str, code: int, printed: str, codes: Sequence[int]) -> str:
    if code not in (codes or (0,)):
        raise ProcessError(f"{line} ended with {code}:\n{printed}")
    return printed


_WORD: Final = r"(?:'[^']*'|\\S+)"


def run_line(stage: Stage, line: str, *codes: int, **values: str) -> tuple[int, str]:
    """Run a line that a verb advises to type, its capitals replaced; its code, and what it printed.

    Raises:
        ProcessError: it is none of ours, ended with another code than one of ``codes``, or not in
            time.
    """
    for key, value in values.items():
        line = line.replace(key, shlex.quote(value))
    name, *rest = shlex.split(line)
    if name != _OURS:
        raise ProcessError(f"not a command of this program: {line}")
    for form in Form:
        if re.fullmatch(re.sub("[A-Z_]+", _WORD, form), line):
            stage.typed(form.name)
    code, printed = _ours(stage, rest)
    return code, _right(line, code, printed, codes)


def document(*line: str) -> dict[str, Any]:
    """What a verb prints with ``--json``; ``line``: the verb and its options.

    Raises:
        ProcessError: no document, or not in time.
    """
    done = _process([*line, "--json"])
    try:
        return dict(json.loads(done.stdout))
    except ValueError as error:
        printed = done.stdout + done.stderr
        text = f"{' '.join(line)} --json ended with {done.returncode}:\n{printed}"
        raise ProcessError(text) from error


def _ours(_stage: Stage, rest: list[str]) -> tuple[int, str]:
    done = _process(rest)
    return done.returncode, done.stdout + done.stderr


def _process(rest: list[str]) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", COMMAND, *rest]
    try:
        return subprocess.run(
            command, capture_output=True, text=True, check=False, timeout=PATIENCE_S
        )
    except subprocess.TimeoutExpired as late:
        raise ProcessError(f"{_OURS} {' '.join(rest)} did not end: {late}") from late


def _kafkas(stage: Stage, rest: list[str]) -> tuple[int, str]:
    printed = stage.tools.run(_FEATURES, *rest)
    return printed.code, printed.out + printed.err


def preflight(stage: Stage) -> str:
    """Judge the tree with the properties that all nodes are to have."""
    return run(stage, Form.PREFLIGHT, **_prepared(stage))


def _prepared(stage: Stage) -> dict[str, str | Sequence[str]]:
    migrating, kraft = (stage.prepared(mode) for mode in (Mode.MIGRATING, Mode.KRAFT))
    files = [str(node.write_properties()) for node in stage.controllers.nodes.values()]
    files += map(str, migrating)
    return {"HOSTS": stage.zk.hosts, "FILES": files, "TARGETS": [*map(str, kraft)]}


def advice_forward(stage: Stage) -> dict[str, Any]:
    """What ``preflight`` shows while no controller runs, and ``status`` from then on."""
    if stage.standing.quorum is Quorum.ABSENT:
        return document(*words(Form.PREFLIGHT, **_prepared(stage))[1:])
    return document("status", "--config", *map(str, stage.config_files))


def advice_back(stage: Stage) -> dict[str, Any]:
    """What ``rollback`` plans."""
    return document(*words(Form.PLAN_ROLLBACK, FILES=_files(stage))[1:])


def advice_to_end(stage: Stage) -> dict[str, Any]:
    """What ``finalise`` shows of the controller that leads."""
    return document(*words(Form.MISSING, FILE=_leaders_file(stage))[1:])


def look(stage: Stage) -> str:
    """The status of the controller that leads, as text for a person."""
    return run(stage, Form.STATUS, FILES=_files(stage))


def wait_dual_write(stage: Stage) -> None:
    """Wait until the controller that leads copies, and then until it is in dual write."""
    for form in (Form.WAIT_COPYING, Form.WAIT_DUAL_WRITE):
        run(stage, form, FILES=_files(stage))


def wait_kraft(stage: Stage) -> None:
    """Wait until every broker is in KRaft mode, as the controller that leads has it."""
    run(stage, Form.WAIT_KRAFT, FILES=_files(stage))


def wait_finalised(stage: Stage) -> None:
    """Wait until the controller that leads reports that the migration is finalised."""
    run(stage, Form.WAIT_FINAL, FILES=_files(stage))


def rollback(stage: Stage) -> str:
    """Plan the way back, then go: controllers end, ``/controller`` is given back."""
    files = _files(stage)
    run(stage, Form.PLAN_ROLLBACK, 0, 1, FILES=files)
    return run(stage, Form.ROLLBACK, FILES=files)


def clear(stage: Stage) -> str:
    """Delete what the first attempt left in ZooKeeper."""
    return run(stage, Form.CLEAR, FILES=_files(stage))


def missing(stage: Stage) -> str:
    """What is missing before the migration is final; 1: more than a hold."""
    return run(stage, Form.MISSING, 0, 1, FILE=_leaders_file(stage))


def raise_level(stage: Stage, release: str) -> str:
    """Raise metadata.version to the newest of a release."""
    broker = stage.cluster.brokers[0].bootstrap
    return run(stage, Form.RAISE, BROKER=broker, RELEASE=release)


def refused_level(stage: Stage, level: int) -> str:
    """Ask for a metadata.version that must be refused; returns the tool's output."""
    broker = stage.cluster.brokers[0].bootstrap
    return run(stage, Form.RAISE_TO, 1, BROKER=broker, LEVEL=str(level))


def compare(stage: Stage) -> str:
    """Compare ZooKeeper with the log of the controller that leads."""
    leader: Any = stage.leader()
    return run(stage, Form.COMPARE, HOSTS=stage.zk.hosts, FOLDER=str(leader.data))


def _files(stage: Stage) -> list[str]:
    return [str(one) for one in stage.config_files]


def _leaders_file(stage: Stage) -> str:
    leader: Any = stage.leader()
    return str(leader.config)
