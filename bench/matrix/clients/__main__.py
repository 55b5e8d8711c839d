"""``python -m bench.matrix.clients``: the calls of all clients in four columns, one table.

{our broker, Kafka's} x {our controller, Kafka's KRaft controller}, KRaft mode, Kafka 3.9.2. Exit
code 1 if an answer differs from that of Kafka's broker and controller for no known reason.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

from bench import record
from bench.lines import print_progress
from bench.matrix.clients import java, run, table
from bench.matrix.clients.clients import Client, PythonClient, environment
from bench.matrix.clients.columns import COLUMNS, RELEASE, Column
from bench.matrix.clients.known import KNOWN
from bench.matrix.readers.outcome import Outcome
from emulator.servers.jars import CLIENT_RELEASES, JarsMissingError
from emulator.servers.java import JavaNotFoundError
from emulator.servers.process import ProcessError, interrupt_on_terminate
from emulator.servers.tool_host import ToolHost

FIRST, NEWEST = CLIENT_RELEASES


def main() -> int:
    """Parse the command line and run; returns the exit code."""
    parser = argparse.ArgumentParser(prog="bench.matrix.clients", description=__doc__)
    names = [f"{brokers}+{controller}" for brokers, controller in COLUMNS]
    parser.add_argument("--column", action="append", choices=names, help="and the first one")
    parser.add_argument("--client", action="append", help="only clients whose name begins so")
    parser.add_argument("--known", action="store_true", help="print known differences in full too")
    options = parser.parse_args()
    interrupt_on_terminate()
    begun = time.monotonic()
    wanted = [
        (brokers, controller)
        for brokers, controller in COLUMNS
        if not options.column
        or f"{brokers}+{controller}" in options.column
        or (brokers, controller) == COLUMNS[0]
    ]
    try:
        with ExitStack() as stack:
            scratch = Path(stack.enter_context(tempfile.TemporaryDirectory()))
            clients = _clients(stack, scratch / "files", options.client)
            columns = {
                f"{brokers} + {controller}": _column(brokers, controller, scratch, clients)
                for brokers, controller in wanted
            }
    except (JarsMissingError, JavaNotFoundError, ProcessError, TimeoutError) as error:
        print_progress(str(error))
        return 2
    judged = table.judge(table.rows(columns), KNOWN)
    sys.stdout.write(f"{table.markdown(judged)}\n{table.summary(judged)}\n")
    sys.stdout.write(f"{table.details(judged, known=options.known)}\n")
    sys.stdout.write(
        f"\n{len(judged.rows)} calls, {len(judged.known) + len(judged.wrong)} answers differ, "
        f"{len(judged.wrong)} of them for no known reason; {time.strftime('%Y-%m-%d')}, "
        f"load {os.getloadavg()[1]:.1f}, {time.monotonic() - begun:.0f} s\n"
    )
    record.leave([], complete=not options.column and not options.client)
    return 1 if judged.wrong or judged.stale else 0


def _clients(stack: ExitStack, files: Path, only: Sequence[str] | None) -> list[Client]:
    hosts = {release: java.host(release) for release in (FIRST, RELEASE, NEWEST)}
    found: list[Client] = [
        PythonClient("frames", "frames_calls"),
        PythonClient("aiokafka", "aiokafka_calls"),
        PythonClient("confluent-kafka", "confluent_calls"),
        PythonClient("kafka-python 3", "kafka_python_calls"),
        *_old_python(),
        *(java.AdminClient(release, host) for release, host in hosts.items()),
        java.Tools(RELEASE, hosts[RELEASE], files),
        java.Tools(NEWEST, hosts[NEWEST], files),
    ]
    chosen = [one for one in found if not only or one.name.startswith(tuple(only))]
    if not chosen:
        raise ProcessError(f"no client's name begins so; there are {[one.name for one in found]}")
    for host in _started(chosen):
        stack.enter_context(host)
    return chosen


def _old_python() -> list[Client]:
    """kafka-python 1.4.4, where Python still imports it: its copy of six is too old for 3.12."""
    name = "kafka-python-1.4.4"
    if sys.version_info >= (3, 12):
        print_progress(f"{name} is left out: Python 3.11 is the last one that imports it")
        return []
    python = environment(name)
    if not python.exists():
        raise ProcessError(f"The environment of {name} is not in the cache: run 'make matrix'")
    return [PythonClient("kafka-python 1.4.4", "kafka_python_1_calls", python)]


def _started(clients: Sequence[Client]) -> list[ToolHost]:
    hosts = [one.java for one in clients if isinstance(one, (java.AdminClient, java.Tools))]
    return list(dict.fromkeys(hosts))


def _column(
    brokers: str, controller: str, scratch: Path, clients: Sequence[Client]
) -> list[Outcome]:
    begun = time.monotonic()
    with Column(brokers, controller, scratch / f"{brokers}-{controller}") as stage:
        print_progress(f"{stage.name}: started after {time.monotonic() - begun:.0f} s")
        found = run.column(stage, clients, print_progress)
    print_progress(f"{stage.name}: {time.monotonic() - begun:.0f} s")
    return found


if __name__ == "__main__":
    sys.exit(main())
