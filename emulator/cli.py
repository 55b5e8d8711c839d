"""``kraft-bridge <verb>``: lists the verbs; each is a file or a folder in ``emulator.commands``.

Data goes to stdout, progress and errors to stderr. Exit codes: 0 success, 1 a check or the work
failed, 2 the command line or the configuration is wrong, or the input cannot be read.
"""

from __future__ import annotations

import importlib
import logging
import sys
import threading
from collections.abc import Mapping
from functools import cache
from types import MappingProxyType
from typing import Final
from warnings import filterwarnings

import typer

VERBS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "format": "emulator.commands.format:format_command",
        "controller": "emulator.commands.controller:controller",
        "broker": "emulator.commands.broker:broker",
        "fleet": "emulator.commands.fleet:fleet",
        "load": "emulator.commands.load:load",
        "status": "emulator.commands.status:status",
        "preflight": "emulator.commands.preflight.command:preflight",
        "plan": "emulator.commands.plan.command:plan",
        "elect-leaders": "emulator.commands.elect_leaders.command:elect_leaders",
        "demo": "emulator.commands.demo:demo",
        "analyze": "emulator.commands.analyze:analyze",
        "simulate": "emulator.commands.simulate:simulate",
        "bench run": "emulator.commands.bench.run:run",
        "bench compare": "emulator.commands.bench.compare:compare",
        "zk start": "emulator.commands.zk.start:start",
        "zk dump": "emulator.commands.zk.dump:dump",
        "zk diff": "emulator.commands.zk.diff:diff",
        "log dump": "emulator.commands.log_dump:dump",
        "wire": "wire.cli:app",
        "wire record": "emulator.commands.wire_record:record",
    }
)
"""Each verb and where its function is; imported only when it is asked for, as some import much."""
_GROUPS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "bench": "Scenarios on several controllers, side by side.",
        "zk": "ZooKeeper: start one, dump a tree, compare it with a controller.",
        "log": "The metadata log.",
        "wire": "Kafka's messages: show one, record and check frames.",
    }
)


def app_of(asked: str) -> typer.Typer:
    """The program with the verb or the group of that name only; with all if there is none."""
    app = typer.Typer(
        name="kraft-bridge",
        help="Rehearse a Kafka migration from ZooKeeper to KRaft with your real brokers.",
        no_args_is_help=True,
        pretty_exceptions_enable=False,
        rich_markup_mode=None,
    )
    if asked not in {verb.split()[0] for verb in VERBS}:
        asked = ""
    else:
        # With one verb alone, typer would take its name for an argument.
        app.callback()(lambda: None)
    groups: dict[str, typer.Typer] = {}
    for verb, where in VERBS.items():
        first, _, second = verb.partition(" ")
        if asked in {"", first}:
            module, _, name = where.partition(":")
            found = getattr(importlib.import_module(module), name)
            if isinstance(found, typer.Typer):
                groups[first] = found
            elif second:
                groups.setdefault(first, typer.Typer()).command(name=second)(found)
            else:
                app.command(name=verb)(found)
    for name, group in groups.items():
        app.add_typer(group, name=name, help=_GROUPS[name])
    return app


@cache
def _whole() -> typer.Typer:
    return app_of("")


def __getattr__(name: str) -> typer.Typer:
    """``app``: the program with all verbs, for tests and the documentation."""
    if name != "app":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return _whole()


def main() -> None:
    """Entry point: refuses ``python -O``, since assertions guard the invariants."""
    if not __debug__:
        sys.exit("kraft-bridge: do not run with python -O: assertions guard the invariants")
    # kazoo logs each refused connection; the failed command reports it once.
    logging.getLogger("kazoo").addHandler(logging.NullHandler())
    filterwarnings("ignore", "No chroot path exists", UserWarning)
    threading.excepthook = _thread_died
    app_of(sys.argv[1] if len(sys.argv) > 1 else "")()


def _thread_died(died: threading.ExceptHookArgs) -> None:
    """Ignore a refused login in kazoo's thread: the command itself reports it."""
    if not died.exc_type.__module__.startswith("kazoo."):
        threading.__excepthook__(died)


if __name__ == "__main__":
    main()
