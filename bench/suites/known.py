"""Why a test fails on ours alone: the rows of ``known.toml``."""

from __future__ import annotations

import functools
import re
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.resources import files

from bench.suites.reports import Ended


@dataclass(frozen=True, slots=True)
class Known:
    """One reason.

    ``row`` is the subject of a row in docs/divergence.md; empty: the reason is the test's own, that
    its controller is an object of the same process. ``test`` and ``text`` are regular expressions,
    looked for in ``Class.name`` and in the failure; empty: any.
    """

    reason: str
    row: str = ""
    test: str = ""
    text: str = ""

    def explains(self, class_name: str, one: Ended) -> bool:
        """Whether this is why the test failed."""
        where = f"{class_name}.{one.name}"
        return bool(re.search(self.test, where)) and bool(re.search(self.text, one.text))


@functools.cache
def known() -> tuple[Known, ...]:
    """The table."""
    text = (files("bench.suites") / "known.toml").read_text()
    return tuple(Known(**row) for row in tomllib.loads(text)["known"])


def reason_of(class_name: str, one: Ended, table: Sequence[Known]) -> Known | None:
    """The first row that explains a failure; None: nobody has looked at it."""
    return next((row for row in table if row.explains(class_name, one)), None)
