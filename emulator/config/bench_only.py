"""Properties that only the bench may set: ways of writing that were rejected, to be measured.

The command line refuses them unless the bench has started the process.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from emulator.config.java_text import boolean
from emulator.config.reading import PropertyReader, integer

PREFIX: Final = "kraftbridge.bench."
MARKER: Final = "KRAFT_BRIDGE_BENCH"
"""Environment variable; the bench sets it to 1."""


@dataclass(frozen=True, slots=True)
class BenchOnly:
    """``write_ahead``: ZooKeeper first, then the log. ``write_off``: no ZooKeeper after the copy.

    ``multis_in_flight``: 0 is the ordinary number.
    """

    write_ahead: bool = False
    write_off: bool = False
    multis_in_flight: int = 0

    @classmethod
    def read(cls, r: PropertyReader) -> BenchOnly:
        """Read them; problems go to the reader."""
        return cls(
            r.take(f"{PREFIX}write.ahead", boolean, False),
            r.take(f"{PREFIX}write.off", boolean, False),
            r.take(f"{PREFIX}multis.in.flight", integer(1, 100), 0),
        )


def refusal(keys: Iterable[str], marker: str | None) -> str:
    """Why a process must not start with these keys; empty if it may.

    Args:
        keys: of all properties given.
        marker: value of the environment variable; None: it is not set.
    """
    found = sorted(key for key in keys if key.startswith(PREFIX))
    if not found or marker == "1":
        return ""
    return (
        f"{', '.join(found)}: only kraft-bridge bench may set this; it makes the controller "
        "lose changes or slow, to be measured"
    )
