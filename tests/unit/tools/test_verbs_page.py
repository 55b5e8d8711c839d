"""docs/verbs.md begins with a table of all verbs, each with its part of the page and an example."""

from __future__ import annotations

import typer

from emulator.commands import VERBS
from emulator.commands.every import app_of
from tools import verbs


def test_each_verb_is_in_the_table_once_and_has_a_part_with_an_example() -> None:
    page = "".join(verbs.page())
    table, *parts = page.split("\n## ")
    names = [words for words, _ in verbs.leaves(typer.main.get_command(app_of("", VERBS)))]
    assert len(names) > 20
    assert [one.partition("\n")[0] for one in parts] == names
    for words, part in zip(names, parts, strict=True):
        assert table.count(f"\n| [`{words}`](#{words.replace(' ', '-')}) | ") == 1, words
        assert f"`kraft-bridge {words}" in part.rpartition("\nExamples: ")[2], words
