"""What ``/status`` says of finalising: who or what is missing, and the mark in the log.

Reads the machines and changes nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from emulator.controller.finalisation import Lacking, lacking
from emulator.metadata.image import Image
from emulator.metadata.migration_state import MigrationState
from emulator.node.advice import iso
from emulator.node.finalising import Finalising
from emulator.node.machine import Node


def finalisation(node: Node) -> dict[str, Any] | None:
    """The part of ``/status``; None if the log has no copied migration."""
    image = node.controller.stable
    if image.migration_state not in {MigrationState.MIGRATION, MigrationState.POST_MIGRATION}:
        return None
    side = node.migration
    missing: Sequence[Lacking] = ()
    held = node.config.finalise_hold
    since: dict[tuple[str, str], int] = {}
    waits_for = ""
    no_mark = ""
    if isinstance(side, Finalising):
        missing, held, since = side.missing, side.held, side.since
        waits_for = "; ".join(side.waited_for)
    elif node.raft.is_leader:
        missing = lacking(image, node.controller.config, {})
        no_mark = side.no_mark_because(node.raft.leader_epoch)
    return {
        "state": _state(node, image, held=held and len(missing) == 1),
        "rule": node.config.finalise_by,
        "hold": held,
        "missing": [
            {
                "why": one.lack.value,
                "subject": one.subject,
                "text": one.text,
                "since": iso(since.get((one.lack.value, one.subject))),
            }
            for one in missing
        ],
        "waits_for": waits_for,
        "mark": _mark(image),
        "no_mark_because": no_mark,
    }


def _state(node: Node, image: Image, *, held: bool) -> str:
    if image.migration_state is MigrationState.POST_MIGRATION:
        return "finalised"
    if not node.raft.is_leader:
        return "follows"
    if node.driver is not None:
        return "migrating"
    return "held" if held else "waiting"


def _mark(image: Image) -> dict[str, Any] | None:
    mark = image.mark
    if mark is None:
        return None
    return {
        "node_id": mark.node_id,
        "controller_epoch": mark.zk_epoch,
        "read_at": iso(mark.read_ms),
        "confirmed_offset": mark.confirmed_offset,
    }
