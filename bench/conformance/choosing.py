"""Which cases run: all, or those that ``--only`` names by id, group, KIP, API, class or row."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from bench.conformance import cases as _entered
from bench.conformance.case import CASES, Case
from wire.schema import spec

GROUPS: Final = (
    "framing",
    "apis",
    "metadata",
    "topics",
    "configs",
    "reassignments",
    "elections",
    "quotas",
    "scram",
    "acls",
    "tokens",
    "features",
    "producer_ids",
    "records",
    "brokers",
    "replicas",
    "quorum",
    "envelope",
)
"""The order in which they run."""
assert set(GROUPS) == {*_entered.__all__}, "importing the cases enters them"


def chosen(words: Sequence[str]) -> list[Case]:
    """The cases that a word names, in their order; all without words.

    Raises:
        ValueError: a word names none.
    """
    every = sorted(CASES.values(), key=lambda one: GROUPS.index(one.group))
    if not words:
        return every
    found: set[str] = set()
    for word in words:
        wanted = word.partition("@")[0].casefold()
        mine = [one.id for one in every if _is(one, wanted)]
        mine = mine or [one.id for one in every if wanted in _texts(one)]
        if not mine:
            why = "no case has it in its id, title, source, API or row (--list)"
            raise ValueError(f"{word}: {why}")
        found |= {*mine}
    return [one for one in every if one.id in found]


def _is(one: Case, wanted: str) -> bool:
    """Whether a word is the case's id, the beginning of it, its group, an API of it or a row."""
    apis = [spec(each).name.removesuffix("Request").casefold() for each in one.asks]
    names = {one.group.casefold(), *apis, *map(str.casefold, one.rows)}
    return wanted in names or f"{one.id.casefold()}.".startswith(f"{wanted}.")


def _texts(one: Case) -> str:
    return f"{one.title}; {one.sources}".casefold()
