"""``python -m bench.matrix.readers``: tools and libraries on both controllers, one table.

The calls of the libraries are those of ``bench.matrix.clients``.
Both columns are of this run, on Kafka 3.9.2 brokers in dual write. Answers that differ are printed
in full. Exit code 1 if one differs that is not a known defect of Kafka.
"""

from __future__ import annotations

import os
import re
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from bench import record
from bench.matrix import controllers
from bench.matrix.clients.clients import Client, PythonClient
from bench.matrix.clients.run import READS
from bench.matrix.readers.outcome import Outcome, plain
from bench.matrix.readers.tools import Script, settle
from bench.matrix.stage import Stage
from bench.matrix.steps import lifecycle
from emulator.servers.jars import JarsMissingError
from emulator.servers.java import JavaNotFoundError
from emulator.servers.process import ProcessError, interrupt_on_terminate
from emulator.servers.tool_host import ToolHost

RELEASE: Final = "3.9.2"
KNOWN: Final = {
    (
        "kafka-delegation-tokens",
        "--describe --owner-principal User:admin",
    ): "Kafka's controller writes no notification of a token: brokers in ZooKeeper mode never hear",
}
"""Where Kafka's own answer is a defect of it: (tool, asked) -> which."""
LIBRARIES: Final = {"confluent-kafka": "confluent_calls", "aiokafka": "aiokafka_calls"}
"""Name -> module of its calls in `bench.matrix.clients.python`."""
_OF_GROUPS: Final = re.compile("group|coordinator")
"""Calls that no controller answers; they create a topic, whose replicas chance places."""


def main() -> int:
    """Run both columns and print the table; returns the exit code."""
    interrupt_on_terminate()
    begun = time.monotonic()
    try:
        with ToolHost(RELEASE) as host, tempfile.TemporaryDirectory() as scratch:
            mine = column(controllers.ours, Path(scratch) / "ours", host)
            theirs = column(controllers.kafkas, Path(scratch) / "kafka", host)
    except (JarsMissingError, JavaNotFoundError, ProcessError) as error:
        sys.stderr.write(f"{error}\n")
        return 2
    different = [(a, b) for a, b in zip(mine, theirs, strict=True) if a.text != b.text]
    unknown = [ours for ours, _ in different if (ours.tool, ours.what) not in KNOWN]
    sys.stdout.write(table(mine, theirs))
    for ours, kafkas in different:
        sys.stdout.write(
            f"\n{ours.tool} {ours.what}\n--- ours\n{ours.text}\n--- Kafka\n{kafkas.text}\n"
        )
    sys.stdout.write(
        f"\n{len(mine)} answers, {len(different)} differ, {len(unknown)} of them without a known "
        f"defect of Kafka's; {time.strftime('%Y-%m-%d')}, load {os.getloadavg()[1]:.1f}, "
        f"{time.monotonic() - begun:.0f} s\n"
    )
    record.leave([], complete=True)
    return 1 if unknown else 0


def column(begin: controllers.Begin, folder: Path, host: ToolHost) -> list[Outcome]:
    """All answers on one controller, in dual write."""
    with Stage(RELEASE, begin, folder, secured=True, host=host) as stage:
        lifecycle.register(stage)
        lifecycle.copy(stage)
        found = Script(stage, folder / "files").run()
        for name, module in LIBRARIES.items():
            found += answers(stage, PythonClient(name, module))
        return found


def answers(stage: Stage, client: Client) -> list[Outcome]:
    """Every call of a client, in order, through a broker."""
    try:
        found = []
        for call in client.begin(stage.cluster.brokers[0].bootstrap):
            if _OF_GROUPS.search(call):
                continue
            if READS.search(call):
                settle(stage)
            text = client.ask(call).replace(str(stage.folder), "<folder>")
            found.append(Outcome(client.name, call, plain(text)))
        return found
    finally:
        client.end()


def table(mine: Sequence[Outcome], theirs: Sequence[Outcome]) -> str:
    """Each command with the exit code or first line of both columns."""
    rows = ["| tool | asked | ours | Kafka 3.9.2 | same |", "|---|---|---|---|---|"]
    for ours, kafkas in zip(mine, theirs, strict=True):
        known = KNOWN.get((ours.tool, ours.what))
        same = "yes" if ours.text == kafkas.text else known or "NO"
        rows.append(f"| {ours.tool} | `{ours.what}` | {brief(ours)} | {brief(kafkas)} | {same} |")
    return "\n".join(rows) + "\n"


def brief(outcome: Outcome) -> str:
    """The exit code, or the first line of a library's answer, and the error's name if any."""
    lines = outcome.text.splitlines()
    errors = [word for line in lines for word in _errors(line)]
    first = lines[0][:60] if lines else ""
    return f"{first} {errors[0]}".strip() if errors else first


def _errors(line: str) -> list[str]:
    words = line.replace("(", " ").replace(":", " ").split()
    return [
        word.rpartition(".")[2]
        for word in words
        if word.endswith("Exception") and "." in word and "Execution" not in word
    ]


if __name__ == "__main__":
    sys.exit(main())
