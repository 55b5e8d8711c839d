"""What a roll of every broker meets; a migration is three of them, and so is the way back."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from emulator.config.confidential import value_of
from emulator.config.java_text import same
from emulator.config.words import several
from emulator.operations.preflight.engine import (
    FindingOf,
    NotRun,
    Outcome,
    listed,
    named,
    rule,
)
from emulator.operations.preflight.node_file import Properties, number
from emulator.operations.preflight.stage import MigrationStage, standing
from emulator.operations.preflight.survey import REDACTED, Survey

NAMED_MAX: Final = 10
"""So many partitions of a kind are named; the others are counted."""
MIN_ISR: Final = "min.insync.replicas"
SHUTDOWN: Final = "controlled.shutdown.enable"
DEFAULTS: Final = "/config/brokers/<default>"
INTERNAL: Final = "__"
"""Names of Kafka's own topics begin so: groups and transactions stop without them."""
_NONE: Final[frozenset[int]] = frozenset()
_W24: Final = FindingOf("W24", "KIP-866, Migrating Brokers to KRaft")


@dataclass(frozen=True, slots=True)
class Roll:
    """How far the roll to KRaft mode is: ids of the brokers that are done, and how many there are.

    ``pending``: brokers with a KRaft broker's file that are still registered in ZooKeeper mode.
    """

    done: tuple[int, ...]
    of: int
    pending: tuple[int, ...] = ()

    @property
    def text(self) -> str:
        """Such as ``4 of 9 brokers done``."""
        return f"{len(self.done)} of {several(self.of, 'broker')} done"


def roll(survey: Survey) -> Roll | None:
    """How far the roll is; None before one, and where no broker's file is given."""
    files = [one for one in survey.properties if one.is_kraft_broker]
    begun = standing(survey).stage is MigrationStage.DUAL_WRITE
    if not begun or not (files or survey.brokers):
        return None
    rolled = {one.node_id for one in files if one.node_id is not None}
    known = {one.node_id for one in survey.brokers if one.node_id is not None}
    known |= rolled | survey.live_brokers | survey.assigned
    if not rolled and known - survey.live_brokers:
        return None  # those that are away may be in KRaft mode: no file given says so
    pending = rolled & survey.live_brokers
    return Roll(tuple(sorted(rolled - pending)), len(known), tuple(sorted(pending)))


@dataclass(slots=True)
class _Health:
    """Partitions of each kind, as they are named."""

    count: int = 0
    below: list[str] = field(default_factory=list)
    tight: list[str] = field(default_factory=list)
    single: list[str] = field(default_factory=list)
    internal: list[str] = field(default_factory=list)


@rule(
    "W24",
    "every partition can lose one broker",
    "A topic had one replica, another was below its full ISR. Each restart of a roll was an "
    "outage, which was taken for a fault of the migration.",
)
def one_broker_less(survey: Survey) -> Iterator[Outcome]:
    """Below full ISR, at `min.insync.replicas`, one replica; brokers that hand over nothing."""
    least = _LeastInSync(survey)
    found = _Health()
    for topic in survey.children("/brokers/topics"):
        if topic not in survey.pending:
            _look(survey, topic, least, found)
    yield from least.not_run()
    yield from _told(found)
    for one in survey.all_files:
        if not one.is_controller and same(one.get(SHUTDOWN), "false"):
            yield _W24(
                one.at(SHUTDOWN),
                "false",
                "a broker that is stopped hands over nothing: what it leads has no leader until "
                "its session ends, in each roll",
                "remove it, and restart the broker, before the rolls",
            )


def _look(survey: Survey, topic: str, least: _LeastInSync, found: _Health) -> None:
    znode = survey.json(f"/brokers/topics/{topic}")
    assigned, added = znode.get("partitions"), znode.get("adding_replicas")
    for index, some in sorted(assigned.items() if isinstance(assigned, dict) else ()):
        state = survey.json(f"/brokers/topics/{topic}/partitions/{index}/state")
        isr = _ids(state.get("isr"))
        # Replicas that a reassignment adds are no loss while they are not in the ISR.
        adding = _ids(added.get(index)) if isinstance(added, dict) else _NONE
        replicas = _ids(some) - (adding - isr)
        if state.get("leader") in (-1, None) or not isr or not isr <= replicas:
            continue  # W02 says so
        found.count += 1
        name, of = f"{topic}-{index}", len(replicas)
        needed = min(least.of(topic, replicas), of)
        if isr < replicas:
            found.below.append(f"{name} ({len(isr)} of {of})")
        if of == 1:
            into = found.internal if topic.startswith(INTERNAL) else found.single
            into.append(f"{name} on {named('broker', sorted(replicas))}")
        elif len(isr) <= needed:
            into = found.internal if topic.startswith(INTERNAL) else found.tight
            into.append(f"{name} ({len(isr)} in sync, {needed} needed)")


def _ids(found: Any) -> frozenset[int]:
    return frozenset(x for x in found if isinstance(x, int)) if isinstance(found, list) else _NONE


_THREE: Final = "in each of the three rolls"


def _told(found: _Health) -> Iterator[Outcome]:
    def kind(names: list[str], what: str, consequence: str, remedy: str) -> Iterator[Outcome]:
        if names:
            fact = f"{len(names):,} of {several(found.count, 'partition')} {what}"
            named_some = f"{fact}: {listed(names, NAMED_MAX)}"
            yield _W24("/brokers/topics", named_some, consequence, remedy)

    yield from kind(
        found.below,
        "below the full ISR",
        "a restart takes one more copy away; with none left in the ISR the partition is offline, "
        "or loses what was acknowledged",
        "before the roll, and before each broker of it, wait until all are back: kafka-topics "
        "--describe --under-replicated-partitions",
    )
    yield from kind(
        found.tight,
        f"without a broker to spare ({MIN_ISR})",
        f"while one of their brokers restarts, producers with acks=all are refused, {_THREE}",
        f"add a replica (kafka-reassign-partitions), or lower {MIN_ISR} for the rolls",
    )
    yield from kind(
        found.single,
        "with one replica",
        f"each restart of its broker is an outage for its clients, {_THREE}",
        "add replicas before (kafka-reassign-partitions), or announce the outages",
    )
    yield from kind(
        found.internal,
        "of internal topics that cannot lose one broker",
        f"while a broker restarts, groups of consumers or transactions stop, {_THREE}",
        "add replicas before (kafka-reassign-partitions)",
    )


class _LeastInSync:
    """``min.insync.replicas`` of a topic: its own, else of its brokers: dynamic, default, file."""

    def __init__(self, survey: Survey) -> None:
        self._survey = survey
        files = [one for one in (*survey.targets, *survey.properties) if not one.is_controller]
        self._files = {one.node_id: one for one in files if one.node_id is not None}
        self._by_topic: dict[str, int | None] = {}
        self._by_broker: dict[int, int] = {}
        self._hidden: set[str] = set()
        self._unknown: set[int] = set()

    def of(self, topic: str, replicas: frozenset[int]) -> int:
        """The highest that one of its brokers goes by as leader; 1 where nothing says another."""
        if topic not in self._by_topic:
            config = self._survey.config(f"/config/topics/{topic}")
            self._by_topic[topic] = number(str(config.get(MIN_ISR, "")))
        own = self._by_topic[topic]
        if own is not None:
            return own
        return max((self._of_broker(one) for one in replicas), default=1)

    def _of_broker(self, broker_id: int) -> int:
        if broker_id not in self._by_broker:
            self._by_broker[broker_id] = self._read(broker_id)
        return self._by_broker[broker_id]

    def _read(self, broker_id: int) -> int:
        for path in (f"/config/brokers/{broker_id}", DEFAULTS):
            dynamic = number(str(self._survey.config(path).get(MIN_ISR, "")))
            if dynamic is not None:
                return dynamic
        file = self._files.get(broker_id)
        if file is None:
            self._unknown.add(broker_id)
        elif file.provides(MIN_ISR):
            self._hidden.add(file.name)
        found = None if file is None else number(file.get(MIN_ISR))
        return 1 if found is None else found

    def not_run(self) -> Iterator[NotRun]:
        """Brokers whose value is not known, once topics were asked for."""
        if self._unknown:
            brokers = named("broker", sorted(self._unknown))
            yield NotRun("W24", f"{MIN_ISR} of {brokers}: no file given, so 1 is taken")
        for name in sorted(self._hidden):
            yield NotRun("W24", f"{name} takes {MIN_ISR} from a config provider; 1 is taken")


# Dynamic keys without which a broker does not start, or not as it did.

_RUNS_WITHOUT: Final = ("max.connections", "max.connection.creation.rate", "num.network.threads")
"""Of a listener: they are applied a moment later, as all others are."""
_OF_LISTENER: Final = re.compile(r"listener\.name\.([^.]*)\.(.+)")
_OF_START: Final = re.compile(
    r"ssl\..+|(.+\.)?sasl\..+|principal\.builder\.class|listeners|listener\.security\.protocol\.map"
)
_W07: Final = FindingOf("W07", "KAFKA-17431")


def needed_at_start(survey: Survey, name: str, config: Mapping[str, Any]) -> Iterator[Outcome]:
    """Dynamic configs that a KRaft broker of 3.x needs before it reads them.

    In ZooKeeper mode a broker reads them first, then its listeners start. In KRaft mode it starts
    with ``server.properties`` alone, and reads them from the metadata log afterwards; 4.1 was the
    first to bear an invalid file there.

    Args:
        survey: with the files.
        name: of the znode below ``/config/brokers``.
        config: its entries.
    """
    keys = sorted(key for key in config if is_for_start(key))
    if not keys:
        return
    everyone = name == DEFAULTS.rpartition("/")[2]
    rolled = {one.node_id for one in survey.properties if one.is_kraft_broker}
    brokers = [one for one in (*survey.brokers, *survey.targets) if not one.is_controller]
    later = {one.node_id: one for one in brokers}
    files = [
        one
        for node_id, one in later.items()
        if (everyone or str(node_id) == name) and node_id not in rolled
    ]
    if not files and (everyone or number(name) not in rolled):
        yield NotRun(
            "W07", f"/config/brokers/{name}: no file of it given; it needs {listed(keys)} there"
        )
    for one in files:
        yield from _in_file(one, f"/config/brokers/{name}", keys, config)


def is_for_start(key: str) -> bool:
    """Whether a broker needs a config before its listeners start.

    >>> is_for_start("listener.name.ext.ssl.keystore.location"), is_for_start("log.cleaner.threads")
    (True, False)
    """
    of_listener = _OF_LISTENER.fullmatch(key)
    if of_listener is not None:
        return of_listener[2] not in _RUNS_WITHOUT
    return _OF_START.fullmatch(key) is not None


def _in_file(
    one: Properties, path: str, keys: list[str], config: Mapping[str, Any]
) -> Iterator[Outcome]:
    lacking: list[str] = []
    other: list[str] = []
    unseen: list[str] = []
    for key in keys:
        if not _used(one, key):
            continue
        written = _written(one, key)
        if not written or one.provides(written):
            (unseen if written else lacking).append(key)
        elif _secret(config[key]):
            unseen.append(key)
        elif one.get(written) != str(config[key]).strip():
            other.append(key)
    if unseen:
        yield NotRun("W07", f"whether {one.name} has the same {listed(unseen)} as {path}")
    if lacking:
        yield _W07(
            path,
            f"{listed(lacking, NAMED_MAX)}: set dynamically, and not in {one.name}",
            "a KRaft broker before 4.1 starts with server.properties alone and reads dynamic "
            "values afterwards: without these it does not start, or not with that listener",
            "write the values into the broker's server.properties too, before the roll",
        )
    if other:
        pairs = (f"{key} is {_shown(one, key)} in {one.name}" for key in other)
        yield _W07(
            path,
            f"{listed(pairs)}; set dynamically to another value",
            "in ZooKeeper mode the broker starts with the dynamic value, as a KRaft broker before "
            "4.1 with the one in the file: if that is out of date or gone, the broker does not "
            "come back in the roll",
            "write the dynamic values into the broker's server.properties, before the roll",
        )


def _used(one: Properties, key: str) -> bool:
    """Whether a broker with this file reads the key at all: it has such a listener."""
    protocols = {end.name: end.security_protocol for end in one.listeners()}
    if not protocols:
        return True  # not known
    found = _OF_LISTENER.fullmatch(key)
    if found is not None:
        return found[1].upper() in protocols
    kind = "SSL" if key.startswith("ssl.") else "SASL" if "sasl." in key else ""
    return any(kind in protocol for protocol in protocols.values())


def _written(one: Properties, key: str) -> str:
    """The key of the file that has what a dynamic one sets; a listener's own, else the common."""
    found = _OF_LISTENER.fullmatch(key)
    common = found[2] if found is not None else key
    return next((each for each in (key, common) if each in one.values), "")


def _secret(value: object) -> bool:
    text = str(value)
    return text == REDACTED.decode() or "encryptedPassword:" in text


def _shown(one: Properties, key: str) -> str:
    written = _written(one, key)
    return value_of(written, one.get(written))
