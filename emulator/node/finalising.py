"""A node without the migration flag: it finalises the migration of its log, or waits for that.

It has no ZooKeeper. While the log is in state MIGRATION and it leads, it asks the other voters
whether they have the flag, and judges what is missing (``controller/rules/finalisation.py``):

| what there is | what it does |
|---|---|
| a voter with the flag has the whole log | gives way to it, as ``finalising.py`` says |
| no mark, or a broker in ZooKeeper mode | refuses brokers and callers, and waits for such a voter |
| such a voter cannot lead, or else something is missing | serves; changes are in the log only |
| nothing is missing | asks all once more, and appends the final record |

Nothing is lost while it serves: a controller with the flag that leads afterwards compares the whole
tree with the log, and writes what ZooKeeper lacks. A node whose log is final at its start is of
this kind too, whatever its flag says.

Source: KIP-866 "Finalizing the Migration", "Misconfigurations".
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from emulator.controller.machine import Controller
from emulator.controller.registry import tells_readiness
from emulator.controller.rules.finalisation import FLAG, HELD, Lacking, lacking, lacking_alone
from emulator.metadata.delta import Delta
from emulator.metadata.image import Image
from emulator.metadata.migration_state import FinalisationMark, MigrationState
from emulator.migration.authority import Authority
from emulator.node.inquiry import VoterInquiry, release_of
from emulator.raft.machine import Raft
from emulator.seam import Closed, Connected, Effect, Log, Received
from wire import records as r

# Whether the other voters run with the migration flag, as they say themselves in this term.
#
# ApiVersions says it of the process that runs now (``inquiry``), while a registration in the log
# may be of the one before. Source: KIP-866 "Controller Migration".


class VoterFlags:
    """What a leader knows of the others.

    Args:
        raft: says in which epoch it leads.
        inquiry: asks them; None in a quorum of one.
    """

    def __init__(self, raft: Raft, inquiry: VoterInquiry | None) -> None:
        self._raft = raft
        self._inquiry = inquiry

    @property
    def heard(self) -> dict[int, bool | None]:
        """Voter -> whether it has the flag, by its newest answer in this epoch.

        None: it gave no answer, or its release does not say it. A voter that is missing was not
        asked yet.
        """
        if self._inquiry is None:
            return {}
        found: dict[int, bool | None] = {}
        for voter, answer in self._inquiry.voters.items():
            if answer.epoch != self._raft.leader_epoch:
                continue
            own = release_of(answer.levels)
            silent = answer.failure or (own is not None and not tells_readiness(own))
            found[voter] = None if silent else answer.migrating
        return found

    @property
    def complete(self) -> bool:
        """Whether each other voter was asked in this epoch, and answered or gave no answer."""
        return len(self.heard) == len(self._raft.config.voters) - 1

    @property
    def with_flag(self) -> list[int]:
        """The voters that run with the flag."""
        return [voter for voter, flag in self.heard.items() if flag]

    def caught_up(self, voter: int, since_ms: int) -> bool:
        """Whether a voter has had the whole log of this leader at that time, or later."""
        known = self._raft.progress.get(voter)
        return known is not None and known.last_caught_up_ms >= since_ms

    def ask_all(self) -> None:
        """Ask each other voter once more, at once."""
        if self._inquiry is not None:
            for voter in self._inquiry.voters:
                self._inquiry.ask_again(voter)

    def asked_since(self, since_ms: int) -> bool:
        """Whether each was asked then or later in this epoch; no answer is one too."""
        if self._inquiry is None:
            return True
        epoch = self._raft.leader_epoch
        return all(
            answer.epoch == epoch and answer.asked_ms >= since_ms
            for answer in self._inquiry.voters.values()
        )


# When a leader without the migration flag gives way to a voter that has it.
#
# The first time at once; then at most once in a time that doubles. A voter with the flag may be
# unable to lead: its ZooKeeper is another one, or is gone. While it tries, brokers and callers are
# refused.

CAUGHT_UP_MS: Final = 2_000
"""A voter that reached the end of the log within this time can be elected."""


class BackOff(NamedTuple):
    """How long a leader keeps its leadership after it gave way once, in ms; then twice as long."""

    first_ms: int
    max_ms: int


SERVING: Final = BackOff(60_000, 600_000)
"""Brokers and callers are served meanwhile: there is no hurry."""
REFUSING: Final = BackOff(5_000, 30_000)
"""They are refused in any case, until a voter with the flag leads."""
FORGETS_MS: Final = 2 * SERVING.max_ms
"""After such a time without giving way the next time is the first one again."""


class GivingWay:
    """How often this process gave way, and when last; ``to``: whom in this term."""

    def __init__(self) -> None:
        self.to: tuple[int, ...] = ()
        self.times = 0
        self.last_ms: int | None = None

    def due_ms(self, *, serves: bool) -> int:
        """From when on it may give way; 0: it may now.

        Args:
            serves: whether brokers and callers are served otherwise.
        """
        if self.last_ms is None:
            return 0
        first_ms, max_ms = SERVING if serves else REFUSING
        return self.last_ms + min(first_ms << min(self.times - 1, 10), max_ms)

    def give(self, voters: list[int], now_ms: int) -> None:
        """It gives way to these."""
        if self.last_ms is not None and now_ms - self.last_ms >= FORGETS_MS:
            self.times = 0
        self.to, self.times, self.last_ms = tuple(voters), self.times + 1, now_ms

    def end_term(self) -> None:
        """It leads no more."""
        self.to = ()

    def forget(self) -> None:
        """No voter has the flag any more."""
        self.to, self.times, self.last_ms = (), 0, None


FINAL: Final = "the migration is finalised, for good: ZooKeeper is not used any more"


class Finalising:
    """See the module's docstring.

    Args:
        controller: appends the final record.
        flags: what the other voters say.
        hold: whether it waits for :meth:`release`.
    """

    # As of a MigrationSide. There is no ZooKeeper, so nothing is missing there.
    zk: None = None
    driver: None = None
    mode: None = None
    apart_since_ms: None = None
    connected = drained = dirty = True
    over_because = refused_because = ""

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
        self.giving_way = GivingWay()
        """How often it gave way to a voter with the flag."""
        self._seen_ms = 0
        """The time of the last step."""
        self._decided_ms: int | None = None
        """Since when nothing is missing, and the others are asked once more; None: not yet."""

    @property
    def deadline_ms(self) -> int | None:
        """At once after a release; the questions have a time of their own."""
        return 0 if self._due else None

    @property
    def _open(self) -> bool:
        """Whether this node leads a log whose migration is not final."""
        return self._leads and self._controller.tip.migration_state is MigrationState.MIGRATION

    @property
    def authority(self) -> Authority:
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
    def unfit_because(self) -> str:
        """Why another voter must lead; empty if none may."""
        return self._unfit if self._open else ""

    @property
    def fitter(self) -> Sequence[int]:
        """The voters with the flag that it gives way to."""
        return self.giving_way.to

    @property
    def _unfit(self) -> str:
        if self._flag_is_on:
            return "the log was final when this controller started, and is not: start it again"
        if found := self.giving_way.to:
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

    def handle(
        self, _conn: int, _event: Received | Closed | Connected, _now_ms: int
    ) -> list[Effect]:
        """No connection is one of ZooKeeper's or of a broker's."""
        return []

    def drain(self, _now_ms: int) -> list[Effect]:
        """Nothing is to be written."""
        return []

    check = drain

    def close(self, _now_ms: int) -> tuple[list[Effect], bool]:
        """There is no session."""
        return [], False

    def mark(self, _leader_epoch: int) -> FinalisationMark | None:
        """No mark is needed."""
        return None

    def no_mark_because(self, _leader_epoch: int) -> str:
        """No mark is needed."""
        return ""

    def out_of_charge(self) -> str:
        """Nothing is missing."""
        return ""

    def lead(self, _leader_epoch: int, _now_ms: int) -> list[Effect]:
        """A term begins; its first records are appended."""
        self._leads = True
        self._needed_offset = self._controller.tip.offset
        return []

    def resign(self, _now_ms: int) -> list[Effect]:
        """The term ends."""
        self._leads = False
        self._decided_ms = None
        self.giving_way.end_term()
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
        self._seen_ms = now_ms
        self._weigh_giving_way(now_ms)
        image = self._controller.stable
        if image.offset < self._needed_offset:
            return []
        heard = self._flags.heard
        judged = image.brokers, image.controllers, image.mark, self.held
        same = heard == self._heard and all(map(_same, judged, self._judged))
        if same and self._decided_ms is None:
            return []
        self._judged, self._heard = judged, heard
        found = lacking(image, self._controller.config, heard)
        effects = self._stand(found + [HELD] * self.held, now_ms)
        if self.missing or not self._flags.complete:
            self._decided_ms = None
            return effects
        if self._decided_ms is None:
            # One of them may have been started again with the flag since its last answer.
            self._decided_ms = now_ms
            self._flags.ask_all()
        if not self._flags.asked_since(self._decided_ms):
            return effects
        final = r.ZkMigrationStateRecord(zk_migration_state=MigrationState.POST_MIGRATION)
        offset = self._controller.append((final,), now_ms)
        return [*effects, Log("info", "finalising: nothing is missing", {"offset": offset})]

    def _weigh_giving_way(self, now_ms: int) -> None:
        """Decide to give way, at most once in a term."""
        way, found = self.giving_way, self._flags.with_flag
        if way.to:
            return
        if not found:
            if self._flags.complete and None not in self._flags.heard.values():
                way.forget()
            return
        able = [voter for voter in found if self._flags.caught_up(voter, now_ms - CAUGHT_UP_MS)]
        if able and way.due_ms(serves=not self._lacks_alone) <= now_ms:
            way.give(able, now_ms)

    @property
    def waited_for(self) -> list[str]:
        """The voters with the flag that it could give way to, and why it does not; sentences."""
        if not self._open:
            return []
        way, serves, now_ms = self.giving_way, not self._lacks_alone, self._seen_ms
        does = "this leader serves" if serves else "brokers and callers are refused"
        told: list[str] = []
        for voter in self._flags.with_flag:
            if not self._flags.caught_up(voter, now_ms - CAUGHT_UP_MS):
                why = "it does not have the whole log yet"
            elif way.times:
                left = max(0, way.due_ms(serves=serves) - now_ms) // 1000
                why = (
                    f"it was given the leadership {way.times} times and did not keep it, the next "
                    f"time in {left} s. See its log, stop it, or start it without the flag"
                )
            else:
                continue
            told.append(f"controller {voter} has {FLAG}=true and does not lead: {why}; {does}")
        return told

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
