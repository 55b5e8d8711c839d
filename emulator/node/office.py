"""What this node is in its quorum, and what its machines do accordingly: one table, one owner.

Raft says who leads, the log how far everything is committed, the migration whether ZooKeeper
confirms this log (``authority``). :func:`office` makes one state of it; :data:`DUTIES` says what
the machines do in each. Nobody else decides whether callers and brokers are answered.

A follower replays each batch when it is appended, committed or not (``replaying``). A new leader
activates its controller on top of all of it and begins the term of the migration. One that leads no
more ends both, drops what is not committed, and replays it again from the log, as the next leader
may commit it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import Enum
from types import MappingProxyType
from typing import Final, NamedTuple

from emulator.controller.finalisation import lacking_alone
from emulator.controller.machine import Controller
from emulator.controller.supported import supported_features
from emulator.metadata.errors import ActivationRefusedError
from emulator.metadata.history import History
from emulator.metadata.migration_state import MigrationState
from emulator.migration.authority import SILENT, Authority
from emulator.migration.dual_write.modes import Mode
from emulator.migration.side import MigrationSide, NoMigration
from emulator.node.giving_up import PATIENCE, SPARE, Apartness, Patience, Unfit, unfit
from emulator.node.peers import NoPeers, Peers
from emulator.node.replaying import LogReplay
from emulator.node.tracing import NodeCounters
from emulator.node.voter_flags import VoterFlags
from emulator.raft.layout import RecoveryError
from emulator.raft.machine import Raft
from emulator.raft.quorum_state import NONE
from emulator.raft.replica import Serving
from emulator.seam import Effect, Log

GIVES_UP_MS_MIN: Final = 3_000
"""Between two times that a node gives its leadership up for the same reason: if no voter may lead,
there are no more elections than that."""


ASKS_MS: Final = 2_000
"""How long the others are asked whether they have a migration configured, before a log begins."""
BEGINS_WITHOUT: Final = (
    "zookeeper.metadata.migration.enable is not true here, and the log is empty: it would begin "
    "without a migration, and none could be added. Set it on every controller; controller"
)


class Office(Enum):
    """What a node is."""

    FOLLOWING = "following"
    """Another voter leads, or none. Callers are refused; ZooKeeper is only read."""
    PASSIVE = "passive"
    """The leader, whose controller is not activated: its metadata does not reach the end of its log
    yet, it has to hear from the others before it begins a new log, or it must not lead. Callers and
    brokers are refused."""
    WON = "won"
    """The leader, whose first record no majority has yet. Callers' requests wait for that."""
    SILENT = "silent"
    """The leader; ZooKeeper has not confirmed this log, or refuses it. Brokers and callers are
    refused; the other voters are served, as the quorum could not commit anything otherwise."""
    ACTIVE = "active"
    """The active controller."""
    LEAVING = "leaving"
    """The active controller, on its way to its end: what it has accepted is finished."""


def office(
    *, leads: bool, committed: bool, authority: Authority, leaving: bool, passive: bool = False
) -> Office:
    """Judge what a node is.

    Args:
        leads: whether it is the leader, and its controller is activated on the end of the log.
        committed: whether the first record of its term is committed.
        authority: whether ZooKeeper confirms its log; of no importance for a follower.
        leaving: whether an orderly stop has begun.
        passive: whether it is the leader, and its controller is not activated.

    >>> office(leads=True, committed=True, authority=Authority.UNPROVEN, leaving=False)
    <Office.SILENT: 'silent'>
    """
    if not leads:
        return Office.PASSIVE if passive else Office.FOLLOWING
    if authority in SILENT:
        return Office.SILENT
    if not committed:
        return Office.WON
    return Office.LEAVING if leaving else Office.ACTIVE


class Duty(NamedTuple):
    """What the machines of a node do."""

    callers: bool
    """Whether the controller takes requests; answers wait for the commit in any case."""
    observers: Serving
    """What Raft tells those who are no voters."""


DUTIES: Final[Mapping[Office, Duty]] = MappingProxyType(
    {
        # Raft itself refuses observers while another leads, and names the leader.
        Office.FOLLOWING: Duty(callers=False, observers=Serving.ALL),
        # Nobody has asked ZooKeeper whether this is its log.
        Office.PASSIVE: Duty(callers=False, observers=Serving.NOTHING),
        Office.WON: Duty(callers=True, observers=Serving.ALL),
        Office.SILENT: Duty(callers=False, observers=Serving.NOTHING),
        Office.ACTIVE: Duty(callers=True, observers=Serving.ALL),
        # The controller refuses new requests itself, Raft refuses fetches once it has resigned.
        Office.LEAVING: Duty(callers=True, observers=Serving.ALL),
    }
)


class NodeOffice:
    """Keeps metadata, controller and migration in step with the log and with who leads it.

    Args:
        raft, controller, migration: of the node.
        history: the metadata that they use; holds the log up to its end.
        peers: the other voters.
        counters: get the number of terms led.
    """

    def __init__(  # noqa: PLR0917  # one argument per machine beside this one
        self,
        raft: Raft,
        controller: Controller,
        history: History,
        migration: MigrationSide | NoMigration,
        peers: Peers | NoPeers,
        counters: NodeCounters,
    ) -> None:
        self.office = Office.FOLLOWING
        self.leaving = False
        """Whether an orderly stop has begun."""
        self._led_epoch: int | None = None
        """The epoch in which the controller was activated; None while it is not."""
        self._authority = Authority.GRANTED
        self._judged: tuple[object, ...] = ()
        """What the office was judged by last."""
        self._raft = raft
        self._controller = controller
        self._history = history
        self._migration = migration
        self._alone = len(raft.config.voters) == 1
        self._flags = VoterFlags(raft, peers.inquiry)
        supported = supported_features(controller.config.release)
        self._replay = LogReplay(raft, controller, history, supported)
        self._asks: tuple[int, int] | None = None
        """The epoch in which it asks the others before it begins a log, and until when."""
        self._counters = counters
        self._effects: list[Effect] = []
        self.broken = ""
        """Why this leader of several voters cannot go on with the log: it resigns, and ends."""
        self._unfit_epoch: int | None = None
        """The epoch that this node has won and must not lead."""
        self._gives_up_ms = 0
        """When it gives its leadership up, if it must not lead."""
        self._apart, self._refused = Apartness(), Apartness()
        self._term_ms = 0
        """When this term began."""

    @property
    def active(self) -> bool:
        """Whether this node is the active controller."""
        return self.office is Office.ACTIVE or self.office is Office.LEAVING

    @property
    def silent_because(self) -> str:
        """Why brokers and callers of this leader are refused; empty if they are not."""
        return SILENT.get(self._authority, "")

    @property
    def deadline_ms(self) -> int | None:
        """When there is something to do; None while only an event can change anything."""
        if self._replay.behind and not self.broken:
            return 0
        if not self._raft.is_leader:
            return None
        if self._unfit_epoch is not None:
            return self._gives_up_ms
        asks = self._asks is not None and self._led_epoch is None
        return self._asks[1] if self._asks is not None and asks else self._unfit_due_ms

    @property
    def _unfit_due_ms(self) -> int | None:
        """When it gives up because it has no session with ZooKeeper, or no claim; None: not."""
        match self._unfit:
            case Unfit.APART:
                return self._apart.due_ms(self._term_ms, self._patience(Unfit.APART))
            case Unfit.REFUSED:
                return self._refused.due_ms(self._term_ms, self._patience(Unfit.REFUSED))
            case _:
                return None

    def _patience(self, reason: Unfit) -> Patience:
        """How long it waits for ZooKeeper: shorter, if a voter could serve without."""
        tip = self._controller.tip
        copied = tip.migration_state is MigrationState.MIGRATION
        return SPARE if copied and not lacking_alone(tip) else PATIENCE[reason]

    @property
    def _unfit(self) -> Unfit | None:
        silent = self.office is Office.SILENT
        if not (silent or self.office is Office.ACTIVE):
            return None
        return unfit(
            own_fault=silent and bool(self._migration.unfit_because),
            over=silent and bool(self._migration.over_because),
            apart=silent and self._migration.apart_since_ms is not None,
            refused=bool(self._migration.refused_because),
            authority=self._authority,
            alone=self._alone,
        )

    def go_on(self) -> None:
        """Replay the next slice of a snapshot, in each step one.

        Raises:
            RecoveryError: as :meth:`follow`.
        """
        self._replayed(self._replay.go_on)

    def take_effects(self, now_ms: int) -> list[Effect]:
        """Follow, and return what changes since the last call of this have caused."""
        self.follow(now_ms)
        effects, self._effects = self._effects, []
        return effects

    def follow(self, now_ms: int) -> None:
        """Take over what has changed: to be called after every event of Raft and of the migration.

        Raises:
            ActivationRefusedError: the only voter must not lead; the node must stop.
            RecoveryError: a record that does not fit, or finalises an unsupported level; the node
                must stop.
        """
        raft = self._raft
        epoch = raft.leader_epoch if raft.is_leader else None
        if self._led_epoch is not None and epoch != self._led_epoch:
            self._end_term(now_ms)
        if self._led_epoch is None:
            self._controller.leader_id = self._other_leader
            self._replayed(self._replay.follow)
            if epoch is not None and self._may_begin(epoch, now_ms):
                self._begin_term(epoch, now_ms)
        else:
            self._replayed(self._replay.look_at_levels)
        self._judge(now_ms)
        if not self._alone:
            self._apart.seen(self._migration.apart_since_ms)
            if self._migration.mode not in {None, Mode.STOPPED}:
                self._refused.seen(None)
            elif self._unfit is Unfit.REFUSED:
                self._refused.goes_on(now_ms)
            if self._unfit_epoch is None:
                self._judge_reason(raft.leader_epoch, now_ms)
            raft.yield_to_others(self._apart.lasts(now_ms))
        if self._unfit_epoch is not None:
            self._give_up(epoch, now_ms)

    def _replayed(self, replay: Callable[[], None]) -> None:
        """Replay; a leader that cannot tells the others, before the process ends (KIP-778)."""
        if self.broken:
            return
        try:
            replay()
        except RecoveryError as error:
            if self._alone or not self._raft.is_leader:
                raise
            self.broken = str(error)

    def _may_begin(self, epoch: int, now_ms: int) -> bool:
        """Whether the controller may be activated now; else it is asked again."""
        if epoch == self._unfit_epoch or self._replay.behind or self.broken:
            return False
        plain = not (self._alone or self._controller.config.migration_enabled)
        return not (plain and self._history.empty) or self._asked(epoch, now_ms)

    def _asked(self, epoch: int, now_ms: int) -> bool:
        """Whether the log may begin without a migration: none can be added to it later.

        The others are asked, who have voted a moment ago; who does not answer is not waited for.
        """
        if self._asks is None or self._asks[0] != epoch:
            self._asks = epoch, now_ms + ASKS_MS
        if migrating := self._flags.with_flag:
            named = ", ".join(map(str, migrating))
            self._must_not_lead(epoch, f"{BEGINS_WITHOUT} {named} has it")
            return False
        return self._flags.complete or now_ms >= self._asks[1]

    def _begin_term(self, epoch: int, now_ms: int) -> None:
        try:
            note = self._controller.activate(now_ms)
        except ActivationRefusedError as error:
            if self._alone:
                raise
            self._must_not_lead(epoch, str(error))
            return
        self._led_epoch, self.office, self._term_ms = epoch, Office.WON, now_ms
        self._counters.elections += 1
        self._effects.append(Log("info", "active controller", {"migration": note}))
        self._effects += self._migration.lead(epoch, now_ms)

    def _judge_reason(self, epoch: int, now_ms: int) -> None:
        """Why the migration waits may be this node's alone, as a wrong zookeeper.connect is."""
        match self._unfit:
            case Unfit.OWN_FAULT:
                self._must_not_lead(epoch, self._migration.unfit_because)
            case Unfit.OVER:
                self._must_not_lead(epoch, self._migration.over_because)
            case Unfit.APART if self._due(now_ms):
                self._apart.times += 1
                why = "no session with ZooKeeper, which another voter may have"
                self._must_not_lead(epoch, why)
            case Unfit.REFUSED if self._due(now_ms):
                self._refused.times += 1
                self._must_not_lead(epoch, self._migration.refused_because)

    def _due(self, now_ms: int) -> bool:
        due_ms = self._unfit_due_ms
        return due_ms is not None and due_ms <= now_ms

    def _must_not_lead(self, epoch: int, why: str) -> None:
        """Another voter may lead, and this node must not."""
        self._unfit_epoch = epoch
        fields: dict[str, object] = {"epoch": epoch, "why": why}
        self._effects.append(Log("error", "gives its leadership up", fields))

    def _give_up(self, epoch: int | None, now_ms: int) -> None:
        """Resign; if all have to, not again and again at once."""
        if epoch == self._unfit_epoch:
            if now_ms < self._gives_up_ms:
                return
            self._gives_up_ms = now_ms + GIVES_UP_MS_MIN
            self._effects += self._raft.resign(now_ms, self._migration.fitter)
        self._unfit_epoch = None
        self.follow(now_ms)

    def _end_term(self, now_ms: int) -> None:
        leader_id = self._other_leader
        fields: dict[str, object] = {"epoch": self._led_epoch, "leader": leader_id}
        self._effects.append(Log("info", "no longer the active controller", fields))
        self._led_epoch = None
        # Before the migration lifts its bounds: calls that wait for them must not be taken now.
        self._controller.resign(now_ms, leader_id)
        self._effects += self._migration.resign(now_ms)
        self._judge(now_ms)

    @property
    def _other_leader(self) -> int:
        """Who leads instead, -1 if that is not known."""
        leader_id = self._raft.leader_id
        return NONE if leader_id == self._raft.config.node_id else leader_id

    def _judge(self, now_ms: int) -> None:
        leads, before, was = self._led_epoch is not None, self._authority, self.office
        authority = self._migration.authority if leads else Authority.GRANTED
        committed, leaving = self._raft.high_watermark >= 0, self.leaving
        passive = not leads and self._raft.is_leader
        judged = leads, committed, authority, leaving, passive
        if judged == self._judged:
            return
        self._judged, self._authority = judged, authority
        self.office = office(
            leads=leads, committed=committed, authority=authority, leaving=leaving, passive=passive
        )
        duty, done = DUTIES[self.office], DUTIES[was]
        self._raft.serve(duty.observers, now_ms)
        if self.office is was and self._authority is before:
            return
        if self.office is Office.SILENT:
            self._controller.suspend(now_ms)
            passing = {Authority.UNPROVEN, Authority.UNFINISHED}
            level = "info" if self._authority in passing else "warning"
            fields: dict[str, object] = {"why": self.silent_because}
            self._effects.append(Log(level, "brokers and callers are refused", fields))
        elif duty.callers and not done.callers:
            self._controller.resume(now_ms)
            self._effects.append(Log("info", "brokers and callers are served", {}))
