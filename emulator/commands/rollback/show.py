"""What ``kraft-bridge rollback`` found and did, as text or JSON."""

from __future__ import annotations

from typing import Final

import msgspec
from rich.console import Console

from emulator.commands.common import columns
from emulator.commands.json_forms import stamped
from emulator.commands.preflight.sarif import show_findings
from emulator.io.printable import printable
from emulator.operations.next_steps import Action, lines, of_rollback
from emulator.operations.next_steps import as_json as steps_as_json
from emulator.operations.preflight.engine import Severity, printed, with_code
from emulator.operations.rollback.course import Actor, Course
from emulator.operations.rollback.phases import MEANINGS, NOT_NOW, RollbackPhase

WITHOUT_FLAG: Final = "a controller leads without the flag, and does not write ZooKeeper"


def to_json(course: Course, *, acted: bool) -> str:
    """One object of the form ``rollback``."""
    document = {
        "phase": dict(zip(("name", "text"), _phase(course), strict=True)),
        "counts": {
            one.value: sum(each.severity is one for each in course.findings) for one in Severity
        },
        "findings": [with_code(one) for one in course.findings],
        "steps": course.steps,
        "next": steps_as_json(of_rollback(course)),
        "acted": acted,
        "refused": bool(course.refused),
        "did": course.did,
        "failed": course.failed,
        "controller": course.controller,
        "without_controller_ms": _rounded(course.without_controller_ms),
        "ours_ms": _rounded(course.ours_ms),
        "brokers_ms": _rounded(course.theirs_ms),
    }
    return msgspec.json.encode(stamped("rollback", document)).decode()


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 1)


def show(course: Course, console: Console, *, acted: bool) -> None:
    """Print the verdict and what to do now, the findings, what was done, and what comes later."""
    _line(console, _verdict(course, acted=acted))
    for line in lines(of_rollback(course)[:1], columns()):
        _line(console, line)
    show_findings(course.findings, console)
    for did in course.did:
        _line(console, f"done: {did}")
    if course.controller is not None:
        _line(console, f"controller: broker {course.controller}, in ZooKeeper mode")
    whole = course.without_controller_ms
    if whole is not None:
        _line(
            console,
            f"without a controller: {whole:,.0f} ms from the end of the last controller on: "
            f"{course.ours_ms:,.0f} ms until /controller was free, {course.theirs_ms:,.0f} ms that "
            "the brokers took to elect one, which then reads all topics and sends them to brokers",
        )
    left = [one for one in course.steps if not one.done]
    if left:
        _line(console, "later, in this order:" if course.refused else "in this order:")
    for number, step in enumerate(left, 1):
        _line(console, f"  {number}. {step.actor.value}: {step.what}")
        if step.command:
            _line(console, f"     type: {step.command}")
        _line(console, f"     costs: {step.cost}")
    if course.failed:
        _line(console, f"failed: {course.failed}")
    elif course.refused:
        codes = ", ".join(sorted({printed(one.code) for one in course.refused}))
        _line(console, f"refused because of {codes}: nothing was changed")
    elif not acted:
        does = "; --yes does the steps of kraft-bridge"
        steps = any(one.actor is Actor.COMMAND for one in left)
        _line(console, f"nothing was changed{does if steps else ''}")


def _from(course: Course) -> str:
    return f"rollback from: {': '.join(_phase(course))}"


def _phase(course: Course) -> tuple[str, str]:
    """The word for the phase, as in ``/status``, and what it means."""
    if course.flagless and course.phase is RollbackPhase.DUAL_WRITE:
        return course.flagless, WITHOUT_FLAG
    return course.phase.value, MEANINGS[course.phase]


def _verdict(course: Course, *, acted: bool) -> str:
    """The first line: what came of it, and the phase that it began from."""
    if course.failed:
        return f"FAILED: {_from(course)}"
    if course.refused:
        final = course.phase is RollbackPhase.FINALISED
        return f"{'NOT POSSIBLE' if final else NOT_NOW}: {_from(course)}"
    back = course.phase is RollbackPhase.ROLLED_BACK
    if acted and course.did:
        began = "" if back else f", from {_phase(course)[0]}"
        return f"DONE: rolled back{began}: broker {course.controller} holds /controller"
    if back and of_rollback(course)[0].action is not Action.NOTHING:
        return f"BACK: {': '.join(_phase(course))}"  # the command has nothing to do, others have
    if back or course.phase is RollbackPhase.NOT_BEGUN:
        return f"NOTHING TO DO: {': '.join(_phase(course))}"
    return f"READY: {_from(course)}"


def _line(console: Console, text: str) -> None:
    """A line without what would command a terminal: names of znodes may hold any character."""
    console.print(printable(text), markup=False, highlight=False, soft_wrap=True)
