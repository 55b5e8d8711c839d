"""How every verb reads its line, and how its help looks: durations, files, addresses, old names.

One option has one name for its value in all helps, and a wrong value gets one kind of sentence.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, get_args

import typer
from typer.core import TyperCommand, TyperGroup

from emulator.io import interrupts

PURPOSES: Final[Mapping[str, tuple[str, ...]]] = MappingProxyType(
    {
        "Rehearse": (
            "demo",
            "rehearse",
            "preflight",
            "format",
            "controller",
            "status",
            "rollback",
            "finalise",
        ),
        "Inspect": ("plan", "zk", "log", "evidence"),
        "Measure": ("load", "analyze", "trace", "bench", "predict"),
        "Test": ("broker", "cluster", "fleet", "simulate", "conformance"),
        "Low level": ("elect-leaders", "wire"),
    }
)
"""Headings of the help, and the verbs and groups below each."""
_SYNONYMS: Final = {
    "controller": "migrate start run server serve node up launch kafka-server-start",
    "preflight": "check validate doctor lint precheck",
    "format": "init storage kafka-storage",
    "status": "state phase describe wait watch ps info quorum kafka-metadata-quorum",
    "rollback": "revert abort undo back downgrade restore cancel",
    "finalise": "finalize finish complete commit end",
    "zk diff": "diff verify compare vdiff",
    "zk dump": "dump zookeeper-shell tree snapshot export",
    "zk reconcile": "reconcile repair fix sync",
    "zk start": "zookeeper zookeeper-server-start",
    "log dump": "logs dump-log kafka-dump-log kafka-metadata-shell metadata-shell records",
    "elect-leaders": "elect kafka-leader-election kafka-preferred-replica-election",
    "analyze": "analyse analysis report",
    "load": "workload perf stress kafka-producer-perf-test",
    "bench run": "benchmark measure",
    "simulate": "simulation test chaos",
    "fleet": "brokers",
    "wire show": "show decode messages apis",
    "wire record": "record proxy capture",
    "demo": "example quickstart tutorial",
}
EXPECTED: Final = MappingProxyType(
    {word: verb for verb, words in _SYNONYMS.items() for word in words.split()}
)
"""Names of other tools, and names that one expects -> the verb that does it."""
DURATION: Final = "DURATION"
_FILES: Final = (
    "--config --target --dump --path-to-json-file --admin.config --record --follow --token-file "
    "--anonymise"
)
_FOLDERS: Final = "--log-dir --controller-dir --broker-folder --out --data --resume --write-files"
_DURATIONS: Final = (
    "--timeout --duration --give-up --every --until-idle --seconds --patience --stall"
)
METAVARS: Final[Mapping[str, str]] = MappingProxyType(
    dict.fromkeys(_FILES.split(), "FILE")
    | dict.fromkeys(_FOLDERS.split(), "FOLDER")
    | dict.fromkeys(_DURATIONS.split(), DURATION)
    | {
        "--zookeeper": "HOST:PORT[,…][/CHROOT]",
        "--bootstrap-server": "HOST:PORT[,…]",
        "--controller": "HOST:PORT",
        "--copy-zookeeper": "HOST:PORT",
        "--listen": "HOST:PORT",
        "--to": "HOST:PORT",
        "--host": "HOST",
        "--url": "URL",
        "--remote": "URL",
        "--master": "URL",
        "--spark-master": "URL",
        "--trace": "FOLDER|URI",
        "--port": "PORT",
        "--control": "PORT",
        "--cluster-id": "ID",
        "--run-id": "ID",
        "--client-id": "ID",
        "--first-id": "ID",
        "--release": "RELEASE",
        "--release-version": "VERSION",
        "--target-release": "RELEASE",
        "--identity": "SCHEME:ID",
        "--wait": "PHASE",
        "--hours": "HOURS",
        "--wave": "WAVE",
        "--hex": "BYTES",
        "--targets": "NAMES",
    }
)
"""Option -> what stands for its value in a help; others by their type."""
_OF_TYPE: Final = {Path: "PATH", int: "NUMBER", float: "NUMBER", str: "TEXT"}
_UNITS: Final = {
    "ms": 0.001,
    "": 1.0,
    "s": 1.0,
    "m": 60.0,
    "min": 60.0,
    "h": 3_600.0,
    "d": 86_400.0,
}
_WITH_UNIT: Final = re.compile(r"(\d+(?:\.\d+)?) ?(ms|s|min|m|h|d)?")
_SCHEME: Final = re.compile(r"[a-zA-Z][a-zA-Z0-9+._-]*://")


def seconds_of(text: str) -> float:
    """A duration in seconds: a number alone, or with ``ms``, ``s``, ``m``, ``h`` or ``d``.

    Raises:
        ValueError: it is none.

    >>> seconds_of("10m"), seconds_of("600s"), seconds_of("2h"), seconds_of("1.5")
    (600.0, 600.0, 7200.0, 1.5)
    """
    found = _WITH_UNIT.fullmatch(text.strip().lower())
    if found is None:
        raise ValueError(f"{text!r} is no duration: write 90, 90s, 10m or 2h")
    return float(found[1]) * _UNITS[found[2] or ""]


def behind_their_option(
    args: Sequence[str], several: Collection[str], valued: Collection[str]
) -> list[str]:
    """A command line on which each value has its option before it.

    Args:
        args: the words.
        several: options that may be given more than once: what follows the first value is theirs.
        valued: all options that have a value.

    >>> line = ["-c", "a", "b", "--json", "--target", "c", "d", "--dump", "e"]
    >>> behind_their_option(line, {"-c", "--target"}, {"-c", "--target", "--dump"})
    ['-c', 'a', '-c', 'b', '--json', '--target', 'c', '--target', 'd', '--dump', 'e']
    """
    found: list[str] = []
    option, awaits = "", False
    for at, word in enumerate(args):
        if word == "--" and not awaits:
            return found + list(args[at:])
        if awaits or word == "-" or not word.startswith("-"):
            found += [option, word] if option and not awaits else [word]
            awaits = False
            continue
        name, equals, _ = word.partition("=")
        option, awaits = name if name in several else "", name in valued and not equals
        found.append(word)
    return found


class Verb(TyperCommand):
    """One verb: the values of its options by their kinds, its help without cut sentences."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        for param in self.params:
            _named(param)
            vars(param)["process_value"] = _answering(param, param.process_value)

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Give all files that a shell writes for ``-c *.properties`` to that option."""
        options = [x for x in self.params if x.param_type_name == "option"]
        if not any(x.name == "files" for x in self.params):
            return super().parse_args(ctx, args)
        several = {y for x in options if getattr(x, "multiple", False) for y in x.opts}
        valued = {y for x in options if not getattr(x, "is_flag", False) for y in x.opts}
        return super().parse_args(ctx, behind_their_option(args, several, valued))

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Arguments and options, without Python's types."""
        rows: dict[str, list[tuple[str, str]]] = {"Arguments": [], "Options": []}
        for param in self.get_params(ctx):
            record = param.get_help_record(ctx)
            if record is None:
                continue
            name, text = record
            is_argument = param.param_type_name == "argument"
            name = name.partition(" <")[0] if is_argument else name
            rows["Arguments" if is_argument else "Options"].append((name, _plain_bounds(text)))
        for title, some in rows.items():
            if some:
                with formatter.section(title):
                    formatter.write_dl(some)

    def invoke(self, ctx: Any) -> Any:
        """Run the verb: from here on Ctrl-C lets it put in order what it has begun."""
        interrupts.put_in_order()
        return super().invoke(ctx)


class VerbGroup(TyperGroup):
    """The program or a group of verbs: listed by purpose; ``help`` and ``version`` are words."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Read ``help VERB`` as ``VERB --help``, and ``version`` as ``--version``."""
        if args[:1] == ["help"]:
            args = args[1:] if args[1:] == ["version"] else [*args[1:], "--help"]
        if args[:1] == ["version"] and ctx.parent is None:
            if args[1:]:
                ctx.fail(f"version takes no argument, and {' '.join(args[1:])} is given")
            args = ["--version"]
        return super().parse_args(ctx, args)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """The verb of a line; a name of another tool is answered with the verb that does it."""
        name = args[0].lower().removesuffix(".sh").removesuffix(".bat")
        if args[0] not in self.commands and ctx.parent is None and name in EXPECTED:
            ctx.fail(f"No such command {args[0]!r}. It is: kraft-bridge {EXPECTED[name]}")
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Verbs below the heading of their purpose, each with its whole first sentence."""
        names = [name for name in self.list_commands(ctx) if not self.commands[name].hidden]
        of_purpose = {
            title: [one for one in some if one in names] for title, some in PURPOSES.items()
        }
        rest = [one for one in names if not any(one in some for some in of_purpose.values())]
        width = max((len(name) for name in names), default=0)
        for title, some in {**of_purpose, "Commands": rest}.items():
            if some:
                with formatter.section(title):
                    formatter.write_dl(
                        [(name.ljust(width), first_sentence(self.commands[name])) for name in some]
                    )


def first_sentence(command: Any) -> str:
    """What a verb does, as the list of all has it."""
    text = " ".join((command.help or "").split("\n\n")[0].split())
    return text.partition(". ")[0].rstrip(".") + "."


def _named(param: Any) -> None:
    """Give the value of an option or argument a name that a person reads."""
    annotation = param.type_descriptor.annotation
    kind = next(iter(get_args(annotation)), annotation)
    long = next((one for one in param.opts if one.startswith("--")), param.name)
    fixed = METAVARS.get(long)
    if param.param_type_name == "argument":
        param.metavar = param.metavar or ("FILE" if kind is Path else param.name.upper())
    elif param.is_flag:
        return
    elif fixed is not None:
        param.metavar = "FOLDER" if kind is Path and fixed == METAVARS["--trace"] else fixed
    elif param.metavar is None and kind in _OF_TYPE:
        param.metavar = _OF_TYPE[kind]


def _plain_bounds(text: str) -> str:
    """The bounds of a number in words.

    >>> _plain_bounds("Seconds.  [default: 120.0; 0.1<=x<=100000]"), _plain_bounds("[x>=1]")
    ('Seconds.  [default: 120; 0.1 to 100000]', '[at least 1]')
    """
    text = re.sub(r"([\d.e+-]+)<=x<=([\d.e+-]+)", r"\1 to \2", text)
    text = re.sub(r"x>=([\d.e+-]+)", r"at least \1", text)
    text = re.sub(r"x<=([\d.e+-]+)", r"at most \1", text)
    return re.sub(r"(default: \d+|\d)\.0(?=[;\]])", r"\1", text)


def _answering(param: Any, read: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    """The reader of a parameter's value, with answers that a person reads."""

    def process_value(ctx: Any, value: Any) -> Any:
        metavar = param.metavar or ""
        given = value if isinstance(value, list | tuple) else [value]
        for text in (one for one in given if isinstance(one, str)):
            if why := _refused(param, metavar, text):
                raise typer.BadParameter(why, ctx=ctx, param=param)
        if metavar == DURATION:
            seconds = [str(seconds_of(one)) if isinstance(one, str) else one for one in given]
            value = seconds if isinstance(value, list | tuple) else seconds[0]
        try:
            return read(ctx, value)
        except typer.BadParameter as error:
            error.message = _in_words(param, value, given[0], error.message)
            raise

    return process_value


def _refused(param: Any, metavar: str, text: str) -> str:
    """Why a text cannot be the value of a parameter; empty if its own reader is to judge it."""
    if metavar == DURATION:
        try:
            seconds_of(text)
        except ValueError as error:
            return str(error)
    if metavar.startswith("HOST:PORT"):
        for one in text.split(","):
            if scheme := _SCHEME.match(one.strip()):
                return f"{text}: write HOST:PORT without {scheme[0]}"
    if metavar == "FILE" and "," in text and param.param_type_name == "option":
        parts = [one for one in text.split(",") if one]
        if not Path(text).exists() and len(parts) > 1:
            option = min(param.opts, key=len)
            return f"{text}: no such file; several are {' '.join(f'{option} {x}' for x in parts)}"
    return ""


def _in_words(param: Any, value: Any, given: Any, message: str) -> str:
    """What is wrong with a number; any other message as it is, without the library's own words."""
    kind = param.type_descriptor.annotation
    if kind not in {int, float}:
        return message.removeprefix("Value error, ").replace("Input should be", "must be")
    try:
        number = float(value)
    except (TypeError, ValueError):
        return f"{value!r} is no {'whole ' if kind is int else ''}number"
    for bound, wrong, word in ((param.min, "<", "least"), (param.max, ">", "most")):
        if bound is not None and (number < bound if wrong == "<" else number > bound):
            why = f" ({param.help})" if param.help else ""
            return f"{given}: at {word} {bound:g}{why}"
    return f"{value!r} is no {'whole ' if kind is int else ''}number"
