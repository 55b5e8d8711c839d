"""Where a life stands, kept on disk: phases that are done, and how each server is to start."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any, Self


class Mode(StrEnum):
    """How a broker is started."""

    ZOOKEEPER = "zookeeper"
    MIGRATING = "migrating"
    """In ZooKeeper mode, with ``zookeeper.metadata.migration.enable``."""
    KRAFT = "kraft"


class Quorum(StrEnum):
    """How the controllers are started."""

    ABSENT = "absent"
    MIGRATING = "migrating"
    FINAL = "final"
    """Without the flag and without ZooKeeper, and the migration is finalised."""


@dataclass
class BrokerStanding:
    """How one broker is to be started."""

    mode: Mode
    release: str


@dataclass
class Standing:
    """All that the next run must know; saved before each change of it takes effect."""

    release: str
    """The release of the brokers when the life began."""
    code: str
    """Of the program that began it: a life is not continued by other code."""
    brokers: dict[int, BrokerStanding]
    quorum: Quorum = Quorum.ABSENT
    without_flag: list[int] = field(default_factory=list)
    """Controllers whose properties lack ``zookeeper.metadata.migration.enable`` and
    ``zookeeper.connect``."""
    controllers_release: str = ""
    zookeeper: bool = True
    """Whether ZooKeeper is still there: after the end it is not needed."""
    attempt: int = 0
    """Number of the quorum: a second attempt has folders of its own."""
    cluster_id: str = ""
    run: int = 0
    """Number of this run: 1 for the first."""
    done: list[str] = field(default_factory=list)
    """Phases that ended, in order."""
    begun: str = ""
    """The phase that has begun and not ended."""
    failed: bool = False
    """A check failed: the life is not continued."""
    typed: list[str] = field(default_factory=list)
    """Names of the commands of the runbook that were typed in this life."""
    rows: list[dict[str, Any]] = field(default_factory=list)
    """One for each phase that ended."""

    @classmethod
    def load(cls, path: Path) -> Self | None:
        """What was saved; None if nothing was, or by another version of this program.

        Raises:
            OSError: the file cannot be read.
        """
        if not path.exists():
            return None
        try:
            plain = json.loads(path.read_text())
            plain["quorum"] = Quorum(plain["quorum"])
            plain["brokers"] = {
                int(number): BrokerStanding(Mode(one["mode"]), one["release"])
                for number, one in plain["brokers"].items()
            }
            return cls(**plain)
        except (ValueError, KeyError, TypeError, AttributeError):
            return None

    def save(self, path: Path) -> None:
        """Replace the file by one that holds all this.

        Raises:
            OSError: it cannot be written.
        """
        draft = path.with_suffix(".draft")
        draft.write_text(json.dumps(asdict(self), indent=1) + "\n")
        draft.replace(path)
