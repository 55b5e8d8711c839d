"""Transcripts: a story in a text file, events in, what came of them out.

A line that begins with ``> `` is an event; the indented lines below it are what the test says came
of it. Everything else is for people and is left as it is. ``--rewrite-transcripts`` writes what
comes of the events now into the files; what has changed is then for ``git diff`` and its reader.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TypeAlias

import pytest

Act: TypeAlias = Callable[[str], Iterable[str]]
"""Takes an event, returns lines."""
EVENT, OUT = "> ", "  "
OPTION = "--rewrite-transcripts"


def replay(text: str, act: Act) -> str:
    """Return the transcript with what comes of its events now.

    Args:
        text: a transcript; what it says came of its events is not looked at.
        act: takes an event, without ``> ``, and returns lines.

    >>> replay("A story.\\n> add 1 2\\n  what was\\n", lambda event: [event.upper()])
    'A story.\\n> add 1 2\\n  ADD 1 2\\n'
    """
    lines: list[str] = []
    below = False
    for line in text.splitlines():
        if line.startswith(EVENT):
            lines.append(line)
            lines += [f"{OUT}{one}".rstrip() for one in act(line.removeprefix(EVENT))]
            below = True
        elif not (below and line.startswith(OUT)):
            lines.append(line)
            below = False
    return "\n".join(lines) + "\n"


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option that writes transcripts anew."""
    parser.addoption(OPTION, action="store_true", help="write .txt transcripts anew")


@pytest.fixture
def transcript(
    request: pytest.FixtureRequest,
) -> Callable[[str, Act], None]:
    """Replay a ``.txt`` file that stands beside the test, and compare it with what comes out."""

    def compare(name: str, act: Act) -> None:
        path: Path = request.path.with_name(name)
        before = path.read_text()
        after = replay(before, act)
        if request.config.getoption(OPTION):
            path.write_text(after)
        assert after == path.read_text(), f"if this is as it should be: pytest {OPTION}"

    return compare
