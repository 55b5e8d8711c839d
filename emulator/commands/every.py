"""The program of all verbs, or of one: the parser of the command line, and its help."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

import typer

_GROUPS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "bench": "Scenarios on several controllers, side by side.",
        "zk": "ZooKeeper: start one, dump a tree, compare it with a controller.",
        "log": "The metadata log.",
        "wire": "Kafka's messages: show one, record and check frames.",
    }
)


def app_of(asked: str, verbs: Mapping[str, str]) -> typer.Typer:
    """The program with the verb or the group of that name only; with all if there is none.

    Args:
        asked: a verb, the group of one, or any other word.
        verbs: each verb and where its function is.
    """
    app = typer.Typer(
        name="kraft-bridge",
        help="Rehearse a Kafka migration from ZooKeeper to KRaft with your real brokers.",
        no_args_is_help=True,
        pretty_exceptions_enable=False,
        rich_markup_mode=None,
    )
    if asked not in {verb.split()[0] for verb in verbs}:
        asked = ""
    else:
        # With one verb alone, typer would take its name for an argument.
        app.callback()(lambda: None)
    groups: dict[str, typer.Typer] = {}
    for verb, where in verbs.items():
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
