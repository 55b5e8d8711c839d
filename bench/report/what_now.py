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

_QUESTION: Final = "What now, and can I go back?"
_LOOK: Final = "Look at what failed: the checks below, and the logs of the processes."
_HOW: Final = "docs/rollback.md"
_ASK: Final = "`kraft-bridge status` says what is next, and what going back costs"
_WORDS: Final = {
    True: ("You could go back", "good"),
    False: ("No way back", "full"),
    None: ("Not known", "open"),
}
"""Whether it was at the end: few words, and their state."""


def what_now(tables: Tables, beside: Beside) -> Answer:
    """Of one run.

    Args:
        tables: of this run alone.
        beside: what was written beside the trace.
    """
    safety = [one for one in beside.checks if one.safety]
    failed = [one for one in safety if one.held is False]
    open_ = [one for one in safety if one.held is None]
    end = beside.end
    word, state, text, sure = _back(tables, end)
    if wrong := [*failed, *open_]:
        do, rest = _remedy(wrong[0])
        after = text
        if end is not None:
            after = f"Going back once that holds: {_lower(end.going_back)} ({_HOW})."
        return Answer(_QUESTION, do, "bad" if failed else "open", f"{rest}{after}", "")
    following = f"{end.next} " if end is not None and end.next else ""
    return Answer(_QUESTION, word, state, f"{following}{text}", "", sure)


def _lower(text: str) -> str:
    return f"{text[:1].lower()}{text[1:]}"


def _remedy(one: RunCheck) -> tuple[str, str]:
    """What to do about a check in few words, and the rest of it with a space behind.

    >>> _remedy(RunCheck("x", False, remedy="Do not finalise. See the logs."))
    ('Do not finalise', 'See the logs. ')
    >>> _remedy(RunCheck("x", False, remedy="Do not go on: go back from here."))
    ('Do not go on', 'Go back from here. ')
    """
    remedy = one.remedy or _LOOK
    stop, colon = remedy.find(". "), remedy.find(": ")
    at = min((place for place in (stop, colon) if place >= 0), default=len(remedy))
    rest = remedy[at + 2 :]
    return remedy[:at].rstrip("."), f"{rest[:1].upper()}{rest[1:]} " if rest else ""


def _back(tables: Tables, end: RunEnd | None) -> tuple[str, str, str, str]:
    """Whether going back was possible at the end: word, state, text, and how certain it is."""
    if end is not None:
        word, state = _WORDS[end.may_go_back]
        phase = end.phase.replace(" (", ", ").rstrip(")")
        text = f"Going back at the end, in {phase}: {_lower(end.going_back)} ({_HOW})."
        return word, state, text, "asked of the leading controller"
    flags = _flags(tables)
    if not flags:
        text = f"No controller wrote this trace. {_ASK}."
        return *_WORDS[None], text, ""
    if all(flags) and tables["coalescing"]:
        lacks = max((row["last_lag_records"] for row in tables["lag_summary"]), default=0)
        waits = (
            f" ZooKeeper lacked {several(lacks, 'record')} at its end: kraft-bridge rollback waits "
            "for them."
            if lacks
            else ""
        )
        text = f"When this trace ended, nothing was finalised.{waits} {_ASK}."
        sure = f"each controller ran with {MIGRATION}=true and wrote to ZooKeeper"
        return *_WORDS[True], text, sure
    why = f"a controller ran without {MIGRATION}" if not all(flags) else "none wrote to ZooKeeper"
    return *_WORDS[None], f"Whether it is final is not in this trace: {why}. {_ASK}.", ""


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
