"""What has been run of one class on one side: a file, so that another run goes on from there."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Final

from bench.suites.reports import Ended

RUN_BEFORE: Final = "run before"
"""How the reason ends that OnlyWithController.java gives for such a test."""


@dataclass(slots=True)
class Kept:
    """The tests that ended, whether all have, and with which code."""

    code: str
    ended: dict[str, Ended] = field(default_factory=dict)
    whole: bool = False
    cut: list[str] = field(default_factory=list)
    """Ids of the tests that were under way when a run was cut: one that is twice has failed."""
    seconds: float = 0.0

    @classmethod
    def load(cls, path: Path, code: str) -> Kept | None:
        """That of a file; None if there is none, or it is of another code."""
        try:
            document = json.loads(path.read_text())
        except (OSError, ValueError):
            return None
        if document["code"] != code:
            return None
        ended = {row["id"]: Ended(**row) for row in document.pop("ended")}
        return cls(ended=ended, **document)

    def save(self, path: Path) -> None:
        """Write it aside, and rename it."""
        path.parent.mkdir(parents=True, exist_ok=True)
        document = asdict(self) | {"ended": [asdict(one) for one in self.ended.values()]}
        fresh = path.with_suffix(".part")
        fresh.write_text(json.dumps(document, indent=1) + "\n")
        fresh.replace(path)

    def add(self, ended: Iterable[Ended]) -> None:
        """Take what a run reports, but for what it left out as it was run before."""
        self.ended |= {one.id: one for one in ended if not one.text.endswith(RUN_BEFORE)}

    def begun(self, under_way: Iterable[Ended], limit_s: float) -> None:
        """Note what was cut: a test that is cut for the second time has failed."""
        for one in under_way:
            if one.id in self.cut:
                text = f"it did not end, in two runs; the limit of its class is {limit_s:g} s"
                self.ended[one.id] = replace(one, text=text)
            else:
                self.cut.append(one.id)
