"""The runner of transcripts."""

from __future__ import annotations

from tests.kit.transcript import replay

STORY = """What it is about.

> greet you
  hello you
> be silent

Something else.
> greet me
  hello you
"""


def act(event: str) -> list[str]:
    verb, who = event.split()
    return [f"hello {who}"] if verb == "greet" else []


def test_only_what_came_of_events_is_replaced() -> None:
    told = STORY.replace("me\n  hello you", "me\n  hello me")
    assert replay(STORY, act) == told
    assert replay(told, act) == told


def test_lines_for_people_stay() -> None:
    told = "  an indented line\n> greet you\n  hello you\n  gone\nthe end\n"
    assert replay(told, act) == told.replace("  gone\n", "")
