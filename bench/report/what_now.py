"""What to do after a run, and whether the cluster can go back to ZooKeeper mode, in words.

The program that made a trace may have asked the controllers at the end (``beside.RunEnd``). If not,
the trace itself shows at most that nothing was finalised; what going back costs is not in it.
"""

from __future__ import annotations

import json
from typing import Final

from bench.report.beside import Beside, RunCheck, RunEnd
from bench.report.blocks import Answer
from bench.report.findings import Tables, is_controller
from emulator.config.words import several
from emulator.config.zookeeper_mode import MIGRATION

_NOW: Final = "What now?"
_BACK: Final = "Could I go back at the end?"
_LOOK: Final = "Look at what failed: the checks below, and the logs of the processes."
_HOW: Final = "docs/rollback.md"
_ASK: Final = "`kraft-bridge status` says what is next, and what going back costs."
_WORDS: Final = {
    True: ("Yes", "good"),
    False: ("No way back", "full"),
    None: ("Not known", "open"),
}
"""Whether it was at the end: few words, and their state."""


def what_now(beside: Beside) -> Answer:
    """What to do after one run, by what was written beside its trace."""
    failed, open_ = _wrong(beside)
    if wrong := [*failed, *open_]:
        do, rest = _remedy(wrong[0].remedy or _LOOK)
        return Answer(_NOW, do, "bad" if failed else "open", rest, "")
    if beside.end is not None and beside.end.next:
        do, rest = _remedy(beside.end.next)
        return Answer(_NOW, do, "good", rest, "")
    return Answer(_NOW, "Look at its status", "open", _ASK, "")


def could_go_back(tables: Tables, beside: Beside) -> Answer:
    """Whether the cluster could go back at the end of a run, and what that takes.

    Args:
        tables: of this run alone.
        beside: what was written beside the trace.
    """
    failed, open_ = _wrong(beside)
    word, state, text, sure = _back(tables, beside.end, whole=not failed and not open_)
    if (failed or open_) and state == "good":
        text = f"Once the checks hold: {_lower(text)}"
        return Answer(_BACK, "Not yet", "bad" if failed else "open", text, "", sure)
    return Answer(_BACK, word, state, text, "", sure)


def _wrong(beside: Beside) -> tuple[list[RunCheck], list[RunCheck]]:
    """Checks of safety that failed, and that were not judged."""
    safety = [one for one in beside.checks if one.safety]
    return [one for one in safety if one.held is False], [one for one in safety if one.held is None]


def in_phase(phase: str) -> str:
    """A phase, and how far it is.

    >>> in_phase("dual write (0 of 3 brokers in KRaft mode)")
    'dual write, 0 of 3 brokers in KRaft mode'
    """
    return phase.replace(" (", ", ").rstrip(")")


def _lower(text: str) -> str:
    return f"{text[:1].lower()}{text[1:]}"


def _remedy(remedy: str) -> tuple[str, str]:
    """What to do in few words, and the rest of it.

    >>> _remedy("Do not finalise. See the logs.")
    ('Do not finalise', 'See the logs.')
    >>> _remedy("Do not go on: go back from here.")
    ('Do not go on', 'Go back from here.')
    """
    stop, colon = remedy.find(". "), remedy.find(": ")
    at = min((place for place in (stop, colon) if place >= 0), default=len(remedy))
    rest = remedy[at + 2 :]
    return remedy[:at].rstrip("."), f"{rest[:1].upper()}{rest[1:]}"


def _back(tables: Tables, end: RunEnd | None, *, whole: bool) -> tuple[str, str, str, str]:
    """Whether going back was possible at the end: word, state, text, and how certain it is.

    ``whole``: every check held; else nothing is promised of what going back loses.
    """
    if end is not None:
        word, state = _WORDS[end.may_go_back]
        costs = end.going_back.removeprefix("Yes, ").removeprefix("No: ")
        costs = costs if whole else costs.partition("; ")[0]
        costs = f"{costs[:1].upper()}{costs[1:]}"
        text = f"{costs} ({_HOW}). The phase was {in_phase(end.phase)}."
        return word, state, text, "asked of the leading controller"
    flags = _flags(tables)
    if not flags:
        text = "No controller wrote this trace."
        return *_WORDS[None], text, ""
    if all(flags) and tables["coalescing"]:
        lacks = max((row["last_lag_records"] for row in tables["lag_summary"]), default=0)
        waits = (
            f" ZooKeeper lacked {several(lacks, 'record')} at its end: kraft-bridge rollback waits "
            "for them."
            if lacks
            else ""
        )
        text = f"When this trace ended, nothing was finalised.{waits}"
        sure = f"each controller ran with {MIGRATION}=true and wrote to ZooKeeper"
        return *_WORDS[True], text, sure
    why = f"a controller ran without {MIGRATION}" if not all(flags) else "none wrote to ZooKeeper"
    return *_WORDS[None], f"Whether it is final is not in this trace: {why}.", ""


def _flags(tables: Tables) -> list[bool]:
    """Whether each life of each controller had the migration on; empty: none is in the trace."""
    found = []
    for row in tables["runs"]:
        if is_controller(row["process"]):
            try:
                given = json.loads(row["parameters"])
            except (ValueError, RecursionError):
                given = None
            found.append(isinstance(given, dict) and given.get(MIGRATION) == "true")
    return found
