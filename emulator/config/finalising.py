"""How a migration is finalised.

Source: KIP-866 "Finalizing the Migration" and "Misconfigurations"; what Kafka 3.9 does instead is
in ActivationRecordsGenerator.recordsForNonEmptyLog.
"""

from __future__ import annotations

from typing import Final

FINALISATION: Final = "kraftbridge.finalization"
HOLD: Final = "kraftbridge.finalise.hold"
KAFKAS: Final = "kafka"
RULES: Final = ("every-voter", KAFKAS)
"""``every-voter``: when no voter has the flag, no broker is in ZooKeeper mode, and the last leader
with the flag has left its mark. ``kafka``: as soon as a controller without the flag leads."""


def contradictions(rule: str, *, hold: bool) -> list[str]:
    """What is wrong with the two together, in a sentence.

    >>> contradictions("every-voter", hold=True)
    []
    """
    if not hold or rule != KAFKAS:
        return []
    return [f"{HOLD}=true: {FINALISATION}={KAFKAS} finalises without waiting for anything"]
