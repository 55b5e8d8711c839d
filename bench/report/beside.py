"""What the program that made a trace wrote beside it: what it checked, and what happened when."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Final, TypeVar

import msgspec

CHECKS: Final = "checks.json"
EVENTS: Final = "events.json"
END: Final = "end.json"
"""In the folder of a trace; arrays of the classes below, of the end with one row at most."""
_T = TypeVar("_T")
_Instant = Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]


class RunCheck(msgspec.Struct, frozen=True):
    """One check.

    ``held``: None: not judged. ``safety``: False: of speed. ``remedy``: what to do where it did not
    hold. ``wrong``: what was found, such as each key that differs.
    """

    what: str
    held: bool | None
    figures: str = ""
    safety: bool = True
    remedy: str = ""
    wrong: tuple[str, ...] = ()


class RunEvent(msgspec.Struct, frozen=True):
    """Something that happened at ``wall_ns``, in ns since 1970."""

    wall_ns: _Instant
    what: str


class RunEnd(msgspec.Struct, frozen=True):
    """Where the cluster stood at the end, as the controller that led said it.

    ``phase``: its text in ``/status``. ``may_go_back``: to ZooKeeper mode; None: not known.
    ``going_back``: what that takes, in a sentence without a full stop. ``next``: what to do next,
    in sentences.
    """

    phase: str
    may_go_back: bool | None
    going_back: str
    next: str = ""


class Beside(msgspec.Struct, frozen=True):
    """All of it; checks and events each in their order."""

    checks: tuple[RunCheck, ...] = ()
    events: tuple[RunEvent, ...] = ()
    end: RunEnd | None = None


NOTHING: Final = Beside()


def write_beside(
    trace: Path,
    checks: Iterable[RunCheck],
    events: Iterable[RunEvent],
    end: RunEnd | None = None,
) -> None:
    """Write them into the folder of a trace; it is made if it is not there."""
    trace.mkdir(parents=True, exist_ok=True)
    ends = [] if end is None else [end]
    for name, rows in ((CHECKS, checks), (EVENTS, events), (END, ends)):
        (trace / name).write_bytes(msgspec.json.format(msgspec.json.encode([*rows]), indent=1))


def read_beside(trace: str) -> Beside:
    """What lies in the folder of a trace; nothing where the trace is not of this machine.

    Raises:
        ValueError: a file is not what it should be; the text names it.
    """
    from bench.analysis.tails import folder_of  # noqa: PLC0415 - a program that only writes needs no Spark

    folder = folder_of(trace)
    if folder is None:
        return NOTHING
    return Beside(
        _read(folder / CHECKS, tuple[RunCheck, ...]),
        _read(folder / EVENTS, tuple[RunEvent, ...]),
        next(iter(_read(folder / END, tuple[RunEnd, ...])), None),
    )


def _read(file: Path, kind: type[_T]) -> _T:
    try:
        content = file.read_bytes()
    except (FileNotFoundError, NotADirectoryError):
        content = b"[]"
    try:
        return msgspec.json.decode(content, type=kind)
    except msgspec.DecodeError as error:
        raise ValueError(f"{file}: {error}") from error
