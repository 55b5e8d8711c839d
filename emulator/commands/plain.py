"""``kraft-bridge controller`` started without the parser of all verbs.

That parser and what it imports take a tenth of the time until a controller listens. Here only the
lines are read that are right beyond doubt; each other one, such as ``--help`` or a mistake, is left
to the verb's own parser (``controller.py``).
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path


@dataclass(slots=True)
class ControllerLine:
    """The options of the verb, as a line says them."""

    config: Path | None = None
    overrides: list[str] = field(default_factory=list)
    log_json: bool = False


def read(arguments: Sequence[str]) -> ControllerLine | None:
    """The options of ``controller``; None: it is another verb, or not certain.

    >>> read(["controller", "-c", "server.properties", "-X", "node.id=1"])
    ControllerLine(config=PosixPath('server.properties'), overrides=['node.id=1'], log_json=False)
    >>> read(["controller", "-X", "--help", "-c", "server.properties"]) is None
    True
    """
    found = ControllerLine()
    words = iter(arguments)
    if next(words, "") != "controller":
        return None
    for word in words:
        if word == "--log-json" and not found.log_json:
            found.log_json = True
            continue
        value = next(words, "-")
        if value.startswith("-") or not value:
            return None
        if word in {"-c", "--config"} and found.config is None:
            found.config = Path(value)
        elif word == "-X":
            found.overrides.append(value)
        else:
            return None
    return None if found.config is None else found


def run(arguments: Sequence[str]) -> int | None:
    """Run the controller that the arguments ask for; returns its exit code, or None: not here."""
    asked = read(arguments)
    if asked is None or asked.config is None:
        return None
    from emulator.commands import configuration
    from emulator.config.load import load

    config, said = configuration.read(asked.config, asked.overrides, load)
    from emulator.io import log_output
    from emulator.io.printable import printable_lines

    log_output.never_wait()
    for line in said:
        sys.stderr.write(f"{printable_lines(line)}\n")
    if config is None:
        return 2
    from emulator.commands import in_use
    from emulator.io import process

    return in_use.run(lambda: process.run_controller(config, log_json=asked.log_json))
