"""Which classes of Kafka's test jars are run: ``classes.toml``."""

from __future__ import annotations

import functools
import tomllib
from dataclasses import dataclass
from importlib.resources import files


@dataclass(frozen=True, slots=True)
class TestClass:
    """A class, and how long all its tests may take on one side.

    ``short``: whether it is in the short form of ``make matrix``; ``methods``: only these.
    """

    __test__ = False  # it is none of ours

    name: str
    limit_s: float
    short: bool = False
    methods: tuple[str, ...] = ()

    @property
    def simple(self) -> str:
        """Without its package."""
        return self.name.rpartition(".")[2]


@functools.cache
def classes() -> tuple[TestClass, ...]:
    """All, in the order in which they are run."""
    document = tomllib.loads((files("bench.suites") / "classes.toml").read_text())
    default = document["limit_s"]
    return tuple(
        TestClass(
            row["name"],
            float(row.get("limit_s", default)),
            row.get("short", False),
            tuple(row.get("methods", ())),
        )
        for row in document["class"]
    )
