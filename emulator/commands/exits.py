"""The exit codes of all verbs, and the text that each help ends with."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import IntEnum
from types import MappingProxyType
from typing import Final


class ExitCode(IntEnum):
    """What a verb ended with."""

    DONE = 0
    FOUND = 1
    WRONG = 2
    UNREACHABLE = 3
    WARNED = 4
    NOT_YET = 5
    INTERRUPTED = 130


MEANINGS: Final[Mapping[ExitCode, str]] = MappingProxyType(
    {
        ExitCode.DONE: "done; a check found nothing",
        ExitCode.FOUND: "a check found something, or the work failed",
        ExitCode.WRONG: "the command line, the configuration or an input file is wrong",
        ExitCode.UNREACHABLE: "what is asked cannot be reached, read or checked: it is not known",
        ExitCode.WARNED: "with --strict: warnings, and nothing worse",
        ExitCode.NOT_YET: "with status --wait or --exit-when, or finalise --yes: the time is over",
        ExitCode.INTERRUPTED: "interrupted by Ctrl-C",
    }
)
_ONLY: Final = {
    ExitCode.WARNED: {"preflight"},
    ExitCode.NOT_YET: {"status", "finalise"},
}
_BEFORE: Final = "interrupted by Ctrl-C before it runs; later Ctrl-C ends it in order, as SIGTERM"
_SERVERS: Final = frozenset({"controller", "broker", "zk start"})
"""Verbs that run until they are asked to end: then their code is that of their work."""
_OFFLINE: Final = {"plan", "simulate", "bench compare", "log dump", "wire show", "wire check"}


def codes_of(verb: str) -> list[ExitCode]:
    """The codes that a verb can end with; all for a group or the program."""
    return [
        code
        for code in MEANINGS
        if verb not in EXAMPLES
        or (
            verb in _ONLY.get(code, {verb})
            and not (code is ExitCode.UNREACHABLE and verb in _OFFLINE)
        )
    ]


def meaning_of(verb: str, code: ExitCode) -> str:
    """What a code of a verb means."""
    if code is ExitCode.INTERRUPTED and verb in _SERVERS:
        return _BEFORE
    return MEANINGS[code]


EXAMPLES: Final[Mapping[str, Sequence[str]]] = MappingProxyType(
    {
        "format": (
            "format -c server.properties",
            "format -c server.properties -t MkU3OEVBNTcwNTJENDM2Qg -r 3.9-IV0",
        ),
        "controller": (
            "controller -c server.properties",
            "controller -c server.properties -X kraftbridge.metrics.port=9404 --log-json",
        ),
        "broker": ("broker -c server.properties",),
        "status": (
            "status",
            "status -c server.properties",
            "status --url http://10.0.0.5:9404 --json",
            "status --wait all-brokers-in-kraft --timeout 600",
            "status -c server.properties --watch --exit-when all-brokers-in-kraft",
        ),
        "finalise": (
            "finalise",
            "finalise --log-dir /var/lib/kraft-bridge --yes",
        ),
        "preflight": (
            "preflight --zookeeper zk1:2181,zk2:2181/kafka -c broker.properties -c new.properties",
            "preflight -c now/*.properties --target new/*.properties --controller-dir /data/kraft",
            "preflight --dump tree.json --strict --json",
        ),
        "rollback": (
            "rollback -c controller-1.properties -c controller-2.properties",
            "rollback -c controller.properties --yes",
            "rollback -c controller.properties --clear --yes",
        ),
        "plan": ("plan --dump tree.json -c server.properties",),
        "elect-leaders": (
            "elect-leaders --bootstrap-server b1:9092 --topic orders --partition 0",
            "elect-leaders --bootstrap-server b1:9092 --path-to-json-file partitions.json",
        ),
        "load": ("load --bootstrap-server b1:9092 --rate 25 --duration 60 --trace trace",),
        "analyze": ("analyze trace --out report", "analyze trace --out report --follow"),
        "trace compact": ("trace compact trace",),
        "predict": (
            "predict --trace trace --bound 1000 --stall 5",
            "predict --zookeeper zk1:2181/kafka --rate 20 --dump tree.json --yes",
        ),
        "demo": ("demo --out out",),
        "rehearse": (
            "rehearse --dump tree.json",
            "rehearse --zookeeper zk1:2181/kafka -c brokers/*.properties --json",
        ),
        "cluster": ("cluster --brokers 3 --controllers 3",),
        "fleet": ("fleet --brokers 100 --controller 127.0.0.1:9093 --topics 10 --seconds 30",),
        "conformance": (
            "conformance --bootstrap-server b1:9092 --junit conformance.xml",
            "conformance --bootstrap-controller c1:9093 --only KIP-590,ElectLeaders",
        ),
        "simulate": ("simulate --kind swarm --count 100 --jobs 2",),
        "bench run": ("bench run knee --quick --out out/bench",),
        "bench compare": ("bench compare out/before/knee out/after/knee --tolerance 0.2",),
        "zk start": ("zk start --port 2181 --data zk-data",),
        "zk dump": ("zk dump --zookeeper zk1:2181/kafka > tree.json",),
        "zk load": ("zk load tree.json --zookeeper 127.0.0.1:2181/rehearsal",),
        "zk diff": ("zk diff --zookeeper zk1:2181/kafka --log-dir /var/lib/kraft-bridge --json",),
        "zk reconcile": (
            "zk reconcile -c server.properties --dry-run",
            "zk reconcile -c server.properties --log-dir /var/lib/kraft-bridge --yes",
        ),
        "evidence verify": ("evidence verify out/rehearsal-20261130-101500",),
        "log dump": ("log dump --log-dir /var/lib/kraft-bridge",),
        "wire show": ("wire show FetchRequest --version 12", "wire show --follow recording"),
        "wire check": ("wire check recording/wire.jsonl",),
        "wire record": ("wire record --listen 127.0.0.1:9192 --to b1:9092 --out recording",),
    }
)
"""Verb -> lines that can be typed after ``kraft-bridge``."""


def epilog(verb: str = "") -> str:
    """The end of the help of a verb, or of the program: examples and exit codes.

    A line with a backspace alone keeps the lines of its paragraph as they are.
    """
    lines: list[str] = []
    if examples := EXAMPLES.get(verb):
        lines += ["\b", "Examples:" if len(examples) > 1 else "Example:"]
        lines += [f"  kraft-bridge {one}" for one in examples]
        lines.append("")
    lines += ["\b", "Exit codes:"]
    lines += [f"  {code.value:<4}{meaning_of(verb, code)}" for code in codes_of(verb)]
    return "\n".join(lines)
