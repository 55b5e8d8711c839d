"""What machines that are joined in memory are held to."""

from __future__ import annotations

import pytest

from emulator.seam import Effect, Log
from tests.kit.joined import Joined


class Speaker:
    """Says one line as it starts."""

    deadline_ms = None

    def __init__(self, line: Log) -> None:
        self._line = line

    def start(self, _now_ms: int) -> list[Effect]:
        return [self._line]

    def step(self, _events: object, _now_ms: int) -> list[Effect]:
        return []

    shutdown = start


def test_a_log_line_is_one_of_the_table() -> None:
    line = Log("info", "active controller", {})
    assert Joined().join("speaker", Speaker(line), {}).logs == [line]
    for other in (Log("info", "said by nobody", {}), Log("error", "active controller", {})):
        with pytest.raises(AssertionError, match="log_events"):
            Joined().join("speaker", Speaker(other), {})
