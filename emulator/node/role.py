"""What this node is in its quorum, and what its machines do accordingly: one table, one owner.

Raft says who leads, the log how far everything is committed, the migration whether ZooKeeper
confirms this log (``authority``). :func:`role` makes one state of it; :data:`DUTIES` says what
the machines do in each. Nobody else decides whether callers and brokers are answered.

A follower replays each batch when it is appended, committed or not (``replaying``). A new leader
activates its controller on top of all of it and begins the term of the migration. One that leads no
more ends both, drops what is not committed, and replays it again from the log, as the next leader
may commit it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from enum import Enum
from types import MappingProxyType
from typing import Final, NamedTuple

from emulator.controller.machine import Controller
from emulator.controller.registry import supported_features
from emulator.controller.rules.finalisation import lacking_alone
from emulator.metadata.errors import ActivationRefusedError
from emulator.metadata.history import History
from emulator.metadata.migration_state import MigrationState
from emulator.migration.authority import SILENT, Authority
from emulator.migration.dual_write.modes import Mode
from emulator.node.assembly import Machines
from emulator.node.finalising import VoterFlags
from emulator.node.recovery import Supported, replay_log, snapshot_image, unsupported
from emulator.node.tracing import NodeCounters
from emulator.raft.layout import RecoveryError
from emulator.raft.machine import Raft
from emulator.raft.quorum_state import NONE
from emulator.raft.replica import Serving
from emulator.seam import RECORDS_PER_SLICE, Effect, Log, Slices, whole


class LogReplay:
    """Keeps the metadata of a node replayed up to the end of its log.

    What a follower gets with one Fetch is replayed in the step that takes it: a record that cannot
    be replayed then stops the node before it is written. A snapshot that replaces the log is
    replayed in slices, one in each step, and so is what the log has got behind it meanwhile:
    decoding 100,000 partitions takes seconds, in which a voter has to fetch on and to answer votes.
    So is what is dropped because it was not committed when this node lost its leadership: it was
    replayed before.

    Args:
        raft: the log.
        controller: takes over a snapshot.
        history: replayed up to the end of the log.
        supported: lowest and highest level by feature.
    """

    def __init__(
        self, raft: Raft, controller: Controller, history: History, supported: Supported
    ) -> None:
        self._raft = raft
        self._controller = controller
        self._history = history
        self._supported = supported
        self._rewritten = raft.rewritten
        self._rewinds = history.rewinds
        self.slices: Slices[None] | None = None
        """Of what is replayed, or of the index of a new leader over all of it."""
        self._indexing = False
        self.levels = history.tip.features
        """Those that were looked at last."""

    @property
    def behind(self) -> bool:
        """Whether slices are left: the metadata ends below the log, or has no index."""
        return self.slices is not None

    def follow(self) -> None:
        """Take what is new in the log at once, or begin with a snapshot that has replaced it.

        Raises:
            RecoveryError: a record that does not fit, or finalises an unsupported level; the node
                must stop.
        """
        raft, history = self._raft, self._history
        if self._indexing and not raft.is_leader:
            self.slices, self._indexing = None, False
        if raft.rewritten != self._rewritten:
            self._rewritten = raft.rewritten
            history.rewind()
            latest = raft.latest_snapshot
            replaced = latest is not None and latest.end_offset > history.tip.offset + 1
            self.slices = self._load(replaced=replaced) if replaced or self.behind else None
        left = raft.log_end_offset - history.tip.offset - 1
        if history.rewinds != self._rewinds:
            self._rewinds = history.rewinds
            if self.slices is None and left > RECORDS_PER_SLICE:
                self.slices = self._load(replaced=False)
        if self.slices is None and left > 0:
            whole(replay_log(raft, history, self._supported))

    def look_at_levels(self) -> None:
        """A leader does not read what it appends: see that it supports what it finalises itself.

        Raises:
            RecoveryError: it does not; it must not lead on.
        """
        tip = self._history.tip
        self.levels = tip.features
        for name, level in self.levels.items():
            if why := unsupported(name, level, self._supported):
                raise RecoveryError("__cluster_metadata-0", tip.offset, why)

    def go_on(self) -> None:
        """Do the next slice, if there is one.

        Raises:
            RecoveryError: as :meth:`follow`.
        """
        if self.slices is not None and next(self.slices, self) is self:
            self.slices, self._indexing = None, False

    def indexed(self) -> bool:
        """Whether the controller has its index over all that is replayed; else it is begun.

        A controller of 100,000 partitions needs a fifth of a second for it; of few, one slice.
        """
        if not (self.behind or self._controller.indexed):
            self.slices, self._indexing = self._controller.index(), True
            self.go_on()
        return not self.behind

    def _load(self, *, replaced: bool) -> Slices[None]:
        if replaced:
            image = yield from snapshot_image(self._raft, self._supported)
            self._controller.begin_anew(image)
        while self._history.tip.offset + 1 < self._raft.log_end_offset:
            yield
            yield from replay_log(self._raft, self._history, self._supported)


# When a leader gives its leadership up, so that another voter may lead; one table of reasons.
#
# A reason in the configuration of this node lasts until an operator acts, so it gives up at once.
# So does a leader whose claim is over: it was deposed, or its claim cannot be recognised any more.
# It may write nothing in its epoch; the guards judge the next claim, of a later one, as after a
# restart.
#
# A leader that ZooKeeper has not confirmed, and that has no session with it, waits first: ZooKeeper
# may be away for all. Callers and brokers are refused meanwhile in any case, so nothing is lost.
# Each further time it waits twice as long, so leadership does not circle while nobody reaches it.
# Who would give up lets the others stand first (``Raft.yield_to_others``).
#
# A leader that cannot claim for a reason that may be in its own configuration, such as a wrong
# chroot or a login that may not write, does the same, sooner.
#
# A leader whose claim is valid stays, however long it has no session: it serves callers up to the
# bounds of the write-behind, and brokers always. Whether another voter has a session it does not
# know, and without one nobody would be served.
#
# Not in Kafka 3.9, where a leader without ZooKeeper tries for ever (KRaftMigrationDriver).

CATCH_UP_MS: Final = 3_000
"""A term lasts so long at least, as another voter with a shorter log cannot be elected."""


class Unfit(Enum):
    """Why a node does not lead on."""

    OWN_FAULT = "its configuration or its release"
    OVER = "its claim is over, and one of a later epoch is judged anew"
    APART = "it alone may be without ZooKeeper"
    REFUSED = "it alone may be unable to claim"


class Patience(NamedTuple):
    """How long a reason must last, in ms; each further time twice as long, up to ``max_ms``."""

    first_ms: int
    max_ms: int


PATIENCE: Final[Mapping[Unfit, Patience]] = MappingProxyType(
    {
        Unfit.OWN_FAULT: Patience(0, 0),
        Unfit.OVER: Patience(0, 0),
        Unfit.APART: Patience(30_000, 16 * 60_000),
        Unfit.REFUSED: Patience(5_000, 16 * 60_000),
    }
)


SPARE: Final = Patience(5_000, 20_000)
"""In place of that of ``Unfit.APART``, if a voter without the flag could serve: the mark holds."""


def unfit(
    *, own_fault: bool, over: bool, apart: bool, refused: bool, authority: Authority, alone: bool
) -> Unfit | None:
    """Judge whether a leader should give up, once the reason has lasted; None: it should not.

    Args:
        own_fault: whether the migration waits for something in this node's configuration.
        over: whether its claim is over for this epoch.
        apart: whether it has no session with ZooKeeper.
        refused: whether it cannot claim, for a reason that may be this node's alone.
        authority: whether ZooKeeper confirms its log.
        alone: whether it is the only voter.

    >>> known = {"own_fault": False, "over": False, "apart": True, "refused": True}
    >>> unfit(**known, authority=Authority.UNPROVEN, alone=False)
    <Unfit.APART: 'it alone may be without ZooKeeper'>
    """
    if alone:
        return None
    if own_fault:
        return Unfit.OWN_FAULT
    if over:
        return Unfit.OVER
    if apart and authority is Authority.UNPROVEN:
        return Unfit.APART
    return Unfit.REFUSED if refused else None


class Apartness:
    """Since when this node has no session with ZooKeeper, and how often it gave up because of it.

    ``times``: since it had a session last. Another one is for a claim that this node cannot make.
    """

    def __init__(self) -> None:
        self.times = 0
        self._since_ms: int | None = None

    def seen(self, since_ms: int | None) -> None:
        """Since when there is no session, as the client says; None: there is one."""
        self._since_ms = since_ms
        if since_ms is None:
            self.times = 0

    def goes_on(self, now_ms: int) -> None:
        """It is so now, and was so since it was seen first."""
        self._since_ms = now_ms if self._since_ms is None else self._since_ms

    def lasts(self, now_ms: int) -> bool:
        """Whether there is no session for so long that this node would give up."""
        first_ms = PATIENCE[Unfit.APART].first_ms
        return self._since_ms is not None and now_ms - self._since_ms >= first_ms

    def due_ms(self, term_ms: int, patience: Patience = PATIENCE[Unfit.APART]) -> int | None:
        """When to give a term up that began at ``term_ms``; None: there is a session.

        The first time it counts from the loss of the session, which may be before the term; the
        others get the time to fetch what this leader alone has. ``patience``: how long it waits.
        """
        if self._since_ms is None:
            return None
        if self.times == 0:
            return max(self._since_ms + patience.first_ms, term_ms + CATCH_UP_MS)
        return max(term_ms, self._since_ms) + min(
            patience.first_ms << min(self.times, 10), patience.max_ms
        )


GIVES_UP_MS_MIN: Final = 3_000
"""Between two times that a node gives its leadership up for the same reason: if no voter may lead,
there are no more elections than that."""
HANDS_OVER_MS: Final = 1_000
"""So long at most the voter that is to lead instead is given the records that it still lacks."""


ASKS_MS: Final = 2_000
"""How long the others are asked whether they have a migration configured, before a log begins."""
BEGINS_WITHOUT: Final = (
    "zookeeper.metadata.migration.enable is not true here, and the log is empty: it would begin "
    "without a migration, and none could be added. Set it on every controller; controller"
)


class Role(Enum):
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


def role(
    *, leads: bool, committed: bool, authority: Authority, leaving: bool, passive: bool = False
) -> Role:
    """Judge what a node is.

    Args:
        leads: whether it is the leader, and its controller is activated on the end of the log.
        committed: whether the first record of its term is committed.
        authority: whether ZooKeeper confirms its log; of no importance for a follower.
        leaving: whether an orderly stop has begun.
        passive: whether it is the leader, and its controller is not activated.

    >>> role(leads=True, committed=True, authority=Authority.UNPROVEN, leaving=False)
    <Role.SILENT: 'silent'>
    """
    if not leads:
        return Role.PASSIVE if passive else Role.FOLLOWING
    if authority in SILENT:
        return Role.SILENT
    if not committed:
        return Role.WON
    return Role.LEAVING if leaving else Role.ACTIVE


class Duty(NamedTuple):
    """What the machines of a node do."""

    callers: bool
    """Whether the controller takes requests; answers wait for the commit in any case."""
    observers: Serving
    """What Raft tells those who are no voters."""


DUTIES: Final[Mapping[Role, Duty]] = MappingProxyType(
    {
        # Raft itself refuses observers while another leads, and names the leader.
        Role.FOLLOWING: Duty(callers=False, observers=Serving.ALL),
        # Nobody has asked ZooKeeper whether this is its log.
        Role.PASSIVE: Duty(callers=False, observers=Serving.NOTHING),
        Role.WON: Duty(callers=True, observers=Serving.ALL),
        Role.SILENT: Duty(callers=False, observers=Serving.NOTHING),
        Role.ACTIVE: Duty(callers=True, observers=Serving.ALL),
        # The controller refuses new requests itself, Raft refuses fetches once it has resigned.
        Role.LEAVING: Duty(callers=True, observers=Serving.ALL),
    }
)


class NodeRole:
    """Keeps metadata, controller and migration in step with the log and with who leads it.

    Args:
        machines: of the node; the history holds the log up to its end.
        counters: get the number of terms led.
    """

    def __init__(self, machines: Machines, counters: NodeCounters) -> None:
        raft, history, controller = machines.raft, machines.history, machines.controller
        self.now = Role.FOLLOWING
        self.leaving = False
        """Whether an orderly stop has begun."""
        self._led_epoch: int | None = None
        """The epoch in which the controller was activated; None while it is not."""
        self._authority = Authority.GRANTED
        self._judged: tuple[object, ...] = ()
        """What the role was judged by last."""
        self._raft = raft
        self._controller = controller
        self._history = history
        self._migration = machines.migration
        self._alone = len(raft.config.voters) == 1
        self._flags = VoterFlags(raft, machines.peers.inquiry)
        supported = supported_features(controller.config.release)
        self._replay = LogReplay(raft, controller, history, supported)
        self._asks: tuple[int, int] | None = None
        """The epoch in which it asks the others before it begins a log, and until when."""
        self._counters = counters
        self.effects: list[Effect] = []
        """What :meth:`take_effects` will return."""
        self.broken = ""
        """Why this leader of several voters cannot go on with the log: it resigns, and ends."""
        self._unfit_epoch: int | None = None
        """The epoch that this node has won and must not lead."""
        self._gives_up_ms = 0
        """From when on it may give its leadership up again."""
        self._unfit_ms = 0
        """Since when it must not lead."""
        self._apart, self._refused = Apartness(), Apartness()
        self._term_ms = 0
        """When this term began."""
        self._successors: Sequence[int] | None = None
        """Who is to lead instead, the first ones preferred; None: nobody has asked for that."""

    @property
    def active(self) -> bool:
        """Whether this node is the active controller."""
        return self.now is Role.ACTIVE or self.now is Role.LEAVING

    @property
    def behind(self) -> bool:
        """Whether :meth:`go_on` has something to do."""
        return self._replay.slices is not None

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
            return self._resigns_ms
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
        silent = self.now is Role.SILENT
        if not (silent or self.now is Role.ACTIVE):
            return None
        return unfit(
            own_fault=silent and bool(self._migration.unfit_because),
            over=silent and bool(self._migration.over_because),
            apart=silent and self._migration.apart_since_ms is not None,
            refused=bool(self._migration.refused_because),
            authority=self._authority,
            alone=self._alone,
        )

    def resign(self, first: Sequence[int]) -> None:
        """Give the leadership up in the next step, whatever this node is fit for; for tests.

        ``first`` is as of :meth:`emulator.raft.machine.Raft.resign`.
        """
        self._successors = first

    def go_on(self) -> None:
        """Replay the next slice of a snapshot, in each step one.

        Raises:
            RecoveryError: as :meth:`follow`.
        """
        self._replayed(self._replay.go_on)

    def take_effects(self) -> list[Effect]:
        """What changes since the last call of this have caused."""
        effects, self.effects = self.effects, []
        return effects

    def follow(self, now_ms: int) -> None:
        """Take over what has changed: to be called after every event of Raft and of the migration.

        Raises:
            ActivationRefusedError: the only voter must not lead; the node must stop.
            RecoveryError: a record that does not fit, or finalises an unsupported level; the node
                must stop.
        """
        raft = self._raft
        if self._successors is not None:
            first, self._successors = self._successors, None
            self.effects += raft.resign(now_ms, first)
        quorum = raft.replica.quorum
        epoch = quorum.epoch if quorum.is_leader else None
        if self._led_epoch is not None and epoch != self._led_epoch:
            self._end_term(now_ms)
        if self._led_epoch is None:
            self._controller.leader_id = self._other_leader
            self._replayed(self._replay.follow)
            if epoch is not None and self._may_begin(epoch, now_ms):
                self._begin_term(epoch, now_ms)
        elif self._history.tip.features is not self._replay.levels:
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
        if epoch == self._unfit_epoch or self.broken or not self._replay.indexed():
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
            self._must_not_lead(epoch, f"{BEGINS_WITHOUT} {named} has it", now_ms)
            return False
        return self._flags.complete or now_ms >= self._asks[1]

    def _begin_term(self, epoch: int, now_ms: int) -> None:
        try:
            note = self._controller.activate(now_ms)
        except ActivationRefusedError as error:
            if self._alone:
                raise
            self._must_not_lead(epoch, str(error), now_ms)
            return
        self._led_epoch, self.now, self._term_ms = epoch, Role.WON, now_ms
        self._counters.elections += 1
        self.effects.append(Log("info", "active controller", {"migration": note}))
        self.effects += self._migration.lead(epoch, now_ms)

    def _judge_reason(self, epoch: int, now_ms: int) -> None:
        """Why the migration waits may be this node's alone, as a wrong zookeeper.connect is."""
        match self._unfit:
            case Unfit.OWN_FAULT:
                self._must_not_lead(epoch, self._migration.unfit_because, now_ms)
            case Unfit.OVER:
                self._must_not_lead(epoch, self._migration.over_because, now_ms)
            case Unfit.APART if self._due(now_ms):
                self._apart.times += 1
                why = "no session with ZooKeeper, which another voter may have"
                self._must_not_lead(epoch, why, now_ms)
            case Unfit.REFUSED if self._due(now_ms):
                self._refused.times += 1
                self._must_not_lead(epoch, self._migration.refused_because, now_ms)

    def _due(self, now_ms: int) -> bool:
        due_ms = self._unfit_due_ms
        return due_ms is not None and due_ms <= now_ms

    def _must_not_lead(self, epoch: int, why: str, now_ms: int) -> None:
        """Another voter may lead, and this node must not."""
        self._unfit_epoch, self._unfit_ms = epoch, now_ms
        fields: dict[str, object] = {"epoch": epoch, "why": why}
        self.effects.append(Log("error", "gives its leadership up", fields))

    @property
    def _resigns_ms(self) -> int:
        """When it resigns, if it must not lead; later while each that is to lead lacks records.

        A voter that has them does not elect one that lacks them. Source: Ongaro, Consensus, 3.10.
        """
        progress = self._raft.progress
        ends = [progress[each].end_offset for each in self._migration.fitter if each in progress]
        lack = bool(ends) and max(ends) < self._raft.log_end_offset
        return max(self._gives_up_ms, self._unfit_ms + HANDS_OVER_MS if lack else 0)

    def _give_up(self, epoch: int | None, now_ms: int) -> None:
        """Resign; if all have to, not again and again at once."""
        if epoch == self._unfit_epoch:
            if now_ms < self._resigns_ms:
                return
            self._gives_up_ms = now_ms + GIVES_UP_MS_MIN
            self.effects += self._raft.resign(now_ms, self._migration.fitter)
        self._unfit_epoch = None
        self.follow(now_ms)

    def _end_term(self, now_ms: int) -> None:
        leader_id = self._other_leader
        fields: dict[str, object] = {"epoch": self._led_epoch, "leader": leader_id}
        self.effects.append(Log("info", "no longer the active controller", fields))
        self._led_epoch = None
        # Before the migration lifts its bounds: calls that wait for them must not be taken now.
        self._controller.resign(now_ms, leader_id)
        self.effects += self._migration.resign(now_ms)
        self._judge(now_ms)

    @property
    def _other_leader(self) -> int:
        """Who leads instead, -1 if that is not known."""
        leader_id = self._raft.leader_id
        return NONE if leader_id == self._raft.config.node_id else leader_id

    def _judge(self, now_ms: int) -> None:
        leads, before, was = self._led_epoch is not None, self._authority, self.now
        authority = self._migration.authority if leads else Authority.GRANTED
        replica = self._raft.replica
        committed, leaving = replica.high_watermark >= 0, self.leaving
        passive = not leads and replica.quorum.is_leader
        judged = leads, committed, authority, leaving, passive
        if judged == self._judged:
            return
        self._judged, self._authority = judged, authority
        self.now = role(
            leads=leads, committed=committed, authority=authority, leaving=leaving, passive=passive
        )
        duty, done = DUTIES[self.now], DUTIES[was]
        self._raft.serve(duty.observers, now_ms)
        if self.now is was and self._authority is before:
            return
        if self.now is Role.SILENT:
            self._controller.suspend(now_ms)
            passing = {Authority.UNPROVEN, Authority.UNFINISHED}
            level = "info" if self._authority in passing else "warning"
            fields: dict[str, object] = {"why": self.silent_because}
            self.effects.append(Log(level, "brokers and callers are refused", fields))
        elif duty.callers and not done.callers:
            self._controller.resume(now_ms)
            self.effects.append(Log("info", "brokers and callers are served", {}))
