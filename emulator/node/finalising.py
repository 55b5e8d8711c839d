"""A node without the migration flag: it finalises the migration of its log, or waits for that.

It has no ZooKeeper. While the log is in state MIGRATION and it leads, it asks the other voters
whether they have the flag, and judges what is missing (``controller/finalisation.py``):

| what there is | what it does |
|---|---|
| a voter with the flag answers | gives its leadership up: that one writes to ZooKeeper |
| no mark, or a broker in ZooKeeper mode | refuses brokers and callers, and waits for such a voter |
| something else is missing, or a hold | serves; changes are in the log only, and stay there |
| nothing is missing | appends the final record |

Nothing is lost while it serves: a controller with the flag that leads afterwards compares the whole
tree with the log, and writes what ZooKeeper lacks. A node whose log is final at its start is of
this kind too, whatever its flag says.

Source: KIP-866 "Finalizing the Migration", "Misconfigurations".
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from emulator.controller.finalisation import FLAG, HELD, Lacking, lacking, lacking_alone
from emulator.controller.machine import Controller
from emulator.metadata.delta import Delta
from emulator.metadata.image import Image
from emulator.metadata.migration_state import MigrationState
from emulator.migration.authority import Authority
from emulator.migration.side import NoMigration
from emulator.node.voter_flags import VoterFlags
from emulator.seam import Effect, Log
from wire import records as r

FINAL: Final = "the migration is finalised, for good: ZooKeeper is not used any more"


class Finalising(NoMigration):
    """See the module's docstring.

    Args:
        controller: appends the final record.
        flags: what the other voters say.
        hold: whether it waits for :meth:`release`.
    """

    def __init__(self, controller: Controller, flags: VoterFlags, *, hold: bool) -> None:
        self.held = hold
        """Whether an operator keeps the migration open."""
        self.since: dict[tuple[str, str], int] = {}
        """Kind and subject of what is missing -> since when it has been."""
        self.missing: list[Lacking] = []
        """What is missing, as far as the leader knows."""
        self._controller = controller
        self._flags = flags
        self._flag_is_on = controller.config.migration_enabled
        self._leads = False
        self._needed_offset = -1
        self._judged: tuple[Any, ...] = (self,)
        self._heard: dict[int, bool | None] = {}
        self._found: tuple[Any, ...] = (None, self)
        self._lacks = True
        self._due = False

    @property
    def deadline_ms(self) -> int | None:  # type: ignore[override]  # there it is never due
        """At once after a release; the questions have a time of their own."""
        return 0 if self._due else None

    @property
    def _open(self) -> bool:
        """Whether this node leads a log whose migration is not final."""
        return self._leads and self._controller.tip.migration_state is MigrationState.MIGRATION

    @property
    def authority(self) -> Authority:  # type: ignore[override]  # there it is a constant
        """Whether brokers and callers may be told anything."""
        if not self._open:
            return Authority.GRANTED
        if self._unfit or not self._flags.complete or self._lacks_alone:
            return Authority.UNFINISHED
        return Authority.GRANTED

    @property
    def _lacks_alone(self) -> bool:
        """Whether something is missing that cannot come while this node leads."""
        tip = self._controller.tip
        found = tip.brokers, tip.mark
        if not all(map(_same, found, self._found)):
            # Asked for several times in a step; brokers may be thousands.
            self._found, self._lacks = found, bool(lacking_alone(tip))
        return self._lacks

    @property
    def unfit_because(self) -> str:  # type: ignore[override]  # there it is a constant
        """Why another voter must lead; empty if none may."""
        return self._unfit if self._open else ""

    @property
    def fitter(self) -> Sequence[int]:  # type: ignore[override]  # there it is a constant
        """The voters with the flag."""
        return self._flags.with_flag

    @property
    def _unfit(self) -> str:
        if self._flag_is_on:
            return "the log was final when this controller started, and is not: start it again"
        if found := self._flags.with_flag:
            return (
                f"{FLAG} is not true here, the migration is not finalised, and controller "
                f"{found[0]} has it: that one leads"
            )
        return ""

    def keep_from(self, stable: Image) -> int | None:
        """The log is kept for a controller with the flag that may still lead."""
        if stable.migration_state is not MigrationState.MIGRATION:
            return None
        return 0 if stable.mark is None else max(0, stable.mark.confirmed_offset)

    def start(self, _now_ms: int) -> list[Effect]:
        """Say it if the flag is of no use any more (U09)."""
        if not self._flag_is_on:
            return []
        text = f"{FLAG}=true has no effect: {FINAL}. Remove it"
        return [Log("error", "already finalised", {"why": text})]

    def lead(self, _leader_epoch: int, _now_ms: int) -> list[Effect]:
        """A term begins; its first records are appended."""
        self._leads = True
        self._needed_offset = self._controller.tip.offset
        return []

    def resign(self, _now_ms: int) -> list[Effect]:
        """The term ends."""
        self._leads = False
        self.missing, self.since, self._judged = [], {}, (self,)
        return []

    @property
    def only_held(self) -> bool:
        """Whether this leader has judged in its term that a hold is all that is missing."""
        return self._leads and self._flags.complete and self.missing == [HELD]

    def release(self) -> None:
        """An operator ends the hold, until this process ends."""
        self.held = False
        self._due = True

    def tick(self, _now_ms: int) -> list[Effect]:
        """What is due is done by ``exchange``, after everything else of the step."""
        self._due = False
        return []

    def exchange(self, now_ms: int) -> list[Effect]:
        """Finalise as soon as nothing is missing; say what is."""
        if not self._open:
            return []
        image = self._controller.stable
        if image.offset < self._needed_offset:
            return []
        heard = self._flags.heard
        judged = image.brokers, image.controllers, image.mark, self.held
        if heard == self._heard and all(map(_same, judged, self._judged)):
            return []
        self._judged, self._heard = judged, heard
        found = lacking(image, self._controller.config, heard)
        effects = self._stand(found + [HELD] * self.held, now_ms)
        if self.missing or not self._flags.complete:
            return effects
        final = r.ZkMigrationStateRecord(zk_migration_state=MigrationState.POST_MIGRATION)
        offset = self._controller.append((final,), now_ms)
        return [*effects, Log("info", "finalising: nothing is missing", {"offset": offset})]

    def metadata(self, _deltas: Sequence[Delta], now_ms: int) -> list[Effect]:
        """Something became stable: what is missing may be there."""
        return self.exchange(now_ms)

    def _stand(self, found: Sequence[Lacking], now_ms: int) -> list[Effect]:
        """Remember what is missing, and since when; log what is new."""
        before, self.since = self.since, {}
        effects: list[Effect] = []
        for one in found:
            key = one.lack.value, one.subject
            if key not in before:
                fields: dict[str, object] = {"missing": key[0], "text": one.text}
                effects.append(Log("info", "waits to be finalised", fields))
            self.since[key] = before.get(key, now_ms)
        self.missing = list(found)
        return effects


def _same(one: object, other: object) -> bool:
    return one is other
