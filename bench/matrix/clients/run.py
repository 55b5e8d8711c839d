"""All calls of all clients on one column after the other."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Sequence
from typing import Final

from bench.matrix.clients.clients import Client
from bench.matrix.clients.columns import Column
from bench.matrix.readers.outcome import Outcome, plain

READS: Final = re.compile(r"^(describe|list|find|api_versions)|--(describe|list|verify)| describe")
"""Calls that change nothing."""
_PORT: Final = re.compile(r"('127\.0\.0\.1', )\d+")


def column(
    stage: Column, clients: Sequence[Client], print_line: Callable[[str], None] = lambda _: None
) -> list[Outcome]:
    """Every call, in order, on a cluster that is started."""
    found = []
    for client in clients:
        begun = time.monotonic()
        stage.settle()
        changed = False
        try:
            for call in client.begin(stage.bootstrap):
                if changed:
                    stage.settle()
                found.append(Outcome(client.name, call, _same(client.ask(call), stage)))
                changed = READS.search(call) is None
        finally:
            client.end()
        print_line(f"{stage.name}: {client.name} {time.monotonic() - begun:.1f} s")
    return found


def _same(text: str, stage: Column) -> str:
    """The text without what no two columns share."""
    return plain(_PORT.sub(r"\1<port>", text.replace(str(stage.folder), "<folder>")))
