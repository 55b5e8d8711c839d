"""Reads the files of all nodes as they are, as the program does that is started with them.

Our broker and controller refuse more than Kafka's do. So what they refuse counts where preflight
too has a blocker of that file; elsewhere it is a limit of ours.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from typing import Final, NamedTuple

from emulator.config.broker import load_broker
from emulator.config.load import ConfigError, load
from emulator.operations.preflight.engine import Finding, Severity
from emulator.operations.preflight.survey import Survey

_OURS: Final = re.compile(r"log\.dirs is required|jaas\.config|not supported")
"""Of what Kafka's nodes do without, have from elsewhere, or support."""
_HOST: Final = "rehearsal"


class FileProblem(NamedTuple):
    """Why a node does not start with its file; ``ours``: Kafka's may."""

    name: str
    text: str
    ours: bool


def problems(survey: Survey, findings: Collection[Finding]) -> Iterator[FileProblem]:
    """Of every file that was given: what the nodes have, and what they are to have."""
    places = [one.znode for one in findings if one.severity is Severity.BLOCKER]
    for one in (*survey.properties, *survey.targets):
        known = any(place == one.name or place.startswith(f"{one.name}: ") for place in places)
        try:
            if one.is_controller:
                load(one.values)
            else:
                load_broker(one.values, _HOST)
        except ConfigError as error:
            for text in error.problems:
                yield FileProblem(one.name, text, not known or bool(_OURS.search(text)))
