"""Stories of the claim and the chain; each ``.txt`` beside this file says what it is about."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.unit.migration.narrated import NarratedWorld

STORIES = sorted(path.name for path in Path(__file__).parent.glob("*.txt"))


@pytest.mark.requirement("W07", "U02", "E06")
@pytest.mark.parametrize("story", STORIES)
def test_the_story_goes_as_told(story: str, transcript: Callable[..., None]) -> None:
    transcript(story, NarratedWorld(write_behind_multi_ops=3).act)
