"""What is looked at during a migration: each controller's live page, and the board.

The board is that of packaging/, which Grafana shows; here Prometheus is asked what its panels ask.
"""

from __future__ import annotations

import json
import os
import urllib.parse
import urllib.request
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from bench.compose import plan
from bench.compose.plan import CONTROLLERS
from bench.lines import print_line
from emulator.servers.waiting import wait_for

FOLDER: Final = "KRAFT_BRIDGE_BOARD"
_FOLDER: Final = "/opt/kraft-bridge/board"
_ASK_S: Final = 10.0
_VALUES_S: Final = 120.0
_VARIABLES: Final = {"$job": "kraft-bridge", "$__rate_interval": "1m"}


class BoardError(RuntimeError):
    """A page or a panel does not answer; the message names it."""


@dataclass(frozen=True, slots=True)
class Panel:
    """A panel of the board.

    Args:
        title: its question.
        asked: its expressions, in Prometheus's language.
        may_be_empty: whether nothing is a good answer: a table of what is wrong, or a comparison.
    """

    title: str
    asked: tuple[str, ...]
    may_be_empty: bool


def folder() -> Path:
    """Where the board and the alert rules lie in the image."""
    return Path(os.environ.get(FOLDER, _FOLDER))


def panels() -> list[Panel]:
    """Those of the board, with Grafana's variables filled in."""
    shown = json.loads((folder() / "kraft-bridge.grafana.json").read_text())["panels"]
    found = []
    for one in shown:
        asked = tuple(_filled(target["expr"]) for target in one["targets"])
        empty = one["type"] == "table" or all(" > 0" in each for each in asked)
        found.append(Panel(one["title"], asked, empty))
    return found


def board() -> None:
    """Open each controller's live page, and ask Prometheus what each panel of the board asks.

    Raises:
        BoardError: a page does not answer, or a panel is refused or stays empty.
    """
    for number in CONTROLLERS:
        page = _get(plan.url(number)).decode()
        if "</html>" not in page:
            raise BoardError(f"controller {number} shows no page: {page[:200]!r}")
        print_line(f"live page of controller {number}: {plan.url(number, 'localhost')}")
    every = panels()
    wanting = [one for one in every if not one.may_be_empty]
    try:
        wait_for("values of each panel", lambda: all(map(_values, wanting)), _VALUES_S)
    except TimeoutError as late:
        empty = [one.title for one in wanting if not _values(one)]
        raise BoardError(f"after {_VALUES_S:g} s these panels are empty: {empty}") from late
    empty = [one.title for one in every if not _values(one)]
    (phase, *_) = _values(every[0])
    print_line(f"phase on the board: {phase['metric']['phase']}")
    print_line(f"{len(every) - len(empty)} of {len(every)} panels have values; empty: {empty}")


def _values(panel: Panel) -> list[dict[str, Any]]:
    found = []
    for expression in panel.asked:
        query = urllib.parse.urlencode({"query": expression})
        found += json.loads(_get(f"{plan.prometheus_url()}/api/v1/query?{query}"))["data"]["result"]
    return found


def _filled(expression: str) -> str:
    for name, value in _VARIABLES.items():
        expression = expression.replace(name, value)
    return expression


def _get(url: str) -> bytes:
    try:
        with urllib.request.urlopen(url, timeout=_ASK_S) as answer:  # noqa: S310 - http among containers
            return bytes(answer.read())
    except OSError as error:
        raise BoardError(f"{url}: {error}") from error
