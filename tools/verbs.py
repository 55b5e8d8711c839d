"""The page of verbs: a table of all, then usage, options, exit codes and examples of each."""

import re
from collections.abc import Iterator, Sequence
from typing import Any

import typer

from emulator.commands import VERBS
from emulator.commands.every import app_of
from emulator.commands.exits import EXAMPLES
from emulator.commands.parser import PURPOSES, first_sentence


def leaves(command: Any, name: str = "") -> Iterator[tuple[str, Any]]:
    """Each verb below a command, with its words, in the order of the help."""
    for word, below in getattr(command, "commands", {}).items():
        words = f"{name} {word}".strip()
        if hasattr(below, "commands"):
            yield from leaves(below, words)
        elif not below.hidden:
            yield words, below


def page() -> Iterator[str]:
    """docs/verbs.md."""
    yield "# Verbs and their options\n\n"
    yield "What `--help` of each verb prints. Next: "
    yield "[what each exit code means](command-line.md#exit-codes), and\n"
    yield "[which nodes `status` asks](command-line.md#which-nodes-status-asks).\n"
    top = typer.main.get_command(app_of("", VERBS))
    yield from _index([*leaves(top)])
    # It has the names of the help option, which a command keeps once it was asked.
    parent = top.make_context("kraft-bridge", [], resilient_parsing=True)
    for words, command in leaves(top):
        yield from _verb(words, command, parent)


def _index(every: Sequence[tuple[str, Any]]) -> Iterator[str]:
    """A table of all, by purpose."""
    for title, some in PURPOSES.items():
        yield f"\n| {title.lower()} | |\n|---|---|\n"
        for words, command in every:
            if {words, words.partition(" ")[0]} & {*some}:
                said = _cell(_text(first_sentence(command)))
                yield f"| [`{words}`](#{words.replace(' ', '-')}) | {said} |\n"


def _verb(words: str, command: Any, parent: Any) -> Iterator[str]:
    context = command.make_context(words, [], parent=parent, resilient_parsing=True)
    usage = " ".join(command.collect_usage_pieces(context))
    yield f"\n## {words}\n\n{_text(command.help)}\n\n"
    yield f"`kraft-bridge {words} {usage}`\n"
    records = [one.get_help_record(context) for one in command.params]
    shown = [one for one in records if one and "--help" not in one[0]]
    if shown:
        yield "\n| argument, option | meaning |\n|---|---|\n"
        for option, meaning in shown:
            shown_as = option if option[0] == "-" else option.partition(" ")[0]
            yield f"| `{_cell(shown_as)}` | {_cell(_text(meaning))} |\n"
    epilog = command.epilog or ""
    if codes := re.findall(r"^ *(\d+) ", epilog.partition("Exit codes")[2], re.MULTILINE):
        yield f"\nExit codes: {', '.join(codes)}.\n"
    if lines := EXAMPLES.get(words):
        yield f"\nExamples: {', '.join(f'`kraft-bridge {one}`' for one in lines)}.\n"


def _text(text: str | None) -> str:
    """One line of Markdown, in which nothing counts as HTML."""
    words = " ".join(re.sub(r"[\b\f]", "", text or "").split())
    return words.replace("<", "&lt;").replace("*", "\\*")


def _cell(text: str) -> str:
    return text.replace("|", "\\|")
