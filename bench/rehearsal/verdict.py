"""Go or no-go, and why: pure, from what the phases and the checks before them found."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Final

from bench.lines import changes_a_second
from emulator.config.words import folded, several

REHEARSED, FAILED, NOT_REHEARSED = "rehearsed", "failed", "not rehearsed"
"""What became of a phase."""
NOT_REACHED: Final = "not reached"
"""How a person reads the last."""
NOT_MEASURED: Final = "not measured"
NONE: Final = "-"
"""A figure of a phase that was not reached."""
_OF_THE_CLUSTER: Final = frozenset({"preflight", "copy", "node", "broker"})
"""Kinds of reasons that lie in the cluster or its files, and not in the run or the machine."""
OF_THE_RUN: Final = frozenset({"node", "broker", "change", "stores"})
"""Kinds of reasons that phases find."""
REMEDIES: Final[Mapping[str, str]] = {
    "preflight": "do what the finding says",
    "copy": "repair or delete the znode with the program that wrote it",
    "node": "correct its file",
    "broker": "do what the text says; its log is in the folder",
    "change": "its error stands behind the request; after a time-out on a busy machine rehearse "
    "again with nothing else running there",
    "stores": "report it: a defect of kraft-bridge, not of your cluster",
    "phase": "its error stands behind the phase; what servers said then is in *.out in the folder "
    "of this report",
}
"""What to do about a reason, by its kind; docs/after-rehearsing.md has more."""
SHOWN_MAX: Final = 10
"""Reasons of one kind that are printed; JSON has all."""


@dataclass(slots=True)
class PhaseFigures:
    """One phase. Seconds; None: not known, or there is no such thing in it."""

    phase: str
    did: str
    """What an operator does in it."""
    state: str = NOT_REHEARSED
    why: str = ""
    """Why it failed, or was not rehearsed."""
    in_cluster: bool = False
    """Whether that lies in the cluster or its files, as far as is known."""
    begin_s: float | None = None
    """Since the run began."""
    end_s: float | None = None
    without_controller_s: float | None = None
    longest_change_s: float | None = None
    """The longest wait of an administrative change."""
    changes: int = 0
    """Changes that were carried out."""
    lag_records: int | None = None
    """The longest lag of ZooKeeper."""
    lag_ms: int | None = None
    bound_records: int | None = None
    blocked_s: float | None = None
    """Time in which a change waited for ZooKeeper."""
    going_back: str = ""
    """What it takes to go back from the end of this phase."""

    @property
    def seconds(self) -> float | None:
        """How long it took."""
        if self.begin_s is None or self.end_s is None:
            return None
        return self.end_s - self.begin_s


@dataclass(frozen=True, slots=True)
class Reason:
    """A reason for no-go; ``kind``: preflight, copy, node, broker, change, stores or phase."""

    kind: str
    text: str


@dataclass(slots=True)
class Rehearsal:
    """All that a rehearsal found."""

    dump: str
    topics: int
    partitions: int
    load_per_s: float
    brokers: Sequence[Mapping[str, Any]] = ()
    """``id``, ``release``, ``source`` of it, ``rack``, ``listeners``."""
    assumed: list[str] = field(default_factory=list)
    blockers: Sequence[str] = ()
    """Of preflight: code, place and fact of each."""
    warnings: Sequence[str] = ()
    refusals: Sequence[str] = ()
    """Znodes that the copy refuses, with the reason."""
    refused_nodes: list[str] = field(default_factory=list)
    """Nodes that do not start or take part with files of their own, with the reason."""
    refused_brokers: list[str] = field(default_factory=list)
    lost: list[str] = field(default_factory=list)
    """Administrative changes that were not carried out."""
    differences: list[str] = field(default_factory=list)
    """What a comparison of both stores found."""
    phases: list[PhaseFigures] = field(default_factory=list)
    resumed: int = 0
    """How often it was interrupted, and went on."""
    predicted: Sequence[str] = ()
    """What the model says of the real round trip to ZooKeeper."""
    repaired: list[str] = field(default_factory=list)
    """What the controllers repaired by themselves, and Kafka's own would not."""
    folder: str = ""
    hash: str = ""
    """The last hash of its evidence."""
    login: bool = False
    """Whether brokers log in to ZooKeeper."""

    @property
    def reasons(self) -> list[Reason]:
        """Why it is no-go; none: go."""
        found = [Reason("preflight", one) for one in self.blockers]
        found += [Reason("copy", f"the copy refuses {one}") for one in self.refusals]
        found += [Reason("node", one) for one in self.refused_nodes]
        found += [Reason("broker", one) for one in self.refused_brokers]
        found += [Reason("change", one) for one in self.lost]
        found += [Reason("stores", one) for one in self.differences]
        found += [
            Reason("phase", f"{one.phase}: {one.state}" + (f": {one.why}" if one.why else ""))
            for one in self.phases
            if one.state != REHEARSED
        ]
        return found

    @property
    def own_reasons(self) -> list[Reason]:
        """The same without phases that were not begun, which follow from the others, if any."""
        missed = {f"{one.phase}: {one.state}" for one in self.missed}
        return [one for one in self.reasons if one.text not in missed] or self.reasons

    @property
    def missed(self) -> list[PhaseFigures]:
        """Phases that were not begun, for no reason of their own."""
        return [one for one in self.phases if one.state == NOT_REHEARSED and not one.why]

    @property
    def not_shown(self) -> tuple[str, ...]:
        """What it does not show."""
        return (*NOT_SHOWN, WHOSE_LOGIN) if self.login else NOT_SHOWN

    @property
    def in_cluster(self) -> bool:
        """Whether a reason lies in the cluster; else the rehearsal failed, and proves nothing."""
        return any(one.in_cluster for one in self.phases) or any(
            one.kind in _OF_THE_CLUSTER for one in self.reasons
        )

    @property
    def stopped_in(self) -> PhaseFigures | None:
        """The phase that failed, behind which none was played."""
        return next((one for one in self.phases if one.state == FAILED), None)

    @property
    def go(self) -> bool:
        """Whether nothing speaks against it, and everything was rehearsed."""
        return bool(self.phases) and not self.reasons


NOT_SHOWN: Final = (
    "the controller in ZooKeeper mode: a stand-in is elected, and carries out no change",
    "what a JVM or a disk decides: keystores, values that Kafka alone reads (preflight looks)",
    "records, consumer groups, transactions: emulated brokers store none",
    "TLS and logins after 'own files': every listener is PLAINTEXT on 127.0.0.1 from then on",
)
"""What no rehearsal with emulated brokers shows."""
REPAIRED: Final = "repaired, where Kafka's own controller does otherwise"
WHOSE_LOGIN: Final = (
    "logins to ZooKeeper: whom most of its access rules let write or create is taken for the "
    "brokers"
)
_HEAD: Final = (
    "phase",
    "state",
    "seconds",
    "without a controller, s",
    "longest change, s",
    "changes",
    "lag of its bound",
    "blocked, s",
)
_IN_WORDS: Final = (
    "{} s",
    "{} s without a controller",
    "longest change {} s",
    "changes: {}",
    "lag {}",
    "blocked {} s",
)
"""The same without the first two, around a cell."""


def as_json(found: Rehearsal) -> dict[str, Any]:
    """The members of the document, without its schema."""
    return {
        "verdict": "go" if found.go else "no-go",
        "reasons": [asdict(one) for one in found.reasons],
        "dump": found.dump,
        "topics": found.topics,
        "partitions": found.partitions,
        "load_per_s": found.load_per_s,
        "brokers": [dict(one) for one in found.brokers],
        "assumed": list(found.assumed),
        "warnings": list(found.warnings),
        "predicted": list(found.predicted),
        "repaired": list(found.repaired),
        "phases": [_phase(one) for one in found.phases],
        "not_shown": list(found.not_shown),
        "folder": found.folder,
        "hash": found.hash,
    }


def _phase(one: PhaseFigures) -> dict[str, Any]:
    left_out = {"did", "begin_s", "end_s", "in_cluster"}
    return {
        "seconds": one.seconds,
        **{key: value for key, value in asdict(one).items() if key not in left_out},
    }


def table(phases: Sequence[PhaseFigures]) -> list[list[str]]:
    """The phases as texts, a heading first."""
    return [[*_HEAD], *([*_cells(one)] for one in phases)]


def _cells(one: PhaseFigures) -> tuple[str, ...]:
    if one.state == NOT_REHEARSED:
        return (one.phase, NOT_REACHED, *[NONE] * (len(_HEAD) - 2))
    lag = NOT_MEASURED
    if one.lag_records is not None:
        lag = f"{one.lag_records:,}"
        lag += f" of {one.bound_records:,}" if one.bound_records else ""
    return (
        one.phase,
        one.state,
        _number(one.seconds),
        _number(one.without_controller_s),
        _number(one.longest_change_s, 2),
        f"{one.changes:,}",
        lag,
        _number(one.blocked_s, 2),
    )


def _number(value: float | None, digits: int = 1) -> str:
    return NOT_MEASURED if value is None else f"{value:.{digits}f}"


def text(found: Rehearsal, width: int = 0) -> str:
    """The report for people; the verdict is its last line.

    Args:
        found: what it found.
        width: of the terminal in columns; 0: there is none, and no line is folded.
    """
    rows = table(found.phases)
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = [_aligned(row, widths) for row in rows]
    if width and max(map(len, lines)) > width:
        lines = [_in_words(row) for row in rows[1:]]
    lines += [f"  {one.phase}: {one.why}" for one in found.phases if one.why]
    lines += _listed("why not", _why_not(found))
    lines += _listed("what going back costs", _back(found.phases))
    lines += _listed("predicted for the real ZooKeeper", found.predicted)
    lines += _listed(REPAIRED, found.repaired)
    lines += _listed("warnings of preflight, which do not decide", found.warnings)
    lines += _listed("assumed", found.assumed)
    lines += _listed("not shown by this", found.not_shown)
    lines += ["", f"logs, report.html and evidence.jsonl: {found.folder}"]
    lines += [f"last hash of the evidence: {found.hash}"] if found.hash else []
    step, command = next_step(found)
    lines = [
        folded(one, width, " " * (len(one) - len(one.lstrip()) + 2))
        for one in (*lines, f"next: {step}", verdict(found))
    ]
    typed = [f"type: {command}"] if command else []
    return "\n".join([*lines[:-1], *typed, lines[-1]])


def next_step(found: Rehearsal) -> tuple[str, str]:
    """What to do after it, in words without a full stop, and what to type first, if anything."""
    if found.go and any(one.get("source") == "assumed" for one in found.brokers):
        # Before a clone: what a file would have said is cheaper to know, and may be a no-go.
        words = (
            "rehearse again with the brokers' files, and with --release where they do not say it: "
            "so far it is assumed (docs/after-rehearsing.md)"
        )
        return words, (
            "kraft-bridge rehearse --dump tree.json -c brokers/*.properties --release RELEASE"
        )
    if found.go:
        return (
            "rehearse again with your own brokers, on a clone of the cluster (docs/clone.md)",
            # Another file: the evidence has the SHA-256 of the one that was played.
            "umask 077; kraft-bridge zk dump --with-secrets --zookeeper HOSTS > with-secrets.json",
        )
    how = "(docs/after-rehearsing.md)"
    if not found.in_cluster:
        return f"do what the reasons say, and run the same command with the same dump {how}", ""
    words = (
        f"mend what the reasons name, and run the same command {how}; if that changed the cluster, "
        "take a dump again first"
    )
    return words, "kraft-bridge zk dump --zookeeper HOSTS > tree.json"


def open_points(found: Rehearsal) -> str:
    """How much a go leaves open; empty: nothing but what emulated brokers cannot show."""
    counts = ((found.warnings, "warning"), (found.assumed, "assumption"))
    return ", ".join(several(len(some), word) for some, word in counts if some)


def verdict(found: Rehearsal) -> str:
    """Go or no-go, in one line."""
    size = (
        f"{found.topics:,} topics, {found.partitions:,} partitions, {len(found.brokers)} brokers, "
        f"{changes_a_second(found.load_per_s)}"
    )
    if found.go:
        left = open_points(found)
        return (
            "GO: every phase passed with emulated brokers; not yet a go for production"
            f"{left and f': {left}'} ({size})"
        )
    count = several(len(found.own_reasons), "reason")
    return f"NO-GO: {count}; your cluster was not touched ({size})"


def _in_words(row: Sequence[str]) -> str:
    """A phase where the table is too wide: what is known of it."""
    cells = zip(_IN_WORDS, row[2:], strict=True)
    known = (words.format(cell) for words, cell in cells if cell not in {NONE, NOT_MEASURED})
    return "; ".join([f"{row[0]}: {row[1]}", *known])


def _aligned(row: Sequence[str], widths: Sequence[int]) -> str:
    cells = [
        one.ljust(width) if at < 2 else one.rjust(width)
        for at, (one, width) in enumerate(zip(row, widths, strict=True))
    ]
    return "  ".join(cells).rstrip()


def _listed(title: str, lines: Sequence[str]) -> list[str]:
    if not lines:
        return []
    more = (
        [f"  and {len(lines) - SHOWN_MAX} more; --json has all"] if len(lines) > SHOWN_MAX else []
    )
    return ["", f"{title}:", *(f"  {one}" for one in lines[:SHOWN_MAX]), *more]


def _why_not(found: Rehearsal) -> list[str]:
    """The reasons; phases that were not begun together."""
    lines = [f"{one.kind}: {one.text}" for one in found.own_reasons]
    missed = ", ".join(one.phase for one in found.missed)
    return [*lines, f"{NOT_REACHED}: {missed}"] if missed else lines


def _back(phases: Sequence[PhaseFigures]) -> list[str]:
    """What going back takes after each phase, where that differs from the phase before."""
    found: list[str] = []
    last = ""
    for one in phases:
        if one.going_back and one.going_back != last:
            last = one.going_back
            found.append(f"after {one.phase}: {last}")
    return found
