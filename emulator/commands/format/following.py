"""What comes after ``format``: the next command, and what brokers need for the migration."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from emulator.config.broker import BrokerConfig
from emulator.config.listeners import SECURITY_PROTOCOLS
from emulator.config.load import Config

DEFAULT_MAP: Final = ",".join(f"{one}:{one}" for one in SECURITY_PROTOCOLS)
"""``listener.security.protocol.map`` of a broker that does not name it."""


def lines(
    settings: Config | BrokerConfig, file: Path, overridden: bool, rolled_back: bool
) -> Iterator[str]:
    """Lines for the operator.

    Args:
        settings: of the node whose folder was formatted.
        file: its properties.
        overridden: whether ``-X`` was given; what it said may be a secret, and is not repeated.
        rolled_back: whether the mark of a rollback is still in ZooKeeper.
    """
    verb = "broker" if isinstance(settings, BrokerConfig) else "controller"
    same = ", with the same -X" if overridden else ""
    named = f"-c {shlex.quote(str(file))}"
    migrates = not isinstance(settings, BrokerConfig) and settings.migration_enabled
    if rolled_back and migrates:
        clear = f"kraft-bridge rollback {named} ... --clear --yes"
        yield f"next: when all controllers are formatted: {clear}; start no controller before"
    else:
        yield f"next: kraft-bridge {verb} {named}{same}"
    if isinstance(settings, BrokerConfig) or not settings.migration_enabled:
        return
    listener = settings.controller_listener
    when = "when all controllers run" if len(settings.voters) > 1 else "when it runs"
    yield f"{when}: restart each broker, one by one, with these lines beside its own:"
    yield "  zookeeper.metadata.migration.enable=true"
    voters = ",".join(f"{number}@{at}" for number, at in settings.voters.items())
    yield f"  controller.quorum.voters={voters}"
    yield f"  controller.listener.names={listener.name}"
    added = f"{listener.name}:{listener.security_protocol}"
    yield f"  listener.security.protocol.map=…,{added}"
    yield f"(… is what the broker has there; if it has no such line: {DEFAULT_MAP},{added})"
