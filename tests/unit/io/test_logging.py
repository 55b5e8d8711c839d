"""Log lines on stderr, whatever stands behind it."""

from __future__ import annotations

import errno
import io
import sys

import pytest

from emulator.io.logging import logger
from emulator.seam import Log


class Full(io.StringIO):
    """A file on a full disk."""

    def write(self, _text: str) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")


@pytest.mark.parametrize("json", [False, True])
def test_a_line_that_cannot_be_written_is_lost_and_nothing_else(
    monkeypatch: pytest.MonkeyPatch, *, json: bool
) -> None:
    monkeypatch.setattr(sys, "stderr", Full())
    logger("1", json=json)(Log("warning", "said", {"why": "nobody hears"}))
