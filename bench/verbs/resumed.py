"""Goes on with an interrupted rehearsal: what its folder has, and whether the same is given."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Final

from bench.rehearsal.evidence import Interrupted, NotInterruptedError, interrupted
from bench.rehearsal.phases import PHASES, RehearsedPhase
from bench.rehearsal.verdict import REHEARSED, PhaseFigures
from bench.verbs import zk_load
from bench.verbs.rehearsed_inputs import Prepared
from emulator.commands.common import fail
from emulator.commands.exits import ExitCode
from emulator.commands.preflight import inputs
from emulator.io.printable import sentence

TREE: Final = "tree.json"


@dataclass(frozen=True, slots=True)
class GoingOn:
    """An interrupted rehearsal; ``hash``: of the last row of its evidence."""

    folder: Path
    hash: str


def read(folder: Path, prepared: Prepared) -> GoingOn:
    """Look at what an interrupted rehearsal has left; ``prepared`` takes what it found.

    Raises:
        typer.Exit: it cannot go on, and the reason was printed.
    """
    folder = folder.absolute()
    try:
        left = interrupted(folder)
        _same(left, prepared)
        _take(left, prepared, _next(left, folder))
    except NotInterruptedError as error:
        raise fail(f"--resume {error}", ExitCode.WRONG) from error
    except (KeyError, TypeError, AttributeError) as error:
        raise fail(
            f"--resume {folder}: its rows are not of this version: rehearse anew", ExitCode.WRONG
        ) from error
    except OSError as error:
        raise fail(f"--resume {sentence(error)}", ExitCode.WRONG) from error
    return GoingOn(folder, left.hash)


def keep_tree(folder: Path, tree: Mapping[str, Any]) -> None:
    """Keep what was read of a ZooKeeper, without its secrets.

    Raises:
        OSError: it cannot be written.
    """
    (folder / TREE).write_text(json.dumps(tree))


def kept_tree(folder: Path, zookeeper: str, configs: Sequence[Path]) -> tuple[str, dict[str, Any]]:
    """Where a tree was read that an interrupted rehearsal has kept, and the tree.

    Raises:
        typer.Exit: there is none, or a file of ``configs`` cannot be read.
    """
    try:
        hosts, _ = inputs.ensemble(zookeeper, configs, online=True)
    except inputs.PreflightError as error:
        raise fail(str(error), ExitCode.WRONG) from error
    if not (folder / TREE).exists():
        raise fail(
            f"--resume {folder}: there is no {TREE}, which is kept of a --zookeeper that was read "
            "without --anonymise and --keep-secrets: rehearse anew",
            ExitCode.WRONG,
        )
    return hosts, zk_load.read(folder / TREE)


def _same(left: Interrupted, prepared: Prepared) -> None:
    """See that the same is given.

    Raises:
        NotInterruptedError: it is not; the text says what.
    """
    if prepared.secrets:
        raise NotInterruptedError("goes without --keep-secrets: what was left was removed")
    was = {one["name"]: one["sha256"] for one in left.of("input")}
    now = prepared.digests
    if other := sorted(name for name in was.keys() | now.keys() if was.get(name) != now.get(name)):
        raise NotInterruptedError(
            f"is for the same inputs, and {other[0]} is not what it was: rehearse anew"
        )
    begin, found = left.rows[0], prepared.found
    if (begin["load_per_s"], begin["brokers"]) != (found.load_per_s, [*found.brokers]):
        raise NotInterruptedError("is for the same --load and --release: give them again")


def _next(left: Interrupted, folder: Path) -> RehearsedPhase:
    """The phase in which it was interrupted.

    Raises:
        NotInterruptedError: there is none.
    """
    done = [one["phase"] for one in left.of("phase")]
    names = [one.name for one in PHASES]
    if done != names[: len(done)] or any(one["state"] != REHEARSED for one in left.of("phase")):
        raise NotInterruptedError(f"{folder}: a phase failed: rehearse anew")
    if done == names:
        raise NotInterruptedError(f"{folder}: every phase was rehearsed, its end was not written")
    return PHASES[len(done)]


def _take(left: Interrupted, prepared: Prepared, phase: RehearsedPhase) -> None:
    found = prepared.found
    found.phases = [_figures(one) for one in left.of("phase")]
    found.predicted = [one["text"] for one in left.of("predicted")] or found.predicted
    found.repaired = [one["text"] for one in left.of("repaired")]
    found.resumed = len(left.of("resumed")) + 1
    into = {
        "node": found.refused_nodes,
        "broker": found.refused_brokers,
        "change": found.lost,
        "stores": found.differences,
    }
    for one in left.of("reason"):
        into[one["of"]].append(one["text"])
    found.assumed = [*found.assumed, f"it was interrupted in '{phase.name}', which began again"]


def _figures(row: Mapping[str, Any]) -> PhaseFigures:
    known = {one.name for one in fields(PhaseFigures)}
    return PhaseFigures(**{key: one for key, one in row.items() if key in known})


def advice(folder: Path, prepared: Prepared) -> str:
    """What to do after an interruption."""
    if prepared.secrets:
        return f"the logs are in {folder}; what had secrets is removed: rehearse anew"
    done = sum(one.state == REHEARSED for one in prepared.found.phases)
    if done == len(PHASES):
        return f"the logs are in {folder}; here it cannot go on: rehearse anew"
    name = PHASES[done].name
    return f"give --resume {folder} beside the same again, and it goes on with '{name}'"
