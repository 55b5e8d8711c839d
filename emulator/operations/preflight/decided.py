"""W21: what a controller decides by its own file, and a broker decided before.

Values are compared by what they mean to Kafka: `` 3`` and ``3``, ``TRUE`` and ``true``, a default
that is written and one that is not are the same.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, TypeAlias

from emulator.config.authorizer import ALLOW_EVERYONE, STANDARD, SUPER_USERS
from emulator.config.java_text import same, whole
from emulator.operations.preflight.engine import FindingOf, NotRun, Outcome, Severity, listed, rule
from emulator.operations.preflight.identities import principal_of, super_users
from emulator.operations.preflight.kafka_values import BOOLEANS, why_refused
from emulator.operations.preflight.node_file import AUTHORIZER, BUILDER, Properties
from emulator.operations.preflight.survey import Survey

_W21: Final = FindingOf("W21", "KIP-500")
Meaning: TypeAlias = int | bool


@dataclass(frozen=True, slots=True)
class _Decision:
    """A property of the node that is the controller. ``what``: what it decides, before its value.

    ``grave``: records can be lost by a change to less, or to true.
    """

    key: str
    default: str
    what: str
    grave: bool = False


_DECISIONS: Final = (
    _Decision(
        "default.replication.factor",
        "1",
        "topics made without a number of replicas get",
        grave=True,
    ),
    _Decision("num.partitions", "1", "topics made without a number of partitions get"),
    _Decision("delete.topic.enable", "true", "the deletion of topics is allowed:"),
    _Decision(
        "unclean.leader.election.enable", "false", "unclean elections are allowed:", grave=True
    ),
    _Decision("auto.leader.rebalance.enable", "true", "preferred leaders are restored:"),
    _Decision(
        "leader.imbalance.check.interval.seconds",
        "300",
        "preferred leaders are restored after, in seconds,",
    ),
    _Decision(
        "delegation.token.max.lifetime.ms", "604800000", "delegation tokens live, in ms, at most"
    ),
    _Decision(
        "delegation.token.expiry.time.ms", "86400000", "delegation tokens are renewed for, in ms,"
    ),
)


@rule(
    "W21",
    "the controllers decide as the brokers did",
    "default.replication.factor stood in the brokers' files only. Once the controllers created the "
    "topics, those that were created automatically had one replica, and a lost disk lost them.",
)
def decided(survey: Survey) -> Iterator[Outcome]:
    """Properties that a controller reads in KRaft mode, and a broker read before."""
    for decision in _DECISIONS if survey.brokers else ():
        for one in survey.controllers:
            yield from _compared(survey, one, decision)
    for one in survey.controllers:
        yield from _principals(survey, one)
    for one in (*survey.controllers, *survey.kraft_brokers):
        yield from _super_users(survey, one)
        yield from _everybody(survey, one)


def _compared(survey: Survey, one: Properties, decision: _Decision) -> Iterator[Outcome]:
    key = decision.key
    for file in (one, *survey.brokers):
        if file.provides(key):
            why = f"{file.name} takes {key} from a config provider, which is not asked here"
            yield NotRun("W21", why)
    after = _meaning(one, decision)
    before = [
        (x, meaning) for x in survey.brokers if (meaning := _meaning(x, decision)) is not None
    ]
    others = [(x, meaning) for x, meaning in before if meaning != after]
    if after is None or not others:
        return
    worse = [(x, meaning) for x, meaning in others if _is_worse(after, meaning)]
    file, value = (worse or others)[0]
    theirs = f"the brokers have {_shown(value)}"
    if len({meaning for _, meaning in before}) > 1:
        theirs = f"{file.name} has {_shown(value)}, and not every broker the same"
    mine = one.get(key) if key in one.values else f"not set, so {decision.default}"
    yield _W21(
        one.at(key),
        f"{mine}; {theirs}",
        f"in KRaft mode the controller decides: {decision.what} {_shown(after)}",
        "set it on the controllers as on the brokers, unless the change is meant",
        None if decision.grave and worse else Severity.INFO,
    )


def _meaning(one: Properties, decision: _Decision) -> Meaning | None:
    """What Kafka reads; None if that is not known, or nothing that Kafka takes (B25)."""
    key = decision.key
    text = one.get(key) if key in one.values else decision.default
    if one.provides(key) or why_refused(key, text):
        return None
    return same(text, "true") if key in BOOLEANS else whole(text)


def _is_worse(after: Meaning, before: Meaning) -> bool:
    """Whether records are less safe: fewer replicas, or unclean elections."""
    return after is True if isinstance(after, bool) else after < before


def _shown(value: Meaning) -> str:
    return str(value).lower()


def _principals(survey: Survey, one: Properties) -> Iterator[Outcome]:
    """The broker writes the caller's principal, and the controller reads it, with one class."""
    other = next((x for x in survey.brokers if x.principal_builder != one.principal_builder), None)
    if other is not None and not other.provides(BUILDER) and not one.provides(BUILDER):
        yield _W21(
            one.at(BUILDER),
            f"{one.get(BUILDER) or 'not set'}; {other.name} has {other.get(BUILDER) or 'none'}",
            "the controller cannot tell who asks: requests that brokers pass on to it are refused",
            "set it on the controllers as on the brokers; the class must be a KafkaPrincipalSerde",
        )


def _before(survey: Survey, one: Properties) -> list[Properties]:
    """Brokers' files with an authorizer: of the node itself, or of all if it is a controller."""
    files = [x for x in survey.brokers if x.get(AUTHORIZER)]
    return files if one.is_controller else [x for x in files if x.node_id == one.node_id]


def _super_users(survey: Survey, one: Properties) -> Iterator[Outcome]:
    """Principals that may do everything now, and will not."""
    if one.get(AUTHORIZER) != STANDARD or one.provides(SUPER_USERS):
        return
    for other in _before(survey, one):
        if other.provides(SUPER_USERS):
            continue
        # Between brokers: as whom the controllers see them, B19 looks at.
        broker = principal_of(other, other.inter_broker_listener, between_brokers=True)
        lacking = super_users(other) - super_users(one) - {broker}
        if lacking:
            yield _W21(
                one.at(SUPER_USERS),
                f"lacks {listed(sorted(lacking))}, which {other.name} has",
                "what they ask the controllers for is refused unless an ACL allows it: topics, "
                "configs, ACLs"
                if one.is_controller
                else "what they ask this broker for is refused unless an ACL allows it",
                "add them, unless they are to lose their rights",
            )
            return


def _everybody(survey: Survey, one: Properties) -> Iterator[Outcome]:
    """What callers may do where no ACL is."""
    if one.get(AUTHORIZER) != STANDARD or one.provides(ALLOW_EVERYONE):
        return
    mine = one.flag(ALLOW_EVERYONE)
    other = next(
        (
            x
            for x in _before(survey, one)
            if x.flag(ALLOW_EVERYONE) != mine and not x.provides(ALLOW_EVERYONE)
        ),
        None,
    )
    if other is not None:
        yield _W21(
            one.at(ALLOW_EVERYONE),
            f"{one.get(ALLOW_EVERYONE) or 'not set'}; {other.name} has "
            f"{other.get(ALLOW_EVERYONE) or 'none'}",
            "where no ACL is, everybody is let in, and nobody was before"
            if mine
            else "where no ACL is, nobody is let in, and everybody was before",
            "set it as on the brokers, unless the change is meant",
        )
