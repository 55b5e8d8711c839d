"""The list of all sweeps (periodic work); add a new one here."""

from __future__ import annotations

from typing import Final

from emulator.controller.delegation_tokens import EXPIRED_TOKENS
from emulator.controller.periodic import Sweep
from emulator.controller.preferred_leaders import PREFERRED_LEADERS
from emulator.controller.reassignment import READY_REASSIGNMENTS
from emulator.controller.unclean_leaders import UNCLEAN_LEADERS

SWEEPS: Final[tuple[Sweep, ...]] = (
    PREFERRED_LEADERS,
    UNCLEAN_LEADERS,
    READY_REASSIGNMENTS,
    EXPIRED_TOKENS,
)
