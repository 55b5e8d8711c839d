"""The report of a rehearsal as one HTML document."""

from __future__ import annotations

from typing import Final

from bench.rehearsal.verdict import (
    FAILED,
    NOT_REHEARSED,
    REHEARSED,
    REMEDIES,
    REPAIRED,
    Rehearsal,
    next_step,
    open_points,
    table,
    verdict,
)
from bench.report.blocks import (
    Answer,
    Block,
    Note,
    ReportSection,
    ReportTable,
    TableColumn,
    render,
)
from bench.report.findings import Finding
from emulator.config.words import duration, several

ROLLBACK: Final = "rollback"
"""The phase in which going back is rehearsed; a test holds it to be one."""


def page(found: Rehearsal) -> str:
    """The document: the verdict, every reason, the table of phases, and what was assumed."""
    head, *rows = table(found.phases)
    columns = [TableColumn(name, at < 2) for at, name in enumerate(head)]
    marked = [[f"✗ {cell}" if cell == FAILED else cell for cell in row] for row in rows]
    sections = _reasons(found)
    phases = ReportTable(columns, marked, stacked=True)
    sections += [ReportSection("Phases", [phases, *_whys(found)])]
    sections += [
        ReportSection(title, [Note(line) for line in lines])
        for title, lines in (
            ("Predicted for the real ZooKeeper", found.predicted),
            (REPAIRED[:1].upper() + REPAIRED[1:], found.repaired),
            ("Warnings of preflight, which do not decide", found.warnings),
            ("Assumed", found.assumed),
            ("Not shown by this", found.not_shown),
        )
        if lines
    ]
    reasons = [Finding(one.kind, one.text, warning=True) for one in found.own_reasons]
    title = f"Rehearsal of {found.dump}"
    return render(title, reasons, sections, verdict(found), answers=rehearsal_answers(found))


def _reasons(found: Rehearsal) -> list[ReportSection]:
    """Each reason with what to do about it; phases that were not begun follow from the others."""
    rows = [[one.kind, one.text, REMEDIES[one.kind]] for one in found.own_reasons]
    columns = [TableColumn(name, word=True) for name in ("kind", "why not", "what to do")]
    return [ReportSection("Why not", [ReportTable(columns, rows, stacked=True)])] if rows else []


def rehearsal_answers(found: Rehearsal) -> tuple[Answer, ...]:
    """Whether the cluster can migrate, what now, whether it can go back, and what waited."""
    return _can(found), _what_now(found), _back(found), _waits(found)


def _can(found: Rehearsal) -> Answer:
    question = "Can this cluster migrate?"
    if found.go:
        count = several(len(found.phases), "phase")
        left = open_points(found)
        text = f"{count} rehearsed, none failed. Not yet a go for production"
        text += f": {left} below." if left else "."
        return Answer(question, "Yes, with emulated brokers", "good", text, "")
    reasons = found.own_reasons
    count = several(len(reasons), "reason")
    first = reasons[0].text if reasons else "nothing was rehearsed"
    text = f"{count} below; the first: {first}.{_stopped(found)} Your cluster was not touched."
    word = "Not as it is" if found.in_cluster else "Not proven: the rehearsal failed"
    return Answer(question, word, "bad", text, "")


def _stopped(found: Rehearsal) -> str:
    """Where it stopped, behind a space; empty: it came to its end, or did not begin."""
    if (at := found.stopped_in) is None:
        return ""
    more = any(one.state == NOT_REHEARSED for one in found.phases)
    return f" It stopped in phase '{at.phase}'{'; later phases were not reached' if more else ''}."


def _what_now(found: Rehearsal) -> Answer:
    question = "What now?"
    step, command = next_step(found)
    text = f"{step[:1].upper()}{step[1:]}. "
    if found.go:
        text += "This run had emulated brokers, which store no records. "
        return Answer(question, "Rehearse on a clone", "good", f"{text}Type: {command}", "")
    word = "Mend it, and repeat" if found.in_cluster else "Find out why, and repeat"
    text += f"Type: {command}" if command else ""
    return Answer(question, word, "bad", text.rstrip(), "")


def _back(found: Rehearsal) -> Answer:
    question = "Can I go back?"
    by_name = {one.phase: one for one in found.phases}
    one = by_name.get(ROLLBACK)
    if one is None or one.state == NOT_REHEARSED:
        return Answer(question, "Not known", "open", "Going back was not rehearsed.", "")
    if one.state != REHEARSED:
        text = f"The rollback failed in the rehearsal: {one.why}. Your cluster was not touched."
        return Answer(question, "It failed here", "bad", text, "")
    brokers = len(found.brokers)
    took = f"kraft-bridge rollback took {one.seconds:.0f} s here" if one.seconds else "rehearsed"
    text = (
        f"In dual write it takes {several(brokers, 'restart of a broker', 'restarts of brokers')}, "
        f"with all brokers in KRaft mode {2 * brokers}; {took}. "
        "After finalising there is no way back."
    )
    return Answer(question, "Yes, until it is finalised", "good", text, "")


def _waits(found: Rehearsal) -> Answer:
    question = "What waited, and how long?"
    gaps = [(one.without_controller_s or 0.0, one.phase) for one in found.phases]
    changes = [(one.longest_change_s or 0.0, one.phase) for one in found.phases]
    blocked_s = [one.blocked_s for one in found.phases if one.blocked_s is not None]
    if not blocked_s:
        text = f"That was not measured.{_stopped(found)}"
        return Answer(question, "Not known", "open", text, "")
    (gap, at), (change, change_at) = max(gaps), max(changes)
    text = (
        f"The longest change took {duration(1e3 * change)} ({change_at}); there was no controller "
        f"for {duration(1e3 * gap)} ({at}) at most; ZooKeeper blocked KRaft for "
        f"{duration(1e3 * sum(blocked_s))}."
    )
    return Answer(question, f"At most {duration(1e3 * change)}", "plain", text, "")


def _whys(found: Rehearsal) -> list[Block]:
    """What each phase does, why it did not come to its end, and what going back takes then.

    The last only where it is other than behind the phase before.
    """
    lines: list[Block] = []
    last = ""
    for one in found.phases:
        back = "" if one.going_back == last else f"to go back: {one.going_back}"
        last = one.going_back
        parts = filter(None, (one.did, one.why, back))
        lines.append(Note(f"{one.phase}: {'; '.join(parts)}"))
    return lines
