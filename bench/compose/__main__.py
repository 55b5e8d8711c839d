"""``rehearse`` inside a container: a server, its health, or a step."""

from __future__ import annotations

import argparse
import os
import signal
import sys

from bench.compose import control, health
from bench.compose.node import ALONE, Node


def main() -> int:
    """Run the step that the arguments name; returns the exit code."""
    from bench.compose import steps  # noqa: PLC0415 - a health check needs none of its imports

    parser = argparse.ArgumentParser(prog="rehearse", description=__doc__)
    verbs = parser.add_subparsers(dest="verb", required=True)
    verbs.add_parser("node").add_argument("name")
    verbs.add_parser("health").add_argument("name")
    verbs.add_parser("wait", help="do nothing: steps are run in this container")
    for name, step in steps.STEPS.items():
        verbs.add_parser(name, help=(step.__doc__ or "").partition("\n")[0])
    given = parser.parse_args()
    match given.verb:
        case "node" if (command_of := ALONE.get(given.name)) is not None:
            command = command_of()
            os.execvp(command[0], [*command])  # noqa: S606 - it takes the place of this process
        case "node":
            control.folder(given.name).mkdir(parents=True, exist_ok=True)
            return Node(given.name).run()
        case "health":
            return 0 if health.healthy(given.name) else 1
        case "wait":
            # The first process of a container ends by a signal only if it handles it.
            signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
            signal.pause()
        case step:
            return steps.run(step)
    return 0


if __name__ == "__main__":
    sys.exit(main())
