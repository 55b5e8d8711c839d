"""Where the cluster of a demonstration stands before it is stopped."""

from __future__ import annotations

import json
from typing import Any, Final

from bench.demo.controllers import Controllers
from bench.report.beside import RunEnd
from emulator.servers.waiting import wait_for

_PAGE: Final = "/series"
"""What the live page of a controller shows."""
_NAMED: Final = 2
"""Steps that a card has room for."""


def ahead(controllers: Controllers) -> RunEnd:
    """Ask the controller that leads.

    Raises:
        TimeoutError: none leads, or it does not answer.
    """

    def asked() -> dict[str, Any] | None:
        status = controllers.status()
        found = json.loads(controllers.nodes[controllers.leader].page(_PAGE) or "null")
        leads = found is not None and found["status"]["leader_id"] == controllers.leader
        return found if status is not None and leads else None

    shown = wait_for("page of the controller that leads", asked)
    assert shown is not None
    return end_of(shown)


def end_of(shown: dict[str, Any]) -> RunEnd:
    """The same from ``/series``."""
    status, back = shown["status"], shown["back"]
    migration = status["migration"]
    named = enumerate(shown["next"][:_NAMED], 1)
    steps = ", ".join(f"{number}. {_lower(one['what'])}" for number, one in named)
    return RunEnd(
        status["phase"]["text"],
        migration and migration["going_back"]["possible"],
        back["answer"],
        f"Demo finished. On your own cluster: {steps} (docs/runbook.md).",
    )


def _lower(text: str) -> str:
    return f"{text[:1].lower()}{text[1:]}"
