"""Clients that ask for another metadata.version, which a migration does not allow."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Final

from emulator.simulation.broker import SimulatedBroker
from emulator.simulation.facts import METADATA_VERSION, Facts
from emulator.simulation.violation import ensure
from wire import messages as m

VERSION: Final = 1


class FeatureChanges:
    """Asks for a level; the level must be what the answer says.

    Args:
        facts: the newest that is committed.
    """

    def __init__(self, facts: Callable[[], Facts]) -> None:
        self.rng = Random(0)
        self._facts = facts
        self._waiting = False

    @property
    def busy(self) -> bool:
        """Whether an answer is still expected."""
        return self._waiting

    def one(self, brokers: list[SimulatedBroker]) -> None:
        """Ask for one level."""
        if self._waiting:
            return
        self._waiting = True
        kinds = m.UpdateFeaturesRequest
        wanted = self.rng.choice((-1, 0, 1, 8, 11, 14, 21, 26, 99))
        key = kinds.FeatureUpdateKey(
            feature=METADATA_VERSION,
            max_version_level=wanted,
            upgrade_type=self.rng.choice((1, 2, 3)),
        )
        before = self._facts().level

        def answered(answer: object | None) -> None:
            self._waiting = False
            if not isinstance(answer, m.UpdateFeaturesResponse):
                return
            codes = {answer.error_code, *(one.error_code for one in answer.results)}
            now = self._facts().level
            held = now == wanted if codes == {0} else now == before
            ensure(held, "answered-is-committed", f"level {wanted}: {codes}, it is {now}")

        broker = self.rng.choice(brokers)
        broker.ask(kinds(feature_updates=[key], timeout_ms=4_000), VERSION, answered)
