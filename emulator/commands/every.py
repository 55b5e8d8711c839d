"""The program of all verbs, or of one: the parser of the command line, and its help."""

from __future__ import annotations

import importlib.util
import subprocess
from collections.abc import Mapping
from importlib import metadata
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Final

import typer

from emulator.commands.exits import epilog
from emulator.commands.parser import Verb, VerbGroup
from wire.releases import RELEASES

_GROUPS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "trace": "The files of a trace.",
        "bench": "Scenarios on several controllers, side by side.",
        "zk": "ZooKeeper: start one, dump or load a tree, compare it with a controller, repair it.",
        "log": "The metadata log.",
        "evidence": "What a rehearsal has left.",
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
        no_args_is_help=True,
        pretty_exceptions_enable=False,
        rich_markup_mode=None,
        epilog=epilog(),
        cls=VerbGroup,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    # Also because typer would take the name of a verb that is alone for an argument.
    app.callback()(_program)
    verbs = {verb: where for verb, where in verbs.items() if _is_there(where)}
    if asked not in {verb.split()[0] for verb in verbs}:
        asked = ""
    groups: dict[str, typer.Typer] = {}
    for verb, where in verbs.items():
        first, _, second = verb.partition(" ")
        if asked in {"", first}:
            module, _, name = where.partition(":")
            found = getattr(importlib.import_module(module), name)
            if isinstance(found, typer.Typer):
                groups[first] = found
            elif second:
                group = groups.setdefault(first, typer.Typer(no_args_is_help=True))
                group.command(name=second, epilog=epilog(verb), cls=Verb)(found)
            else:
                app.command(name=verb, epilog=epilog(verb), cls=Verb)(found)
    for name, group in groups.items():
        for command in group.registered_commands:
            assert command.callback is not None, "every command has a function"
            command.cls = Verb
            command.epilog = epilog(f"{name} {command.name or command.callback.__name__}")
        app.add_typer(group, name=name, help=_GROUPS[name], epilog=epilog(), cls=VerbGroup)
    return app


def _is_there(where: str) -> bool:
    """Whether the package of a verb is installed: bench may be left out."""
    return importlib.util.find_spec(where.partition(".")[0]) is not None


def _version(asked: bool) -> None:
    if asked:
        version = metadata.version("kraft-bridge")
        typer.echo(f"kraft-bridge {version} (Kafka {RELEASES[0]} to {RELEASES[-1]}; {_commit()})")
        raise typer.Exit


def _commit() -> str:
    """The commit, as the build has written it (packaging/commit_hook.py), else as git says it."""
    built = metadata.distribution("kraft-bridge").read_text("extra_metadata/commit")
    if built:
        return f"commit {built.strip()}"
    checkout = Path(__file__).resolve().parents[2]
    if not (checkout / ".git").exists():
        return "commit not known"
    git = ["git", "describe", "--always", "--exclude=*", "--abbrev=40", "--dirty= and changes"]
    try:
        done = subprocess.run(git, cwd=checkout, capture_output=True, text=True, check=False)
    except OSError:
        return "commit not known: git does not run"
    return f"commit {done.stdout.strip() or 'not known'}, a checkout"


def _program(
    *,
    _asked: Annotated[
        bool,
        typer.Option("--version", callback=_version, is_eager=True, help="Print the version."),
    ] = False,
) -> None:
    """Rehearse a Kafka migration from ZooKeeper to KRaft with your real brokers."""
