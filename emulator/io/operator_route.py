"""Pages of the metrics port that change something on behalf of an operator.

Only within this machine and with the token, as ``/faults``: whoever may read the node's folder may
ask for them. Requests of clients and brokers never come here.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

from emulator.io import http
from emulator.io.http import HttpRequest, Page
from emulator.io.local_token import LocalToken
from emulator.node.finalising import Finalising
from emulator.node.introspection import finalisation
from emulator.node.machine import Node
from emulator.node.reconciling import Reconciling, RefusedComparisonError
from emulator.seam import Log

TOKEN_FILE: Final = "operator.token"  # noqa: S105 - where it is, not what
NOT_ONLY_HELD: Final = "more than the hold is missing, or it is not known yet what is"


class OperatorRoute:
    """Guards some pages by one token; :meth:`close` removes it.

    Args:
        folder: of the node.
        pages: path -> what answers every method.

    Raises:
        OSError: the token cannot be written.
    """

    def __init__(self, folder: Path, pages: http.Actions) -> None:
        self._token = LocalToken(folder / TOKEN_FILE)
        self.actions: Mapping[str, Callable[[HttpRequest], Page]] = {
            path: self._guarded(page) for path, page in pages.items()
        }
        """The same pages, for those who have the token."""

    def close(self) -> None:
        """Remove the token."""
        self._token.close()

    def _guarded(self, page: Callable[[HttpRequest], Page]) -> Callable[[HttpRequest], Page]:
        return lambda asked: self._token.refusal(asked) or page(asked)


def reconcile_page(reconciling: Reconciling) -> Callable[[HttpRequest], Page]:
    """``/reconcile``: ``POST`` asks for a comparison, ``GET`` shows how far the last one is.

    The body of a POST is a JSON object; ``{"dry_run": true}`` writes nothing to ZooKeeper. It is
    answered 409 while the node does not lead, or cannot compare now.
    """

    def answer(asked: HttpRequest) -> Page:
        match asked.method:
            case "GET" | "HEAD":
                return _json(200, reconciling.status())
            case "POST":
                try:
                    reconciling.ask(dry_run=_dry_run(asked.body))
                except ValueError as error:
                    return Page(400, "text/plain", f"{error}\n".encode())
                except RefusedComparisonError as error:
                    return _json(409, {"why": str(error), "leader_id": error.leader_id})
                return _json(200, reconciling.status())
            case _:
                return Page(405, "text/plain", b"only GET and POST\n")

    return answer


def finalise_page(node: Node, log: Callable[[Log], None]) -> Callable[[HttpRequest], Page]:
    """``/finalise``: ``POST`` ends the hold of this process (``node/finalising.py``).

    409 if this node does not lead, has not judged yet, or more than the hold is missing.
    """

    def answer(asked: HttpRequest) -> Page:
        if asked.method != "POST":
            return Page(405, "text/plain", b"only POST\n")
        side = node.migration
        if not isinstance(side, Finalising) or not side.only_held:
            # An order must not outlive what the operator saw.
            return _json(409, {"why": NOT_ONLY_HELD, "finalisation": finalisation(node)})
        log(Log("warning", "the hold on finalising is ended", {}))
        node.release_hold()
        return _json(200, {"finalisation": finalisation(node)})

    return answer


def _dry_run(body: bytes) -> bool:
    try:
        found = json.loads(body or b"{}")
    except (ValueError, RecursionError):
        raise ValueError("the body is not JSON") from None
    if not isinstance(found, dict) or found.keys() - {"dry_run"}:
        raise ValueError("the body must be a JSON object with dry_run alone")
    dry_run = found.get("dry_run", False)
    if not isinstance(dry_run, bool):
        raise ValueError("dry_run must be true or false")  # noqa: TRY004 - of the text, not a type
    return dry_run


def _json(status: int, value: Mapping[str, Any]) -> Page:
    return Page(status, "application/json", json.dumps(value, indent=1).encode() + b"\n")
